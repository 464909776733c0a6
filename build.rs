// SPDX-License-Identifier: MIT OR Apache-2.0
//! Names the shared library that cargo links. The one that is installed is linked
//! from the static library, with symbol versions: see the Makefile.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,librdma_verbs.so.1");
}
