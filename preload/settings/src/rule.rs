// SPDX-License-Identifier: MIT OR Apache-2.0
//! The rules that check enforces.

/// A rule. Its name never changes, since users suppress it by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Rule {
    /// A local buffer is not inside a live registration of its key and protection domain.
    LocalBuffer,
    /// The registration of a local buffer lacks local write access.
    LocalAccess,
    /// A local buffer has lkey 0 and its request is not inline.
    NoKey,
    /// More inline data than the queue pair allows.
    InlineSize,
    /// More scatter/gather entries in a request than the queue allows.
    SgeCount,
    /// An operation, or a flag of it, that the queue pair's type does not support.
    Opcode,
    /// A request before the queue pair is ready for it.
    NotConnected,
    /// A region is deregistered while requests that use it are outstanding.
    DeregInUse,
    /// A queue pair is destroyed while signaled requests are outstanding.
    QpInUse,
    /// The send queue is full, and its completion queue is not polled.
    SendQueueFull,
    /// The send queue is full of requests that no completion will ever retire.
    UnsignaledRun,
    /// A request completed with an error.
    CompletionError,
    /// A completion queue is destroyed before its events are acknowledged.
    UnackedEvents,
    /// A wait for an event of completion queues that are not armed.
    MissingArm,
    /// A NULL pointer where an object is required.
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

    /// The manual page that states the rule.
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

    /// How to fix it, in general; a finding may have more specific advice.
    #[must_use]
    pub const fn advice(self) -> &'static str {
        match self {
            Self::LocalBuffer => {
                "register the whole buffer in the queue's protection domain, keep it registered until the request has completed, and pass its lkey"
            }
            Self::LocalAccess => {
                "register with IBV_ACCESS_LOCAL_WRITE: receives, RDMA reads and atomics write to local memory"
            }
            Self::NoKey => {
                "register the buffer and pass its lkey, or post the request with IBV_SEND_INLINE"
            }
            Self::InlineSize => {
                "create the queue pair with a larger max_inline_data, or post registered memory without IBV_SEND_INLINE"
            }
            Self::SgeCount => {
                "create the queue with a larger max_send_sge or max_recv_sge, or split the request"
            }
            Self::Opcode => "use an operation that the queue pair's type supports",
            Self::NotConnected => {
                "send only once connected (RDMA_CM_EVENT_ESTABLISHED, or the RTS state); receives may be posted from the INIT state on"
            }
            Self::DeregInUse => {
                "first take the completions of all requests that use the region, or move the queue pair to the error state and take the flushed ones"
            }
            Self::QpInUse => {
                "take the completions first: without them it is unknown whether the requests were executed"
            }
            Self::SendQueueFull => {
                "poll the send completion queue: each completion frees its request and the unsignaled ones before it"
            }
            Self::UnsignaledRun => {
                "post at least one request with IBV_SEND_SIGNALED per depth of the send queue, and take its completion"
            }
            Self::CompletionError => "see the likely causes",
            Self::UnackedEvents => {
                "call ibv_ack_cq_events for each event returned by ibv_get_cq_event; ibv_destroy_cq waits for that forever"
            }
            Self::MissingArm => {
                "after each event: call ibv_req_notify_cq, then poll until the queue is empty, then wait"
            }
            Self::NullObject => "check the return value of the call that creates the object",
            Self::Destroyed => "clear the pointer when the object is destroyed",
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
    /// The rules in a comma-separated list of names.
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

    /// The set as bits, for an atomic.
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
