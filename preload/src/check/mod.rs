// SPDX-License-Identifier: MIT OR Apache-2.0
//! The rules of the manual pages, enforced at run time.
//!
//! A rule is applied where its violation is certain. Where the outcome depends on what
//! the program does next, it waits for that: a rule that cries wolf gets suppressed.

mod explain;
mod finding;
mod wait;

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use rdma_verbs_bindings as b;
use rdma_verbs_settings::Rule;

use crate::kind::Kind;
use crate::model::{Full, Pair, Region, SharedQueue, User, model};
use crate::names;
use crate::operation::Operation;
use crate::request::{Helper, Outstanding, Request, Requests};
use crate::stack::Stack;
use crate::thread;
use crate::trace::Queue;

use finding::{Advice, Finding};
pub use finding::{forget, found, report_total};
pub use wait::{begins as wait_begins, ends as wait_ends, report_waits};

/// What was found while a lock was held; reported when it is released.
#[derive(Default)]
pub struct Findings(Vec<Finding>);

impl Findings {
    #[cold]
    fn add(&mut self, rule: Rule, what: String) {
        self.0.push(Finding::new(rule, what));
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    #[inline]
    pub fn report(self) {
        if !self.0.is_empty() {
            self.report_all();
        }
    }

    #[cold]
    fn report_all(self) {
        self.0.into_iter().for_each(Finding::report);
    }
}

/// The queue that a request is posted to, as far as the rules go.
struct Place {
    queue: Queue,
    /// Who uses a region that is posted there.
    user: User,
    context: u32,
    domain: usize,
    most_buffers: Option<u32>,
}

// --- posting ---------------------------------------------------------------------------------

/// Before a request goes to a send queue.
pub fn send(pair: &Pair, request: &Request<'_>, found: &mut Findings) {
    let place = Place {
        queue: Queue::Pair(pair.number),
        user: User(pair.qp),
        context: pair.context,
        domain: pair.domain,
        most_buffers: pair.limits.map(|limits| limits.send_buffers),
    };
    let helper = request.helper(pair.extended);
    connected(pair, helper, found);
    operation(pair, request, helper, found);
    if request.is_inline() && request.operation.can_be_inline() {
        inline(pair, request, helper, found);
        buffer_count(&place, request, helper, found);
    } else {
        buffers(&place, request, helper, found);
    }
}

/// Before a receive goes to a queue pair.
pub fn receive(pair: &Pair, request: &Request<'_>, found: &mut Findings) {
    let place = Place {
        queue: Queue::Pair(pair.number),
        user: User(pair.qp),
        context: pair.context,
        domain: pair.domain,
        most_buffers: pair.limits.map(|limits| limits.receive_buffers),
    };
    if pair.state() == Some(b::IBV_QPS_RESET) {
        found.add(
            Rule::NotConnected,
            format!(
                "a receive is posted to {}, which is in the RESET state",
                place.queue
            ),
        );
    }
    buffers(&place, request, request.helper(false), found);
}

/// Before a receive goes to a shared queue.
pub fn shared_receive(queue: &SharedQueue, request: &Request<'_>, found: &mut Findings) {
    let place = Place {
        queue: Queue::Shared(queue.queue),
        user: User::SEVERAL,
        context: queue.context,
        domain: queue.domain,
        most_buffers: queue.most_buffers,
    };
    buffers(&place, request, request.helper(false), found);
}

fn connected(pair: &Pair, helper: Helper, found: &mut Findings) {
    if let Some(state @ (b::IBV_QPS_RESET | b::IBV_QPS_INIT | b::IBV_QPS_RTR)) = pair.state() {
        found.add(
            Rule::NotConnected,
            format!(
                "{helper} on qp {:#x}, which is in the {} state: sending requires RTS",
                pair.number,
                names::state_name(state)
            ),
        );
    }
}

/// Whether a type of queue pair has an operation; what is not known is allowed.
const fn is_legal(kind: u32, operation: Operation) -> bool {
    match kind {
        b::IBV_QPT_UD => matches!(
            operation,
            Operation::Send | Operation::SendImm | Operation::Tso | Operation::Other
        ),
        b::IBV_QPT_UC => !matches!(
            operation,
            Operation::Read
                | Operation::CompareSwap
                | Operation::FetchAdd
                | Operation::AtomicWrite
                | Operation::Flush
                | Operation::Tso
        ),
        b::IBV_QPT_RC | b::IBV_QPT_XRC_SEND => !matches!(operation, Operation::Tso),
        b::IBV_QPT_RAW_PACKET => {
            matches!(
                operation,
                Operation::Send | Operation::Tso | Operation::Other
            )
        }
        b::IBV_QPT_XRC_RECV => false,
        _ => true,
    }
}

fn operation(pair: &Pair, request: &Request<'_>, helper: Helper, found: &mut Findings) {
    let name = request.operation.name();
    if !is_legal(pair.kind, request.operation) {
        found.add(
            Rule::Opcode,
            format!(
                "{helper} posts {name} to qp {:#x}, whose type {} does not support it",
                pair.number,
                names::transport_name(pair.kind)
            ),
        );
    }
    let pays_heed = request.operation.can_be_inline() || request.operation == Operation::Other;
    if request.is_inline() && !pays_heed {
        found.0.push(Finding {
            advice: Some(Advice::Fix(
                "drop IBV_SEND_INLINE: the operation sends no data",
            )),
            ..Finding::new(
                Rule::Opcode,
                format!(
                    "{helper} on qp {:#x} has IBV_SEND_INLINE, which {name} does not support",
                    pair.number
                ),
            )
        });
    }
}

fn inline(pair: &Pair, request: &Request<'_>, helper: Helper, found: &mut Findings) {
    let length = request.length();
    if let Some(limits) = pair.limits.filter(|limits| length > limits.inline.into()) {
        found.add(
            Rule::InlineSize,
            format!(
                "{helper} on qp {:#x} has {length} bytes of inline data; max_inline_data is {}",
                pair.number, limits.inline
            ),
        );
    }
}

fn buffer_count(place: &Place, request: &Request<'_>, helper: Helper, found: &mut Findings) {
    let most = place.most_buffers.map_or(i64::MAX, i64::from);
    if request.count < 0 || request.count > most {
        found.add(
            Rule::SgeCount,
            format!(
                "{helper} on {} has {} buffers; the maximum is {most}",
                place.queue, request.count
            ),
        );
    }
    if request.count > 0 && request.list_is_null {
        found.add(
            Rule::NullObject,
            format!(
                "{helper} on {}: sg_list is NULL, num_sge is {}",
                place.queue, request.count
            ),
        );
    }
}

fn buffers(place: &Place, request: &Request<'_>, helper: Helper, found: &mut Findings) {
    buffer_count(place, request, helper, found);
    for buffer in request.buffers.iter().filter(|buffer| buffer.length > 0) {
        local_buffer(place, request, buffer, helper, found);
    }
}

fn local_buffer(
    place: &Place,
    request: &Request<'_>,
    buffer: &b::ibv_sge,
    helper: Helper,
    found: &mut Findings,
) {
    let what = || {
        format!(
            "{helper} on {}: the buffer {:#x} of {} bytes",
            place.queue, buffer.addr, buffer.length
        )
    };
    let Some(mut region) = model().region_entry(place.context, buffer.lkey) else {
        unknown_key(place, buffer, what, found);
        return;
    };
    region.user.add(place.user);
    let end = region.start.saturating_add(region.length);
    let buffer_end = buffer.addr.saturating_add(buffer.length.into());
    if !region.anywhere && (buffer.addr < region.start || buffer_end > end) {
        found.0.push(Finding {
            other: Some(("registered at", region.stack)),
            ..Finding::new(
                Rule::LocalBuffer,
                format!(
                    "{} is not inside the region of lkey {:#x}, which is {:#x} to {end:#x}",
                    what(),
                    buffer.lkey,
                    region.start
                ),
            )
        });
    } else if region.domain != place.domain && region.domain != 0 && place.domain != 0 {
        found.0.push(Finding {
            other: Some(("registered at", region.stack)),
            ..Finding::new(
                Rule::LocalBuffer,
                format!(
                    "{} has lkey {:#x} of protection domain {:#x}; the queue belongs to {:#x}",
                    what(),
                    buffer.lkey,
                    region.domain,
                    place.domain
                ),
            )
        });
    }
    if request.operation.writes_locally() && region.access & b::IBV_ACCESS_LOCAL_WRITE == 0 {
        found.0.push(Finding {
            other: Some(("registered at", region.stack)),
            ..Finding::new(
                Rule::LocalAccess,
                format!(
                    "{} is written to, but lkey {:#x} has access {}",
                    what(),
                    buffer.lkey,
                    names::access_name(region.access)
                ),
            )
        });
    }
}

fn unknown_key(
    place: &Place,
    buffer: &b::ibv_sge,
    what: impl Fn() -> String,
    found: &mut Findings,
) {
    if buffer.lkey == 0 {
        found.add(
            Rule::NoKey,
            format!("{} has lkey 0, and the request is not inline", what()),
        );
        return;
    }
    if let Some(gone) = model().gone_region(place.context, buffer.lkey) {
        found.0.push(Finding {
            other: Some(("deregistered at", gone.stack)),
            ..Finding::new(
                Rule::LocalBuffer,
                format!(
                    "{} has lkey {:#x}, which was deregistered",
                    what(),
                    buffer.lkey
                ),
            )
        });
    } else if is_complete(place.context) {
        found.add(
            Rule::LocalBuffer,
            format!(
                "{} has lkey {:#x}, which belongs to no registration",
                what(),
                buffer.lkey
            ),
        );
    }
}

/// Whether all keys of a device are known.
fn is_complete(id: u32) -> bool {
    let mut complete = false;
    model()
        .contexts
        .each(|_, context| complete |= context.id == id && context.complete);
    complete
}

// --- the send queue -------------------------------------------------------------------------

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

/// Whether all completions are seen, and so what is outstanding is known.
fn knows_outstanding() -> bool {
    !model().direct.load(Relaxed)
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
fn still_full(pair: &Pair) -> Option<Finding> {
    let full = pair.full.filter(|full| full.polls == polls_of(pair))?;
    knows_outstanding().then(|| full_finding(pair, full))
}

// --- completions ----------------------------------------------------------------------------

/// A completion with an error status was taken.
pub fn failed(
    pair: Option<&mut Pair>,
    queue: Queue,
    status: u32,
    vendor_error: u32,
    request: Option<&Outstanding>,
    found: &mut Findings,
) {
    let mut is_first = true;
    if let Some(pair) = pair {
        // What is flushed tells nothing, and what comes after the first failure neither.
        is_first = !pair.failed && status != b::IBV_WC_WR_FLUSH_ERR;
        pair.failed = true;
    }
    if !is_first {
        return;
    }
    let helper = request.map_or("a request", |request| request.helper.name());
    let mut finding = Finding::new(
        Rule::CompletionError,
        format!(
            "{helper} on {queue} completed with {}{}",
            names::status_name(status),
            if vendor_error == 0 {
                String::new()
            } else {
                format!(" (vendor error {vendor_error:#x})")
            }
        ),
    );
    finding.advice = Some(Advice::Causes(explain::causes(status)));
    found.0.push(finding);
}

// --- objects --------------------------------------------------------------------------------

/// Before a region is deregistered: requests that use it.
pub fn deregister(region: &Region) {
    if !knows_outstanding() || users(region).is_empty() {
        return;
    }
    // Another thread may have taken their completions, and not have got here yet.
    let users = if thread::await_polls() {
        users(region)
    } else {
        Vec::new()
    };
    if users.is_empty() {
        return;
    }
    Finding {
        other: Some(("registered at", region.stack)),
        ..Finding::new(
            Rule::DeregInUse,
            format!(
                "the region {:#x} of {} bytes, lkey {:#x}, is deregistered while requests that use it are outstanding on {}",
                region.start,
                region.length,
                region.lkey,
                users.join(", ")
            ),
        )
    }
    .report();
}

/// The queues with outstanding requests that use a region.
fn users(region: &Region) -> Vec<String> {
    let mut users = Vec::new();
    match region.user {
        User::NOBODY => {}
        User::SEVERAL => {
            let mut shared = Vec::new();
            model().pairs.each(|_, pair| {
                if pair.context == region.context && !pair.is_dead() {
                    users.extend(use_by_pair(pair, region));
                    shared.push(pair.srq);
                }
            });
            model().shared.each(|_, queue| {
                let receives = uses(&queue.requests, region).count();
                if receives > 0 && shared.contains(&queue.queue) {
                    users.push(format!("srq {:#x} ({receives} receives)", queue.queue));
                }
            });
        }
        User(qp) => {
            if let Some(pair) = model().pairs.alive(qp as u64) {
                users.extend(use_by_pair(&pair, region));
            }
        }
    }
    users
}

fn uses<'a>(requests: &'a Requests, region: &Region) -> impl Iterator<Item = &'a Outstanding> {
    let key = region.lkey;
    requests.iter().filter(move |one| one.uses(key))
}

