// SPDX-License-Identifier: MIT OR Apache-2.0
//! The data path of the classic API: posting, polling, arming.
//!
//! Nothing here touches errno: what may, when it writes, puts it back itself.

use std::ffi::c_int;

use rdma_verbs_bindings::{
    IBV_SEND_SIGNALED, IBV_WC_WITH_IMM, ibv_cq, ibv_mw, ibv_mw_bind, ibv_qp, ibv_recv_wr,
    ibv_send_wr, ibv_srq, ibv_wc,
};

use super::list::{outcomes, requests};
use super::slots::{BindMw, PollCq, PostRecv, PostSend, PostSrqRecv, ReqNotifyCq, original, slot};
use super::{Call, tell};
use crate::event::{Completion, Event, Outcome, Posted, Queue, Value};
use crate::model::{Pair, SharedQueue, model};
use crate::operation::Operation;
use crate::outstanding::Requests;
use crate::registry::Entry;
use crate::request::{Helper, Request};
use crate::thread::{Busy, Polling};
use crate::watch;

pub unsafe extern "C" fn post_send<const N: usize>(
    qp: *mut ibv_qp,
    wr: *mut ibv_send_wr,
    bad: *mut *mut ibv_send_wr,
) -> c_int {
    send(original(&slot::<N>().post_send), qp, wr, bad)
}

pub unsafe extern "C" fn post_recv<const N: usize>(
    qp: *mut ibv_qp,
    wr: *mut ibv_recv_wr,
    bad: *mut *mut ibv_recv_wr,
) -> c_int {
    receive(original(&slot::<N>().post_recv), qp, wr, bad)
}

pub unsafe extern "C" fn post_srq_recv<const N: usize>(
    srq: *mut ibv_srq,
    wr: *mut ibv_recv_wr,
    bad: *mut *mut ibv_recv_wr,
) -> c_int {
    let original: PostSrqRecv = original(&slot::<N>().post_srq_recv);
    shared_receive(
        || model().shared_queue(srq),
        || original(srq, wr, bad),
        wr,
        bad,
    )
}

pub unsafe extern "C" fn poll_cq<const N: usize>(
    cq: *mut ibv_cq,
    entries: c_int,
    wc: *mut ibv_wc,
) -> c_int {
    poll(original(&slot::<N>().poll_cq), cq, entries, wc)
}

pub unsafe extern "C" fn req_notify_cq<const N: usize>(cq: *mut ibv_cq, solicited: c_int) -> c_int {
    arm(original(&slot::<N>().req_notify_cq), cq, solicited)
}

pub unsafe extern "C" fn bind_mw<const N: usize>(
    qp: *mut ibv_qp,
    mw: *mut ibv_mw,
    bind: *mut ibv_mw_bind,
) -> c_int {
    bind_window(original(&slot::<N>().bind_mw), qp, mw, bind)
}

// --- posting -------------------------------------------------------------------------------

unsafe fn send(
    original: PostSend,
    qp: *mut ibv_qp,
    wr: *mut ibv_send_wr,
    bad: *mut *mut ibv_send_wr,
) -> c_int {
    let (Some(_busy), Some(first)) = (Busy::enter(), wr.as_ref()) else {
        return original(qp, wr, bad);
    };
    let pair = model().pair(qp);
    let (kind, most) = (pair.kind, pair.limits.map(|limits| limits.send_buffers));
    // Most calls post one request: it is decoded once.
    let decoded = Request::of_send(first, kind, most);
    let each = |look: &mut dyn FnMut(&Request<'_>)| {
        look(&decoded);
        requests(first.next).for_each(|wr| look(&Request::of_send(wr, kind, most)));
    };
    let mut pair = watch::sends(pair, each, || model().pair(qp));
    let at = watch::moment();
    let result;
    if pair.extended {
        result = send_unlocked(pair, original, qp, wr, bad, at);
        pair = model().pair(qp);
    } else {
        // The lock is held during the call, so that the order of the requests here is
        // the order in the queue, and no completion is seen before its request.
        result = original(qp, wr, bad);
        if result == 0 && first.next.is_null() {
            posted(&mut pair, &decoded, Some(0), at);
        } else {
            for (wr, accepted) in outcomes(wr, bad, result) {
                let request = Request::of_send(wr, kind, most);
                let result = if accepted { 0 } else { result };
                posted(&mut pair, &request, Some(result), at);
            }
        }
    }
    let found = watch::sent(&mut pair, result != 0);
    drop(pair);
    found.report();
    result
}

