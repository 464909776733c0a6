// SPDX-License-Identifier: MIT OR Apache-2.0
//! Makes two programs of the generated bindings, one in Rust and one in C, which print
//! the same lines if each type, field and constant of the bindings is as in the C headers.

use std::collections::BTreeMap;
use std::error::Error;
use std::path::PathBuf;
use std::{env, fs};

const BINDINGS: &str = "../../bindings/src/verbs.rs";

/// A struct or union of the bindings, with its fields and their types.
struct Type {
    keyword: String,
    fields: Vec<(String, String)>,
}

type Types = BTreeMap<String, Type>;

/// Reads what the generator of the bindings wrote: one field or constant a line.
fn parse(source: &str) -> (Types, Vec<String>) {
    let mut types = Types::new();
    let mut constants = Vec::new();
    let mut current = String::new();
    for line in source.lines() {
        match line.split([' ', ':']).collect::<Vec<_>>()[..] {
            ["pub", "const", name, ..] => constants.push(name.to_owned()),
            ["pub", keyword @ ("struct" | "union"), name, "{"] => {
                name.clone_into(&mut current);
                let keyword = keyword.to_owned();
                let fields = Vec::new();
                types.insert(name.to_owned(), Type { keyword, fields });
            }
            // A type that is long stands on the next lines, and is none of ours.
            ["", "", "", "", "pub", field, "", ref kind @ ..] => {
                if let Some(item) = types.get_mut(&current) {
                    let kind = kind.first().map_or("", |kind| kind.trim_end_matches(','));
                    item.fields.push((field.to_owned(), kind.to_owned()));
                }
            }
            _ => (),
        }
    }
    (types, constants)
}

/// A field as it is reached from a named type, in Rust and in C.
#[derive(Default)]
struct Path {
    rust: String,
    c: String,
}

impl Path {
    fn of(&self, field: &str) -> Self {
        let rust = join(&self.rust, field);
        let c = if is_nameless(field) {
            self.c.clone()
        } else {
            // The generator puts an underscore behind what is a keyword in Rust.
            join(&self.c, field.strip_suffix('_').unwrap_or(field))
        };
        Self { rust, c }
    }
}

fn join(path: &str, field: &str) -> String {
    if path.is_empty() {
        field.to_owned()
    } else {
        format!("{path}.{field}")
    }
}

/// Whether the field has no name in C, so that its own fields are reached without it.
fn is_nameless(field: &str) -> bool {
    field.starts_with("__bindgen_anon_")
}

/// The fields of a type, and those of the types in it.
fn paths(types: &Types, item: &Type, prefix: &Path, found: &mut Vec<Path>) {
    for (field, kind) in &item.fields {
        let path = prefix.of(field);
        if let Some(inner) = types.get(kind) {
            paths(types, inner, &path, found);
        }
        if !is_nameless(field) {
            found.push(path);
        }
    }
}

/// The statements that print a constant, in Rust and in C.
fn constant_statements(name: &str) -> [String; 2] {
    [
        format!("println!(\"{name} {{}}\", i64::from({name}));\n"),
        format!("printf(\"{name} %lld\\n\", (long long){name});\n"),
    ]
}

/// The statements that print the size of a type.
fn type_statements(name: &str, keyword: &str) -> [String; 2] {
    [
        format!(
            "println!(\"{name} size {{}} alignment {{}}\", size_of::<{name}>(), align_of::<{name}>());\n"
        ),
        format!(
            "printf(\"{name} size %zu alignment %zu\\n\", sizeof({keyword} {name}), \
             _Alignof({keyword} {name}));\n"
        ),
    ]
}

/// The statements that print the place of a field.
fn field_statements(name: &str, keyword: &str, Path { rust, c }: &Path) -> [String; 2] {
    [
        format!(
            "println!(\"{name}.{c} offset {{}} size {{}}\", offset_of!({name}, {rust}), \
             size_behind(|p: *const {name}| unsafe {{ &raw const (*p).{rust} }}));\n"
        ),
        format!(
            "printf(\"{name}.{c} offset %zu size %zu\\n\", offsetof({keyword} {name}, {c}), \
             sizeof((({keyword} {name} *)NULL)->{c}));\n"
        ),
    ]
}

/// The statements of the two programs.
fn statements(types: &Types, constants: &[String]) -> Vec<[String; 2]> {
    let mut all: Vec<_> = constants.iter().map(|c| constant_statements(c)).collect();
    for (name, item) in types {
        // Nameless in C, or only pointed to: then the generator has no field, or this one.
        if name.contains("__bindgen_ty_") || item.fields.iter().all(|f| f.0 == "_address") {
            continue;
        }
        let mut found = Vec::new();
        paths(types, item, &Path::default(), &mut found);
        all.push(type_statements(name, &item.keyword));
        all.extend(
            found
                .iter()
                .map(|p| field_statements(name, &item.keyword, p)),
        );
    }
    all
}

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed={BINDINGS}");
    let (types, constants) = parse(&fs::read_to_string(BINDINGS)?);
    let (rust, c): (String, String) = statements(&types, &constants)
        .into_iter()
        .map(|[rust, c]| (rust, c))
        .unzip();
    let out = PathBuf::from(env::var("OUT_DIR")?);
    // The Rust program is a block, the C program is whole.
    fs::write(out.join("layouts.rs"), format!("{{\n{rust}}}\n"))?;
    fs::write(
        out.join("layouts.c"),
        format!(
            "#include <infiniband/verbs.h>\n#include <rdma/rdma_cma.h>\n\
             #include <stddef.h>\n#include <stdio.h>\n\n\
             int main(void)\n{{\n{c}return 0;\n}}\n"
        ),
    )?;
    Ok(())
}
