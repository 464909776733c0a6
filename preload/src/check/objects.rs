// SPDX-License-Identifier: MIT OR Apache-2.0
//! Rules of objects: what is destroyed, used after that, or left over.

use rdma_verbs_settings::Rule;

use super::finding::{Finding, Findings};
use super::knows_outstanding;
use super::send_queue::still_full;
use crate::kind::Kind;
use crate::model::{Pair, Region, User, model};
use crate::names;
use crate::outstanding::{Outstanding, Requests};
use crate::thread;

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
