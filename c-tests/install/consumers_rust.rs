// SPDX-License-Identifier: MIT OR Apache-2.0
//! Calls the library from Rust, by its C symbols.

use std::ffi::{c_int, c_void};
use std::io::{Error, ErrorKind};
use std::ptr;

#[link(name = "rdma_verbs")]
extern "C" {
    fn rdma_get_recv_comp(id: *mut c_void, wc: *mut c_void) -> c_int;
    fn rdma_reg_read(id: *mut c_void, addr: *mut c_void, length: usize) -> *mut c_void;
}

fn main() {
    // SAFETY: the functions accept NULL, and say so.
    unsafe {
        assert_eq!(rdma_get_recv_comp(ptr::null_mut(), ptr::null_mut()), -1);
        assert_eq!(Error::last_os_error().kind(), ErrorKind::InvalidInput);
        assert!(rdma_reg_read(ptr::null_mut(), ptr::null_mut(), 1).is_null());
        assert_eq!(Error::last_os_error().kind(), ErrorKind::InvalidInput);
    }
}
