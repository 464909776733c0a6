// SPDX-License-Identifier: MIT OR Apache-2.0
//! The modules of the library, and those of the preload library, depend on each other in one
//! direction: there is no circle.
//!
//! A module is a file; in the preload library, a folder with all that is in it is one. It uses
//! another if a path in it, outside of tests, leads there.
#![cfg(test)]
#![allow(clippy::panic)]

mod graph;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use graph::Graph;

fn top() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn assert_no_circle(source: &str, graph: &Graph) {
    assert!(
        graph.modules().count() > 5,
        "{source}: where are its modules?"
    );
    if let Some(circle) = graph.circle() {
        panic!("{source}: a circle of modules: {}", circle.join(" -> "));
    }
}

#[test]
fn the_library_has_no_circle() {
    assert_no_circle("src", &Graph::of_crate(&top().join("src")));
}

#[test]
fn the_preload_library_has_no_circle() {
    let graph = Graph::of_crate(&top().join("preload/src"));
    assert_no_circle("preload/src", &graph.of_folders());
}

fn graph_of(files: &[(&str, &str)]) -> Graph {
    let files = files.iter().map(|(path, text)| {
        let path = path.split("::").filter(|name| !name.is_empty());
        (path.map(str::to_owned).collect(), (*text).to_owned())
    });
    Graph::of_files(&files.collect::<BTreeMap<_, _>>())
}

#[test]
fn a_circle_is_found() {
    let graph = graph_of(&[
        ("", "mod a; mod b; mod c;"),
        ("a", "use crate::b::{self, Thing};"),
        (
            "b",
            "pub struct Thing; fn f() -> u8 { crate::c::deep::g() }",
        ),
        ("c", "pub mod deep;"),
        ("c::deep", "use super::super::a; pub fn g() -> u8 { 1 }"),
    ]);
    let circle = graph.circle().map(|circle| circle.join(" "));
    assert_eq!(circle.as_deref(), Some("a b c::deep a"));
}

#[test]
fn a_folder_is_one_module() {
    let graph = graph_of(&[
        ("a", "pub mod one; pub mod two;"),
        ("a::one", "use super::two;"),
        ("a::two", "use super::one; use crate::b;"),
        ("b", "pub struct Thing;"),
    ]);
    assert!(graph.circle().is_some());
    assert_eq!(graph.of_folders().circle(), None);
    assert_eq!(graph.of_folders().used_by("a").collect::<Vec<_>>(), ["b"]);
}

#[test]
fn what_only_tests_use_is_no_use() {
    let graph = graph_of(&[
        (
            "a",
            "#[cfg(test)] use crate::b; #[cfg(test)] mod tests { use crate::b::f; }",
        ),
        ("b", "pub fn f() { crate::a::g() }"),
    ]);
    assert_eq!(graph.circle(), None);
    assert_eq!(graph.used_by("b").collect::<Vec<_>>(), ["a"]);
}

#[test]
fn uses_in_macros_and_reexports_count() {
    let graph = graph_of(&[
        ("a", "fn f() { println!(\"{}\", crate::b::X) }"),
        ("b", "pub use crate::c::X;"),
        (
            "c",
            "macro_rules! m { () => { $crate::a::f() } } pub const X: u8 = 1;",
        ),
    ]);
    assert!(graph.circle().is_some());
}
