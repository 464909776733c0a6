// SPDX-License-Identifier: MIT OR Apache-2.0
//! Posting of many requests by one call of the provider.
// The C names; the documentation is for the C reader, too. The path of a post is for speed.
#![allow(non_camel_case_types, clippy::doc_markdown, clippy::inline_always)]
// Numbers of requests are small, and not negative once they are checked.
#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_sign_loss
)]

use core::ffi::{c_int, c_void};
use core::mem::{MaybeUninit, offset_of};
use core::ptr;

use rdma_verbs_bindings::{
    __be32, IBV_WR_ATOMIC_CMP_AND_SWP, IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_WR_RDMA_READ,
    IBV_WR_RDMA_WRITE, IBV_WR_RDMA_WRITE_WITH_IMM, IBV_WR_SEND, IBV_WR_SEND_WITH_IMM,
    RDMA_UDP_QKEY, ibv_ah, ibv_recv_wr, ibv_send_wr, ibv_sge, ibv_wr_opcode, rdma_cm_id,
};

use crate::errno::{Failure, not_null};
use crate::post::{submit, submit_recv};

/// One send-side request, for `rdmax_post_sends`. Fields that its opcode does not need are ignored.
///
/// The fields have the names and meanings of the arguments of the `rdma_post_*v` functions, and of
/// those of `struct ibv_send_wr`. New fields may be added at the end.
#[repr(C)]
pub struct rdmax_send_wr {
    /// Becomes the `wr_id` of the completion.
    pub context: *mut c_void,
    /// The local buffers, which are copied: the array is free when the call returns.
    pub sgl: *mut ibv_sge,
    /// How many there are.
    pub nsge: c_int,
    /// IBV_WR_SEND, IBV_WR_RDMA_READ, IBV_WR_RDMA_WRITE, IBV_WR_ATOMIC_CMP_AND_SWP,
    /// IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_WR_SEND_WITH_IMM or IBV_WR_RDMA_WRITE_WITH_IMM.
    pub opcode: ibv_wr_opcode,
    /// A bitwise OR of `enum ibv_send_flags`.
    pub flags: c_int,
    /// Immediate data, in network byte order.
    pub imm_data: __be32,
    /// Read, write, atomic: the peer's memory, in host byte order.
    pub remote_addr: u64,
    /// Read, write, atomic: the key of the peer's region, in host byte order.
    pub rkey: u32,
    /// Datagram: the peer's queue pair number.
    pub remote_qpn: u32,
    /// Atomic: what is compared with the peer's 8 bytes, or added to them.
    pub compare_add: u64,
    /// Compare-and-swap: the new value.
    pub swap: u64,
    /// Datagram: the address handle; the Q_Key is RDMA_UDP_QKEY. Else NULL.
    pub ah: *mut ibv_ah,
}

/// One receive, for `rdmax_post_recvs`.
///
/// The fields are the arguments of `rdma_post_recvv`. New fields may be added at the end.
#[repr(C)]
pub struct rdmax_recv_wr {
    /// Becomes the `wr_id` of the completion.
    pub context: *mut c_void,
    /// The buffers, which are copied: the array is free when the call returns.
    pub sgl: *mut ibv_sge,
    /// How many there are.
    pub nsge: c_int,
    /// 0.
    pub reserved: c_int,
}

/// How many requests one call of the provider gets. They are built on the stack, where a
/// send-side one takes 128 bytes.
const AT_ONCE: c_int = 64;

/// A work request that is made of an entry.
pub trait Request: Sized {
    /// The entry that the program fills.
    type Entry;

    /// Makes the request of an entry, followed by another.
    ///
    /// # Safety
    /// The entry is there, and `to` can be written.
    unsafe fn build(
        entry: *const Self::Entry,
        to: *mut Self,
        next: *mut Self,
    ) -> Result<(), Failure>;

    /// # Safety
    /// The request is built.
    unsafe fn end_list(last: *mut Self);

    /// # Safety
    /// The id is valid, and so is the list.
    unsafe fn submit(
        id: *mut rdma_cm_id,
        first: *mut Self,
        bad: *mut *mut Self,
    ) -> Result<c_int, Failure>;
}

/// Posts the entries in their order, until one is refused, here or by the provider.
/// `*posted` becomes the number of those that may be queued.
///
/// # Safety
/// `id` is NULL or points to an `rdma_cm_id`; there are `count` entries of `size` bytes with valid
/// buffers; `posted` is NULL or can be written.
#[inline(always)]
pub unsafe fn post_all<R: Request>(
    id: *mut rdma_cm_id,
    entries: *const R::Entry,
    size: usize,
    count: c_int,
    posted: *mut c_int,
) -> Result<c_int, Failure> {
    not_null(posted, c"posted")?;
    // SAFETY: `posted` is not NULL.
    unsafe { *posted = 0 };
    not_null(id, c"id")?;
    if count < 0 {
        return Err(Failure::Count(count));
    }
    if count != 0 {
        not_null(entries.cast_mut(), c"wr")?;
    }
    if size != size_of::<R::Entry>() {
        // SAFETY: as the caller promises.
        unsafe { is_known(entries.cast(), count, size, size_of::<R::Entry>())? };
    }
    // SAFETY: as the caller promises.
    unsafe {
        if count == 1 {
            let mut request = MaybeUninit::uninit();
            return post_list::<R>(id, entries, size, 1, request.as_mut_ptr(), posted);
        }
        post_lists::<R>(id, entries, size, count, posted)
    }
}

