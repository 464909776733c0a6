// SPDX-License-Identifier: MIT OR Apache-2.0
//! Work requests: decoded, and those that are outstanding on a queue.

use std::collections::VecDeque;
use std::fmt::{self, Display};
use std::slice;

use rdma_verbs_bindings::{IBV_QPT_UD, IBV_SEND_INLINE, ibv_recv_wr, ibv_send_wr, ibv_sge};

use crate::operation::Operation;

/// A work request as it is posted.
#[derive(Clone, Copy, Default)]
pub struct Request<'a> {
    pub operation: Operation,
    pub opcode: u32,
    pub wr_id: u64,
    pub flags: u32,
    /// The buffers; none where the count or the list is not usable.
    pub buffers: &'a [ibv_sge],
    /// The number of buffers as the program gave it.
    pub count: i64,
    pub list_is_null: bool,
    /// The length of inline data that has no buffers of its own.
    pub inline_length: u64,
    pub remote_addr: u64,
    pub rkey: u32,
    pub immediate: u32,
    pub compare_add: u64,
    pub swap: u64,
    pub ah: usize,
    pub remote_qpn: u32,
    pub remote_qkey: u32,
}

/// No device takes more buffers: such a count is not to be believed.
const MOST_BUFFERS: u32 = 256;

#[inline]
unsafe fn buffers<'a>(list: *const ibv_sge, count: i32, most: Option<u32>) -> &'a [ibv_sge] {
    let count = u32::try_from(count).unwrap_or(0);
    if list.is_null() || count > most.unwrap_or(MOST_BUFFERS) {
        return &[];
    }
    // SAFETY: so many are there, or the provider would read what is not there.
    slice::from_raw_parts(list, count as usize)
}

impl<'a> Request<'a> {
    /// A request to a queue that takes at most so many buffers. Where there are more,
    /// the provider refuses it and reads none of them.
    ///
    /// # Safety
    /// The request and its list are valid.
    #[inline]
    pub unsafe fn of_send(wr: &'a ibv_send_wr, kind: u32, most: Option<u32>) -> Self {
        let operation = Operation::of_request(wr.opcode);
        let mut request = Self {
            operation,
            opcode: wr.opcode,
            wr_id: wr.wr_id,
            flags: wr.send_flags,
            buffers: buffers(wr.sg_list, wr.num_sge, most),
            count: wr.num_sge.into(),
            list_is_null: wr.sg_list.is_null(),
            ..Self::default()
        };
        match operation {
            Operation::SendImm | Operation::WriteImm | Operation::SendInv | Operation::LocalInv => {
                request.immediate = wr.__bindgen_anon_1.imm_data;
            }
            _ => {}
        }
        match operation {
            Operation::CompareSwap | Operation::FetchAdd => {
                request.remote_addr = wr.wr.atomic.remote_addr;
                request.rkey = wr.wr.atomic.rkey;
                request.compare_add = wr.wr.atomic.compare_add;
                request.swap = wr.wr.atomic.swap;
            }
            _ if operation.is_remote() => {
                request.remote_addr = wr.wr.rdma.remote_addr;
                request.rkey = wr.wr.rdma.rkey;
            }
            _ if kind == IBV_QPT_UD => {
                request.ah = wr.wr.ud.ah as usize;
                request.remote_qpn = wr.wr.ud.remote_qpn;
                request.remote_qkey = wr.wr.ud.remote_qkey;
            }
            _ => {}
        }
        request
    }

    /// # Safety
    /// The request and its list are valid.
    #[inline]
    pub unsafe fn of_receive(wr: &'a ibv_recv_wr, most: Option<u32>) -> Self {
        Self {
            operation: Operation::Receive,
            wr_id: wr.wr_id,
            buffers: buffers(wr.sg_list, wr.num_sge, most),
            count: wr.num_sge.into(),
            list_is_null: wr.sg_list.is_null(),
            ..Self::default()
        }
    }