fn use_by_pair(pair: &Pair, region: &Region) -> Option<String> {
    if pair.context != region.context || pair.is_dead() {
        return None;
    }
    // An unsignaled request may well be known to have completed: by an answer.
    let sends = uses(&pair.send, region).filter(|one| one.signaled).count();
    let receives = uses(&pair.recv, region).count();
    (sends + receives > 0)
        .then(|| format!("qp {:#x} ({sends} sends, {receives} receives)", pair.number))
}

/// Before an object is destroyed.
pub fn destroy(kind: Kind, address: usize) {
    let mut found = Findings::default();
    match kind {
        Kind::QueuePair => {
            if let Some(pair) = model().pairs.get(address as u64) {
                destroy_pair(&pair, &mut found);
            }
        }
        Kind::CompletionQueue => {
            let queue = model().completions.get(address as u64);
            let unacknowledged = queue.map_or(0, |queue| queue.unacknowledged);
            destroy_completion_queue(address, unacknowledged, &mut found);
        }
        _ => {}
    }
    found.report();
}

fn destroy_pair(pair: &Pair, found: &mut Findings) {
    found.0.extend(still_full(pair));
    let signaled = pair.send.iter().filter(|one| one.signaled).count();
    if signaled > 0 && !pair.is_dead() && knows_outstanding() {
        found.add(
            Rule::QpInUse,
            format!(
                "qp {:#x} is destroyed in the {} state while {signaled} signaled requests are outstanding",
                pair.number,
                pair.state().map_or("unknown", names::state_name)
            ),
        );
    }
}

