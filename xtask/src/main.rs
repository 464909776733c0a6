// SPDX-License-Identifier: MIT OR Apache-2.0
//! `xtask generate` rewrites the generated files of this project; `xtask generate --check`
//! compares them with what the generators make now, and reports in TAP.

use std::error::Error;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::{env, fs};

const FIX: &str = "make generated";

/// The line of a generated file that says of which release the headers were.
const MADE_WITH: &str = "// Headers: ";

/// What a generator gives: the text, or the reason why it cannot run here.
type Generated = Result<Result<String, String>, Box<dyn Error>>;

struct File {
    path: &'static str,
    generate: fn(&Path) -> Generated,
}

const FILES: [File; 3] = [
    File {
        path: "include/rdma/rdma_verbs.h",
        generate: |root| header(root, "cbindgen.toml", &["src/ffi.rs"]),
    },
    File {
        path: "include/rdma/rdma_verbs_ext.h",
        generate: |root| {
            header(
                root,
                "cbindgen-ext.toml",
                &[
                    "src/ext/batch.rs",
                    "src/ext/limits.rs",
                    "src/ext/handler.rs",
                    "src/ext/ffi.rs",
                ],
            )
        },
    },
    File {
        path: "bindings/src/verbs.rs",
        generate: bindings,
    },
];

/// A public header, from exported functions, their types, and their documentation.
fn header(root: &Path, config: &str, sources: &[&str]) -> Generated {
    let mut config = cbindgen::Config::from_file(root.join(config))?;
    config.after_includes = config
        .after_includes
        .map(|text| text.replace("@VERSION@", &version_number()));
    let mut text = Vec::new();
    let mut builder = cbindgen::Builder::new().with_config(config);
    for source in sources {
        builder = builder.with_src(root.join(source));
    }
    builder.generate()?.write(&mut text);
    // cbindgen's own comments are those that C did not have before C99.
    let mut text = String::from_utf8(text)?;
    for comment in ["  // __cplusplus", " // __cplusplus", "  // extern \"C\""] {
        text = text.replace(comment, "");
    }
    Ok(Ok(text))
}

/// The version that all packages of the workspace share, as one number.
fn version_number() -> String {
    let part = |text: &str| text.parse::<u32>().unwrap_or_default();
    let (major, minor, patch) = (
        part(env!("CARGO_PKG_VERSION_MAJOR")),
        part(env!("CARGO_PKG_VERSION_MINOR")),
        part(env!("CARGO_PKG_VERSION_PATCH")),
    );
    (major * 10_000 + minor * 100 + patch).to_string()
}

/// The version of the C headers that are installed.
fn headers_version() -> Result<String, Box<dyn Error>> {
    let output = Command::new("pkg-config")
        .args(["--modversion", "libibverbs"])
        .output()?;
    Ok(String::from_utf8(output.stdout)?.trim().to_owned())
}

