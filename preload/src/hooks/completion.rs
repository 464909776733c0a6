// SPDX-License-Identifier: MIT OR Apache-2.0
//! Completion channels and completion queues.

use std::ffi::{c_int, c_uint, c_void};
use std::ptr;

use rdma_verbs_bindings::{ibv_comp_channel, ibv_context, ibv_cq};

use super::{Call, after, before, create, destroy, tell};
use crate::event::{Event, Field, Outcome, Value};
use crate::kind::Kind;
use crate::model::{CompletionQueue, model};
use crate::original;
use crate::watch;

fn channel_field(channel: *mut ibv_comp_channel) -> Field {
    ("channel", Value::Pointer(channel as usize))
}

fn queue_field(cq: *mut ibv_cq) -> Field {
    ("cq", Value::Pointer(cq as usize))
}

pub unsafe fn ibv_create_comp_channel(context: *mut ibv_context) -> *mut ibv_comp_channel {
    create(
        "ibv_create_comp_channel",
        (Kind::Context, context as usize),
        &[("context", Value::Pointer(context as usize))],
        || original::ibv_create_comp_channel(context),
        |_| {},
    )
}

pub unsafe fn ibv_destroy_comp_channel(channel: *mut ibv_comp_channel) -> c_int {
    destroy(
        "ibv_destroy_comp_channel",
        Kind::CompletionChannel,
        channel as usize,
        channel_field(channel),
        || original::ibv_destroy_comp_channel(channel),
    )
}

/// Enters a completion queue that was made with that channel.
pub fn enter_queue(cq: *mut ibv_cq, channel: *mut ibv_comp_channel) {
    let queue = CompletionQueue {
        channel: channel as usize,
        ..CompletionQueue::default()
    };
    model().completions.insert(cq as u64, queue);
}

pub unsafe fn ibv_create_cq(
    context: *mut ibv_context,
    cqe: c_int,
    cq_context: *mut c_void,
    channel: *mut ibv_comp_channel,
    vector: c_int,
) -> *mut ibv_cq {
    create(
        "ibv_create_cq",
        (Kind::Context, context as usize),
        &[
            ("entries", Value::Number(cqe.into())),
            channel_field(channel),
        ],
        || original::ibv_create_cq(context, cqe, cq_context, channel, vector),
        |cq| enter_queue(cq, channel),
    )
}

pub unsafe fn ibv_resize_cq(cq: *mut ibv_cq, cqe: c_int) -> c_int {
    let call = Call::begin();
    before(|| watch::uses("ibv_resize_cq", Kind::CompletionQueue, cq as usize));
    let result = original::ibv_resize_cq(cq, cqe);
    after(|_| {
        call.end(
            "ibv_resize_cq",
            &[queue_field(cq), ("entries", Value::Number(cqe.into()))],
            Outcome::Code(result),
        );
    });
    result
}

pub unsafe fn ibv_destroy_cq(cq: *mut ibv_cq) -> c_int {
    destroy(
        "ibv_destroy_cq",
        Kind::CompletionQueue,
        cq as usize,
        queue_field(cq),
        || original::ibv_destroy_cq(cq),
    )
}

/// A thread may be cancelled in this call: nothing is held that would have to be
/// released.
pub unsafe fn ibv_get_cq_event(
    channel: *mut ibv_comp_channel,
    cq: *mut *mut ibv_cq,
    context: *mut *mut c_void,
) -> c_int {
    let call = Call::begin();
    before(|| {
        watch::uses(
            "ibv_get_cq_event",
            Kind::CompletionChannel,
            channel as usize,
        );
        tell(&Event::Waits(channel));
    });
    let result = original::ibv_get_cq_event(channel, cq, context);
    after(|errno| {
        let queue = if result == 0 { *cq } else { ptr::null_mut() };
        tell(&Event::Woken(queue));
        let got = &[queue_field(queue)];
        call.end(
            "ibv_get_cq_event",
            &[channel_field(channel)],
            if result == 0 {
                Outcome::Got(got)
            } else {
                Outcome::Errno(result, errno)
            },
        );
    });
    result
}

pub unsafe fn ibv_ack_cq_events(cq: *mut ibv_cq, events: c_uint) {
    let call = Call::begin();
    before(|| {
        watch::uses("ibv_ack_cq_events", Kind::CompletionQueue, cq as usize);
        tell(&Event::Acknowledges(cq, events));
    });
    original::ibv_ack_cq_events(cq, events);
    after(|_| {
        call.end(
            "ibv_ack_cq_events",
            &[queue_field(cq), ("events", Value::Number(events.into()))],
            Outcome::Nothing,
        );
    });
}
