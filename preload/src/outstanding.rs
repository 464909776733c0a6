// SPDX-License-Identifier: MIT OR Apache-2.0
//! The requests that are outstanding on a queue.

use std::collections::VecDeque;

use crate::lanes::Lanes;
use crate::operation::Operation;
use crate::request::{Helper, Request};

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
    pub lanes: Lanes,
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
    pub fn push(
        &mut self,
        request: &Request<'_>,
        bytes: u64,
        helper: Helper,
        signaled: bool,
        at: u64,
    ) -> u64 {
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
            bytes,
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
    use super::Requests;
    use crate::request::Request;

    fn requests(list: &[(u64, bool)]) -> Requests {
        let mut requests = Requests::default();
        for &(wr_id, signaled) in list {
            let request = Request {
                wr_id,
                ..Request::default()
            };
            requests.push(&request, 0, request.helper(false), signaled, 0);
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

    #[test]
    fn the_unsignaled_tail() {
        assert_eq!(
            requests(&[(1, true), (2, false), (3, false)]).unsignaled_tail(),
            2
        );
        assert_eq!(requests(&[(1, true)]).unsignaled_tail(), 0);
    }
}
