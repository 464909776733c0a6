// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a call does with the completions of others that it takes.
// The C name.
#![allow(non_camel_case_types, clippy::doc_markdown)]

use core::ffi::c_void;

use rdma_verbs_bindings::ibv_wc;

use super::own_request::is_own;

/// Gets the completions of the program's requests that a call takes while it waits for its own.
///
/// `wc` is valid until the handler returns; `arg` is what was passed with the handler. It may
/// post requests and take completions, but neither drain nor destroy what the call works on.
pub type rdmax_wc_handler = Option<unsafe extern "C" fn(wc: *const ibv_wc, arg: *mut c_void)>;

/// A handler and its argument.
#[derive(Clone, Copy)]
pub struct Handler {
    pub function: rdmax_wc_handler,
    pub arg: *mut c_void,
}

impl Handler {
    /// Hands over a completion, if it is of the program; false where it is lost.
    ///
    /// # Safety
    /// The handler is a function that takes these arguments.
    pub unsafe fn give(self, wc: &ibv_wc) -> bool {
        // What an earlier call has left in flight concerns nobody else.
        if is_own(wc.wr_id) {
            return true;
        }
        if let Some(function) = self.function {
            // SAFETY: as the caller promises.
            unsafe { function(wc, self.arg) };
        }
        self.function.is_some()
    }
}
