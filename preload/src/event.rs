// SPDX-License-Identifier: MIT OR Apache-2.0
//! What happens: the hooks tell it, and trace, stat and check are told.

use std::fmt;

use rdma_verbs_bindings::{IBV_WC_SUCCESS, ibv_comp_channel, ibv_cq};

use crate::counters::ThreadCounters;
use crate::outstanding::Outstanding;
use crate::request::{Helper, Request};

/// The queue that an event is about.
#[derive(Clone, Copy)]
pub enum Queue {
    /// The number of a queue pair.
    Pair(u32),
    /// The address of a shared receive queue or work queue.
    Shared(usize),
}

impl fmt::Display for Queue {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pair(number) => write!(out, "qp {number:#x}"),
            Self::Shared(address) => write!(out, "srq {address:#x}"),
        }
    }
}

/// A request was posted.
pub struct Posted<'a> {
    pub queue: Queue,
    pub request: &'a Request<'a>,
    pub helper: Helper,
    /// The length of its buffers.
    pub bytes: u64,
    /// Its number in the queue; `None` where it was refused.
    pub serial: Option<u64>,
    /// What the call returned; `None` in a batch, whose end returns for all.
    pub result: Option<i32>,
    pub at: u64,
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
    pub const fn has_failed(&self) -> bool {
        self.status != IBV_WC_SUCCESS
    }
}

/// A completion was taken.
pub struct Completed<'a> {
    pub queue: Queue,
    pub is_receive: bool,
    pub completion: &'a Completion,
    pub request: Option<&'a Outstanding>,
    /// The number of the queue pair, if this is the first that says that it has failed.
    pub first_failure_of: Option<u32>,
    pub at: u64,
}

/// A value of an argument or a result.
#[derive(Clone, Copy)]
pub enum Value<'a> {
    Pointer(usize),
    Hex(u64),
    Number(i64),
    /// A number of bytes; the largest stands for all memory.
    Size(u64),
    Text(&'a str),
    /// Flags of `enum ibv_access_flags`.
    Access(u32),
    /// A socket address, or NULL.
    Address(*const rdma_verbs_bindings::sockaddr),
}

/// Values with their names.
pub type Fields<'a> = &'a [(&'a str, Value<'a>)];

/// What a call returned.
#[derive(Clone, Copy)]
pub enum Outcome<'a> {
    Nothing,
    /// 0, or an error number.
    Code(i32),
    /// 0, or -1 with this errno.
    Errno(i32, i32),
    /// An object, or NULL with this errno.
    Object(usize, i32),
    /// An object and what else is known about it.
    Detailed(usize, Fields<'a>),
    /// 0 and what came with it.
    Got(Fields<'a>),
}

/// Any other call.
pub struct Called<'a> {
    pub name: &'a str,
    pub arguments: Fields<'a>,
    pub outcome: Outcome<'a>,
    pub from: u64,
    pub to: u64,
}

/// What else happens.
pub enum Event<'a> {
    Posted(Posted<'a>),
    /// A request that went in before its call was refused.
    TakenBack(&'a Request<'a>),
    /// A completion queue is polled, and gives that many completions.
    Polled {
        cq: *mut ibv_cq,
        completions: u64,
        counters: &'static ThreadCounters,
    },
    /// A completion queue is about to be armed.
    Arms(*mut ibv_cq),
    /// It was, or not.
    Armed,
    /// A thread waits for an event of a channel.
    Waits(*mut ibv_comp_channel),
    /// It waits no longer, and has got an event of a queue, or NULL.
    Woken(*mut ibv_cq),
    /// Events of a queue are about to be acknowledged.
    Acknowledges(*mut ibv_cq, u32),
    /// A region of that length was registered.
    Registered(u64),
    /// A region of one length has another now.
    Reregistered(u64, u64),
    Deregistered(u64),
    /// Any other call.
    Called(&'a Called<'a>),
}

/// A value with its name.
pub type Field = (&'static str, Value<'static>);
