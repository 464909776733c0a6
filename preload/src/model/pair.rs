// SPDX-License-Identifier: MIT OR Apache-2.0
//! Queue pairs.

use rdma_verbs_bindings::{IBV_QPS_ERR, IBV_QPS_RESET, ibv_qp, ibv_qp_cap, ibv_sge};

use crate::outstanding::Requests;
use crate::request::Request;
use crate::stack::Stack;

/// A queue pair.
// Four facts that have nothing to do with one another.
#[allow(clippy::struct_excessive_bools)]
#[derive(Default)]
pub struct Pair {
    pub qp: usize,
    pub number: u32,
    pub context: u32,
    pub kind: u32,
    pub domain: usize,
    pub srq: usize,
    pub send_cq: usize,
    pub recv_cq: usize,
    /// What the provider granted; `None` where the creation was not seen.
    pub limits: Option<Limits>,
    pub all_signaled: bool,
    /// The kernel connects it, and libibverbs is not told of its states.
    pub iwarp: bool,
    pub send: Requests,
    pub recv: Requests,
    /// A completion said that the queue pair is in error.
    pub failed: bool,
    /// The send queue was found full when that many polls had been made.
    pub full: Option<Full>,
    /// Whether it has the operations of `ibv_wr_start` and so on.
    pub extended: bool,
    /// The batch in the making.
    pub batch: Vec<Building>,
}

/// A send queue that was found full.
#[derive(Clone, Copy)]
pub struct Full {
    /// The polls of its completion queue until then.
    pub polls: u64,
    pub outstanding: usize,
    pub stack: Stack,
}

/// What a queue pair was granted.
#[derive(Clone, Copy)]
pub struct Limits {
    pub sends: u32,
    pub send_buffers: u32,
    pub receive_buffers: u32,
    pub inline: u32,
}

impl From<ibv_qp_cap> for Limits {
    fn from(cap: ibv_qp_cap) -> Self {
        Self {
            sends: cap.max_send_wr,
            send_buffers: cap.max_send_sge,
            receive_buffers: cap.max_recv_sge,
            inline: cap.max_inline_data,
        }
    }
}

/// A request of `ibv_wr_…`, whose buffers are set by calls of their own.
#[derive(Clone, Copy)]
pub struct Building {
    pub request: Request<'static>,
    pub buffers: [ibv_sge; 4],
}

impl Building {
    pub fn request(&self) -> Request<'_> {
        let count = (self.request.count.max(0) as usize).min(self.buffers.len());
        Request {
            buffers: self.buffers.get(..count).unwrap_or_default(),
            ..self.request
        }
    }
}

impl Pair {
    /// The state as libibverbs keeps it, where it does.
    pub fn state(&self) -> Option<u32> {
        // SAFETY: the queue pair is in use by the caller of a hook.
        (!self.iwarp).then(|| unsafe { (*(self.qp as *const ibv_qp)).state })
    }

    /// Whether requests on it may end without touching memory.
    pub fn is_dead(&self) -> bool {
        self.failed || matches!(self.state(), None | Some(IBV_QPS_ERR | IBV_QPS_RESET))
    }
}
