// SPDX-License-Identifier: MIT OR Apache-2.0
//! Posting of many requests by one call of the provider.
// The C names; the documentation is for the C reader, too.
#![allow(non_camel_case_types, clippy::doc_markdown)]

use core::ffi::{c_int, c_void};
use core::mem::MaybeUninit;
use core::ptr;

use rdma_verbs_bindings::{
    IBV_WR_RDMA_READ, IBV_WR_RDMA_WRITE, IBV_WR_SEND, ibv_mr, ibv_recv_wr, ibv_send_wr, ibv_sge,
    rdma_cm_id,
};

use crate::errno::{Failure, Outside, not_null};
use crate::post::{element, lkey, lkey_or_none, recv_element, request, submit, submit_recv};

/// How many requests one call of the provider gets. They are built on the stack, where
/// each takes 144 bytes.
const AT_ONCE: usize = 64;

/// One RDMA read or write, for `rdmax_post_reads` and `rdmax_post_writes`.
///
/// The fields are the arguments of `rdma_post_read` and `rdma_post_write`.
#[repr(C)]
pub struct rdmax_rdma {
    /// Becomes the `wr_id` of the completion.
    pub context: *mut c_void,
    /// The local buffer.
    pub addr: *mut c_void,
    /// Its length in bytes.
    pub length: usize,
    /// The region it lies in.
    pub mr: *mut ibv_mr,
    /// The memory of the peer, in host byte order.
    pub remote_addr: u64,
    /// The key of the peer's region, in host byte order.
    pub rkey: u32,
    /// A set of `enum ibv_send_flags`.
    pub flags: c_int,
}

/// One send, for `rdmax_post_sends`.
///
/// The fields are the arguments of `rdma_post_send`.
#[repr(C)]
pub struct rdmax_send {
    /// Becomes the `wr_id` of the completion.
    pub context: *mut c_void,
    /// The buffer.
    pub addr: *mut c_void,
    /// Its length in bytes.
    pub length: usize,
    /// The region it lies in.
    pub mr: *mut ibv_mr,
    /// A set of `enum ibv_send_flags`.
    pub flags: c_int,
}

/// One receive, for `rdmax_post_recvs`.
///
/// The fields are the arguments of `rdma_post_recv`.
#[repr(C)]
pub struct rdmax_recv {
    /// Becomes the `wr_id` of the completion.
    pub context: *mut c_void,
    /// The buffer.
    pub addr: *mut c_void,
    /// Its length in bytes.
    pub length: usize,
    /// The region it lies in.
    pub mr: *mut ibv_mr,
}

/// What a program asks for: an array, which may be NULL.
#[derive(Clone, Copy)]
pub enum Entries {
    Reads(*const rdmax_rdma),
    Writes(*const rdmax_rdma),
    Sends(*const rdmax_send),
    Recvs(*const rdmax_recv),
}

/// Posts the entries in their order, until one is refused, here or by the provider.
/// `*posted` becomes the number of those before it. `outside` is for the details of a
/// receive buffer that is not inside its region.
///
/// # Safety
/// `id` is NULL or points to an `rdma_cm_id`; there are `count` entries with valid
/// regions; `posted` is NULL or can be written.
pub unsafe fn post_all(
    id: *mut rdma_cm_id,
    entries: Entries,
    count: c_int,
    posted: *mut c_int,
    outside: &mut MaybeUninit<Outside>,
) -> Result<c_int, Failure> {
    not_null(posted, c"posted")?;
    // SAFETY: `posted` is not NULL.
    unsafe { *posted = 0 };
    not_null(id, c"id")?;
    let Ok(total) = usize::try_from(count) else {
        return Err(Failure::Count(count));
    };
    if total != 0 {
        not_null(entries.start(), c"v")?;
    }
    let mut list = List::new(entries);
    let mut done: usize = 0;
    while done < total {
        let end = total.min(done.saturating_add(AT_ONCE));
        // SAFETY: the entries are there; the list has room for them.
        unsafe {
            let (ready, refused) = list.build(done, end, outside);
            let (accepted, result) = list.submit(id, ready);
            done = done.saturating_add(accepted);
            // No more than `count`.
            #[allow(clippy::cast_possible_truncation, clippy::cast_possible_wrap)]
            posted.write(done as c_int);
            result?;
            refused?;
        }
    }
    Ok(0)
}

impl Entries {
    fn start(self) -> *mut u8 {
        match self {
            Self::Reads(v) | Self::Writes(v) => v.cast_mut().cast(),
            Self::Sends(v) => v.cast_mut().cast(),
            Self::Recvs(v) => v.cast_mut().cast(),
        }
    }

