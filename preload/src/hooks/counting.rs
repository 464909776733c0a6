// SPDX-License-Identifier: MIT OR Apache-2.0
//! The data path of the classic API where nothing but counters is wanted: these hooks know
//! no objects and read no clock.

use std::ffi::c_int;

use rdma_verbs_bindings::{
    IBV_WC_RECV, IBV_WC_SUCCESS, ibv_cq, ibv_mw, ibv_mw_bind, ibv_qp, ibv_recv_wr, ibv_send_wr,
    ibv_sge, ibv_srq, ibv_wc,
};

use super::list::outcomes;
use super::slots::{BindMw, PollCq, PostRecv, PostSend, PostSrqRecv, ReqNotifyCq, original, slot};
use crate::counters::OperationCounters;
use crate::operation::Operation;
use crate::thread;

#[inline]
fn count(counters: &OperationCounters, bytes: u64, accepted: bool) {
    if accepted {
        counters.posted.add(1);
        counters.bytes.add(bytes);
    } else {
        counters.refused.add(1);
    }
}

#[inline]
unsafe fn length(list: *const ibv_sge, count: c_int) -> u64 {
    let mut sum = 0u64;
    for index in 0..count.max(0) as usize {
        sum = sum.wrapping_add((*list.add(index)).length.into());
    }
    sum
}

pub unsafe extern "C" fn post_send<const N: usize>(
    qp: *mut ibv_qp,
    wr: *mut ibv_send_wr,
    bad: *mut *mut ibv_send_wr,
) -> c_int {
    let result = original::<PostSend>(&slot::<N>().post_send)(qp, wr, bad);
    if result != 0 || wr.is_null() || !(*wr).next.is_null() {
        return sent(wr, bad, result);
    }
    // Most calls post one request.
    let bytes = length((*wr).sg_list, (*wr).num_sge);
    let counters = thread::counters();
    count(
        counters.of(Operation::of_request((*wr).opcode)),
        bytes,
        true,
    );
    result
}

#[cold]
unsafe fn sent(wr: *mut ibv_send_wr, bad: *mut *mut ibv_send_wr, result: c_int) -> c_int {
    let counters = thread::counters();
    for (request, accepted) in outcomes(wr, bad, result) {
        // Of what was refused, the list may not be what it says.
        let bytes = if accepted {
            length(request.sg_list, request.num_sge)
        } else {
            0
        };
        let operation = Operation::of_request(request.opcode);
        count(counters.of(operation), bytes, accepted);
    }
    result
}

unsafe fn receive(wr: *mut ibv_recv_wr, bad: *mut *mut ibv_recv_wr, result: c_int) {
    let counters = thread::counters().of(Operation::Receive);
    for (_, accepted) in outcomes(wr, bad, result) {
        count(counters, 0, accepted);
    }
}

pub unsafe extern "C" fn post_recv<const N: usize>(
    qp: *mut ibv_qp,
    wr: *mut ibv_recv_wr,
    bad: *mut *mut ibv_recv_wr,
) -> c_int {
    let result = original::<PostRecv>(&slot::<N>().post_recv)(qp, wr, bad);
    receive(wr, bad, result);
    result
}

pub unsafe extern "C" fn post_srq_recv<const N: usize>(
    srq: *mut ibv_srq,
    wr: *mut ibv_recv_wr,
    bad: *mut *mut ibv_recv_wr,
) -> c_int {
    let result = original::<PostSrqRecv>(&slot::<N>().post_srq_recv)(srq, wr, bad);
    receive(wr, bad, result);
    result
}

pub unsafe extern "C" fn poll_cq<const N: usize>(
    cq: *mut ibv_cq,
    entries: c_int,
    wc: *mut ibv_wc,
) -> c_int {
    let result = original::<PollCq>(&slot::<N>().poll_cq)(cq, entries, wc);
    let counters = thread::counters();
    counters.polls.add(1);
    if result <= 0 {
        counters.empty_polls.add(1);
        return result;
    }
    for index in 0..result as usize {
        let one = &*wc.add(index);
        if one.status != IBV_WC_SUCCESS {
            // Its opcode is not valid.
            counters.of(Operation::Other).failed.add(1);
            continue;
        }
        let operation = counters.of(Operation::of_completion(one.opcode));
        operation.completed.add(1);
        if one.opcode & IBV_WC_RECV != 0 {
            operation.bytes.add(one.byte_len.into());
        }
    }
    result
}

pub unsafe extern "C" fn req_notify_cq<const N: usize>(cq: *mut ibv_cq, solicited: c_int) -> c_int {
    thread::counters().arms.add(1);
    original::<ReqNotifyCq>(&slot::<N>().req_notify_cq)(cq, solicited)
}

pub unsafe extern "C" fn bind_mw<const N: usize>(
    qp: *mut ibv_qp,
    mw: *mut ibv_mw,
    bind: *mut ibv_mw_bind,
) -> c_int {
    let result = original::<BindMw>(&slot::<N>().bind_mw)(qp, mw, bind);
    count(thread::counters().of(Operation::BindMw), 0, result == 0);
    result
}
