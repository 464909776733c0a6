// SPDX-License-Identifier: MIT OR Apache-2.0
//! The data path of the classic API: posting, polling, arming.
//!
//! Nothing here touches errno: what may, when it writes, puts it back itself.

use std::ffi::{c_int, c_void};
use std::mem;
use std::sync::atomic::{AtomicPtr, Ordering::Relaxed};

use rdma_verbs_bindings::{
    IBV_SEND_SIGNALED, IBV_WC_RECV, IBV_WC_SUCCESS, IBV_WC_WITH_IMM, ibv_cq, ibv_mw, ibv_mw_bind,
    ibv_qp, ibv_recv_wr, ibv_send_wr, ibv_srq, ibv_wc,
};
use rdma_verbs_settings::Mode;

use super::Call;
use super::slots::{ORIGINALS, SLOTS, Slot};
use crate::check::{self, Findings};
use crate::clock;
use crate::counters::{OperationCounters, ThreadCounters};
use crate::model::{Pair, SharedQueue, model};
use crate::operation::Operation;
use crate::registry::Entry;
use crate::request::{Helper, Outstanding, Request, Requests};
use crate::settings;
use crate::stat;
use crate::thread::{self, Busy, Polling};
use crate::trace::{self, Completed, Lanes, Outcome, Posted, Queue, Value};

pub type PostSend =
    unsafe extern "C" fn(*mut ibv_qp, *mut ibv_send_wr, *mut *mut ibv_send_wr) -> c_int;
pub type PostRecv =
    unsafe extern "C" fn(*mut ibv_qp, *mut ibv_recv_wr, *mut *mut ibv_recv_wr) -> c_int;
pub type PostSrqRecv =
    unsafe extern "C" fn(*mut ibv_srq, *mut ibv_recv_wr, *mut *mut ibv_recv_wr) -> c_int;
pub type PollCq = unsafe extern "C" fn(*mut ibv_cq, c_int, *mut ibv_wc) -> c_int;
pub type ReqNotifyCq = unsafe extern "C" fn(*mut ibv_cq, c_int) -> c_int;
pub type BindMw = unsafe extern "C" fn(*mut ibv_qp, *mut ibv_mw, *mut ibv_mw_bind) -> c_int;

#[inline]
fn slot<const N: usize>() -> &'static Slot {
    const { assert!(N < SLOTS) };
    // SAFETY: N is less than the number of slots.
    unsafe { ORIGINALS.get_unchecked(N) }
}

/// The original of a hook that was installed: its address is there.
#[inline]
unsafe fn original<F: Copy>(place: &AtomicPtr<c_void>) -> F {
    const { assert!(size_of::<F>() == size_of::<*mut c_void>()) };
    let address = place.load(Relaxed);
    // SAFETY: the slot was filled with functions of this type before its hooks went in.
    mem::transmute_copy(&address)
}

/// Walks the requests that a call took, and says which one it did not take.
macro_rules! each_request {
    ($first:expr, $bad:expr, $result:expr, |$request:ident, $accepted:ident| $act:expr) => {{
        let result: c_int = $result;
        let refused = if result == 0 || $bad.is_null() {
            std::ptr::null_mut()
        } else {
            *$bad
        };
        let mut wr = $first;
        while let Some($request) = wr.as_ref() {
            let $accepted = result == 0 || (wr != refused && !refused.is_null());
            $act;
            if !$accepted {
                break;
            }
            wr = $request.next;
        }
    }};
}

/// The hooks of stat without latencies: they know no objects and read no clock.
pub mod counting {
    use super::*;

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
    unsafe fn length(list: *const rdma_verbs_bindings::ibv_sge, count: c_int) -> u64 {
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
        each_request!(wr, bad, result, |request, accepted| count(
            counters.of(Operation::of_request(request.opcode)),
            // Of what was refused, the list may not be what it says.
            if accepted {
                length(request.sg_list, request.num_sge)
            } else {
                0
            },
            accepted
        ));
        result
    }

