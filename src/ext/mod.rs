// SPDX-License-Identifier: MIT OR Apache-2.0
//! The extension helpers: what librdmacm's family lacks, in its style.
//!
//! [`ffi`] holds the exported functions, and their documentation becomes the header
//! `<rdma/rdma_verbs_ext.h>`. What the crate's documentation says of pointers and errno
//! holds here too. Of state there is a counter, from which requests that the library posts
//! on its own account get their identity, and whose turn it is to wait at each channel.

pub mod ffi;

mod batch;
mod deadline;
mod drain;
mod handler;
mod limits;
mod operation;
mod own_request;
mod transfer;
mod turn;
mod waiting;
