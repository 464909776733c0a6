// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a queue pair and its port can do.

use core::ffi::c_int;
use core::mem::{self, offset_of};

use rdma_verbs_bindings::{
    IBV_QP_CAP, ibv_context, ibv_port_attr, ibv_qp, ibv_qp_cap, ibv_qp_init_attr, ibv_query_qp,
    rdma_cm_id, verbs_context,
};

use crate::errno::{Failure, accepted, not_null};
use crate::logger::Name;

/// How many bytes a request may carry inline.
///
/// # Safety
/// `id` is NULL or points to an `rdma_cm_id`.
pub unsafe fn max_inline(id: *mut rdma_cm_id) -> Result<c_int, Failure> {
    not_null(id, c"id")?;
    // SAFETY: a valid id has a valid queue pair or none.
    let capacity = unsafe { capacity(not_null((*id).qp, c"id->qp")?)? };
    Ok(c_int::try_from(capacity.max_inline_data).unwrap_or(c_int::MAX))
}

/// What a queue pair was made for.
///
/// # Safety
/// The queue pair is valid.
#[allow(clippy::cast_possible_wrap)] // A small number; C passes it as int.
pub unsafe fn capacity(qp: *mut ibv_qp) -> Result<ibv_qp_cap, Failure> {
    // SAFETY: integers and pointers only, for which zeros are valid.
    let (mut attr, mut init): (_, ibv_qp_init_attr) = unsafe { mem::zeroed() };
    // SAFETY: as the caller promises.
    accepted(c"query_qp", unsafe {
        ibv_query_qp(qp, &raw mut attr, IBV_QP_CAP as c_int, &raw mut init)
    })?;
    Ok(init.cap)
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