    unsafe fn receive(wr: *mut ibv_recv_wr, bad: *mut *mut ibv_recv_wr, result: c_int) {
        let counters = thread::counters().of(Operation::Receive);
        each_request!(wr, bad, result, |_request, accepted| count(
            counters, 0, accepted
        ));
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

    pub unsafe extern "C" fn req_notify_cq<const N: usize>(
        cq: *mut ibv_cq,
        solicited: c_int,
    ) -> c_int {
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
}

/// The hooks that know the objects.
pub mod full {
    use super::*;

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

    pub unsafe extern "C" fn req_notify_cq<const N: usize>(
        cq: *mut ibv_cq,
        solicited: c_int,
    ) -> c_int {
        arm(original(&slot::<N>().req_notify_cq), cq, solicited)
    }

    pub unsafe extern "C" fn bind_mw<const N: usize>(
        qp: *mut ibv_qp,
        mw: *mut ibv_mw,
        bind: *mut ibv_mw_bind,
    ) -> c_int {
        super::bind(original(&slot::<N>().bind_mw), qp, mw, bind)
    }
}

/// A clock reading, where one is wanted.
pub fn moment() -> u64 {
    if settings::is(Mode::Check) {
        0
    } else {
        clock::now()
    }
}

/// Reports what was found; the lock is not held meanwhile, as that takes long.
fn report<T>(entry: Entry<T>, found: Findings, again: impl FnOnce() -> Entry<T>) -> Entry<T> {
    if found.is_empty() {
        return entry;
    }
    drop(entry);
    found.report();
    again()
}

unsafe fn send(
    original: PostSend,
    qp: *mut ibv_qp,
    wr: *mut ibv_send_wr,
    bad: *mut *mut ibv_send_wr,
) -> c_int {
    let Some(_busy) = Busy::enter() else {
        return original(qp, wr, bad);
    };
    let mut pair = model().pair(qp);
    let (kind, most) = (pair.kind, pair.limits.map(|limits| limits.send_buffers));
    // Most calls post one request: it is decoded once.
    let Some(first) = wr.as_ref() else {
        drop(pair);
        return original(qp, wr, bad);
    };
    let decoded = Request::of_send(first, kind, most);
    if settings::is(Mode::Check) {
        let mut found = Findings::default();
        check::send(&pair, &decoded, &mut found);
        each_request!(first.next, bad, 0, |one, _accepted| check::send(
            &pair,
            &Request::of_send(one, kind, most),
            &mut found
        ));
        pair = report(pair, found, || model().pair(qp));
    }
    let at = moment();
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
            each_request!(wr, bad, result, |one, accepted| posted(
                &mut pair,
                &Request::of_send(one, kind, most),
                Some(if accepted { 0 } else { result }),
                at
            ));
        }
    }
    if settings::is(Mode::Check) {
        let mut found = Findings::default();
        check::sent(&mut pair, result != 0, &mut found);
        drop(pair);
        found.report();
    }
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
    each_request!(wr, bad, 0, |one, _accepted| posted(
        &mut pair,
        &Request::of_send(one, kind, most),
        None,
        at
    ));
    let end = pair.send.next_serial();
    drop(pair);
    let result = original(qp, wr, bad);
    if result == 0 {
        return 0;
    }
    let refused = if bad.is_null() { wr } else { *bad };
    let mut pair = model().pair(qp);
    let (mut one, mut is_refused) = (wr, false);
    for serial in first..end {
        is_refused |= one == refused;
        if is_refused {
            take_back(&mut pair, &Request::of_send(&*one, kind, most), serial);
        }
        one = (*one).next;
    }
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
    if settings::is(Mode::Stat) {
        let counters = thread::counters().of(request.operation);
        counters.posted.take_back(1);
        counters.bytes.take_back(request.length());
        counters.refused.add(1);
    }
}

/// A request was posted to a send queue, or refused with an error.
#[inline]
fn posted(pair: &mut Pair, request: &Request<'_>, result: Option<c_int>, at: u64) {
    let helper = request.helper(false);
    let queue = Queue::Pair(pair.number);
    let signaled = pair.all_signaled || request.flags & IBV_SEND_SIGNALED != 0;
    enter(&mut pair.send, queue, request, helper, signaled, result, at);
}

/// Enters a request into its queue, and tells who wants to know.
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
    let serial = accepted.then(|| requests.push(request, helper, signaled, at));
    match settings::mode() {
        Some(Mode::Trace) => trace::posted(&Posted {
            queue,
            request,
            helper,
            serial,
            result,
            at,
        }),
        Some(Mode::Stat) => {
            let counters = thread::counters().of(request.operation);
            if accepted {
                counters.posted.add(1);
                if request.operation != Operation::Receive {
                    counters.bytes.add(request.length());
                }
            } else {
                counters.refused.add(1);
            }
        }
        _ => {}
    }
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
    let mut pair = model().pair(qp);
    if settings::is(Mode::Check) {
        let mut found = Findings::default();
        let most = pair.limits.map(|limits| limits.receive_buffers);
        each_request!(wr, bad, 0, |one, _accepted| check::receive(
            &pair,
            &Request::of_receive(one, most),
            &mut found
        ));
        pair = report(pair, found, || model().pair(qp));
    }
    let at = moment();
    let result = original(qp, wr, bad);
    let queue = Queue::Pair(pair.number);
    let most = pair.limits.map(|limits| limits.receive_buffers);
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
    each_request!(wr, bad, result, |one, accepted| {
        let request = Request::of_receive(one, most);
        let result = if accepted { 0 } else { result };
        enter(
            requests,
            queue,
            &request,
            request.helper(false),
            true,
            Some(result),
            at,
        );
    });
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
    let mut shared = find();
    if settings::is(Mode::Check) {
        let mut found = Findings::default();
        each_request!(wr, bad, 0, |one, _accepted| check::shared_receive(
            &shared,
            &Request::of_receive(one, shared.most_buffers),
            &mut found
        ));
        shared = report(shared, found, find);
    }
    let at = moment();
    let result = original();
    let queue = Queue::Shared(shared.queue);
    let most = shared.most_buffers;
    received(&mut shared.requests, queue, most, wr, bad, result, at);
    result
}

