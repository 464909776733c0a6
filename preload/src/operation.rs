// SPDX-License-Identifier: MIT OR Apache-2.0
//! The operations of work requests.

use rdma_verbs_bindings::{
    IBV_WR_ATOMIC_CMP_AND_SWP, IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_WR_ATOMIC_WRITE, IBV_WR_BIND_MW,
    IBV_WR_LOCAL_INV, IBV_WR_RDMA_READ, IBV_WR_RDMA_WRITE, IBV_WR_RDMA_WRITE_WITH_IMM, IBV_WR_SEND,
    IBV_WR_SEND_WITH_IMM, IBV_WR_SEND_WITH_INV, IBV_WR_TSO,
};

/// What a work request does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum Operation {
    Send,
    SendImm,
    SendInv,
    Write,
    WriteImm,
    Read,
    CompareSwap,
    FetchAdd,
    AtomicWrite,
    Flush,
    LocalInv,
    BindMw,
    Tso,
    #[default]
    Other,
    Receive,
}

/// All of them, in the order of a table.
pub const OPERATIONS: [Operation; 15] = [
    Operation::Send,
    Operation::SendImm,
    Operation::SendInv,
    Operation::Write,
    Operation::WriteImm,
    Operation::Read,
    Operation::CompareSwap,
    Operation::FetchAdd,
    Operation::AtomicWrite,
    Operation::Flush,
    Operation::LocalInv,
    Operation::BindMw,
    Operation::Tso,
    Operation::Other,
    Operation::Receive,
];

/// Newer than the headers that the bindings are made from.
pub const IBV_WR_FLUSH: u32 = 14;

impl Operation {
    pub const fn of_request(opcode: u32) -> Self {
        match opcode {
            IBV_WR_SEND => Self::Send,
            IBV_WR_SEND_WITH_IMM => Self::SendImm,
            IBV_WR_SEND_WITH_INV => Self::SendInv,
            IBV_WR_RDMA_WRITE => Self::Write,
            IBV_WR_RDMA_WRITE_WITH_IMM => Self::WriteImm,
            IBV_WR_RDMA_READ => Self::Read,
            IBV_WR_ATOMIC_CMP_AND_SWP => Self::CompareSwap,
            IBV_WR_ATOMIC_FETCH_AND_ADD => Self::FetchAdd,
            IBV_WR_ATOMIC_WRITE => Self::AtomicWrite,
            IBV_WR_FLUSH => Self::Flush,
            IBV_WR_LOCAL_INV => Self::LocalInv,
            IBV_WR_BIND_MW => Self::BindMw,
            IBV_WR_TSO => Self::Tso,
            _ => Self::Other,
        }
    }

    /// The operation of a completion that succeeded.
    pub const fn of_completion(opcode: u32) -> Self {
        use rdma_verbs_bindings as b;
        match opcode {
            b::IBV_WC_SEND => Self::Send,
            b::IBV_WC_RDMA_WRITE => Self::Write,
            b::IBV_WC_RDMA_READ => Self::Read,
            b::IBV_WC_COMP_SWAP => Self::CompareSwap,
            b::IBV_WC_FETCH_ADD => Self::FetchAdd,
            b::IBV_WC_BIND_MW => Self::BindMw,
            b::IBV_WC_LOCAL_INV => Self::LocalInv,
            b::IBV_WC_TSO => Self::Tso,
            b::IBV_WC_ATOMIC_WRITE => Self::AtomicWrite,
            b::IBV_WC_RECV | b::IBV_WC_RECV_RDMA_WITH_IMM => Self::Receive,
            _ => Self::Other,
        }
    }

    /// The name in `enum ibv_wr_opcode`, without its prefix.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Send => "SEND",
            Self::SendImm => "SEND_WITH_IMM",
            Self::SendInv => "SEND_WITH_INV",
            Self::Write => "RDMA_WRITE",
            Self::WriteImm => "RDMA_WRITE_WITH_IMM",
            Self::Read => "RDMA_READ",
            Self::CompareSwap => "ATOMIC_CMP_AND_SWP",
            Self::FetchAdd => "ATOMIC_FETCH_AND_ADD",
            Self::AtomicWrite => "ATOMIC_WRITE",
            Self::Flush => "FLUSH",
            Self::LocalInv => "LOCAL_INV",
            Self::BindMw => "BIND_MW",
            Self::Tso => "TSO",
            Self::Other => "OTHER",
            Self::Receive => "RECV",
        }
    }

    /// Whether the operation writes to the local buffers.
    pub const fn writes_locally(self) -> bool {
        matches!(
            self,
            Self::Read | Self::CompareSwap | Self::FetchAdd | Self::Receive
        )
    }

    /// Whether the operation names remote memory.
    pub const fn is_remote(self) -> bool {
        matches!(
            self,
            Self::Write
                | Self::WriteImm
                | Self::Read
                | Self::CompareSwap
                | Self::FetchAdd
                | Self::AtomicWrite
                | Self::Flush
        )
    }

    /// Whether IBV_SEND_INLINE has a meaning.
    pub const fn can_be_inline(self) -> bool {
        matches!(
            self,
            Self::Send | Self::SendImm | Self::SendInv | Self::Write | Self::WriteImm | Self::Tso
        )
    }
}