/// Posts any number of entries, by as many calls of the provider as that takes.
///
/// # Safety
/// As for [`post_all`], with nothing that is NULL.
#[inline(never)]
unsafe fn post_lists<R: Request>(
    id: *mut rdma_cm_id,
    entries: *const R::Entry,
    size: usize,
    count: c_int,
    posted: *mut c_int,
) -> Result<c_int, Failure> {
    // Nothing of it is touched before it is used: it is large.
    let mut list = [const { MaybeUninit::<R>::uninit() }; AT_ONCE as usize];
    let first: *mut R = list.as_mut_ptr().cast();
    let mut entry = entries;
    let mut rest = count;
    while rest > 0 {
        let wanted = rest.min(AT_ONCE);
        // SAFETY: the entries are there; the list has room for them.
        unsafe { post_list(id, entry, size, wanted, first, posted)? };
        entry = entry.wrapping_byte_add(size.wrapping_mul(wanted as usize));
        rest = rest.wrapping_sub(wanted);
    }
    Ok(0)
}

/// Posts so many entries by one call of the provider, and adds how many may be queued.
///
/// # Safety
/// The entries are there, as is room for the list; the id is valid.
#[inline(always)]
unsafe fn post_list<R: Request>(
    id: *mut rdma_cm_id,
    entry: *const R::Entry,
    size: usize,
    wanted: c_int,
    first: *mut R,
    posted: *mut c_int,
) -> Result<c_int, Failure> {
    // SAFETY: as the caller promises.
    unsafe {
        let (end, refused) = build_list(entry, size, first, first.add(wanted as usize));
        if end != first {
            if let Err((queued, failure)) = submit_list(id, first, end) {
                *posted = (*posted).wrapping_add(queued);
                return Err(failure);
            }
            *posted = (*posted).wrapping_add(end.offset_from(first) as c_int);
        }
        refused
    }
}

/// Fails if the program uses fields of the entries that this library does not have.
///
/// # Safety
/// There are `count` entries of `size` bytes.
#[cold]
#[inline(never)]
unsafe fn is_known(
    entries: *const u8,
    count: c_int,
    size: usize,
    known: usize,
) -> Result<(), Failure> {
    if size < known || size.trailing_zeros() < align_of::<u64>().trailing_zeros() {
        return Err(Failure::Size(size));
    }
    for index in 0..count as usize {
        for offset in known..size {
            let at = index.wrapping_mul(size).wrapping_add(offset);
            // SAFETY: in an entry.
            if unsafe { entries.wrapping_add(at).read() } != 0 {
                return Err(Failure::UnknownField);
            }
        }
    }
    Ok(())
}

/// Makes requests of the next entries until the `end`, or until one is refused; returns where
/// it stopped. Each is followed by the next, also the last.
///
/// # Safety
/// The entries are there, and room for the requests.
#[inline(always)]
unsafe fn build_list<R: Request>(
    entry: *const R::Entry,
    size: usize,
    first: *mut R,
    end: *mut R,
) -> (*mut R, Result<c_int, Failure>) {
    let (mut entry, mut to) = (entry, first);
    while to != end {
        let next = to.wrapping_add(1);
        // SAFETY: as the caller promises.
        if let Err(failure) = unsafe { R::build(entry, to, next) } {
            return (to, Err(failure));
        }
        entry = entry.wrapping_byte_add(size);
        to = next;
    }
    (end, Ok(0))
}

/// Posts the requests before `end`, of which there is one; if it fails, tells how many may be
/// queued.
///
/// # Safety
/// `id` is valid, and so are the requests.
#[inline(always)]
unsafe fn submit_list<R: Request>(
    id: *mut rdma_cm_id,
    first: *mut R,
    end: *mut R,
) -> Result<(), (c_int, Failure)> {
    let mut bad = ptr::null_mut();
    // SAFETY: as the caller promises.
    let result = unsafe {
        R::end_list(end.wrapping_sub(1));
        R::submit(id, first, &raw mut bad)
    };
    match result {
        Ok(_) => Ok(()),
        // SAFETY: both are in the list.
        Err(failure) => Err((unsafe { queued_before(bad, first, end, failure) }, failure)),
    }
}