    pub fn is_inline(&self) -> bool {
        self.flags & IBV_SEND_INLINE != 0 || self.inline_length > 0
    }

    /// The length of all buffers.
    #[inline]
    pub fn length(&self) -> u64 {
        let buffers: u64 = self
            .buffers
            .iter()
            .map(|buffer| u64::from(buffer.length))
            .sum();
        buffers.wrapping_add(self.inline_length)
    }

    /// What posts such a request.
    #[inline]
    pub fn helper(&self, extended: bool) -> Helper {
        Helper {
            operation: self.operation,
            buffers: self.buffers.len().min(2) as u8,
            datagram: self.ah != 0,
            extended,
        }
    }
}

/// What posts a request; its name is put together only when it is written.
#[derive(Clone, Copy, Default)]
pub struct Helper {
    operation: Operation,
    /// 2 stands for several.
    buffers: u8,
    datagram: bool,
    extended: bool,
}

impl Helper {
    /// The helper of <rdma/rdma_verbs.h> that posts such a request, or the verb.
    pub const fn name(self) -> &'static str {
        let several = self.buffers > 1;
        match self.operation {
            Operation::Send if self.datagram && !several => "rdma_post_ud_send",
            Operation::Send if self.datagram => "ibv_post_send",
            Operation::Send if several => "rdma_post_sendv",
            Operation::Send => "rdma_post_send",
            Operation::Read if several => "rdma_post_readv",
            Operation::Read => "rdma_post_read",
            Operation::Write if several => "rdma_post_writev",
            Operation::Write => "rdma_post_write",
            Operation::Receive if self.buffers == 1 => "rdma_post_recv",
            Operation::Receive => "rdma_post_recvv",
            _ if self.extended => self.extended_name(),
            Operation::BindMw => "ibv_bind_mw",
            _ => "ibv_post_send",
        }
    }

    const fn extended_name(self) -> &'static str {
        match self.operation {
            Operation::SendImm => "ibv_wr_send_imm",
            Operation::SendInv => "ibv_wr_send_inv",
            Operation::WriteImm => "ibv_wr_rdma_write_imm",
            Operation::CompareSwap => "ibv_wr_atomic_cmp_swp",
            Operation::FetchAdd => "ibv_wr_atomic_fetch_add",
            Operation::AtomicWrite => "ibv_wr_atomic_write",
            Operation::Flush => "ibv_wr_flush",
            Operation::LocalInv => "ibv_wr_local_inv",
            Operation::BindMw => "ibv_wr_bind_mw",
            Operation::Tso => "ibv_wr_send_tso",
            _ => "ibv_wr_complete",
        }
    }
}

impl Display for Helper {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.name())
    }
}

const KEYS: usize = 4;

/// A request that was accepted, until its completion is taken.
#[derive(Clone, Copy, Default)]
pub struct Outstanding {
    /// Counts the requests of a queue from 1.
    pub serial: u64,
    pub wr_id: u64,
    pub at: u64,
    pub bytes: u64,
    pub helper: Helper,
    pub signaled: bool,
    /// The row of the timeline that it is drawn in.
    pub lane: u8,
    keys: [u32; KEYS],
    key_count: u8,
}

impl Outstanding {
    pub fn operation(&self) -> Operation {
        self.helper.operation
    }

    /// Whether it uses the region of that key. It remembers the first few keys only.
    pub fn uses(&self, key: u32) -> bool {
        self.keys
            .iter()
            .take(self.key_count.into())
            .any(|&one| one == key)
    }
}

/// The outstanding requests of one queue, oldest first.
#[derive(Default)]
pub struct Requests {
    ring: VecDeque<Outstanding>,
    /// Completed, since a later one is; but their own completions have not been seen.
    /// Another thread may have taken them, and not have got here yet.
    overtaken: VecDeque<Outstanding>,
    posted: u64,
    /// How many unsignaled ones were posted since the last signaled one.
    unsignaled: usize,
    pub lanes: crate::trace::Lanes,
}

