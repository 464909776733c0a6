// SPDX-License-Identifier: MIT OR Apache-2.0
//! Replacing the operations of a context.
//!
//! A hook has to find the function that it stands in for without a search. So there
//! are several copies of each hook, one for each set of originals: devices of one
//! provider have the same operations and share a set, which is never given up.

use std::ffi::{c_int, c_void};
use std::mem;
use std::sync::atomic::{AtomicPtr, AtomicU8, Ordering::*};

use rdma_verbs_bindings::{
    ibv_context, ibv_context_ops, ibv_cq, ibv_mw, ibv_mw_bind, ibv_qp, ibv_recv_wr, ibv_send_wr,
    ibv_srq, ibv_wc,
};

use super::{classic, counting};
use crate::output::say;
use crate::watch;

/// The operations that are replaced.
#[derive(Clone, Copy)]
pub struct Hooks {
    pub post_send: *mut c_void,
    pub post_recv: *mut c_void,
    pub post_srq_recv: *mut c_void,
    pub poll_cq: *mut c_void,
    pub req_notify_cq: *mut c_void,
    pub bind_mw: *mut c_void,
}

// SAFETY: addresses of functions.
unsafe impl Sync for Hooks {}

/// A set of originals.
pub struct Slot {
    pub post_send: AtomicPtr<c_void>,
    pub post_recv: AtomicPtr<c_void>,
    pub post_srq_recv: AtomicPtr<c_void>,
    pub poll_cq: AtomicPtr<c_void>,
    pub req_notify_cq: AtomicPtr<c_void>,
    pub bind_mw: AtomicPtr<c_void>,
}

const SLOTS: usize = 16;

const fn no_function() -> AtomicPtr<c_void> {
    AtomicPtr::new(std::ptr::null_mut())
}

static ORIGINALS: [Slot; SLOTS] = [const {
    Slot {
        post_send: no_function(),
        post_recv: no_function(),
        post_srq_recv: no_function(),
        poll_cq: no_function(),
        req_notify_cq: no_function(),
        bind_mw: no_function(),
    }
}; SLOTS];

pub type PostSend =
    unsafe extern "C" fn(*mut ibv_qp, *mut ibv_send_wr, *mut *mut ibv_send_wr) -> c_int;
pub type PostRecv =
    unsafe extern "C" fn(*mut ibv_qp, *mut ibv_recv_wr, *mut *mut ibv_recv_wr) -> c_int;
pub type PostSrqRecv =
    unsafe extern "C" fn(*mut ibv_srq, *mut ibv_recv_wr, *mut *mut ibv_recv_wr) -> c_int;
pub type PollCq = unsafe extern "C" fn(*mut ibv_cq, c_int, *mut ibv_wc) -> c_int;
pub type ReqNotifyCq = unsafe extern "C" fn(*mut ibv_cq, c_int) -> c_int;
pub type BindMw = unsafe extern "C" fn(*mut ibv_qp, *mut ibv_mw, *mut ibv_mw_bind) -> c_int;

/// The originals of the hooks with that number.
#[inline]
pub fn slot<const N: usize>() -> &'static Slot {
    const { assert!(N < SLOTS) };
    // SAFETY: N is less than the number of slots.
    unsafe { ORIGINALS.get_unchecked(N) }
}

/// The original of a hook that was installed: its address is there.
#[inline]
pub unsafe fn original<F: Copy>(place: &AtomicPtr<c_void>) -> F {
    const { assert!(size_of::<F>() == size_of::<*mut c_void>()) };
    let address = place.load(Relaxed);
    // SAFETY: the slot was filled with functions of this type before its hooks went in.
    mem::transmute_copy(&address)
}

/// Which of them are in use, and filled.
static USED: [AtomicU8; SLOTS] = [const { AtomicU8::new(FREE) }; SLOTS];
const FREE: u8 = 0;
const CLAIMED: u8 = 1;
const FILLED: u8 = 2;

/// The number of the slot that holds a set of originals; takes a free one where none
/// does. Without a lock, which the child of a fork might find locked.
fn number_of(originals: &Hooks) -> Option<usize> {
    let slots = || ORIGINALS.iter().zip(&USED).enumerate();
    let known =
        slots().find(|(_, (slot, used))| used.load(Acquire) == FILLED && slot.holds(originals));
    if let Some((number, _)) = known {
        return Some(number);
    }
    let (number, (slot, used)) = slots().find(|(_, (_, used))| {
        used.compare_exchange(FREE, CLAIMED, AcqRel, Relaxed)
            .is_ok()
    })?;
    slot.fill(originals);
    used.store(FILLED, Release);
    Some(number)
}