/// How many requests of a list that was refused may be queued.
///
/// # Safety
/// `first` and `end` are of one list.
#[cold]
#[inline(never)]
unsafe fn queued_before<R>(bad: *mut R, first: *mut R, end: *mut R, failure: Failure) -> c_int {
    // Those come from us, before the provider is called.
    if let Failure::Null(_) | Failure::NoOperation(_) = failure {
        return 0;
    }
    // A provider that does not say which one it refused may have queued them all.
    let refused = if (first..end).contains(&bad) {
        bad
    } else {
        end
    };
    let offset = refused.addr().wrapping_sub(first.addr());
    // At most 64.
    offset.checked_div(size_of::<R>()).unwrap_or_default() as c_int
}

impl Request for ibv_send_wr {
    type Entry = rdmax_send_wr;

    #[inline(always)]
    unsafe fn build(
        entry: *const rdmax_send_wr,
        to: *mut Self,
        next: *mut Self,
    ) -> Result<(), Failure> {
        const UNNAMED: usize = offset_of!(ibv_send_wr, wr);
        // SAFETY: as the caller promises; each field of the request is written, and for its
        // integers and pointers zeros are valid.
        unsafe {
            let opcode = (*entry).opcode;
            to.byte_add(UNNAMED)
                .cast::<u8>()
                .write_bytes(0, size_of::<Self>().wrapping_sub(UNNAMED));
            (&raw mut (*to).wr_id).write((*entry).context as u64);
            (&raw mut (*to).next).write(next);
            (&raw mut (*to).sg_list).write((*entry).sgl);
            // The four from there on have the same order in both.
            (&raw mut (*to).num_sge)
                .cast::<[u32; 4]>()
                .write((&raw const (*entry).nsge).cast::<[u32; 4]>().read());
            match opcode {
                IBV_WR_RDMA_READ | IBV_WR_RDMA_WRITE | IBV_WR_RDMA_WRITE_WITH_IMM => {
                    (*to).wr.rdma.remote_addr = (*entry).remote_addr;
                    (*to).wr.rdma.rkey = (*entry).rkey;
                }
                IBV_WR_SEND | IBV_WR_SEND_WITH_IMM => {
                    if !(*entry).ah.is_null() {
                        (*to).wr.ud.ah = (*entry).ah;
                        (*to).wr.ud.remote_qpn = (*entry).remote_qpn;
                        (*to).wr.ud.remote_qkey = RDMA_UDP_QKEY;
                    }
                }
                IBV_WR_ATOMIC_CMP_AND_SWP | IBV_WR_ATOMIC_FETCH_AND_ADD => {
                    (*to).wr.atomic.remote_addr = (*entry).remote_addr;
                    (*to).wr.atomic.compare_add = (*entry).compare_add;
                    (*to).wr.atomic.swap = (*entry).swap;
                    (*to).wr.atomic.rkey = (*entry).rkey;
                }
                _ => return Err(Failure::Opcode(opcode)),
            }
        }
        Ok(())
    }

    #[inline(always)]
    unsafe fn end_list(last: *mut Self) {
        // SAFETY: as the caller promises.
        unsafe { (*last).next = ptr::null_mut() };
    }

    #[inline(always)]
    unsafe fn submit(
        id: *mut rdma_cm_id,
        first: *mut Self,
        bad: *mut *mut Self,
    ) -> Result<c_int, Failure> {
        // SAFETY: as the caller promises.
        unsafe { submit(id, first, bad) }
    }
}

// What `build` copies together.
#[allow(clippy::arithmetic_side_effects)] // Evaluated at build time.
const _: () = {
    let (from, to) = (
        offset_of!(rdmax_send_wr, nsge),
        offset_of!(ibv_send_wr, num_sge),
    );
    let word = size_of::<u32>();
    assert!(offset_of!(rdmax_send_wr, opcode) == from + word);
    assert!(offset_of!(rdmax_send_wr, flags) == from + 2 * word);
    assert!(offset_of!(rdmax_send_wr, imm_data) == from + 3 * word);
    assert!(offset_of!(ibv_send_wr, opcode) == to + word);
    assert!(offset_of!(ibv_send_wr, send_flags) == to + 2 * word);
    assert!(offset_of!(ibv_send_wr, __bindgen_anon_1) == to + 3 * word);
};

impl Request for ibv_recv_wr {
    type Entry = rdmax_recv_wr;

    #[inline(always)]
    unsafe fn build(
        entry: *const rdmax_recv_wr,
        to: *mut Self,
        next: *mut Self,
    ) -> Result<(), Failure> {
        // SAFETY: as the caller promises.
        unsafe {
            to.write(Self {
                wr_id: (*entry).context as u64,
                next,
                sg_list: (*entry).sgl,
                num_sge: (*entry).nsge,
            });
        }
        Ok(())
    }

    #[inline(always)]
    unsafe fn end_list(last: *mut Self) {
        // SAFETY: as the caller promises.
        unsafe { (*last).next = ptr::null_mut() };
    }

    #[inline(always)]
    unsafe fn submit(
        id: *mut rdma_cm_id,
        first: *mut Self,
        bad: *mut *mut Self,
    ) -> Result<c_int, Failure> {
        // SAFETY: as the caller promises.
        unsafe { submit_recv(id, first, bad) }
    }
}