/// Where completions are never seen, the oldest requests are forgotten.
const MOST_OUTSTANDING: usize = 1 << 17;
/// The same for those that were overtaken: more than threads take at once.
const MOST_OVERTAKEN: usize = 1 << 10;

impl Requests {
    pub fn with_depth(depth: u32) -> Self {
        Self {
            ring: VecDeque::with_capacity(depth.clamp(16, 1 << 14) as usize),
            ..Self::default()
        }
    }

    #[inline]
    pub fn push(&mut self, request: &Request<'_>, helper: Helper, signaled: bool, at: u64) -> u64 {
        self.posted = self.posted.wrapping_add(1);
        self.unsignaled = if signaled {
            0
        } else {
            self.unsignaled.saturating_add(1)
        };
        let mut one = Outstanding {
            serial: self.posted,
            wr_id: request.wr_id,
            at,
            bytes: request.length(),
            helper,
            signaled,
            lane: self.lanes.take(),
            ..Outstanding::default()
        };
        if !request.is_inline() {
            for (key, buffer) in one.keys.iter_mut().zip(request.buffers) {
                *key = buffer.lkey;
                one.key_count = one.key_count.wrapping_add(1);
            }
        }
        if self.ring.len() >= MOST_OUTSTANDING {
            self.forget_oldest();
        }
        self.ring.push_back(one);
        self.posted
    }

    /// The number that the next request gets.
    pub fn next_serial(&self) -> u64 {
        self.posted.wrapping_add(1)
    }

    /// Takes back a request that was not accepted after all.
    pub fn take_back(&mut self, serial: u64) {
        let found = self.ring.iter().rposition(|one| one.serial == serial);
        if let Some(one) = found.and_then(|index| self.ring.remove(index)) {
            self.lanes.give_back(one.lane);
        }
        self.unsignaled = self
            .ring
            .iter()
            .rev()
            .take_while(|one| !one.signaled)
            .count();
    }

    /// Takes out the request of a completion. Since a queue completes in order, all
    /// that were posted before it are no longer outstanding, either. An unsignaled
    /// request has a completion only if it fails.
    pub fn complete_in_order(&mut self, wr_id: u64, failed: bool) -> Option<Outstanding> {
        let found = self
            .ring
            .iter()
            .position(|one| one.wr_id == wr_id && (one.signaled || failed));
        let Some(index) = found else {
            return self.complete_overtaken(wr_id);
        };
        for _ in 0..index {
            match self.ring.front() {
                Some(one) if one.signaled || failed => self.overtake(),
                _ => self.forget_oldest(),
            }
        }
        let one = self.ring.pop_front()?;
        self.lanes.give_back(one.lane);
        Some(one)
    }

    #[cold]
    fn forget_oldest(&mut self) {
        if let Some(one) = self.ring.pop_front() {
            self.lanes.give_back(one.lane);
        }
    }

    /// The completion of the oldest one may still come.
    #[cold]
    fn overtake(&mut self) {
        if self.overtaken.len() >= MOST_OVERTAKEN {
            if let Some(one) = self.overtaken.pop_front() {
                self.lanes.give_back(one.lane);
            }
        }
        self.overtaken.extend(self.ring.pop_front());
    }

    #[cold]
    fn complete_overtaken(&mut self, wr_id: u64) -> Option<Outstanding> {
        let index = self.overtaken.iter().position(|one| one.wr_id == wr_id)?;
        let one = self.overtaken.remove(index)?;
        self.lanes.give_back(one.lane);
        Some(one)
    }

    /// Takes out the request of a completion from a queue without an order.
    pub fn complete_any(&mut self, wr_id: u64) -> Option<Outstanding> {
        let index = self.ring.iter().position(|one| one.wr_id == wr_id)?;
        let one = self.ring.remove(index)?;
        self.lanes.give_back(one.lane);
        Some(one)
    }

    pub fn has(&self, wr_id: u64) -> bool {
        let mut known = self.ring.iter().chain(&self.overtaken);
        known.any(|one| one.wr_id == wr_id)
    }

