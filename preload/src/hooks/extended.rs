// SPDX-License-Identifier: MIT OR Apache-2.0
//! The newer API, whose operations are function pointers in the context's extended
//! part, in queue pairs, in completion queues and in work queues.

use std::ffi::{c_int, c_uint, c_void};
use std::mem::{self, offset_of};

use rdma_verbs_bindings::{
    IBV_QP_INIT_ATTR_PD, IBV_SRQ_INIT_ATTR_PD, IBV_SRQ_INIT_ATTR_TYPE, IBV_SRQT_BASIC,
    IBV_WC_EX_WITH_BYTE_LEN, IBV_WC_EX_WITH_QP_NUM, ibv_ah, ibv_context, ibv_cq, ibv_cq_ex,
    ibv_cq_init_attr_ex, ibv_data_buf, ibv_dm, ibv_mr, ibv_mw, ibv_mw_bind_info,
    ibv_parent_domain_init_attr, ibv_pd, ibv_poll_cq_attr, ibv_qp, ibv_qp_ex, ibv_qp_init_attr_ex,
    ibv_qp_open_attr, ibv_recv_wr, ibv_sge, ibv_srq, ibv_srq_init_attr_ex, ibv_wq,
    ibv_wq_init_attr, verbs_context,
};

use rdma_verbs_settings::Mode;

use super::data::{Completion, completed, enter, moment, polled, shared_receive, take_back};
use super::verbs::{created_region, domain_field, end_of, pair_fields};
use super::{Call, after, before, stack};
use crate::check::{self, Findings};
use crate::errno::Errno;
use crate::kind::Kind;
use crate::model::{
    Building, CompletionQueue, Limits, SharedQueue, keep_originals, model, originals,
};
use crate::names::transport_name;
use crate::operation::Operation;
use crate::original;
use crate::registry::Interned;
use crate::request::Request;
use crate::settings;
use crate::thread::{self, Busy, Polling};
use crate::trace::{Outcome, Queue, Value};

static CONTEXT_SETS: Interned<verbs_context> = Interned::new();
static PAIR_SETS: Interned<ibv_qp_ex> = Interned::new();
static QUEUE_SETS: Interned<ibv_cq_ex> = Interned::new();
static WORK_QUEUE_SETS: Interned<PostWq> = Interned::new();

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

// --- contexts ------------------------------------------------------------------------------

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
                    (*part).$name = Some($name);
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

const NULL: usize = 0;

unsafe extern "C" fn create_qp_ex(
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
        pair.extended = hook_pair(qp);
        let limits = pair.limits;
        model().insert_pair(pair);
        call.end(
            name,
            &[domain_field(domain), ("type", Value::Text(kind))],
            Outcome::Detailed(qp as usize, &pair_fields(&*qp, limits)),
        );
    });
}

