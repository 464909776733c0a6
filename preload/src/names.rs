// SPDX-License-Identifier: MIT OR Apache-2.0
//! The names of values, as in the headers without their prefixes.

use std::fmt::{self, Display};
use std::net::{Ipv4Addr, Ipv6Addr};

use rdma_verbs_bindings::{sockaddr, sockaddr_in, sockaddr_in6};

/// Flags, joined by `|`; what has no name is written as a number.
pub struct Flags {
    value: u32,
    names: &'static [&'static str],
}

const ACCESS: &[&str] = &[
    "LOCAL_WRITE",
    "REMOTE_WRITE",
    "REMOTE_READ",
    "REMOTE_ATOMIC",
    "MW_BIND",
    "ZERO_BASED",
    "ON_DEMAND",
    "HUGETLB",
    "FLUSH_GLOBAL",
    "FLUSH_PERSISTENT",
    "",
    "",
    "",
    "",
    "",
    "",
    "",
    "",
    "",
    "",
    "RELAXED_ORDERING",
];

pub const fn access_name(value: u32) -> Flags {
    Flags {
        value,
        names: ACCESS,
    }
}

pub const fn send_flags(value: u32) -> Flags {
    Flags {
        value,
        names: &["FENCE", "SIGNALED", "SOLICITED", "INLINE", "IP_CSUM"],
    }
}

impl Display for Flags {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rest = self.value;
        let mut separator = "";
        for (bit, name) in self.names.iter().enumerate() {
            if !name.is_empty() && self.value & 1 << bit != 0 {
                write!(out, "{separator}{name}")?;
                rest &= !(1 << bit);
                separator = "|";
            }
        }
        if rest != 0 || self.value == 0 {
            write!(out, "{separator}{rest:#x}")?;
        }
        Ok(())
    }
}

/// A completion status.
pub fn status_name(status: u32) -> &'static str {
    const NAMES: [&str; 24] = [
        "SUCCESS",
        "LOC_LEN_ERR",
        "LOC_QP_OP_ERR",
        "LOC_EEC_OP_ERR",
        "LOC_PROT_ERR",
        "WR_FLUSH_ERR",
        "MW_BIND_ERR",
        "BAD_RESP_ERR",
        "LOC_ACCESS_ERR",
        "REM_INV_REQ_ERR",
        "REM_ACCESS_ERR",
        "REM_OP_ERR",
        "RETRY_EXC_ERR",
        "RNR_RETRY_EXC_ERR",
        "LOC_RDD_VIOL_ERR",
        "REM_INV_RD_REQ_ERR",
        "REM_ABORT_ERR",
        "INV_EECN_ERR",
        "INV_EEC_STATE_ERR",
        "FATAL_ERR",
        "RESP_TIMEOUT_ERR",
        "GENERAL_ERR",
        "TM_ERR",
        "TM_RNDV_INCOMPLETE",
    ];
    NAMES.get(status as usize).unwrap_or(&"unknown status")
}

/// The opcode of a completion.
pub fn completion_name(opcode: u32) -> &'static str {
    use rdma_verbs_bindings as b;
    match opcode {
        b::IBV_WC_SEND => "SEND",
        b::IBV_WC_RDMA_WRITE => "RDMA_WRITE",
        b::IBV_WC_RDMA_READ => "RDMA_READ",
        b::IBV_WC_COMP_SWAP => "COMP_SWAP",
        b::IBV_WC_FETCH_ADD => "FETCH_ADD",
        b::IBV_WC_BIND_MW => "BIND_MW",
        b::IBV_WC_LOCAL_INV => "LOCAL_INV",
        b::IBV_WC_TSO => "TSO",
        b::IBV_WC_ATOMIC_WRITE => "ATOMIC_WRITE",
        b::IBV_WC_RECV => "RECV",
        b::IBV_WC_RECV_RDMA_WITH_IMM => "RECV_RDMA_WITH_IMM",
        b::IBV_WC_TM_ADD..=b::IBV_WC_TM_NO_TAG => "TM",
        _ => "OTHER",
    }
}

/// The state of a queue pair.
pub fn state_name(state: u32) -> &'static str {
    const NAMES: [&str; 8] = [
        "RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR", "UNKNOWN",
    ];
    NAMES.get(state as usize).unwrap_or(&"unknown state")
}

