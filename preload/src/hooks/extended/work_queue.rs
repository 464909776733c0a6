// SPDX-License-Identifier: MIT OR Apache-2.0
//! Work queues.

use std::ffi::c_int;

use rdma_verbs_bindings::{ibv_context, ibv_recv_wr, ibv_wq, ibv_wq_init_attr, verbs_context};

use crate::errno::Errno;
use crate::event::{Outcome, Value};
use crate::hooks::classic::shared_receive;
use crate::hooks::{Call, after, destroy};
use crate::kind::Kind;
use crate::model::{SharedQueue, keep_originals, model, originals};
use crate::registry::Interned;

static WORK_QUEUE_SETS: Interned<PostWq> = Interned::new();

pub unsafe extern "C" fn create_wq(
    context: *mut ibv_context,
    attributes: *mut ibv_wq_init_attr,
) -> *mut ibv_wq {
    let original = original_or!(context, create_wq, std::ptr::null_mut());
    let call = Call::begin();
    let wq = original(context, attributes);
    after(|errno| {
        if let (Some(queue), Some(attributes)) = (wq.as_mut(), attributes.as_ref()) {
            let shared = SharedQueue {
                queue: wq as usize,
                context: model().context_id(context),
                domain: model().root(attributes.pd),
                cq: attributes.cq as usize,
                most_buffers: Some(attributes.max_sge),
                unnamed: true,
                ..SharedQueue::default()
            };
            model().born(wq as usize);
            model().shared.insert(wq as u64, shared);
            if let Some(original) = queue.post_recv {
                let same = |one: &PostWq, other: &PostWq| *one as usize == *other as usize;
                keep_originals(wq as usize, WORK_QUEUE_SETS.keep(original, same));
                queue.post_recv = Some(wq_post_recv);
            }
        }
        call.end("ibv_create_wq", &[], Outcome::Object(wq as usize, errno));
    });
    wq
}

pub unsafe extern "C" fn destroy_wq(wq: *mut ibv_wq) -> c_int {
    let original = original_or!((*wq).context, destroy_wq, libc::EOPNOTSUPP);
    let field = ("wq", Value::Pointer(wq as usize));
    destroy(
        "ibv_destroy_wq",
        Kind::WorkQueue,
        wq as usize,
        field,
        || original(wq),
    )
}

type PostWq = unsafe extern "C" fn(*mut ibv_wq, *mut ibv_recv_wr, *mut *mut ibv_recv_wr) -> c_int;

unsafe extern "C" fn wq_post_recv(
    wq: *mut ibv_wq,
    wr: *mut ibv_recv_wr,
    bad: *mut *mut ibv_recv_wr,
) -> c_int {
    let Some(original) = originals::<PostWq>(wq as usize) else {
        return libc::EOPNOTSUPP;
    };
    let find = || {
        model().shared.get(wq as u64).unwrap_or_else(|| {
            model()
                .shared
                .get_or_insert(wq as u64, SharedQueue::default())
        })
    };
    shared_receive(find, || original(wq, wr, bad), wr, bad)
}
