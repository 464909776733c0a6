// SPDX-License-Identifier: MIT OR Apache-2.0
//! Rules of work requests, applied before they are posted.

use rdma_verbs_bindings as b;
use rdma_verbs_settings::Rule;

use super::finding::{Advice, Finding, Findings};
use crate::event::Queue;
use crate::model::{Pair, SharedQueue, User, model};
use crate::names;
use crate::operation::Operation;
use crate::request::{Helper, Request};

/// The queue that a request is posted to, as far as the rules go.
struct Place {
    queue: Queue,
    /// Who uses a region that is posted there.
    user: User,
    context: u32,
    domain: usize,
    most_buffers: Option<u32>,
}

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
