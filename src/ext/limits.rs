// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a queue pair and its port can do.
// The C name; the documentation is for the C reader, too.
#![allow(non_camel_case_types, clippy::doc_markdown, clippy::struct_field_names)]

use core::ffi::c_int;
use core::mem::{self, offset_of};

use rdma_verbs_bindings::{
    IBV_QP_CAP, IBV_QP_MAX_DEST_RD_ATOMIC, IBV_QP_MAX_QP_RD_ATOMIC, ibv_context, ibv_port_attr,
    ibv_qp, ibv_qp_attr, ibv_qp_attr_mask, ibv_qp_cap, ibv_qp_init_attr, ibv_query_qp, rdma_cm_id,
    verbs_context,
};

use crate::errno::{Failure, accepted, not_null, undisturbed};
use crate::logger::Name;

/// What the queue pair of an id and its port can do, for `rdmax_query_limits`.
///
/// The fields have the names and meanings of those of `struct ibv_qp_cap`,
/// `struct ibv_qp_attr` and `struct ibv_port_attr`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct rdmax_limits {
    /// Send-side requests that may be outstanding.
    pub max_send_wr: u32,
    /// Receives that may be outstanding; of no meaning with a shared receive queue.
    pub max_recv_wr: u32,
    /// Buffers of a send-side request.
    pub max_send_sge: u32,
    /// Buffers of a receive.
    pub max_recv_sge: u32,
    /// Bytes that a request may carry inline (IBV_SEND_INLINE).
    pub max_inline_data: u32,
    /// Reads and atomics that may be in flight at a time; 0 before there is a connection.
    pub max_rd_atomic: u32,
    /// The same, of the peer's.
    pub max_dest_rd_atomic: u32,
    /// Bytes that one request can carry.
    pub max_msg_sz: u32,
}

/// Fills `*limits`, of which the caller knows `size` bytes.
///
/// # Safety
/// `id` is NULL or points to an `rdma_cm_id`; `limits` is NULL or has so many bytes.
pub unsafe fn query_limits(
    id: *mut rdma_cm_id,
    limits: *mut rdmax_limits,
    size: usize,
) -> Result<c_int, Failure> {
    const ATTRIBUTES: ibv_qp_attr_mask = IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_MAX_DEST_RD_ATOMIC;
    not_null(id, c"id")?;
    not_null(limits, c"limits")?;
    // SAFETY: a valid id has a valid queue pair or none.
    undisturbed(|| unsafe {
        let qp = not_null((*id).qp, c"id->qp")?;
        let (attr, cap) = query(qp, ATTRIBUTES)?;
        let known = rdmax_limits {
            max_send_wr: cap.max_send_wr,
            max_recv_wr: cap.max_recv_wr,
            max_send_sge: cap.max_send_sge,
            max_recv_sge: cap.max_recv_sge,
            max_inline_data: cap.max_inline_data,
            max_rd_atomic: u32::from(attr.max_rd_atomic),
            max_dest_rd_atomic: u32::from(attr.max_dest_rd_atomic),
            max_msg_sz: max_message(id, qp)?,
        };
        // A program may be older than the library, or newer: what it knows more of is 0.
        limits.cast::<u8>().write_bytes(0, size);
        let common = size.min(size_of::<rdmax_limits>());
        limits
            .cast::<u8>()
            .copy_from_nonoverlapping((&raw const known).cast(), common);
        Ok(0)
    })
}

/// Attributes of a queue pair, and what it was made for.
///
/// # Safety
/// The queue pair is valid.
#[allow(clippy::cast_possible_wrap)] // A small number; C passes it as int.
pub unsafe fn query(
    qp: *mut ibv_qp,
    attributes: ibv_qp_attr_mask,
) -> Result<(ibv_qp_attr, ibv_qp_cap), Failure> {
    let mask = attributes | IBV_QP_CAP;
    // SAFETY: integers and pointers only, for which zeros are valid.
    let (mut attr, mut init): (_, ibv_qp_init_attr) = unsafe { mem::zeroed() };
    // SAFETY: as the caller promises.
    accepted(c"query_qp", unsafe {
        ibv_query_qp(qp, &raw mut attr, mask as c_int, &raw mut init)
    })?;
    Ok((attr, init.cap))
}

/// The longest message that the port of `id` can carry.
///
/// # Safety
/// `id` points to an `rdma_cm_id`, `qp` to its queue pair.
pub unsafe fn max_message(id: *mut rdma_cm_id, qp: *mut ibv_qp) -> Result<u32, Failure> {
    // SAFETY: integers only, for which zeros are valid.
    let mut attr: ibv_port_attr = unsafe { mem::zeroed() };
    // SAFETY: the context of a valid queue pair is valid.
    unsafe {
        let context = (*qp).context;
        let port = (*id).port_num;
        let Some(query) = query_port(context) else {
            return Err(Failure::NoOperation(Name::new(c"query_port")));
        };
        // The attributes grow from release to release: this says how many we know.
        let known = size_of::<ibv_port_attr>();
        accepted(c"query_port", query(context, port, &raw mut attr, known))?;
    }
    Ok(attr.max_msg_sz)
}

type QueryPort = unsafe extern "C" fn(*mut ibv_context, u8, *mut ibv_port_attr, usize) -> c_int;

/// The function behind the C header's inline `ibv_query_port`.
///
/// An `ibv_context` is the end of a `verbs_context`, if it says that it is extended. That
/// one grows at its front, so a field is there if the size that stands in it reaches so
/// far.
///
/// # Safety
/// The context is valid.
unsafe fn query_port(context: *mut ibv_context) -> Option<QueryPort> {
    const EXTENDED: usize = usize::MAX;
    const NEEDED: usize =
        size_of::<verbs_context>().wrapping_sub(offset_of!(verbs_context, query_port));
    // SAFETY: the fields that are read are there.
    unsafe {
        if (*context).abi_compat.addr() != EXTENDED {
            return None;
        }
        let whole: *mut verbs_context = context
            .wrapping_byte_sub(offset_of!(verbs_context, context))
            .cast();
        if (&raw const (*whole).sz).read() < NEEDED {
            return None;
        }
        (&raw const (*whole).query_port).read()
    }
}