    pub fn len(&self) -> usize {
        self.ring.len()
    }

    pub fn iter(&self) -> impl Iterator<Item = &Outstanding> {
        self.ring.iter()
    }

    pub fn clear(&mut self) {
        self.ring.clear();
        self.overtaken.clear();
        self.lanes.clear();
    }

    /// How many of the newest requests no completion will retire.
    pub fn unsignaled_tail(&self) -> usize {
        self.unsignaled.min(self.ring.len())
    }
}

#[cfg(test)]
mod tests {
    use super::{Request, Requests, ibv_sge};

    fn requests(list: &[(u64, bool)]) -> Requests {
        let mut requests = Requests::default();
        for &(wr_id, signaled) in list {
            let request = Request {
                wr_id,
                ..Request::default()
            };
            requests.push(&request, request.helper(false), signaled, 0);
        }
        requests
    }

    #[test]
    fn a_completion_retires_what_came_before() {
        let mut queue = requests(&[(1, false), (2, false), (3, true), (4, false)]);
        assert_eq!(queue.complete_in_order(3, false).unwrap().serial, 3);
        assert_eq!(queue.len(), 1);
        assert!(queue.complete_in_order(4, false).is_none());
        assert_eq!(queue.complete_in_order(4, true).unwrap().serial, 4);
    }

    /// Two threads have polled, and the later one gets here first.
    #[test]
    fn completions_may_come_out_of_order() {
        let mut queue = requests(&[(1, true), (2, false), (3, true), (4, true)]);
        assert_eq!(queue.complete_in_order(3, false).unwrap().serial, 3);
        // The first two have completed, too; of the second, there is no completion.
        assert_eq!(queue.len(), 1);
        assert!(queue.has(1) && !queue.has(2));
        assert_eq!(queue.complete_in_order(1, false).unwrap().serial, 1);
        assert!(queue.complete_in_order(1, false).is_none());
        assert_eq!(queue.complete_in_order(4, false).unwrap().serial, 4);
    }

    /// When a queue pair fails, each request has a completion.
    #[test]
    fn flushed_requests_may_come_out_of_order() {
        let mut queue = requests(&[(1, false), (2, false)]);
        assert_eq!(queue.complete_in_order(2, true).unwrap().serial, 2);
        assert_eq!(queue.complete_in_order(1, true).unwrap().serial, 1);
    }

    #[test]
    fn equal_contexts_complete_in_order() {
        let mut queue = requests(&[(0, true), (0, true)]);
        assert_eq!(queue.complete_in_order(0, false).unwrap().serial, 1);
        assert_eq!(queue.complete_in_order(0, false).unwrap().serial, 2);
    }

    #[test]
    fn a_shared_queue_has_no_order() {
        let mut queue = requests(&[(1, true), (2, true), (3, true)]);
        assert_eq!(queue.complete_any(2).unwrap().serial, 2);
        assert!(queue.complete_any(2).is_none());
        assert_eq!(queue.len(), 2);
    }

    #[test]
    fn a_refused_request_is_taken_back() {
        let mut queue = requests(&[(1, true), (2, false), (3, false)]);
        queue.take_back(2);
        assert_eq!((queue.len(), queue.unsignaled_tail()), (2, 1));
        queue.take_back(2);
        assert_eq!((queue.len(), queue.next_serial()), (2, 4));
    }

    /// Lengths have 32 bits, their sum has more.
    #[test]
    fn the_length_of_all_buffers() {
        let half = ibv_sge {
            addr: 0,
            length: 1 << 31,
            lkey: 0,
        };
        let request = Request {
            buffers: &[half, half],
            ..Request::default()
        };
        assert_eq!(request.length(), 1 << 32);
    }

    #[test]
    fn the_unsignaled_tail() {
        assert_eq!(
            requests(&[(1, true), (2, false), (3, false)]).unsignaled_tail(),
            2
        );
        assert_eq!(requests(&[(1, true)]).unsignaled_tail(), 0);
    }
}
