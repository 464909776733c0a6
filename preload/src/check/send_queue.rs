// SPDX-License-Identifier: MIT OR Apache-2.0
//! Send queues that nobody empties.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use rdma_verbs_settings::Rule;

use super::finding::{Finding, Findings};
use super::knows_outstanding;
use crate::model::{Full, Pair, model};
use crate::stack::Stack;
use crate::thread;

/// Whether a send queue was ever found full: until then, polls need not be counted.
static ANY_FULL: AtomicBool = AtomicBool::new(false);

/// A completion queue was polled.
pub fn polled(cq: usize) {
    if ANY_FULL.load(Relaxed) {
        if let Some(mut queue) = model().completions.get(cq as u64) {
            queue.polls = queue.polls.wrapping_add(1);
        }
    }
}

fn polls_of(pair: &Pair) -> u64 {
    model()
        .completions
        .get(pair.send_cq as u64)
        .map_or(0, |queue| queue.polls)
}

/// After requests were posted to a send queue.
pub fn sent(pair: &mut Pair, refused: bool, found: &mut Findings) {
    let Some(limits) = pair.limits else {
        return;
    };
    let outstanding = pair.send.len();
    let unsignaled = pair.send.unsignaled_tail();
    let depth = limits.sends as usize;
    // To fill the queue is no fault yet, to post once more is.
    let never_freed = unsignaled > depth || (refused && depth > 0 && unsignaled == depth);
    let is_full = refused && outstanding >= depth;
    if !(never_freed || is_full) || !knows_outstanding() {
        return;
    }
    if never_freed {
        found.add(
            Rule::UnsignaledRun,
            format!(
                "the last {unsignaled} requests on qp {:#x} are unsignaled, and its send queue holds {depth}: no completion will free them",
                pair.number
            ),
        );
    } else {
        queue_is_full(pair, outstanding, found);
    }
}

/// A program may post until the queue is full, and then poll. Only if it does anything
/// else next, nobody polls.
fn queue_is_full(pair: &mut Pair, outstanding: usize, found: &mut Findings) {
    ANY_FULL.store(true, Relaxed);
    let polls = polls_of(pair);
    match pair.full {
        // A thread that only posts may well try again until another one has polled.
        Some(full) if full.polls == polls && !thread::others_poll() => {
            found.0.push(full_finding(pair, full));
        }
        Some(full) if full.polls == polls => {}
        _ => {
            pair.full = Some(Full {
                polls,
                outstanding,
                stack: Stack::here(),
            });
        }
    }
}

fn full_finding(pair: &Pair, full: Full) -> Finding {
    Finding {
        other: Some(("first found full at", full.stack)),
        ..Finding::new(
            Rule::SendQueueFull,
            format!(
                "the send queue of qp {:#x} is full: {} requests are outstanding, and completion queue {:#x} has not been polled since",
                pair.number, full.outstanding, pair.send_cq
            ),
        )
    }
}

/// A full queue that nobody has polled since.
pub fn still_full(pair: &Pair) -> Option<Finding> {
    let full = pair.full.filter(|full| full.polls == polls_of(pair))?;
    knows_outstanding().then(|| full_finding(pair, full))
}