/// The types and functions of libibverbs and librdmacm that this workspace uses.
fn bindings(root: &Path) -> Generated {
    if let Err(reason) = clang_sys::load() {
        return Ok(Err(format!("no libclang: {reason}")));
    }
    let ours = |name: &str| root.join("bindings").join(name).display().to_string();
    // The C library's own types come from the libc crate, whose layouts are right on
    // every architecture; the generator's would be those of this machine.
    let libc_types = "pthread_(mutex|cond)_t|__pthread_.*|__atomic_wide_counter.*";
    let text = bindgen::Builder::default()
        .header(ours("verbs.h"))
        .use_core()
        .rust_target(bindgen::RustTarget::stable(85, 0).map_err(|e| e.to_string())?)
        .rust_edition(bindgen::RustEdition::Edition2024)
        .disable_header_comment()
        .raw_line("// SPDX-License-Identifier: MIT OR Apache-2.0")
        .raw_line("// Generated from bindings/verbs.h. To renew: make generated")
        .raw_line(format!("{MADE_WITH}libibverbs {}", headers_version()?))
        .raw_line("use crate::{ibv_device, ibv_device_attr, ibv_device_attr_ex};")
        .raw_line("use libc::{pthread_cond_t, pthread_mutex_t};")
        .layout_tests(false)
        .generate_comments(false)
        .derive_debug(false)
        .derive_copy(true)
        .prepend_enum_name(false)
        .blocklist_type(libc_types)
        // Only pointed to, and their members grow from release to release.
        .blocklist_type("ibv_device|ibv_device_attr|ibv_device_attr_ex|ibv_atomic_cap")
        .allowlist_type("rdma_cm_id|ibv_(sge|send_wr|recv_wr|wc|mr|pd|ah|qp|cq|srq|comp_channel|context|context_ops)")
        .allowlist_function("ibv_(reg_mr|reg_mr_iova2|dereg_mr|get_cq_event|ack_cq_events)")
        .allowlist_function("ibv_(query_qp|modify_qp)")
        .allowlist_type("ibv_(access_flags|wr_opcode|send_flags|wc_status|wc_opcode)|ib_uverbs_access_flags")
        // What the preload library hooks and reads besides.
        .allowlist_type("verbs_context|ibv_(qp_ex|cq_ex|wq|mw|mw_bind|async_event)")
        .allowlist_type("ibv_(qp|srq|cq|wq)_init_attr(_ex)?|ibv_qp_attr|ibv_rereg_mr_flags")
        .allowlist_type("ibv_(qp|srq)_(state|type|attr_mask|init_attr_mask)|ibv_qp_create_send_ops_flags")
        .allowlist_type("ibv_create_cq_wc_flags|ibv_wc_flags|ibv_transport_type|ibv_event_type")
        .allowlist_type("rdma_cm_event|rdma_addrinfo|rdma_conn_param|rdma_cm_join_mc_attr_ex")
        .allowlist_var("RDMA_UDP_QKEY")
        .generate()?
        .to_string();
    Ok(Ok(text))
}

fn write(root: &Path) -> Result<(), Box<dyn Error>> {
    for file in &FILES {
        match (file.generate)(root)? {
            Ok(text) => fs::write(root.join(file.path), text)?,
            Err(reason) => eprintln!("{} is left as it is: {reason}", file.path),
        }
    }
    Ok(())
}

/// The difference between the file and the text, empty where there is none.
fn difference(root: &Path, path: &str, text: &str) -> Result<String, Box<dyn Error>> {
    let mut diff = Command::new("diff")
        .args(["-u", "--label", path, "--label", "generated now"])
        .arg(root.join(path))
        .arg("-")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    if let Some(mut input) = diff.stdin.take() {
        input.write_all(text.as_bytes())?;
    }
    let output = diff.wait_with_output()?;
    if output.status.code().is_none_or(|code| code > 1) {
        return Err(String::from_utf8_lossy(&output.stderr).into());
    }
    Ok(String::from_utf8(output.stdout)?)
}

fn made_with(text: &str) -> Option<&str> {
    text.lines().find_map(|line| line.strip_prefix(MADE_WITH))
}

/// Why the texts cannot be compared, if they cannot: some types grow from release to
/// release.
fn other_headers(checked_in: &str, generated: &str) -> Option<String> {
    let (theirs, ours) = (made_with(checked_in)?, made_with(generated)?);
    (theirs != ours).then(|| format!("made with {theirs}, here is {ours}"))
}

fn check(root: &Path) -> Result<bool, Box<dyn Error>> {
    let mut same = true;
    println!("1..{}", FILES.len());
    for (index, file) in FILES.iter().enumerate() {
        let name = format!("{} - {} is what its generator makes", index + 1, file.path);
        let checked_in = fs::read_to_string(root.join(file.path))?;
        let generated = (file.generate)(root)?
            .and_then(|text| other_headers(&checked_in, &text).map_or(Ok(text), Err));
        match generated {
            Err(reason) => println!("ok {name} # SKIP {reason}"),
            Ok(text) => {
                let difference = difference(root, file.path, &text)?;
                if difference.is_empty() {
                    println!("ok {name}");
                } else {
                    same = false;
                    println!("not ok {name}");
                    difference.lines().for_each(|line| println!("# {line}"));
                    println!("# fix: {FIX}");
                }
            }
        }
    }
    Ok(same)
}

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("..")
        .canonicalize()?;
    let arguments: Vec<String> = env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["generate"] => write(&root).map(|()| ExitCode::SUCCESS),
        ["generate", "--check"] => Ok(if check(&root)? {
            ExitCode::SUCCESS
        } else {
            ExitCode::FAILURE
        }),
        _ => {
            eprintln!("usage: cargo run --package xtask -- generate [--check]");
            Ok(ExitCode::from(2))
        }
    }
}