    /// Makes the request of an entry, and its element at `sge`.
    ///
    /// # Safety
    /// The entry is there; request and element can be written.
    unsafe fn build(
        self,
        index: usize,
        to: *mut Request,
        sge: *mut ibv_sge,
        outside: &mut MaybeUninit<Outside>,
    ) -> Result<(), Failure> {
        // SAFETY: as the caller promises. An entry is copied: it is the program's.
        unsafe {
            match self {
                Self::Reads(v) | Self::Writes(v) => {
                    let entry = v.add(index).read();
                    let (opcode, lkey) = if let Self::Reads(_) = self {
                        (IBV_WR_RDMA_READ, lkey(entry.mr)?)
                    } else {
                        (IBV_WR_RDMA_WRITE, lkey_or_none(entry.mr))
                    };
                    sge.write(element(entry.addr, entry.length, lkey)?);
                    let mut wr = request(opcode, entry.context, sge, 1, entry.flags);
                    wr.wr.rdma.remote_addr = entry.remote_addr;
                    wr.wr.rdma.rkey = entry.rkey;
                    (*to).send = wr;
                }
                Self::Sends(v) => {
                    let entry = v.add(index).read();
                    sge.write(element(entry.addr, entry.length, lkey_or_none(entry.mr))?);
                    (*to).send = request(IBV_WR_SEND, entry.context, sge, 1, entry.flags);
                }
                Self::Recvs(v) => {
                    let entry = v.add(index).read();
                    let (addr, length, mr) = (entry.addr, entry.length, entry.mr);
                    sge.write(recv_element(addr, length, mr, outside)?);
                    (*to).recv = ibv_recv_wr {
                        wr_id: entry.context as u64,
                        next: ptr::null_mut(),
                        sg_list: sge,
                        num_sge: 1,
                    };
                }
            }
        }
        Ok(())
    }
}

/// A work request for one of the two queues; the entries say which.
union Request {
    send: ibv_send_wr,
    recv: ibv_recv_wr,
}

/// A list of requests with one element each. Nothing of it is touched before it is used:
/// it is large.
struct List {
    entries: Entries,
    requests: [MaybeUninit<Request>; AT_ONCE],
    elements: [MaybeUninit<ibv_sge>; AT_ONCE],
}

impl List {
    fn new(entries: Entries) -> Self {
        Self {
            entries,
            requests: [const { MaybeUninit::uninit() }; AT_ONCE],
            elements: [const { MaybeUninit::uninit() }; AT_ONCE],
        }
    }

    fn is_recvs(&self) -> bool {
        matches!(self.entries, Entries::Recvs(_))
    }

    /// Makes requests of the entries from `start` to `end`, until one is refused; how many
    /// there are. Each is followed by the next, also the last.
    ///
    /// # Safety
    /// The entries are there, at most `AT_ONCE`.
    unsafe fn build(
        &mut self,
        start: usize,
        end: usize,
        outside: &mut MaybeUninit<Outside>,
    ) -> (usize, Result<(), Failure>) {
        let mut to: *mut Request = self.requests.as_mut_ptr().cast();
        let mut sge: *mut ibv_sge = self.elements.as_mut_ptr().cast();
        for index in start..end {
            // SAFETY: there is room for so many.
            unsafe {
                let built = self.entries.build(index, to, sge, outside);
                if built.is_err() {
                    return (index.wrapping_sub(start), built);
                }
                let next = to.wrapping_add(1);
                self.set_next(to, next);
                to = next;
                sge = sge.wrapping_add(1);
            }
        }
        (end.wrapping_sub(start), Ok(()))
    }

    /// # Safety
    /// The request is built; `next` is too, or will be, or is NULL.
    unsafe fn set_next(&self, request: *mut Request, next: *mut Request) {
        // SAFETY: as the caller promises.
        unsafe {
            if self.is_recvs() {
                (*request).recv.next = next.cast();
            } else {
                (*request).send.next = next.cast();
            }
        }
    }

    /// Posts the first `built` requests; how many the provider accepted.
    ///
    /// # Safety
    /// `id` is valid; so many requests were built.
    unsafe fn submit(
        &mut self,
        id: *mut rdma_cm_id,
        built: usize,
    ) -> (usize, Result<c_int, Failure>) {
        let first: *mut Request = self.requests.as_mut_ptr().cast();
        let Some(last) = built.checked_sub(1) else {
            return (0, Ok(0));
        };
        let mut bad = ptr::null_mut::<Request>();
        // SAFETY: the list has `built` valid requests.
        let result = unsafe {
            self.set_next(first.wrapping_add(last), ptr::null_mut());
            if self.is_recvs() {
                submit_recv(id, first.cast(), (&raw mut bad).cast())
            } else {
                submit(id, first.cast(), (&raw mut bad).cast())
            }
        };
        if result.is_ok() {
            return (built, result);
        }
        let accepted = bad
            .addr()
            .wrapping_sub(first.addr())
            .wrapping_shr(size_of::<Request>().trailing_zeros());
        // A provider that does not say which one it refused has accepted none.
        (if accepted < built { accepted } else { 0 }, result)
    }
}

const _: () = assert!(size_of::<Request>().is_power_of_two());
