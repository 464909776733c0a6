// SPDX-License-Identifier: MIT OR Apache-2.0
//! Work requests, decoded.

use std::fmt::{self, Display};
use std::slice;

use rdma_verbs_bindings::{IBV_QPT_UD, IBV_SEND_INLINE, ibv_recv_wr, ibv_send_wr, ibv_sge};

use crate::operation::Operation;

/// A work request as it is posted.
#[derive(Clone, Copy, Default)]
pub struct Request<'a> {
    pub operation: Operation,
    pub opcode: u32,
    pub wr_id: u64,
    pub flags: u32,
    /// The buffers; none where the count or the list is not usable.
    pub buffers: &'a [ibv_sge],
    /// The number of buffers as the program gave it.
    pub count: i64,
    pub list_is_null: bool,
    /// The length of inline data that has no buffers of its own.
    pub inline_length: u64,
    pub remote_addr: u64,
    pub rkey: u32,
    pub immediate: u32,
    pub compare_add: u64,
    pub swap: u64,
    pub ah: usize,
    pub remote_qpn: u32,
    pub remote_qkey: u32,
}

/// No device takes more buffers: such a count is not to be believed.
const MOST_BUFFERS: u32 = 256;

#[inline]
unsafe fn buffers<'a>(list: *const ibv_sge, count: i32, most: Option<u32>) -> &'a [ibv_sge] {
    let count = u32::try_from(count).unwrap_or(0);
    if list.is_null() || count > most.unwrap_or(MOST_BUFFERS) {
        return &[];
    }
    // SAFETY: so many are there, or the provider would read what is not there.
    slice::from_raw_parts(list, count as usize)
}

impl<'a> Request<'a> {
    /// A request to a queue that takes at most so many buffers. Where there are more,
    /// the provider refuses it and reads none of them.
    ///
    /// # Safety
    /// The request and its list are valid.
    #[inline]
    pub unsafe fn of_send(wr: &'a ibv_send_wr, kind: u32, most: Option<u32>) -> Self {
        let operation = Operation::of_request(wr.opcode);
        let mut request = Self {
            operation,
            opcode: wr.opcode,
            wr_id: wr.wr_id,
            flags: wr.send_flags,
            buffers: buffers(wr.sg_list, wr.num_sge, most),
            count: wr.num_sge.into(),
            list_is_null: wr.sg_list.is_null(),
            ..Self::default()
        };
        match operation {
            Operation::SendImm | Operation::WriteImm | Operation::SendInv | Operation::LocalInv => {
                request.immediate = wr.__bindgen_anon_1.imm_data;
            }
            _ => {}
        }
        match operation {
            Operation::CompareSwap | Operation::FetchAdd => {
                request.remote_addr = wr.wr.atomic.remote_addr;
                request.rkey = wr.wr.atomic.rkey;
                request.compare_add = wr.wr.atomic.compare_add;
                request.swap = wr.wr.atomic.swap;
            }
            _ if operation.is_remote() => {
                request.remote_addr = wr.wr.rdma.remote_addr;
                request.rkey = wr.wr.rdma.rkey;
            }
            _ if kind == IBV_QPT_UD => {
                request.ah = wr.wr.ud.ah as usize;
                request.remote_qpn = wr.wr.ud.remote_qpn;
                request.remote_qkey = wr.wr.ud.remote_qkey;
            }
            _ => {}
        }
        request
    }

    /// # Safety
    /// The request and its list are valid.
    #[inline]
    pub unsafe fn of_receive(wr: &'a ibv_recv_wr, most: Option<u32>) -> Self {
        Self {
            operation: Operation::Receive,
            wr_id: wr.wr_id,
            buffers: buffers(wr.sg_list, wr.num_sge, most),
            count: wr.num_sge.into(),
            list_is_null: wr.sg_list.is_null(),
            ..Self::default()
        }
    }

    pub fn is_inline(&self) -> bool {
        self.flags & IBV_SEND_INLINE != 0 || self.inline_length > 0
    }

    /// The length of all buffers.
    #[inline]
    pub fn length(&self) -> u64 {
        let buffers = match self.buffers {
            // Most requests have one.
            [one] => one.length.into(),
            all => all.iter().map(|buffer| u64::from(buffer.length)).sum(),
        };
        self.inline_length.wrapping_add(buffers)
    }

    /// What posts such a request.
    #[inline]
    pub fn helper(&self, extended: bool) -> Helper {
        Helper {
            operation: self.operation,
            buffers: self.buffers.len().min(2) as u8,
            datagram: self.ah != 0,
            extended,
        }
    }
}

/// What posts a request; its name is put together only when it is written.
#[derive(Clone, Copy, Default)]
pub struct Helper {
    pub operation: Operation,
    /// 2 stands for several.
    buffers: u8,
    datagram: bool,
    extended: bool,
}

impl Helper {
    /// The helper of <rdma/rdma_verbs.h> that posts such a request, or the verb.
    pub const fn name(self) -> &'static str {
        let several = self.buffers > 1;
        match self.operation {
            Operation::Send if self.datagram && !several => "rdma_post_ud_send",
            Operation::Send if self.datagram => "ibv_post_send",
            Operation::Send if several => "rdma_post_sendv",
            Operation::Send => "rdma_post_send",
            Operation::Read if several => "rdma_post_readv",
            Operation::Read => "rdma_post_read",
            Operation::Write if several => "rdma_post_writev",
            Operation::Write => "rdma_post_write",
            Operation::Receive if self.buffers == 1 => "rdma_post_recv",
            Operation::Receive => "rdma_post_recvv",
            _ if self.extended => self.extended_name(),
            Operation::BindMw => "ibv_bind_mw",
            _ => "ibv_post_send",
        }
    }

    const fn extended_name(self) -> &'static str {
        match self.operation {
            Operation::SendImm => "ibv_wr_send_imm",
            Operation::SendInv => "ibv_wr_send_inv",
            Operation::WriteImm => "ibv_wr_rdma_write_imm",
            Operation::CompareSwap => "ibv_wr_atomic_cmp_swp",
            Operation::FetchAdd => "ibv_wr_atomic_fetch_add",
            Operation::AtomicWrite => "ibv_wr_atomic_write",
            Operation::Flush => "ibv_wr_flush",
            Operation::LocalInv => "ibv_wr_local_inv",
            Operation::BindMw => "ibv_wr_bind_mw",
            Operation::Tso => "ibv_wr_send_tso",
            _ => "ibv_wr_complete",
        }
    }
}

impl Display for Helper {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::{Request, ibv_sge};

    /// Lengths have 32 bits, their sum has more.
    #[test]
    fn the_length_of_all_buffers() {
        let half = ibv_sge {
            addr: 0,
            length: 1 << 31,
            lkey: 0,
        };
        let request = Request {
            buffers: &[half, half],
            ..Request::default()
        };
        assert_eq!(request.length(), 1 << 32);
    }
}