/// The type of a queue pair.
pub const fn transport_name(kind: u32) -> &'static str {
    use rdma_verbs_bindings as b;
    match kind {
        b::IBV_QPT_RC => "RC",
        b::IBV_QPT_UC => "UC",
        b::IBV_QPT_UD => "UD",
        b::IBV_QPT_RAW_PACKET => "RAW_PACKET",
        b::IBV_QPT_XRC_SEND => "XRC_SEND",
        b::IBV_QPT_XRC_RECV => "XRC_RECV",
        b::IBV_QPT_DRIVER => "DRIVER",
        _ => "unknown type",
    }
}

/// An event of a connection.
pub fn event_name(event: u32) -> &'static str {
    const NAMES: [&str; 16] = [
        "ADDR_RESOLVED",
        "ADDR_ERROR",
        "ROUTE_RESOLVED",
        "ROUTE_ERROR",
        "CONNECT_REQUEST",
        "CONNECT_RESPONSE",
        "CONNECT_ERROR",
        "UNREACHABLE",
        "REJECTED",
        "ESTABLISHED",
        "DISCONNECTED",
        "DEVICE_REMOVAL",
        "MULTICAST_JOIN",
        "MULTICAST_ERROR",
        "ADDR_CHANGE",
        "TIMEWAIT_EXIT",
    ];
    NAMES.get(event as usize).unwrap_or(&"unknown event")
}

/// A socket address.
pub struct Address(pub *const sockaddr);

impl Display for Address {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_null() {
            return out.write_str("NULL");
        }
        // SAFETY: the program passes an address of the length that its family has.
        unsafe {
            match i32::from((*self.0).sa_family) {
                libc::AF_INET => {
                    let address = &*self.0.cast::<sockaddr_in>();
                    let ip = Ipv4Addr::from(u32::from_be(address.sin_addr.s_addr));
                    write!(out, "{ip}:{}", u16::from_be(address.sin_port))
                }
                libc::AF_INET6 => {
                    let address = &*self.0.cast::<sockaddr_in6>();
                    let ip = Ipv6Addr::from(address.sin6_addr.__in6_u.__u6_addr8);
                    write!(out, "[{ip}]:{}", u16::from_be(address.sin6_port))
                }
                libc::AF_IB => out.write_str("AF_IB"),
                family => write!(out, "family {family}"),
            }
        }
    }
}

/// Nanoseconds, in a unit with three or four digits.
pub struct Duration(pub u64);

impl Display for Duration {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Without floating point: a signal handler has little stack.
        let nanos = self.0;
        let (unit, name) = match nanos {
            0..1_000 => return write!(out, "{nanos} ns"),
            1_000..1_000_000 => (1_000, "us"),
            1_000_000..1_000_000_000 => (1_000_000, "ms"),
            _ => (1_000_000_000, "s"),
        };
        if nanos / unit < 100 {
            let tenths = (nanos * 10 + unit / 2) / unit;
            write!(out, "{}.{} {name}", tenths / 10, tenths % 10)
        } else {
            write!(out, "{} {name}", nanos.saturating_add(unit / 2) / unit)
        }
    }
}

/// `= 12 ENOMEM`
pub struct Code(pub i32);

impl Display for Code {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match crate::errno::name(self.0) {
            Some(name) => write!(out, "{} {name}", self.0),
            None => write!(out, "{}", self.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Duration, access_name, send_flags};

    #[test]
    fn flags_are_named() {
        assert_eq!(access_name(5).to_string(), "LOCAL_WRITE|REMOTE_READ");
        assert_eq!(
            access_name(1 << 20 | 1).to_string(),
            "LOCAL_WRITE|RELAXED_ORDERING"
        );
        assert_eq!(send_flags(0).to_string(), "0x0");
        assert_eq!(send_flags(2 | 1 << 9).to_string(), "SIGNALED|0x200");
    }

    #[test]
    fn durations_have_units() {
        assert_eq!(Duration(999).to_string(), "999 ns");
        assert_eq!(Duration(1500).to_string(), "1.5 us");
        assert_eq!(Duration(99_949).to_string(), "99.9 us");
        assert_eq!(Duration(99_950).to_string(), "100.0 us");
        assert_eq!(Duration(123_456).to_string(), "123 us");
        assert_eq!(Duration(2_000_000_000).to_string(), "2.0 s");
        assert_eq!(Duration(u64::MAX).to_string(), "18446744073 s");
    }
}
