// SPDX-License-Identifier: MIT OR Apache-2.0
//! `layout` prints the layouts of the bindings; `layout c` prints a C program that
//! prints those of the C headers it is compiled with. The two must be equal.

use std::mem::offset_of;
use std::process::ExitCode;

// The generated program names all that there is.
#[allow(clippy::wildcard_imports)]
use rdma_verbs_bindings::*;

/// The size of what a pointer points to, of which there need be none.
fn size_behind<T, F>(_: fn(*const T) -> *const F) -> usize {
    size_of::<F>()
}

fn main() -> ExitCode {
    match std::env::args().nth(1).as_deref() {
        None => include!(concat!(env!("OUT_DIR"), "/layouts.rs")),
        Some("c") => print!("{}", include_str!(concat!(env!("OUT_DIR"), "/layouts.c"))),
        Some(_) => {
            eprintln!("usage: layout [c]");
            return ExitCode::from(2);
        }
    }
    ExitCode::SUCCESS
}
