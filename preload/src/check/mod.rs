// SPDX-License-Identifier: MIT OR Apache-2.0
//! The rules of the manual pages, enforced at run time.
//!
//! A rule is applied where its violation is certain. Where the outcome depends on what
//! the program does next, it waits for that: a rule that cries wolf gets suppressed.

mod explain;
mod finding;
mod objects;
mod posting;
mod send_queue;
mod wait;

use std::sync::atomic::Ordering::Relaxed;

use rdma_verbs_settings::Rule;

use crate::event::{Completed, Event, Queue};
use crate::model::model;
use crate::names;

use finding::{Advice, Finding};
pub use finding::{Findings, forget, found, report_total};
pub use objects::{at_exit, deregister, destroy, object};
pub use posting::{receive, send, shared_receive};
pub use send_queue::sent;
pub use wait::report_waits;

/// Looks at what happened.
///
/// # Safety
/// The objects that the event names exist.
#[allow(clippy::inline_always)]
#[inline(always)]
pub unsafe fn on(event: &Event<'_>) {
    match event {
        Event::Polled { cq, .. } => send_queue::polled(*cq as usize),
        // Before the call: the event may be read before this thread goes on.
        Event::Arms(cq) => {
            let mut queue = model().completion_queue(*cq);
            queue.armed = queue.armed.saturating_add(1);
        }
        Event::Waits(channel) if !channel.is_null() => wait::begins(*channel),
        Event::Woken(cq) => {
            wait::ends();
            if !cq.is_null() {
                let mut queue = model().completion_queue(*cq);
                queue.armed = queue.armed.saturating_sub(1);
                queue.unacknowledged += 1;
            }
        }
        Event::Acknowledges(cq, events) if !cq.is_null() => {
            let mut queue = model().completion_queue(*cq);
            queue.unacknowledged = queue.unacknowledged.saturating_sub(*events);
        }
        _ => {}
    }
}

/// Whether all completions are seen, and so what is outstanding is known.
fn knows_outstanding() -> bool {
    !model().direct.load(Relaxed)
}

/// Looks at a completion.
#[inline]
pub fn completed(event: &Completed<'_>, found: &mut Findings) {
    let Some(number) = event.first_failure_of else {
        return;
    };
    let helper = match (event.queue, event.request) {
        (Queue::Pair(_), Some(request)) => request.helper.name(),
        _ => "a request",
    };
    let completion = event.completion;
    let mut finding = Finding::new(
        Rule::CompletionError,
        format!(
            "{helper} on {} completed with {}{}",
            Queue::Pair(number),
            names::status_name(completion.status),
            if completion.vendor_error == 0 {
                String::new()
            } else {
                format!(" (vendor error {:#x})", completion.vendor_error)
            }
        ),
    );
    finding.advice = Some(Advice::Causes(explain::causes(completion.status)));
    found.0.push(finding);
}
