// SPDX-License-Identifier: MIT OR Apache-2.0
//! Finding the request of a completion.

use rdma_verbs_bindings::{IBV_QPT_DRIVER, IBV_WC_RECV, IBV_WC_WR_FLUSH_ERR};

use super::{Model, Pair, SharedQueue};
use crate::event::{Completed, Completion, Queue};
use crate::lanes::Lanes;
use crate::registry::Entry;

/// A completion, on its way to its request.
struct Incoming<'a> {
    completion: &'a Completion,
    /// The completion queue.
    cq: usize,
    at: u64,
    first_failure_of: Option<u32>,
}

impl Model {
    /// Takes out the request of a completion, and tells of both while the queue of the
    /// request is locked. Returns what that gives, when it is no longer.
    #[inline]
    pub fn complete<R>(
        &self,
        context: u32,
        cq: usize,
        completion: &Completion,
        at: u64,
        tell: impl FnOnce(&Completed<'_>, Option<&mut Lanes>) -> R,
    ) -> R {
        let mut incoming = Incoming {
            completion,
            cq,
            at,
            first_failure_of: None,
        };
        let pair = match completion.number {
            Some(number) => self.pair_of_number(context, number),
            None => self.pair_by_request(&incoming),
        };
        let Some(mut pair) = pair else {
            let queue = completion.number.map_or(Queue::Shared(cq), Queue::Pair);
            return self.complete_unnamed(&incoming, queue, tell);
        };
        let is_receive = incoming.is_receive(&pair);
        if is_receive && pair.srq != 0 {
            let srq = pair.srq;
            incoming.note_failure(&mut pair);
            drop(pair);
            return match self.shared.get(srq as u64) {
                Some(mut shared) => incoming.complete_shared(&mut shared, tell),
                None => incoming.unmatched(Queue::Shared(srq), true, tell),
            };
        }
        let (wr_id, has_failed) = (completion.wr_id, completion.has_failed());
        let request = if is_receive {
            pair.recv.complete_any(wr_id)
        } else if pair.kind == IBV_QPT_DRIVER {
            pair.send.complete_any(wr_id)
        } else {
            pair.send.complete_in_order(wr_id, has_failed)
        };
        let queue = Queue::Pair(pair.number);
        if request.is_none() && is_receive {
            drop(pair);
            return self.complete_unnamed(&incoming, queue, tell);
        }
        incoming.note_failure(&mut pair);
        let completed = Completed {
            queue,
            is_receive,
            completion,
            request: request.as_ref(),
            first_failure_of: incoming.first_failure_of,
            at,
        };
        let pair = &mut *pair;
        let requests = if is_receive {
            &mut pair.recv
        } else {
            &mut pair.send
        };
        tell(&completed, Some(&mut requests.lanes))
    }

    /// The queue pair of a completion that does not say it: the one with that request.
    fn pair_by_request(&self, incoming: &Incoming<'_>) -> Option<Entry<Pair>> {
        let (cq, wr_id) = (incoming.cq, incoming.completion.wr_id);
        let mut only = 0;
        let mut matching = 0;
        self.pairs.each(|key, pair| {
            let (sends, receives) = (pair.send_cq == cq, pair.recv_cq == cq);
            if sends || receives {
                only = key;
            }
            let has = (sends && pair.send.has(wr_id)) || (receives && pair.recv.has(wr_id));
            if has && matching == 0 {
                matching = key;
            }
        });
        self.pairs.get(if matching == 0 { only } else { matching })
    }

    /// A completion of a shared queue that its queue pair does not name, or of no known
    /// queue.
    #[cold]
    fn complete_unnamed<R>(
        &self,
        incoming: &Incoming<'_>,
        queue: Queue,
        tell: impl FnOnce(&Completed<'_>, Option<&mut Lanes>) -> R,
    ) -> R {
        let wr_id = incoming.completion.wr_id;
        let mut matching = None;
        self.shared.each(|key, shared| {
            let is_its_queue = shared.cq == incoming.cq || shared.cq == 0;
            let may_be = shared.unnamed && is_its_queue && shared.requests.has(wr_id);
            if may_be && matching.is_none() {
                matching = Some(key);
            }
        });
        if let Some(mut shared) = matching.and_then(|key| self.shared.get(key)) {
            return incoming.complete_shared(&mut shared, tell);
        }
        let is_receive = incoming.completion.opcode & IBV_WC_RECV != 0;
        incoming.unmatched(queue, is_receive, tell)
    }
}

impl Incoming<'_> {
    /// Which side of a queue pair the completion is of. The opcode of a failed one is not
    /// valid, so it is used last.
    fn is_receive(&self, pair: &Pair) -> bool {
        let by_opcode = self.completion.opcode & IBV_WC_RECV != 0;
        if !self.completion.has_failed() {
            return by_opcode;
        }
        if pair.send_cq != pair.recv_cq {
            return pair.recv_cq == self.cq;
        }
        let wr_id = self.completion.wr_id;
        match (pair.send.has(wr_id), pair.recv.has(wr_id)) {
            (true, false) => false,
            (false, true) => true,
            (false, false) => pair.srq != 0,
            (true, true) => by_opcode,
        }
    }

    fn note_failure(&mut self, pair: &mut Pair) {
        if self.completion.has_failed() {
            // What is flushed tells nothing, and what comes after the first failure neither.
            let is_first = !pair.failed && self.completion.status != IBV_WC_WR_FLUSH_ERR;
            self.first_failure_of = is_first.then_some(pair.number);
            pair.failed = true;
        }
    }

    fn complete_shared<R>(
        &self,
        shared: &mut SharedQueue,
        tell: impl FnOnce(&Completed<'_>, Option<&mut Lanes>) -> R,
    ) -> R {
        let request = shared.requests.complete_any(self.completion.wr_id);
        let completed = Completed {
            queue: Queue::Shared(shared.queue),
            is_receive: true,
            completion: self.completion,
            request: request.as_ref(),
            first_failure_of: self.first_failure_of,
            at: self.at,
        };
        tell(&completed, Some(&mut shared.requests.lanes))
    }

    /// A completion of a request that was not seen.
    fn unmatched<R>(
        &self,
        queue: Queue,
        is_receive: bool,
        tell: impl FnOnce(&Completed<'_>, Option<&mut Lanes>) -> R,
    ) -> R {
        let completed = Completed {
            queue,
            is_receive,
            completion: self.completion,
            request: None,
            first_failure_of: self.first_failure_of,
            at: self.at,
        };
        tell(&completed, None)
    }
}