unsafe extern "C" fn open_qp(
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

unsafe extern "C" fn create_cq_ex(
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
            let queue = CompletionQueue {
                channel: attributes.channel as usize,
                ..CompletionQueue::default()
            };
            hook_completion_queue(cq, attributes.wc_flags);
            model().born(cq as usize);
            model().completions.insert(cq as u64, queue);
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

unsafe extern "C" fn create_srq_ex(
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

unsafe extern "C" fn alloc_parent_domain(
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

unsafe extern "C" fn alloc_null_mr(pd: *mut ibv_pd) -> *mut ibv_mr {
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

unsafe extern "C" fn reg_dm_mr(
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

// --- work queues ---------------------------------------------------------------------------

unsafe extern "C" fn create_wq(
    context: *mut ibv_context,
    attributes: *mut ibv_wq_init_attr,
) -> *mut ibv_wq {
    let original = original_or!(context, create_wq, NULL as *mut ibv_wq);
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

unsafe extern "C" fn destroy_wq(wq: *mut ibv_wq) -> c_int {
    let original = original_or!((*wq).context, destroy_wq, libc::EOPNOTSUPP);
    let call = Call::begin();
    let mut dying = None;
    before(|| dying = Some(model().dying(Kind::WorkQueue, wq as usize, stack())));
    let result = original(wq);
    after(|_| {
        end_of(dying, result == 0);
        call.end(
            "ibv_destroy_wq",
            &[("wq", Value::Pointer(wq as usize))],
            Outcome::Code(result),
        );
    });
    result
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

// --- queue pairs ---------------------------------------------------------------------------

/// Hooks the operations of an extended queue pair; says whether it is one.
unsafe fn hook_pair(qp: *mut ibv_qp) -> bool {
    let extended = original::ibv_qp_to_qp_ex(qp);
    if extended.is_null() || (*extended).wr_start.is_none() {
        return false;
    }
    // SAFETY: zeros are a valid one.
    let mut originals: ibv_qp_ex = mem::zeroed();
    macro_rules! hook {
        ($($name:ident)*) => {
            $(originals.$name = (*extended).$name;)*
            let originals = PAIR_SETS.keep(originals, same!(ibv_qp_ex: $($name)*));
            keep_originals(qp as usize, originals);
            $(
                if originals.$name.is_some() {
                    (*extended).$name = Some($name);
                }
            )*
        };
    }
    hook!(
        wr_atomic_cmp_swp wr_atomic_fetch_add wr_bind_mw wr_local_inv wr_rdma_read wr_rdma_write
        wr_rdma_write_imm wr_send wr_send_imm wr_send_inv wr_send_tso wr_set_ud_addr
        wr_set_inline_data wr_set_inline_data_list wr_set_sge wr_set_sge_list wr_start
        wr_complete wr_abort
    );
    true
}

/// Changes the batch in the making. Between `wr_start` and `wr_complete` the queue pair
/// belongs to one thread.
unsafe fn in_batch(qp: *mut ibv_qp_ex, change: impl FnOnce(&mut Vec<Building>)) {
    if let Some(_busy) = Busy::enter() {
        if let Some(mut pair) = model().pairs.get(qp as u64) {
            change(&mut pair.batch);
        }
    }
}

/// A request begins; its buffers come later.
unsafe fn begin(
    qp: *mut ibv_qp_ex,
    operation: Operation,
    fill: impl FnOnce(&mut Request<'static>),
) {
    let (wr_id, flags) = ((*qp).wr_id, (*qp).wr_flags);
    in_batch(qp, |batch| {
        let mut request = Request {
            operation,
            wr_id,
            flags,
            ..Request::default()
        };
        fill(&mut request);
        batch.push(Building {
            request,
            buffers: [ibv_sge {
                addr: 0,
                length: 0,
                lkey: 0,
            }; 4],
        });
    });
}

/// The newest request of the batch gets what a setter says.
unsafe fn set(qp: *mut ibv_qp_ex, change: impl FnOnce(&mut Building)) {
    in_batch(qp, |batch| {
        if let Some(building) = batch.last_mut() {
            change(building);
        }
    });
}

/// Hooks of operations that return nothing: what they do before the original.
macro_rules! builders {
    ($(fn $name:ident($qp:ident $(, $argument:ident: $type:ty)*) $body:block)*) => {$(
        unsafe extern "C" fn $name($qp: *mut ibv_qp_ex $(, $argument: $type)*) {
            $body
            if let Some(original) = original_of!(ibv_qp_ex, $qp, $name) {
                original($qp $(, $argument)*);
            }
        }
    )*};
}

fn remote(request: &mut Request<'static>, rkey: u32, addr: u64) {
    request.rkey = rkey;
    request.remote_addr = addr;
}

builders! {
    fn wr_send(qp) { begin(qp, Operation::Send, |_| {}); }
    fn wr_send_imm(qp, imm: u32) { begin(qp, Operation::SendImm, |one| one.immediate = imm); }
    fn wr_send_inv(qp, key: u32) { begin(qp, Operation::SendInv, |one| one.immediate = key); }
    fn wr_send_tso(qp, header: *mut c_void, size: u16, mss: u16) {
        begin(qp, Operation::Tso, |_| {});
    }
    fn wr_rdma_read(qp, rkey: u32, addr: u64) {
        begin(qp, Operation::Read, |one| remote(one, rkey, addr));
    }
    fn wr_rdma_write(qp, rkey: u32, addr: u64) {
        begin(qp, Operation::Write, |one| remote(one, rkey, addr));
    }
    fn wr_rdma_write_imm(qp, rkey: u32, addr: u64, imm: u32) {
        begin(qp, Operation::WriteImm, |one| {
            remote(one, rkey, addr);
            one.immediate = imm;
        });
    }
    fn wr_atomic_cmp_swp(qp, rkey: u32, addr: u64, compare: u64, swap: u64) {
        begin(qp, Operation::CompareSwap, |one| {
            remote(one, rkey, addr);
            one.compare_add = compare;
            one.swap = swap;
        });
    }
    fn wr_atomic_fetch_add(qp, rkey: u32, addr: u64, add: u64) {
        begin(qp, Operation::FetchAdd, |one| {
            remote(one, rkey, addr);
            one.compare_add = add;
        });
    }
    fn wr_local_inv(qp, key: u32) { begin(qp, Operation::LocalInv, |one| one.immediate = key); }
    fn wr_bind_mw(qp, mw: *mut ibv_mw, rkey: u32, info: *const ibv_mw_bind_info) {
        begin(qp, Operation::BindMw, |_| {});
    }
    fn wr_set_ud_addr(qp, ah: *mut ibv_ah, number: u32, key: u32) {
        set(qp, |building| {
            building.request.ah = ah as usize;
            building.request.remote_qpn = number;
            building.request.remote_qkey = key;
        });
    }
    fn wr_set_inline_data(qp, addr: *mut c_void, length: usize) {
        set(qp, |building| building.request.inline_length = length as u64);
    }
    fn wr_set_inline_data_list(qp, count: usize, list: *const ibv_data_buf) {
        set(qp, |building| {
            if !list.is_null() {
                let buffers = std::slice::from_raw_parts(list, count);
                building.request.inline_length =
                    buffers.iter().fold(0, |sum: u64, one| sum.wrapping_add(one.length as u64));
            }
        });
    }
    fn wr_set_sge(qp, lkey: u32, addr: u64, length: u32) {
        set(qp, |building| put_buffers(building, &[ibv_sge { addr, length, lkey }]));
    }
    fn wr_set_sge_list(qp, count: usize, list: *const ibv_sge) {
        set(qp, |building| {
            if !list.is_null() {
                put_buffers(building, std::slice::from_raw_parts(list, count));
            }
            building.request.count = count as i64;
            building.request.list_is_null = list.is_null();
        });
    }
}

fn put_buffers(building: &mut Building, list: &[ibv_sge]) {
    building.request.count = list.len() as i64;
    for (place, one) in building.buffers.iter_mut().zip(list) {
        *place = *one;
    }
}

unsafe extern "C" fn wr_start(qp: *mut ibv_qp_ex) {
    if let Some(original) = original_of!(ibv_qp_ex, qp, wr_start) {
        original(qp);
    }
    in_batch(qp, Vec::clear);
}

unsafe extern "C" fn wr_abort(qp: *mut ibv_qp_ex) {
    in_batch(qp, Vec::clear);
    if let Some(original) = original_of!(ibv_qp_ex, qp, wr_abort) {
        original(qp);
    }
}

/// The requests go in before the call: when it returns, their completions may have
/// been taken by another thread.
unsafe extern "C" fn wr_complete(qp: *mut ibv_qp_ex) -> c_int {
    let Some(original) = original_of!(ibv_qp_ex, qp, wr_complete) else {
        return libc::EOPNOTSUPP;
    };
    let errno = Errno::now();
    let Some(busy) = Busy::enter() else {
        return original(qp);
    };
    let call = Call::begin();
    let batch = model()
        .pairs
        .get(qp as u64)
        .map(|mut pair| mem::take(&mut pair.batch))
        .unwrap_or_default();
    let count = batch.len();
    let (number, first) = enter_batch(qp, &batch);
    drop(busy);
    errno.restore();
    let result = original(qp);
    let errno = Errno::now();
    if let Some(_busy) = Busy::enter() {
        let mut found = Findings::default();
        if let Some(mut pair) = model().pairs.get(qp as u64) {
            if result != 0 {
                for (serial, building) in (first..).zip(&batch) {
                    take_back(&mut pair, &building.request(), serial);
                }
            }
            if settings::is(Mode::Check) {
                check::sent(&mut pair, result != 0, &mut found);
            }
            // Its memory serves the next batch.
            pair.batch = batch;
        }
        found.report();
        call.end(
            "ibv_wr_complete",
            &[
                ("qp", Value::Hex(number.into())),
                ("requests", Value::Number(count as i64)),
            ],
            Outcome::Code(result),
        );
    }
    errno.restore();
    result
}

/// Returns the number of the queue pair, and of the first request.
unsafe fn enter_batch(qp: *mut ibv_qp_ex, batch: &[Building]) -> (u32, u64) {
    let mut pair = model().pair(qp.cast());
    let number = pair.number;
    if settings::is(Mode::Check) {
        let mut found = Findings::default();
        for building in batch {
            check::send(&pair, &building.request(), &mut found);
        }
        if !found.is_empty() {
            drop(pair);
            found.report();
            pair = model().pair(qp.cast());
        }
    }
    let first = pair.send.next_serial();
    let at = moment();
    for building in batch {
        let request = building.request();
        let signaled =
            pair.all_signaled || request.flags & rdma_verbs_bindings::IBV_SEND_SIGNALED != 0;
        let helper = request.helper(true);
        enter(
            &mut pair.send,
            Queue::Pair(number),
            &request,
            helper,
            signaled,
            None,
            at,
        );
    }
    (number, first)
}

// --- completion queues ---------------------------------------------------------------------

/// Hooks the polling of an extended completion queue.
unsafe fn hook_completion_queue(cq: *mut ibv_cq_ex, flags: u64) {
    // SAFETY: zeros are a valid one.
    let mut originals: ibv_cq_ex = mem::zeroed();
    originals.start_poll = (*cq).start_poll;
    originals.next_poll = (*cq).next_poll;
    originals.read_opcode = (*cq).read_opcode;
    originals.read_vendor_err = (*cq).read_vendor_err;
    // A pointer that the program has not asked for may be anything.
    if flags & u64::from(IBV_WC_EX_WITH_QP_NUM) != 0 {
        originals.read_qp_num = (*cq).read_qp_num;
    }
    if flags & u64::from(IBV_WC_EX_WITH_BYTE_LEN) != 0 {
        originals.read_byte_len = (*cq).read_byte_len;
    }
    let same = same!(ibv_cq_ex: start_poll next_poll read_opcode read_vendor_err read_qp_num read_byte_len);
    let originals = QUEUE_SETS.keep(originals, same);
    keep_originals(cq as usize, originals);
    if originals.start_poll.is_some() {
        (*cq).start_poll = Some(start_poll);
    }
    if originals.next_poll.is_some() {
        (*cq).next_poll = Some(next_poll);
    }
}

unsafe extern "C" fn start_poll(cq: *mut ibv_cq_ex, attributes: *mut ibv_poll_cq_attr) -> c_int {
    let Some(original) = original_of!(ibv_cq_ex, cq, start_poll) else {
        return libc::EOPNOTSUPP;
    };
    let _polling = Polling::begin();
    let result = original(cq, attributes);
    after(|_| {
        polled(thread::counters(), cq.cast(), u64::from(result == 0));
        if result == 0 {
            current(cq);
        }
    });
    result
}

unsafe extern "C" fn next_poll(cq: *mut ibv_cq_ex) -> c_int {
    let Some(original) = original_of!(ibv_cq_ex, cq, next_poll) else {
        return libc::EOPNOTSUPP;
    };
    let _polling = Polling::begin();
    let result = original(cq);
    after(|_| {
        if result == 0 {
            current(cq);
        }
    });
    result
}

/// The completion that the queue stands at.
unsafe fn current(cq: *mut ibv_cq_ex) {
    let Some(originals) = originals::<ibv_cq_ex>(cq as usize) else {
        return;
    };
    let context = model().context_id((*cq).context);
    let status = (*cq).status;
    let completion = Completion {
        wr_id: (*cq).wr_id,
        status,
        opcode: originals.read_opcode.map_or(0, |read| read(cq)),
        vendor_error: match originals.read_vendor_err {
            Some(read) if status != 0 => read(cq),
            _ => 0,
        },
        number: originals.read_qp_num.map(|read| read(cq)),
        bytes: match originals.read_byte_len {
            Some(read) if status == 0 => Some(read(cq)),
            _ => None,
        },
        immediate: None,
    };
    let cq: *mut ibv_cq = cq.cast();
    completed(context, cq, &completion, moment());
}