/// To a queue pair where another thread may hold the provider's lock meanwhile, by
/// `ibv_wr_start`: so nothing is held during the call. The requests go in before it,
/// as their completions may be taken before it returns.
unsafe fn send_unlocked(
    mut pair: Entry<Pair>,
    original: PostSend,
    qp: *mut ibv_qp,
    wr: *mut ibv_send_wr,
    bad: *mut *mut ibv_send_wr,
    at: u64,
) -> c_int {
    let call = Call::begin();
    let (kind, most) = (pair.kind, pair.limits.map(|limits| limits.send_buffers));
    let (number, first) = (pair.number, pair.send.next_serial());
    for wr in requests(wr) {
        posted(&mut pair, &Request::of_send(wr, kind, most), None, at);
    }
    let end = pair.send.next_serial();
    drop(pair);
    let result = original(qp, wr, bad);
    if result == 0 {
        return 0;
    }
    let refused = if bad.is_null() { wr } else { *bad };
    let mut pair = model().pair(qp);
    let taken = requests(wr)
        .zip(first..end)
        .skip_while(|(wr, _)| !std::ptr::eq(*wr, refused));
    for (wr, serial) in taken {
        take_back(&mut pair, &Request::of_send(wr, kind, most), serial);
    }
    drop(pair);
    call.end(
        "ibv_post_send",
        &[
            ("qp", Value::Hex(number.into())),
            ("requests", Value::Number((end - first) as i64)),
        ],
        Outcome::Code(result),
    );
    result
}

/// A request that went in before its call was refused.
pub fn take_back(pair: &mut Pair, request: &Request<'_>, serial: u64) {
    pair.send.take_back(serial);
    tell(&Event::TakenBack(request));
}

/// A request was posted to a send queue, or refused with an error.
#[inline]
fn posted(pair: &mut Pair, request: &Request<'_>, result: Option<c_int>, at: u64) {
    let helper = request.helper(false);
    let queue = Queue::Pair(pair.number);
    let signaled = pair.all_signaled || request.flags & IBV_SEND_SIGNALED != 0;
    enter(&mut pair.send, queue, request, helper, signaled, result, at);
}

/// Enters a request into its queue, and tells of it.
#[inline]
pub fn enter(
    requests: &mut Requests,
    queue: Queue,
    request: &Request<'_>,
    helper: Helper,
    signaled: bool,
    result: Option<c_int>,
    at: u64,
) {
    let accepted = result.unwrap_or(0) == 0;
    let bytes = request.length();
    let serial = accepted.then(|| requests.push(request, bytes, helper, signaled, at));
    tell(&Event::Posted(Posted {
        queue,
        request,
        helper,
        bytes,
        serial,
        result,
        at,
    }));
}

unsafe fn receive(
    original: PostRecv,
    qp: *mut ibv_qp,
    wr: *mut ibv_recv_wr,
    bad: *mut *mut ibv_recv_wr,
) -> c_int {
    let Some(_busy) = Busy::enter() else {
        return original(qp, wr, bad);
    };
    let pair = model().pair(qp);
    let most = pair.limits.map(|limits| limits.receive_buffers);
    let each = |look: &mut dyn FnMut(&Request<'_>)| {
        requests(wr).for_each(|wr| look(&Request::of_receive(wr, most)));
    };
    let mut pair = watch::receives(pair, each, || model().pair(qp));
    let at = watch::moment();
    let result = original(qp, wr, bad);
    let queue = Queue::Pair(pair.number);
    received(&mut pair.recv, queue, most, wr, bad, result, at);
    result
}

