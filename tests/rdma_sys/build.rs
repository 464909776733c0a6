// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compiles the differential test and its fake provider, and writes the comparison of
//! each type of the bindings with that of rdma-sys.

use std::error::Error;
use std::fmt::Write;
use std::path::PathBuf;
use std::{env, fs};

const BINDINGS: &str = "../../bindings/src/verbs.rs";
const TESTS: &str = "../../c-tests";
const SOURCES: [&str; 6] = [
    "fake/fake.c",
    "differential/call.c",
    "differential/judge.c",
    "differential/rows.c",
    "differential/run.c",
    "differential/values.c",
];

/// Types of the C library, which rdma-sys takes from the libc crate.
const NOT_IN_RDMA_SYS: [&str; 7] = [
    "timespec",
    "sockaddr",
    "sockaddr_storage",
    "sockaddr_in",
    "sockaddr_in6",
    "in_addr",
    "in6_addr",
];

/// Types whose fields rdma-sys keeps to itself.
const PRIVATE: [&str; 1] = ["ibv_ops_wr"];

/// What has no name in C: type, the generator's name for it, and that of rdma-sys.
const NAMELESS: [[&str; 3]; 5] = [
    [
        "ibv_wc",
        "__bindgen_anon_1",
        "imm_data_invalidated_rkey_union",
    ],
    [
        "ibv_send_wr",
        "__bindgen_anon_1",
        "imm_data_invalidated_rkey_union",
    ],
    ["ibv_send_wr", "__bindgen_anon_2", "bind_mw_tso_union"],
    ["rdma_addr", "__bindgen_anon_1", "src_addr_union"],
    ["rdma_addr", "__bindgen_anon_2", "dst_addr_union"],
];

/// The structs and unions in what the generator of the bindings wrote, with their
/// fields: one of them a line.
fn types(source: &str) -> Vec<(&str, Vec<&str>)> {
    let mut types: Vec<(&str, Vec<&str>)> = Vec::new();
    for line in source.lines() {
        match line.split([' ', ':']).collect::<Vec<_>>()[..] {
            ["pub", "struct" | "union", name, "{"] => types.push((name, Vec::new())),
            ["", "", "", "", "pub", field, "", ..] => {
                if let Some((_, fields)) = types.last_mut() {
                    fields.push(field);
                }
            }
            _ => (),
        }
    }
    types
}

fn field_of_rdma_sys<'a>(name: &str, field: &'a str) -> &'a str {
    NAMELESS
        .iter()
        .find(|[of, ours, _]| *of == name && *ours == field)
        .map_or(field, |[_, _, theirs]| theirs)
}

/// The entries of a list of `(what, ours, theirs)`.
fn places(source: &str) -> Result<String, Box<dyn Error>> {
    let mut list = String::new();
    for (name, fields) in types(source) {
        // Nameless in C and so part of another, or only pointed to.
        let part_of_another = name.contains("__bindgen_ty_") || fields.is_empty();
        if part_of_another || NOT_IN_RDMA_SYS.contains(&name) {
            continue;
        }
        let (ours, theirs) = (
            format!("rdma_verbs_bindings::{name}"),
            format!("rdma_sys::{name}"),
        );
        for property in ["size", "align"] {
            writeln!(
                list,
                "(\"{property} of {name}\", {property}_of::<{ours}>(), {property}_of::<{theirs}>()),"
            )?;
        }
        if PRIVATE.contains(&name) {
            continue;
        }
        for field in fields {
            let their_field = field_of_rdma_sys(name, field);
            writeln!(
                list,
                "(\"{name}.{field}\", offset_of!({ours}, {field}), offset_of!({theirs}, {their_field})),"
            )?;
        }
    }
    Ok(list)
}

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed={BINDINGS}");
    println!("cargo::rerun-if-changed={TESTS}");
    println!("cargo::rerun-if-changed=../../include");
    let out = PathBuf::from(env::var("OUT_DIR")?);
    let list = places(&fs::read_to_string(BINDINGS)?)?;
    fs::write(out.join("places.rs"), format!("[\n{list}]\n"))?;
    cc::Build::new()
        .std("gnu11")
        .files(SOURCES.map(|source| format!("{TESTS}/{source}")))
        .try_compile("differential")?;
    Ok(())
}