/// Binding a memory window posts a request of its own.
unsafe fn bind(
    original: BindMw,
    qp: *mut ibv_qp,
    mw: *mut ibv_mw,
    bind: *mut ibv_mw_bind,
) -> c_int {
    let Some(_busy) = Busy::enter() else {
        return original(qp, mw, bind);
    };
    let at = moment();
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

unsafe fn poll(original: PollCq, cq: *mut ibv_cq, entries: c_int, wc: *mut ibv_wc) -> c_int {
    let polling = Polling::begin();
    let result = original(cq, entries, wc);
    let Some(busy) = polling.enter() else {
        return result;
    };
    polled(busy.counters(), cq, result.max(0) as u64);
    if result > 0 {
        let at = moment();
        let context = model().context_id((*cq).context);
        for index in 0..result as usize {
            let one = &*wc.add(index);
            completed(
                context,
                cq,
                &Completion {
                    wr_id: one.wr_id,
                    status: one.status,
                    opcode: one.opcode,
                    vendor_error: one.vendor_err,
                    number: Some(one.qp_num),
                    bytes: Some(one.byte_len),
                    immediate: (one.wc_flags & IBV_WC_WITH_IMM != 0)
                        .then_some(one.__bindgen_anon_1.imm_data),
                },
                at,
            );
        }
    }
    result
}

/// A queue was polled, with that many completions.
#[inline]
pub fn polled(counters: &ThreadCounters, cq: *mut ibv_cq, completions: u64) {
    match settings::mode() {
        Some(Mode::Stat) => {
            counters.polls.add(1);
            counters.empty_polls.add(u64::from(completions == 0));
        }
        Some(Mode::Check) => check::polled(cq as usize),
        _ => {}
    }
}

/// What a completion says of itself.
pub struct Completion {
    pub wr_id: u64,
    pub status: u32,
    pub opcode: u32,
    pub vendor_error: u32,
    /// The number of its queue pair, where the program has asked for that.
    pub number: Option<u32>,
    pub bytes: Option<u32>,
    pub immediate: Option<u32>,
}

impl Completion {
    const fn failed(&self) -> bool {
        self.status != IBV_WC_SUCCESS
    }
}

/// A completion was taken: finds its request, and tells who wants to know.
pub unsafe fn completed(context: u32, cq: *mut ibv_cq, completion: &Completion, at: u64) {
    let pair = match completion.number {
        Some(number) => model().pair_of_number(context, number),
        None => pair_by_request(cq, completion),
    };
    let Some(mut pair) = pair else {
        completed_elsewhere(cq, completion, at);
        return;
    };
    let is_receive = is_receive(&pair, cq, completion);
    if is_receive && pair.srq != 0 {
        let srq = pair.srq;
        let found = failed_on(&mut pair, completion, None);
        drop(pair);
        match model().shared.get(srq as u64) {
            Some(mut shared) => completed_shared(&mut shared, completion, at),
            None => tell(Queue::Shared(srq), true, completion, None, None, at),
        }
        found.report();
        return;
    }
    let in_order = pair.kind != rdma_verbs_bindings::IBV_QPT_DRIVER;
    let pair_mut = &mut *pair;
    let requests = if is_receive {
        &mut pair_mut.recv
    } else {
        &mut pair_mut.send
    };
    let request = if in_order && !is_receive {
        requests.complete_in_order(completion.wr_id, completion.failed())
    } else {
        requests.complete_any(completion.wr_id)
    };
    if request.is_none() && is_receive {
        let number = pair.number;
        drop(pair);
        completed_unnamed(Queue::Pair(number), cq, completion, at);
        return;
    }
    let queue = Queue::Pair(pair_mut.number);
    tell(
        queue,
        is_receive,
        completion,
        request.as_ref(),
        Some(&mut requests.lanes),
        at,
    );
    let found = failed_on(&mut pair, completion, request.as_ref());
    drop(pair);
    found.report();
}

fn failed_on(pair: &mut Pair, completion: &Completion, request: Option<&Outstanding>) -> Findings {
    let mut found = Findings::default();
    if completion.failed() && settings::is(Mode::Check) {
        let queue = Queue::Pair(pair.number);
        check::failed(
            Some(pair),
            queue,
            completion.status,
            completion.vendor_error,
            request,
            &mut found,
        );
    }
    found
}

/// Which side of a queue pair a completion is of. The opcode of a failed one is not
/// valid, so it is used last.
fn is_receive(pair: &Pair, cq: *mut ibv_cq, completion: &Completion) -> bool {
    let by_opcode = completion.opcode & IBV_WC_RECV != 0;
    if !completion.failed() {
        return by_opcode;
    }
    if pair.send_cq != pair.recv_cq {
        return pair.recv_cq == cq as usize;
    }
    match (
        pair.send.has(completion.wr_id),
        pair.recv.has(completion.wr_id),
    ) {
        (true, false) => false,
        (false, true) => true,
        (false, false) => pair.srq != 0,
        (true, true) => by_opcode,
    }
}

/// The queue pair of a completion that does not say it: the one with that request.
fn pair_by_request(cq: *mut ibv_cq, completion: &Completion) -> Option<Entry<Pair>> {
    let mut only = 0;
    let mut matching = 0;
    model().pairs.each(|key, pair| {
        let sends = pair.send_cq == cq as usize && pair.send.has(completion.wr_id);
        let receives = pair.recv_cq == cq as usize && pair.recv.has(completion.wr_id);
        if pair.send_cq == cq as usize || pair.recv_cq == cq as usize {
            only = key;
        }
        if (sends || receives) && matching == 0 {
            matching = key;
        }
    });
    model()
        .pairs
        .get(if matching == 0 { only } else { matching })
}

/// A completion of no known queue pair.
fn completed_elsewhere(cq: *mut ibv_cq, completion: &Completion, at: u64) {
    let queue = match completion.number {
        Some(number) => Queue::Pair(number),
        None => Queue::Shared(cq as usize),
    };
    completed_unnamed(queue, cq, completion, at);
}

/// A completion of a shared queue that its queue pair does not name.
fn completed_unnamed(queue: Queue, cq: *mut ibv_cq, completion: &Completion, at: u64) {
    let mut matching = 0;
    model().shared.each(|key, shared| {
        let same_queue = shared.cq == cq as usize || shared.cq == 0;
        if matching == 0 && shared.unnamed && same_queue && shared.requests.has(completion.wr_id) {
            matching = key;
        }
    });
    match model().shared.get(matching).filter(|_| matching != 0) {
        Some(mut shared) => completed_shared(&mut shared, completion, at),
        None => tell(
            queue,
            completion.opcode & IBV_WC_RECV != 0,
            completion,
            None,
            None,
            at,
        ),
    }
}

fn completed_shared(shared: &mut SharedQueue, completion: &Completion, at: u64) {
    let request = shared.requests.complete_any(completion.wr_id);
    let queue = Queue::Shared(shared.queue);
    tell(
        queue,
        true,
        completion,
        request.as_ref(),
        Some(&mut shared.requests.lanes),
        at,
    );
}

fn tell(
    queue: Queue,
    is_receive: bool,
    completion: &Completion,
    request: Option<&Outstanding>,
    lanes: Option<&mut Lanes>,
    at: u64,
) {
    match settings::mode() {
        Some(Mode::Trace) => trace::completed(
            &Completed {
                queue,
                is_receive,
                wr_id: completion.wr_id,
                status: completion.status,
                opcode: completion.opcode,
                vendor_error: completion.vendor_error,
                bytes: completion.bytes,
                immediate: completion.immediate,
                request,
                at,
            },
            lanes,
        ),
        Some(Mode::Stat) => count(is_receive, completion, request, at),
        _ => {}
    }
}

fn count(is_receive: bool, completion: &Completion, request: Option<&Outstanding>, at: u64) {
    let operation = match request {
        Some(request) => request.operation(),
        None if is_receive => Operation::Receive,
        None => Operation::of_completion(completion.opcode),
    };
    let counters = thread::counters().of(operation);
    if completion.failed() {
        counters.failed.add(1);
        return;
    }
    counters.completed.add(1);
    if let (true, Some(bytes)) = (is_receive, completion.bytes) {
        counters.bytes.add(bytes.into());
    }
    if let Some(request) = request {
        stat::latency(operation, at.saturating_sub(request.at));
    }
}

unsafe fn arm(original: ReqNotifyCq, cq: *mut ibv_cq, solicited: c_int) -> c_int {
    let Some(_busy) = Busy::enter() else {
        return original(cq, solicited);
    };
    let call = Call::begin();
    // Before the call: the event may be read before this thread goes on.
    if settings::is(Mode::Check) {
        let mut queue = model().completion_queue(cq);
        queue.armed = queue.armed.saturating_add(1);
    }
    let result = original(cq, solicited);
    if settings::is(Mode::Stat) {
        thread::counters().arms.add(1);
    }
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