unsafe fn received(
    requests: &mut Requests,
    queue: Queue,
    most: Option<u32>,
    wr: *mut ibv_recv_wr,
    bad: *mut *mut ibv_recv_wr,
    result: c_int,
    at: u64,
) {
    for (wr, accepted) in outcomes(wr, bad, result) {
        let request = Request::of_receive(wr, most);
        let helper = request.helper(false);
        let result = Some(if accepted { 0 } else { result });
        enter(requests, queue, &request, helper, true, result, at);
    }
}

/// A receive to a queue that is no queue pair's.
pub unsafe fn shared_receive(
    find: impl Fn() -> Entry<SharedQueue>,
    original: impl FnOnce() -> c_int,
    wr: *mut ibv_recv_wr,
    bad: *mut *mut ibv_recv_wr,
) -> c_int {
    let Some(_busy) = Busy::enter() else {
        return original();
    };
    let shared = find();
    let most = shared.most_buffers;
    let each = |look: &mut dyn FnMut(&Request<'_>)| {
        requests(wr).for_each(|wr| look(&Request::of_receive(wr, most)));
    };
    let mut shared = watch::receives_shared(shared, each, find);
    let at = watch::moment();
    let result = original();
    let queue = Queue::Shared(shared.queue);
    received(&mut shared.requests, queue, most, wr, bad, result, at);
    result
}

/// Binding a memory window posts a request of its own.
unsafe fn bind_window(
    original: BindMw,
    qp: *mut ibv_qp,
    mw: *mut ibv_mw,
    bind: *mut ibv_mw_bind,
) -> c_int {
    let Some(_busy) = Busy::enter() else {
        return original(qp, mw, bind);
    };
    let at = watch::moment();
    let mut pair = model().pair(qp);
    let request = Request {
        operation: Operation::BindMw,
        wr_id: (*bind).wr_id,
        flags: (*bind).send_flags,
        ..Request::default()
    };
    let result = original(qp, mw, bind);
    posted(&mut pair, &request, Some(result), at);
    result
}

// --- completions ---------------------------------------------------------------------------

unsafe fn poll(original: PollCq, cq: *mut ibv_cq, entries: c_int, wc: *mut ibv_wc) -> c_int {
    let polling = Polling::begin();
    let result = original(cq, entries, wc);
    let Some(busy) = polling.enter() else {
        return result;
    };
    tell(&Event::Polled {
        cq,
        completions: result.max(0) as u64,
        counters: busy.counters(),
    });
    if result > 0 {
        let at = watch::moment();
        let context = model().context_id((*cq).context);
        for index in 0..result as usize {
            completed(context, cq, &completion(&*wc.add(index)), at);
        }
    }
    result
}

unsafe fn completion(wc: &ibv_wc) -> Completion {
    Completion {
        wr_id: wc.wr_id,
        status: wc.status,
        opcode: wc.opcode,
        vendor_error: wc.vendor_err,
        number: Some(wc.qp_num),
        bytes: Some(wc.byte_len),
        immediate: (wc.wc_flags & IBV_WC_WITH_IMM != 0).then_some(wc.__bindgen_anon_1.imm_data),
    }
}

/// A completion was taken.
pub unsafe fn completed(context: u32, cq: *mut ibv_cq, completion: &Completion, at: u64) {
    model()
        .complete(context, cq as usize, completion, at, watch::completed)
        .report();
}

unsafe fn arm(original: ReqNotifyCq, cq: *mut ibv_cq, solicited: c_int) -> c_int {
    let Some(_busy) = Busy::enter() else {
        return original(cq, solicited);
    };
    let call = Call::begin();
    tell(&Event::Arms(cq));
    let result = original(cq, solicited);
    tell(&Event::Armed);
    let what = if solicited == 0 { "any" } else { "solicited" };
    call.end(
        "ibv_req_notify_cq",
        &[
            ("cq", Value::Pointer(cq as usize)),
            ("for", Value::Text(what)),
        ],
        Outcome::Code(result),
    );
    result
}
