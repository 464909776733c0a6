// SPDX-License-Identifier: MIT OR Apache-2.0
//! The rules that check enforces.

/// A rule: its name never changes, since users suppress it by that name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Rule {
    /// A local buffer is not inside a live registration of its key and domain.
    LocalBuffer,
    /// The registration of a local buffer lacks local write access.
    LocalAccess,
    /// A local buffer has no key, and its request is not inline.
    NoKey,
    /// Inline data longer than the queue pair allows.
    InlineSize,
    /// More buffers in a request than the queue allows.
    SgeCount,
    /// An operation, or a flag of it, that the queue pair's type does not have.
    Opcode,
    /// A request before the queue pair is ready for it.
    NotConnected,
    /// A region is deregistered while requests that use it are outstanding.
    DeregInUse,
    /// A queue pair is destroyed while signaled requests are outstanding.
    QpInUse,
    /// The send queue is full, and nobody polls for its completions.
    SendQueueFull,
    /// The send queue is full of requests that no completion will ever retire.
    UnsignaledRun,
    /// A request completed with an error.
    CompletionError,
    /// A completion queue is destroyed before its events are acknowledged.
    UnackedEvents,
    /// A wait for an event of completion queues that are not armed.
    MissingArm,
    /// A NULL pointer where an object has to be.
    NullObject,
    /// An object is used or destroyed after it was destroyed.
    Destroyed,
    /// A region is still registered when the program ends.
    LeakedRegion,
}

/// All rules, in the order of the manual page.
pub const RULES: [Rule; 17] = [
    Rule::LocalBuffer,
    Rule::LocalAccess,
    Rule::NoKey,
    Rule::InlineSize,
    Rule::SgeCount,
    Rule::Opcode,
    Rule::NotConnected,
    Rule::DeregInUse,
    Rule::QpInUse,
    Rule::SendQueueFull,
    Rule::UnsignaledRun,
    Rule::CompletionError,
    Rule::UnackedEvents,
    Rule::MissingArm,
    Rule::NullObject,
    Rule::Destroyed,
    Rule::LeakedRegion,
];