fn destroy_completion_queue(address: usize, unacknowledged: u32, found: &mut Findings) {
    if unacknowledged > 0 {
        found.add(
            Rule::UnackedEvents,
            format!(
                "completion queue {address:#x} is destroyed with {unacknowledged} unacknowledged events: ibv_destroy_cq waits for them forever"
            ),
        );
    }
}

/// Before an object is used: NULL, or destroyed before?
pub fn object(call: &str, kind: Kind, address: usize) {
    let name = kind.name();
    if address == 0 {
        Finding {
            page: Some(kind.page()),
            ..Finding::new(
                Rule::NullObject,
                format!("{call}: the {name} is NULL; the program is about to crash"),
            )
        }
        .report();
    } else if let Some(dead) = model().dead(address).filter(|dead| dead.kind == kind) {
        Finding {
            page: Some(kind.page()),
            other: Some(("destroyed at", dead.stack)),
            ..Finding::new(
                Rule::Destroyed,
                format!("{call}: the {name} {address:#x} was already destroyed"),
            )
        }
        .report();
    }
}

/// At the end of the program: what is left.
pub fn at_exit() {
    let mut found = Findings::default();
    let mut regions: Vec<Region> = Vec::new();
    model()
        .pairs
        .each(|_, pair| found.0.extend(still_full(pair)));
    model().regions.each(|_, region| regions.push(*region));
    found.report();
    for region in regions {
        Finding::new(
            Rule::LeakedRegion,
            format!(
                "the region {:#x} of {} bytes, lkey {:#x}, is still registered when the program ends",
                region.start, region.length, region.lkey
            ),
        )
        .report_at(region.stack);
    }
}

#[cfg(test)]
mod tests {
    use super::{Operation, b, is_legal};

    /// The table in ibv_post_send(3).
    #[test]
    fn operations_of_types() {
        for operation in [Operation::Send, Operation::SendImm] {
            assert!(
                [b::IBV_QPT_RC, b::IBV_QPT_UC, b::IBV_QPT_UD]
                    .iter()
                    .all(|&kind| is_legal(kind, operation))
            );
        }
        for operation in [Operation::Write, Operation::WriteImm] {
            assert!(is_legal(b::IBV_QPT_RC, operation) && is_legal(b::IBV_QPT_UC, operation));
            assert!(!is_legal(b::IBV_QPT_UD, operation));
        }
        for operation in [Operation::Read, Operation::CompareSwap, Operation::FetchAdd] {
            assert!(is_legal(b::IBV_QPT_RC, operation) && is_legal(b::IBV_QPT_XRC_SEND, operation));
            assert!(!is_legal(b::IBV_QPT_UC, operation) && !is_legal(b::IBV_QPT_UD, operation));
        }
        assert!(is_legal(b::IBV_QPT_DRIVER, Operation::Read));
    }
}
