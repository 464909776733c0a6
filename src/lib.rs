// SPDX-License-Identifier: MIT OR Apache-2.0
//! librdmacm's inline verbs helpers as C symbols of a shared library.
//!
//! The helpers of `<rdma/rdma_verbs.h>` exist upstream only as `static inline`
//! functions. This crate builds them as a shared and a static library with the same
//! signatures and the same errno semantics. It has no Rust API: [`ffi`] holds the
//! exported functions, and their documentation becomes the C header.
//!
//! # What a valid pointer means
//!
//! A pointer argument that is documented as "NULL, or points to an X" must, where it
//! is not NULL, point to an X that a function of libibverbs or librdmacm returned (or,
//! for `ibv_sge` and `ibv_wc`, to memory of the caller with that layout) and that has
//! not been destroyed. It must stay so until the call returns. NULL is always checked
//! where C would dereference it; a pointer that is neither cannot be told from a good
//! one, and is undefined behaviour as in C.
//!
//! Objects of libibverbs are shared with the provider and with other threads. So no
//! Rust reference to one is ever formed: fields are read through raw pointers.
//!
//! # Threads
//!
//! There is no state but the logger's, which is set once when the library is loaded, one
//! counter, and whose turn it is to wait at a channel.
//! Each function may be called from any thread at any time; the verbs below it are
//! thread-safe. Four of [`ext`] take what completes for themselves, and say so. errno is per
//! thread.
#![cfg_attr(not(test), no_std)]

#[cfg(not(target_pointer_width = "64"))]
compile_error!("rdma-verbs is for 64-bit systems only");

mod completion;
mod errno;
pub mod ext;
pub mod ffi;
mod get_comp;
mod logger;
mod memory;
mod post;
mod status;

/// Nothing panics on purpose; should anything do so all the same, it must not unwind
/// into C.
#[cfg(not(test))]
#[panic_handler]
fn panic(_: &core::panic::PanicInfo) -> ! {
    // SAFETY: abort has no preconditions.
    unsafe { libc::abort() }
}