impl Rule {
    /// The name by which a rule is suppressed.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::LocalBuffer => "local-buffer",
            Self::LocalAccess => "local-access",
            Self::NoKey => "no-key",
            Self::InlineSize => "inline-size",
            Self::SgeCount => "sge-count",
            Self::Opcode => "opcode",
            Self::NotConnected => "not-connected",
            Self::DeregInUse => "dereg-in-use",
            Self::QpInUse => "qp-in-use",
            Self::SendQueueFull => "send-queue-full",
            Self::UnsignaledRun => "unsignaled-run",
            Self::CompletionError => "completion-error",
            Self::UnackedEvents => "unacked-events",
            Self::MissingArm => "missing-arm",
            Self::NullObject => "null-object",
            Self::Destroyed => "destroyed",
            Self::LeakedRegion => "leaked-region",
        }
    }

    /// The manual page that states it.
    #[must_use]
    pub const fn page(self) -> &'static str {
        match self {
            Self::LocalBuffer | Self::LocalAccess | Self::LeakedRegion => "ibv_reg_mr(3)",
            Self::NoKey
            | Self::InlineSize
            | Self::SgeCount
            | Self::Opcode
            | Self::SendQueueFull
            | Self::UnsignaledRun => "ibv_post_send(3)",
            Self::NotConnected => "ibv_modify_qp(3)",
            Self::DeregInUse => "ibv_dereg_mr(3)",
            Self::QpInUse | Self::NullObject | Self::Destroyed => "ibv_create_qp(3)",
            Self::CompletionError => "ibv_poll_cq(3)",
            Self::UnackedEvents | Self::MissingArm => "ibv_get_cq_event(3)",
        }
    }

    /// How to mend it, in general; a finding may know better.
    #[must_use]
    pub const fn advice(self) -> &'static str {
        match self {
            Self::LocalBuffer => {
                "register the whole buffer in the protection domain of the queue, keep it registered until the request has completed, and pass its lkey"
            }
            Self::LocalAccess => {
                "register with IBV_ACCESS_LOCAL_WRITE: receives, RDMA reads and atomics write to local memory"
            }
            Self::NoKey => {
                "register the buffer and pass its lkey, or post the request with IBV_SEND_INLINE"
            }
            Self::InlineSize => {
                "ask for more max_inline_data when the queue pair is created, or post without IBV_SEND_INLINE from registered memory"
            }
            Self::SgeCount => {
                "ask for more max_send_sge or max_recv_sge when the queue is created, or split the request"
            }
            Self::Opcode => "use an operation that the queue pair's type supports",
            Self::NotConnected => {
                "wait for the connection (RDMA_CM_EVENT_ESTABLISHED, or the RTS state) before sending; receives may be posted from the INIT state on"
            }
            Self::DeregInUse => {
                "take the completions of all requests that use the region first, or move the queue pair to the error state and take the flushed ones"
            }
            Self::QpInUse => {
                "take the completions first: without them nobody knows whether the requests were carried out"
            }
            Self::SendQueueFull => {
                "poll the send completion queue; each completion frees its request and the unsignaled ones before it"
            }
            Self::UnsignaledRun => {
                "post a request with IBV_SEND_SIGNALED at least once per depth of the send queue, and take its completion"
            }
            Self::CompletionError => "see the likely causes",
            Self::UnackedEvents => {
                "call ibv_ack_cq_events for each event that ibv_get_cq_event returned; ibv_destroy_cq waits for that for ever"
            }
            Self::MissingArm => {
                "after each event: call ibv_req_notify_cq, then poll until the queue is empty, then wait"
            }
            Self::NullObject => "check what the call that creates the object returned",
            Self::Destroyed => "forget the pointer when the object is destroyed",
            Self::LeakedRegion => "call ibv_dereg_mr, or rdma_dereg_mr, before the program ends",
        }
    }

    const fn bit(self) -> u32 {
        1 << self as u8
    }
}

/// A set of rules.
#[derive(Clone, Copy, Default)]
pub struct RuleSet(u32);

impl RuleSet {
    /// The rules that a list of names separated by commas names, or the first name
    /// that is none.
    ///
    /// # Errors
    /// The first name that is no rule.
    pub fn parse(list: &str) -> Result<Self, &str> {
        let mut set = Self::default();
        for name in list
            .split(',')
            .map(str::trim)
            .filter(|name| !name.is_empty())
        {
            let rule = RULES.iter().find(|rule| rule.name() == name).ok_or(name)?;
            set.0 |= rule.bit();
        }
        Ok(set)
    }

    /// The same as bits, to keep it in an atomic.
    #[must_use]
    pub const fn bits(self) -> u32 {
        self.0
    }

    /// The set with those bits.
    #[must_use]
    pub const fn from_bits(bits: u32) -> Self {
        Self(bits)
    }

    /// Whether a rule is in the set.
    #[must_use]
    pub const fn contains(self, rule: Rule) -> bool {
        self.0 & rule.bit() != 0
    }
}

#[cfg(test)]
mod tests {
    use super::{RULES, Rule, RuleSet};

    #[test]
    fn names_are_different() {
        for (index, rule) in RULES.iter().enumerate() {
            assert_eq!(*rule as usize, index);
            assert!(
                RULES[..index]
                    .iter()
                    .all(|other| other.name() != rule.name())
            );
        }
    }

    #[test]
    fn a_list_of_names_is_a_set() {
        let set = RuleSet::parse("no-key, leaked-region,").ok().unwrap();
        assert!(set.contains(Rule::NoKey) && set.contains(Rule::LeakedRegion));
        assert!(!set.contains(Rule::Opcode));
        assert_eq!(RuleSet::parse("no-key,nokey").err(), Some("nokey"));
    }
}
