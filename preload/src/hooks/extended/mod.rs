// SPDX-License-Identifier: MIT OR Apache-2.0
//! The newer API, whose operations are function pointers in the context's extended
//! part, in queue pairs, in completion queues and in work queues.

/// An original operation of an object.
macro_rules! original_of {
    ($set:ty, $object:expr, $name:ident) => {
        originals::<$set>($object as usize).and_then(|set| set.$name)
    };
}

/// Whether two sets have the same functions.
macro_rules! same {
    ($set:ty: $($name:ident)*) => {
        |one: &$set, other: &$set| true $(&& same_function!(one.$name, other.$name))*
    };
}

macro_rules! same_function {
    ($one:expr, $other:expr) => {
        $one.map(|function| function as usize) == $other.map(|function| function as usize)
    };
}

/// An original of a context. It is there as long as the hook is.
macro_rules! original_or {
    ($context:expr, $name:ident, $missing:expr) => {
        match original_of!(verbs_context, $context, $name) {
            Some(original) => original,
            None => {
                Errno(libc::EOPNOTSUPP).restore();
                return $missing;
            }
        }
    };
}

mod batch;
mod poll;
mod work_queue;

use std::ffi::c_uint;
use std::mem::{self, offset_of};

use rdma_verbs_bindings::{
    IBV_QP_INIT_ATTR_PD, IBV_SRQ_INIT_ATTR_PD, IBV_SRQ_INIT_ATTR_TYPE, IBV_SRQT_BASIC, ibv_context,
    ibv_cq_ex, ibv_cq_init_attr_ex, ibv_dm, ibv_mr, ibv_parent_domain_init_attr, ibv_pd, ibv_qp,
    ibv_qp_init_attr_ex, ibv_qp_open_attr, ibv_srq, ibv_srq_init_attr_ex, verbs_context,
};

use super::completion::enter_queue;
use super::memory::created_region;
use super::queue_pair::pair_fields;
use super::{Call, after, domain_field};
use crate::errno::Errno;
use crate::event::{Outcome, Value};
use crate::model::{Limits, SharedQueue, keep_originals, model, originals};
use crate::names::transport_name;
use crate::registry::Interned;

static CONTEXT_SETS: Interned<verbs_context> = Interned::new();

/// The extended part of a context, which lies in front of it; `None` for the devices
/// of an older kind.
unsafe fn part(context: *mut ibv_context) -> Option<*mut verbs_context> {
    // __VERBS_ABI_IS_EXTENDED: all bits.
    if (*context).abi_compat as usize != usize::MAX {
        return None;
    }
    let part = context
        .cast::<u8>()
        .sub(offset_of!(verbs_context, context))
        .cast();
    Some(part)
}

macro_rules! extended_operations {
    ($($name:ident)*) => {
        /// Hooks the extended operations, once.
        ///
        /// # Safety
        /// `context` was opened just now.
        pub unsafe fn install(context: *mut ibv_context) {
            let Some(part) = part(context) else {
                return;
            };
            // An older libibverbs has less in front: what it lacks is not touched.
            let here = (*part).sz;
            // SAFETY: zeros are a valid one: all its fields are pointers and numbers.
            let mut originals: verbs_context = mem::zeroed();
            $(
                if here >= size_of::<verbs_context>() - offset_of!(verbs_context, $name)
                    && (*part).$name.is_some()
                {
                    originals.$name = (*part).$name;
                }
            )*
            let originals = CONTEXT_SETS.keep(originals, same!(verbs_context: $($name)*));
            keep_originals(context as usize, originals);
            $(
                if originals.$name.is_some() {
                    (*part).$name = Some(hooks::$name);
                }
            )*
        }

        /// Puts the originals back.
        pub unsafe fn uninstall(context: *mut ibv_context) {
            let originals = originals::<verbs_context>(context as usize);
            if let (Some(part), Some(originals)) = (part(context), originals) {
                $(
                    if originals.$name.is_some() {
                        (*part).$name = originals.$name;
                    }
                )*
            }
        }
    };
}

extended_operations! {
    create_qp_ex open_qp create_cq_ex create_srq_ex create_wq destroy_wq alloc_parent_domain
    alloc_null_mr reg_dm_mr
}

const NULL: usize = 0;

pub unsafe extern "C" fn create_qp_ex(
    context: *mut ibv_context,
    attributes: *mut ibv_qp_init_attr_ex,
) -> *mut ibv_qp {
    let original = original_or!(context, create_qp_ex, NULL as *mut ibv_qp);
    let call = Call::begin();
    let qp = original(context, attributes);
    created_pair("ibv_create_qp_ex", &call, qp, attributes);
    qp
}

/// A queue pair was made with extended attributes, also by a provider's own function.
pub unsafe fn created_pair(
    name: &str,
    call: &Call,
    qp: *mut ibv_qp,
    attributes: *mut ibv_qp_init_attr_ex,
) {
    after(|errno| {
        let Some(attributes) = attributes.as_ref() else {
            return;
        };
        let kind = transport_name(attributes.qp_type);
        if qp.is_null() {
            call.end(
                name,
                &[("type", Value::Text(kind))],
                Outcome::Object(0, errno),
            );
            return;
        }
        let has_domain = attributes.comp_mask & IBV_QP_INIT_ATTR_PD != 0;
        let domain = if has_domain { attributes.pd } else { (*qp).pd };
        let mut pair = model().describe_pair(qp, domain);
        pair.limits = Some(Limits::from(attributes.cap));
        pair.all_signaled = attributes.sq_sig_all != 0;
        pair.srq = attributes.srq as usize;
        pair.send_cq = attributes.send_cq as usize;
        pair.recv_cq = attributes.recv_cq as usize;
        pair.extended = batch::hook(qp);
        let limits = pair.limits;
        model().insert_pair(pair);
        call.end(
            name,
            &[domain_field(domain), ("type", Value::Text(kind))],
            Outcome::Detailed(qp as usize, &pair_fields(&*qp, limits)),
        );
    });
}