macro_rules! copies {
    ($module:ident: $($number:literal)*) => {
        [$(Hooks {
            post_send: $module::post_send::<$number> as *mut c_void,
            post_recv: $module::post_recv::<$number> as *mut c_void,
            post_srq_recv: $module::post_srq_recv::<$number> as *mut c_void,
            poll_cq: $module::poll_cq::<$number> as *mut c_void,
            req_notify_cq: $module::req_notify_cq::<$number> as *mut c_void,
            bind_mw: $module::bind_mw::<$number> as *mut c_void,
        }),*]
    };
}

static CLASSIC: [Hooks; SLOTS] = copies!(classic: 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15);
static COUNTING: [Hooks; SLOTS] = copies!(counting: 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15);

/// The address of an operation; NULL where there is none.
macro_rules! address {
    ($operation:expr) => {
        // SAFETY: an optional function pointer is an address or NULL.
        unsafe { mem::transmute::<_, *mut c_void>($operation) }
    };
}

fn operations(ops: &ibv_context_ops) -> Hooks {
    Hooks {
        post_send: address!(ops.post_send),
        post_recv: address!(ops.post_recv),
        post_srq_recv: address!(ops.post_srq_recv),
        poll_cq: address!(ops.poll_cq),
        req_notify_cq: address!(ops.req_notify_cq),
        bind_mw: address!(ops.bind_mw),
    }
}

impl Slot {
    fn pairs<'a>(&'a self, hooks: &Hooks) -> [(&'a AtomicPtr<c_void>, *mut c_void); 6] {
        [
            (&self.post_send, hooks.post_send),
            (&self.post_recv, hooks.post_recv),
            (&self.post_srq_recv, hooks.post_srq_recv),
            (&self.poll_cq, hooks.poll_cq),
            (&self.req_notify_cq, hooks.req_notify_cq),
            (&self.bind_mw, hooks.bind_mw),
        ]
    }

    fn holds(&self, originals: &Hooks) -> bool {
        self.pairs(originals)
            .iter()
            .all(|(place, one)| place.load(Relaxed) == *one)
    }

    fn fill(&self, originals: &Hooks) {
        for (place, one) in self.pairs(originals) {
            place.store(one, Release);
        }
    }
}

/// Puts other functions in the place of those that are there.
unsafe fn replace(context: *mut ibv_context, with: &Hooks) {
    macro_rules! put {
        ($($name:ident)*) => {$(
            if (*context).ops.$name.is_some() {
                (*context).ops.$name = mem::transmute(with.$name);
            }
        )*};
    }
    put!(post_send post_recv post_srq_recv poll_cq req_notify_cq bind_mw);
}

fn hook_sets() -> impl Iterator<Item = (&'static Hooks, &'static Slot)> {
    CLASSIC
        .iter()
        .zip(&ORIGINALS)
        .chain(COUNTING.iter().zip(&ORIGINALS))
}

/// Hooks the operations of a context, once.
///
/// # Safety
/// `context` was opened just now.
pub unsafe fn install(context: *mut ibv_context) {
    let now = operations(&(*context).ops);
    if hook_sets().any(|(hooks, _)| hooks.poll_cq == now.poll_cq) {
        return;
    }
    let sets = if watch::only_counts() {
        &COUNTING
    } else {
        &CLASSIC
    };
    match number_of(&now).and_then(|number| sets.get(number)) {
        Some(hooks) => replace(context, hooks),
        None => say(format_args!(
            "more than {SLOTS} kinds of devices: the data path of this one is not visible"
        )),
    }
}

/// Puts the originals back.
///
/// # Safety
/// `context` is open.
pub unsafe fn uninstall(context: *mut ibv_context) {
    let now = operations(&(*context).ops);
    let Some((_, slot)) = hook_sets().find(|(hooks, _)| hooks.poll_cq == now.poll_cq) else {
        return;
    };
    replace(
        context,
        &Hooks {
            post_send: slot.post_send.load(Acquire),
            post_recv: slot.post_recv.load(Acquire),
            post_srq_recv: slot.post_srq_recv.load(Acquire),
            poll_cq: slot.poll_cq.load(Acquire),
            req_notify_cq: slot.req_notify_cq.load(Acquire),
            bind_mw: slot.bind_mw.load(Acquire),
        },
    );
}
