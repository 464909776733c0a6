// SPDX-License-Identifier: MIT OR Apache-2.0
//! Posting by `ibv_wr_start`, calls that set a request each, and `ibv_wr_complete`.

use std::ffi::{c_int, c_void};
use std::mem;

use rdma_verbs_bindings::{
    IBV_SEND_SIGNALED, ibv_ah, ibv_data_buf, ibv_mw, ibv_mw_bind_info, ibv_qp, ibv_qp_ex, ibv_sge,
};

use crate::errno::Errno;
use crate::event::{Outcome, Queue, Value};
use crate::hooks::Call;
use crate::hooks::classic::{enter, take_back};
use crate::model::{Building, keep_originals, model, originals};
use crate::operation::Operation;
use crate::original;
use crate::registry::Interned;
use crate::request::Request;
use crate::thread::Busy;
use crate::watch;

static PAIR_SETS: Interned<ibv_qp_ex> = Interned::new();

/// Hooks the operations of an extended queue pair; says whether it is one.
pub unsafe fn hook(qp: *mut ibv_qp) -> bool {
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
        leave_batch(qp, batch, first, result != 0);
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

/// After the batch was posted, or refused.
unsafe fn leave_batch(qp: *mut ibv_qp_ex, batch: Vec<Building>, first: u64, refused: bool) {
    let Some(mut pair) = model().pairs.get(qp as u64) else {
        return;
    };
    if refused {
        for (serial, building) in (first..).zip(&batch) {
            take_back(&mut pair, &building.request(), serial);
        }
    }
    let found = watch::sent(&mut pair, refused);
    // Its memory serves the next batch.
    pair.batch = batch;
    drop(pair);
    found.report();
}

/// Returns the number of the queue pair, and of the first request.
unsafe fn enter_batch(qp: *mut ibv_qp_ex, batch: &[Building]) -> (u32, u64) {
    let pair = model().pair(qp.cast());
    let number = pair.number;
    let each = |look: &mut dyn FnMut(&Request<'_>)| {
        for building in batch {
            look(&building.request());
        }
    };
    let mut pair = watch::sends(pair, each, || model().pair(qp.cast()));
    let first = pair.send.next_serial();
    let at = watch::moment();
    for building in batch {
        let request = building.request();
        let signaled = pair.all_signaled || request.flags & IBV_SEND_SIGNALED != 0;
        let helper = request.helper(true);
        let queue = Queue::Pair(number);
        enter(&mut pair.send, queue, &request, helper, signaled, None, at);
    }
    (number, first)
}