pub unsafe extern "C" fn open_qp(
    context: *mut ibv_context,
    attributes: *mut ibv_qp_open_attr,
) -> *mut ibv_qp {
    let original = original_or!(context, open_qp, NULL as *mut ibv_qp);
    let call = Call::begin();
    let qp = original(context, attributes);
    after(|errno| {
        if !qp.is_null() {
            model().insert_pair(model().describe_pair(qp, (*qp).pd));
        }
        call.end("ibv_open_qp", &[], Outcome::Object(qp as usize, errno));
    });
    qp
}

pub unsafe extern "C" fn create_cq_ex(
    context: *mut ibv_context,
    attributes: *mut ibv_cq_init_attr_ex,
) -> *mut ibv_cq_ex {
    let original = original_or!(context, create_cq_ex, NULL as *mut ibv_cq_ex);
    let call = Call::begin();
    let cq = original(context, attributes);
    created_completion_queue("ibv_create_cq_ex", &call, cq, attributes);
    cq
}

/// A completion queue was made with extended attributes, also by a provider's own
/// function.
pub unsafe fn created_completion_queue(
    name: &str,
    call: &Call,
    cq: *mut ibv_cq_ex,
    attributes: *mut ibv_cq_init_attr_ex,
) {
    after(|errno| {
        let Some(attributes) = attributes.as_ref() else {
            return;
        };
        if !cq.is_null() {
            poll::hook(cq, attributes.wc_flags);
            model().born(cq as usize);
            enter_queue(cq.cast(), attributes.channel);
        }
        call.end(
            name,
            &[
                ("entries", Value::Number(attributes.cqe.into())),
                ("channel", Value::Pointer(attributes.channel as usize)),
            ],
            Outcome::Object(cq as usize, errno),
        );
    });
}

pub unsafe extern "C" fn create_srq_ex(
    context: *mut ibv_context,
    attributes: *mut ibv_srq_init_attr_ex,
) -> *mut ibv_srq {
    let original = original_or!(context, create_srq_ex, NULL as *mut ibv_srq);
    let call = Call::begin();
    let srq = original(context, attributes);
    after(|errno| {
        let Some(attributes) = attributes.as_ref() else {
            return;
        };
        let has = |flag| attributes.comp_mask & flag != 0;
        let basic = !has(IBV_SRQ_INIT_ATTR_TYPE) || attributes.srq_type == IBV_SRQT_BASIC;
        if !srq.is_null() {
            let domain = if has(IBV_SRQ_INIT_ATTR_PD) {
                attributes.pd
            } else {
                (*srq).pd
            };
            let queue = SharedQueue {
                queue: srq as usize,
                context: model().context_id(context),
                domain: model().root(domain),
                cq: if basic { 0 } else { attributes.cq as usize },
                most_buffers: Some(attributes.attr.max_sge),
                unnamed: !basic,
                ..SharedQueue::default()
            };
            model().born(srq as usize);
            model().shared.insert(srq as u64, queue);
        }
        call.end(
            "ibv_create_srq_ex",
            &[("max_wr", Value::Number(attributes.attr.max_wr.into()))],
            Outcome::Object(srq as usize, errno),
        );
    });
    srq
}

pub unsafe extern "C" fn alloc_parent_domain(
    context: *mut ibv_context,
    attributes: *mut ibv_parent_domain_init_attr,
) -> *mut ibv_pd {
    let original = original_or!(context, alloc_parent_domain, NULL as *mut ibv_pd);
    let pd = original(context, attributes);
    after(|_| {
        if let (false, Some(attributes)) = (pd.is_null(), attributes.as_ref()) {
            model().born(pd as usize);
            model().parents.insert(pd as u64, attributes.pd as usize);
        }
    });
    pd
}

pub unsafe extern "C" fn alloc_null_mr(pd: *mut ibv_pd) -> *mut ibv_mr {
    let original = original_or!((*pd).context, alloc_null_mr, NULL as *mut ibv_mr);
    let call = Call::begin();
    let mr = original(pd);
    after(|errno| {
        // Reads of it give zeros, writes are dropped: all of both are allowed.
        created_region(mr, pd, 0, None, u32::MAX);
        call.end(
            "ibv_alloc_null_mr",
            &[domain_field(pd)],
            Outcome::Object(mr as usize, errno),
        );
    });
    mr
}

pub unsafe extern "C" fn reg_dm_mr(
    pd: *mut ibv_pd,
    dm: *mut ibv_dm,
    offset: u64,
    length: usize,
    access: c_uint,
) -> *mut ibv_mr {
    let original = original_or!((*pd).context, reg_dm_mr, NULL as *mut ibv_mr);
    let call = Call::begin();
    let mr = original(pd, dm, offset, length, access);
    after(|errno| {
        // Addresses in device memory begin at 0.
        created_region(mr, pd, 0, Some(length as u64), access);
        call.end(
            "ibv_reg_dm_mr",
            &[
                domain_field(pd),
                ("length", Value::Number(length as i64)),
                ("access", Value::Access(access)),
            ],
            Outcome::Object(mr as usize, errno),
        );
    });
    mr
}

/// The hooks, wherever they are.
mod hooks {
    pub use super::work_queue::{create_wq, destroy_wq};
    pub use super::{
        alloc_null_mr, alloc_parent_domain, create_cq_ex, create_qp_ex, create_srq_ex, open_qp,
        reg_dm_mr,
    };
}
