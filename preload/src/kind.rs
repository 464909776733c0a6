// SPDX-License-Identifier: MIT OR Apache-2.0
//! The kinds of objects.

/// What kind of object something is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Kind {
    #[default]
    Device,
    Context,
    ProtectionDomain,
    MemoryRegion,
    CompletionChannel,
    CompletionQueue,
    SharedReceiveQueue,
    WorkQueue,
    QueuePair,
    AddressHandle,
    ConnectionId,
}

impl Kind {
    pub const fn name(self) -> &'static str {
        match self {
            Self::Device => "device",
            Self::Context => "context",
            Self::ProtectionDomain => "protection domain",
            Self::MemoryRegion => "memory region",
            Self::CompletionChannel => "completion channel",
            Self::CompletionQueue => "completion queue",
            Self::SharedReceiveQueue => "shared receive queue",
            Self::WorkQueue => "work queue",
            Self::QueuePair => "queue pair",
            Self::AddressHandle => "address handle",
            Self::ConnectionId => "rdma_cm_id",
        }
    }

    /// The manual page that says how one is made.
    pub const fn page(self) -> &'static str {
        match self {
            Self::Device => "ibv_get_device_list(3)",
            Self::Context => "ibv_open_device(3)",
            Self::ProtectionDomain => "ibv_alloc_pd(3)",
            Self::MemoryRegion => "ibv_reg_mr(3)",
            Self::CompletionChannel => "ibv_create_comp_channel(3)",
            Self::CompletionQueue => "ibv_create_cq(3)",
            Self::SharedReceiveQueue => "ibv_create_srq(3)",
            Self::WorkQueue => "ibv_create_wq(3)",
            Self::QueuePair => "ibv_create_qp(3)",
            Self::AddressHandle => "ibv_create_ah(3)",
            Self::ConnectionId => "rdma_create_id(3)",
        }
    }
}
