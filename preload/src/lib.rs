// SPDX-License-Identifier: MIT OR Apache-2.0
//! A library to preload into compiled programs: it traces, counts or checks their RDMA
//! verbs.
//!
//! A compiled program has the helpers of `<rdma/rdma_verbs.h>` inlined, and the data
//! path of libibverbs, too. What the inlined code calls are function pointers: in the
//! context of a device, in extended queue pairs and completion queues. They are replaced
//! when the object is made (`hooks`). All else are functions of libibverbs and
//! librdmacm, which this library exports under the same names and versions
//! (`hooks::table`) and finds again among what the process has loaded (`original`).
//!
//! What a hook sees goes into the `model` of the program's objects, and from there to
//! one of three: `trace`, `stat` or `check`.
//!
//! # In other people's processes
//!
//! Nothing panics: a panic would end the host. errno is what the hooked function left.
//! No lock is held while a call waits. A hook that is entered again by the same thread,
//! from a signal handler or from the function it hooks, passes the call on.
// In its own tests, nothing is hooked.
#![cfg_attr(test, allow(dead_code, clippy::unwrap_used, clippy::indexing_slicing))]

mod check;
mod clock;
mod counters;
mod elf;
mod errno;
mod event;
mod functions;
mod hooks;
mod kind;
mod lanes;
mod life;
mod loader;
mod lock;
mod model;
mod names;
mod operation;
mod original;
mod output;
mod outstanding;
mod own_stack;
mod registry;
mod request;
mod settings;
mod stack;
mod stat;
mod table;
mod thread;
mod trace;
mod watch;

/// Called by the loader, before `main`.
#[cfg(not(test))]
extern "C" fn start() {
    life::start();
    hooks::redirect::direct_references();
}

#[cfg(not(test))]
#[used]
#[unsafe(link_section = ".init_array")]
static START: extern "C" fn() = start;
