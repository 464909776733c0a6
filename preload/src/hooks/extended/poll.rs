// SPDX-License-Identifier: MIT OR Apache-2.0
//! Polling by `ibv_start_poll`, `ibv_next_poll` and `ibv_end_poll`.

use std::ffi::c_int;
use std::mem;

use rdma_verbs_bindings::{
    IBV_WC_EX_WITH_BYTE_LEN, IBV_WC_EX_WITH_QP_NUM, ibv_cq, ibv_cq_ex, ibv_poll_cq_attr,
};

use crate::event::{Completion, Event};
use crate::hooks::classic::completed;
use crate::hooks::{after, tell};
use crate::model::{keep_originals, model, originals};
use crate::registry::Interned;
use crate::thread::{self, Polling};
use crate::watch;

static QUEUE_SETS: Interned<ibv_cq_ex> = Interned::new();

/// Hooks the polling of an extended completion queue.
pub unsafe fn hook(cq: *mut ibv_cq_ex, flags: u64) {
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
        tell(&Event::Polled {
            cq: cq.cast(),
            completions: u64::from(result == 0),
            counters: thread::counters(),
        });
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
    completed(context, cq, &completion, watch::moment());
}
