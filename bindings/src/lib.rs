// SPDX-License-Identifier: MIT OR Apache-2.0
//! The types and functions of libibverbs and librdmacm that rdma-verbs uses, with
//! the names and layouts of the C headers.
#![no_std]

// The C headers say what these are.
#[allow(missing_docs, non_camel_case_types, non_snake_case, clippy::pedantic)]
#[rustfmt::skip]
mod verbs;

pub use verbs::*;

/// Declares types that are only ever pointed to.
macro_rules! opaque {
    ($($name:ident),*) => {$(
        #[doc = concat!("`struct ", stringify!($name), "`: only pointed to.")]
        #[allow(non_camel_case_types)]
        #[repr(C)]
        pub struct $name {
            private: [u8; 0],
        }
    )*};
}

opaque!(ibv_device, ibv_device_attr, ibv_device_attr_ex);

#[link(name = "ibverbs")]
unsafe extern "C" {}
