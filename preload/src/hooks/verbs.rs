// SPDX-License-Identifier: MIT OR Apache-2.0
//! The functions of libibverbs.

use std::ffi::{c_int, c_uint, c_void};

use rdma_verbs_bindings::{
    IBV_ACCESS_LOCAL_WRITE, IBV_ACCESS_REMOTE_READ, IBV_ACCESS_REMOTE_WRITE, IBV_ACCESS_ZERO_BASED,
    IBV_QP_STATE, IBV_QPS_RESET, IBV_REREG_MR_CHANGE_ACCESS, IBV_REREG_MR_CHANGE_PD,
    IBV_REREG_MR_CHANGE_TRANSLATION, ibv_ah, ibv_async_event, ibv_comp_channel, ibv_context,
    ibv_cq, ibv_device, ibv_mr, ibv_pd, ibv_qp, ibv_qp_attr, ibv_qp_init_attr, ibv_srq,
    ibv_srq_init_attr,
};
use rdma_verbs_settings::Mode;

use super::{Call, after, before, extended, slots, stack};
use crate::check;
use crate::errno::Errno;
use crate::functions::RegionAttributes;
use crate::kind::Kind;
use crate::model::{
    CompletionQueue, Dying, Limits, Name, Pair, Region, SharedQueue, User, devices, model,
};
use crate::names::{state_name, transport_name};
use crate::original;
use crate::request::Requests;
use crate::settings;
use crate::stat;
use crate::thread::{self, Busy};
use crate::trace::{Outcome, Value};

/// `IBV_REG_MR_MASK_IOVA` and `IBV_REG_MR_MASK_ADDR`.
const HAS_IOVA: u64 = 1;
const HAS_ADDR: u64 = 2;

type Field = (&'static str, Value<'static>);

pub fn domain_field(pd: *mut ibv_pd) -> Field {
    ("pd", Value::Pointer(pd as usize))
}

fn length_field(length: usize) -> Field {
    ("length", Value::Size(length as u64))
}

fn access_field(access: u32) -> Field {
    ("access", Value::Access(access))
}

// --- devices -------------------------------------------------------------------------------

/// A device was opened: its operations are hooked from here on.
unsafe fn opened(context: *mut ibv_context, complete: bool) {
    if context.is_null() || model().contexts.alive(context as u64).is_some() {
        return;
    }
    model().insert_context(context, complete);
    slots::install(context);
    extended::install(context);
    devices::opened();
}

unsafe fn name_of(context: *mut ibv_context) -> Name {
    model()
        .contexts
        .get(context as u64)
        .map_or_else(Name::default, |context| context.name)
}

pub unsafe fn ibv_open_device(device: *mut ibv_device) -> *mut ibv_context {
    let call = Call::begin();
    before(|| check_object("ibv_open_device", Kind::Device, device as usize));
    let context = original::ibv_open_device(device);
    after(|errno| {
        opened(context, true);
        let name = name_of(context);
        call.end(
            "ibv_open_device",
            &[("device", Value::Text(name.text()))],
            Outcome::Object(context as usize, errno),
        );
    });
    context
}

/// What providers' own functions that open a device come to, and `ibv_open_device`,
/// too: traced there.
pub unsafe fn verbs_open_device(device: *mut ibv_device, private: *mut c_void) -> *mut ibv_context {
    let context = original::verbs_open_device(device, private);
    after(|_| opened(context, true));
    context
}

pub unsafe fn ibv_import_device(fd: c_int) -> *mut ibv_context {
    let call = Call::begin();
    let context = original::ibv_import_device(fd);
    after(|errno| {
        opened(context, false);
        call.end(
            "ibv_import_device",
            &[("fd", Value::Number(fd.into()))],
            Outcome::Object(context as usize, errno),
        );
    });
    context
}

pub unsafe fn ibv_close_device(context: *mut ibv_context) -> c_int {
    let call = Call::begin();
    let mut is_hooked = false;
    let mut dying = None;
    before(|| {
        check_object("ibv_close_device", Kind::Context, context as usize);
        is_hooked = !context.is_null() && model().contexts.alive(context as u64).is_some();
        if is_hooked {
            slots::uninstall(context);
            extended::uninstall(context);
        }
        dying = Some(model().dying(Kind::Context, context as usize, stack()));
    });
    let result = original::ibv_close_device(context);
    after(|errno| {
        end_of(dying, result == 0);
        if is_hooked && result != 0 {
            slots::install(context);
            extended::install(context);
        }
        call.end(
            "ibv_close_device",
            &[("context", Value::Pointer(context as usize))],
            Outcome::Errno(result, errno),
        );
    });
    result
}

fn check_object(call: &str, kind: Kind, object: usize) {
    if settings::is(Mode::Check) {
        check::object(call, kind, object);
    }
}

/// After the function that destroys an object has returned.
pub fn end_of(dying: Option<Dying>, is_destroyed: bool) {
    match dying {
        Some(dying) if is_destroyed => model().died(&dying),
        Some(dying) => model().survived(&dying),
        None => {}
    }
}

/// Calls a function that destroys an object.
unsafe fn destroy(
    name: &str,
    kind: Kind,
    object: usize,
    field: Field,
    destroy: impl FnOnce() -> c_int,
) -> c_int {
    let call = Call::begin();
    let mut dying = None;
    before(|| {
        check_object(name, kind, object);
        if settings::is(Mode::Check) {
            check::destroy(kind, object);
        }
        dying = Some(model().dying(kind, object, stack()));
    });
    let result = destroy();
    after(|_| {
        end_of(dying, result == 0);
        call.end(name, &[field], Outcome::Code(result));
    });
    result
}

pub unsafe fn ibv_alloc_pd(context: *mut ibv_context) -> *mut ibv_pd {
    let call = Call::begin();
    before(|| check_object("ibv_alloc_pd", Kind::Context, context as usize));
    let pd = original::ibv_alloc_pd(context);
    after(|errno| {
        model().born(pd as usize);
        call.end(
            "ibv_alloc_pd",
            &[("context", Value::Pointer(context as usize))],
            Outcome::Object(pd as usize, errno),
        );
    });
    pd
}

pub unsafe fn ibv_dealloc_pd(pd: *mut ibv_pd) -> c_int {
    destroy(
        "ibv_dealloc_pd",
        Kind::ProtectionDomain,
        pd as usize,
        domain_field(pd),
        || original::ibv_dealloc_pd(pd),
    )
}

// --- memory regions ------------------------------------------------------------------------

/// A region was registered. Without a length, all addresses are in it.
pub unsafe fn created_region(
    mr: *mut ibv_mr,
    pd: *mut ibv_pd,
    start: u64,
    length: Option<u64>,
    access: u32,
) {
    let Some(region) = mr.as_ref() else {
        return;
    };
    if settings::is(Mode::Stat) {
        stat::registered(length.unwrap_or(0));
    }
    let zero_based = access & IBV_ACCESS_ZERO_BASED != 0 && access != u32::MAX;
    model().insert_region(Region {
        mr: mr as usize,
        context: model().context_id(region.context),
        domain: model().root(pd),
        start: if zero_based { 0 } else { start },
        length: length.unwrap_or(0),
        access,
        lkey: region.lkey,
        anywhere: length.is_none(),
        user: User::NOBODY,
        stack: stack().unwrap_or_default(),
    });
}

/// The whole address space may be registered as one region.
const fn is_everything(addr: usize, length: usize) -> bool {
    addr == 0 && length == usize::MAX
}

/// The helper of <rdma/rdma_verbs.h> that asks for such access.
const fn registration_name(access: u32, verb: &'static str) -> &'static str {
    const READ: u32 = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ;
    const WRITE: u32 = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
    match access {
        IBV_ACCESS_LOCAL_WRITE => "rdma_reg_msgs",
        READ => "rdma_reg_read",
        WRITE => "rdma_reg_write",
        _ => verb,
    }
}

/// What all registrations have in common. The functions call one another; what they
/// call inside is not seen.
pub struct Registration {
    pub name: &'static str,
    pub pd: *mut ibv_pd,
    pub addr: usize,
    pub length: usize,
    pub start: u64,
    pub access: u32,
}

impl Registration {
    pub unsafe fn make(self, register: impl FnOnce() -> *mut ibv_mr) -> *mut ibv_mr {
        let errno = Errno::now();
        let Some(_busy) = Busy::enter() else {
            return register();
        };
        let call = Call::begin();
        check_object(self.name, Kind::ProtectionDomain, self.pd as usize);
        errno.restore();
        let mr = register();
        let errno = Errno::now();
        let everything = is_everything(self.addr, self.length);
        let length = (!everything).then_some(self.length as u64);
        created_region(mr, self.pd, self.start, length, self.access);
        let keys = mr.as_ref().map_or((0, 0), |mr| (mr.lkey, mr.rkey));
        let outcome = &[
            ("lkey", Value::Hex(keys.0.into())),
            ("rkey", Value::Hex(keys.1.into())),
        ];
        call.end(
            self.name,
            &[
                domain_field(self.pd),
                ("addr", Value::Pointer(self.addr)),
                length_field(self.length),
                access_field(self.access),
            ],
            if mr.is_null() {
                Outcome::Object(0, errno.0)
            } else {
                Outcome::Detailed(mr as usize, outcome)
            },
        );
        errno.restore();
        mr
    }
}

pub unsafe fn ibv_reg_mr(
    pd: *mut ibv_pd,
    addr: *mut c_void,
    length: usize,
    access: c_int,
) -> *mut ibv_mr {
    Registration {
        name: registration_name(access as u32, "ibv_reg_mr"),
        pd,
        addr: addr as usize,
        length,
        start: addr as u64,
        access: access as u32,
    }
    .make(|| original::ibv_reg_mr(pd, addr, length, access))
}

pub unsafe fn ibv_reg_mr_iova(
    pd: *mut ibv_pd,
    addr: *mut c_void,
    length: usize,
    iova: u64,
    access: c_int,
) -> *mut ibv_mr {
    Registration {
        name: "ibv_reg_mr_iova",
        pd,
        addr: addr as usize,
        length,
        start: iova,
        access: access as u32,
    }
    .make(|| original::ibv_reg_mr_iova(pd, addr, length, iova, access))
}

/// `ibv_reg_mr` of the header comes here where its access is no constant.
pub unsafe fn ibv_reg_mr_iova2(
    pd: *mut ibv_pd,
    addr: *mut c_void,
    length: usize,
    iova: u64,
    access: c_uint,
) -> *mut ibv_mr {
    let verb = if iova == addr as u64 {
        "ibv_reg_mr"
    } else {
        "ibv_reg_mr_iova"
    };
    Registration {
        name: registration_name(access, verb),
        pd,
        addr: addr as usize,
        length,
        start: iova,
        access,
    }
    .make(|| original::ibv_reg_mr_iova2(pd, addr, length, iova, access))
}

pub unsafe fn ibv_reg_dmabuf_mr(
    pd: *mut ibv_pd,
    offset: u64,
    length: usize,
    iova: u64,
    fd: c_int,
    access: c_int,
) -> *mut ibv_mr {
    Registration {
        name: "ibv_reg_dmabuf_mr",
        pd,
        addr: offset as usize,
        length,
        start: iova,
        access: access as u32,
    }
    .make(|| original::ibv_reg_dmabuf_mr(pd, offset, length, iova, fd, access))
}

pub unsafe fn ibv_reg_mr_ex(pd: *mut ibv_pd, attributes: *mut RegionAttributes) -> *mut ibv_mr {
    let register = || original::ibv_reg_mr_ex(pd, attributes);
    let Some(asked) = attributes.as_ref() else {
        return register();
    };
    let addr = if asked.mask & HAS_ADDR != 0 {
        asked.addr as usize
    } else {
        0
    };
    Registration {
        name: registration_name(asked.access as u32, "ibv_reg_mr_ex"),
        pd,
        addr,
        length: asked.length,
        start: if asked.mask & HAS_IOVA != 0 {
            asked.iova
        } else {
            addr as u64
        },
        access: asked.access as u32,
    }
    .make(register)
}

pub unsafe fn ibv_import_pd(context: *mut ibv_context, handle: u32) -> *mut ibv_pd {
    let call = Call::begin();
    let pd = original::ibv_import_pd(context, handle);
    after(|errno| {
        model().born(pd as usize);
        call.end(
            "ibv_import_pd",
            &[("context", Value::Pointer(context as usize))],
            Outcome::Object(pd as usize, errno),
        );
    });
    pd
}

pub unsafe fn ibv_import_mr(pd: *mut ibv_pd, handle: u32) -> *mut ibv_mr {
    let call = Call::begin();
    let mr = original::ibv_import_mr(pd, handle);
    after(|errno| {
        // Another process knows what it is.
        created_region(mr, pd, 0, None, u32::MAX);
        call.end(
            "ibv_import_mr",
            &[domain_field(pd)],
            Outcome::Object(mr as usize, errno),
        );
    });
    mr
}

pub unsafe fn ibv_unimport_mr(mr: *mut ibv_mr) {
    let mut dying = None;
    before(|| dying = Some(model().dying(Kind::MemoryRegion, mr as usize, stack())));
    original::ibv_unimport_mr(mr);
    after(|_| {
        if let Some(region) = dying.as_ref().and_then(Dying::region) {
            if settings::is(Mode::Stat) {
                stat::deregistered(region.length);
            }
        }
        end_of(dying, true);
    });
}

pub unsafe fn ibv_rereg_mr(
    mr: *mut ibv_mr,
    flags: c_int,
    pd: *mut ibv_pd,
    addr: *mut c_void,
    length: usize,
    access: c_int,
) -> c_int {
    let call = Call::begin();
    let mut known = None;
    before(|| {
        check_object("ibv_rereg_mr", Kind::MemoryRegion, mr as usize);
        known = (!mr.is_null()).then(|| model().region_of(mr)).flatten();
    });
    let result = original::ibv_rereg_mr(mr, flags, pd, addr, length, access);
    after(|_| {
        if let (0, Some(mut region)) = (result, known) {
            let before = region;
            // The keys may be new.
            region.lkey = (*mr).lkey;
            let has = |flag: c_uint| flags as c_uint & flag != 0;
            if has(IBV_REREG_MR_CHANGE_TRANSLATION) {
                region.anywhere = is_everything(addr as usize, length);
                region.start = addr as u64;
                region.length = if region.anywhere { 0 } else { length as u64 };
            }
            if has(IBV_REREG_MR_CHANGE_PD) {
                region.domain = model().root(pd);
            }
            if has(IBV_REREG_MR_CHANGE_ACCESS) {
                region.access = access as u32;
            }
            if settings::is(Mode::Stat) {
                stat::registered_again(before.length, region.length);
            }
            model().change_region(&before, region);
        }
        call.end(
            "ibv_rereg_mr",
            &[
                ("mr", Value::Pointer(mr as usize)),
                domain_field(pd),
                ("addr", Value::Pointer(addr as usize)),
                length_field(length),
                access_field(access as u32),
            ],
            Outcome::Code(result),
        );
    });
    result
}

pub unsafe fn ibv_dereg_mr(mr: *mut ibv_mr) -> c_int {
    let call = Call::begin();
    let mut dying = None;
    before(|| {
        check_object("rdma_dereg_mr", Kind::MemoryRegion, mr as usize);
        let marked = model().dying(Kind::MemoryRegion, mr as usize, stack());
        if let (true, Some(region)) = (settings::is(Mode::Check), marked.region()) {
            check::deregister(region);
        }
        dying = Some(marked);
    });
    let result = original::ibv_dereg_mr(mr);
    after(|_| {
        let region = dying.as_ref().and_then(Dying::region).copied();
        if let (true, 0, Some(region)) = (settings::is(Mode::Stat), result, region) {
            stat::deregistered(region.length);
        }
        end_of(dying, result == 0);
        let length = region.map_or(0, |region| {
            if region.anywhere {
                u64::MAX
            } else {
                region.length
            }
        });
        call.end(
            "rdma_dereg_mr",
            &[
                ("mr", Value::Pointer(mr as usize)),
                ("length", Value::Size(length)),
                (
                    "lkey",
                    Value::Hex(region.map_or(0, |region| region.lkey.into())),
                ),
            ],
            Outcome::Code(result),
        );
    });
    result
}

// --- completion queues ---------------------------------------------------------------------

pub unsafe fn ibv_create_comp_channel(context: *mut ibv_context) -> *mut ibv_comp_channel {
    let call = Call::begin();
    before(|| check_object("ibv_create_comp_channel", Kind::Context, context as usize));
    let channel = original::ibv_create_comp_channel(context);
    after(|errno| {
        model().born(channel as usize);
        call.end(
            "ibv_create_comp_channel",
            &[("context", Value::Pointer(context as usize))],
            Outcome::Object(channel as usize, errno),
        );
    });
    channel
}

pub unsafe fn ibv_destroy_comp_channel(channel: *mut ibv_comp_channel) -> c_int {
    destroy(
        "ibv_destroy_comp_channel",
        Kind::CompletionChannel,
        channel as usize,
        ("channel", Value::Pointer(channel as usize)),
        || original::ibv_destroy_comp_channel(channel),
    )
}

pub unsafe fn ibv_create_cq(
    context: *mut ibv_context,
    cqe: c_int,
    cq_context: *mut c_void,
    channel: *mut ibv_comp_channel,
    vector: c_int,
) -> *mut ibv_cq {
    let call = Call::begin();
    before(|| check_object("ibv_create_cq", Kind::Context, context as usize));
    let cq = original::ibv_create_cq(context, cqe, cq_context, channel, vector);
    after(|errno| {
        if !cq.is_null() {
            model().born(cq as usize);
            let queue = CompletionQueue {
                channel: channel as usize,
                ..CompletionQueue::default()
            };
            model().completions.insert(cq as u64, queue);
        }
        call.end(
            "ibv_create_cq",
            &[
                ("entries", Value::Number(cqe.into())),
                ("channel", Value::Pointer(channel as usize)),
            ],
            Outcome::Object(cq as usize, errno),
        );
    });
    cq
}

pub unsafe fn ibv_resize_cq(cq: *mut ibv_cq, cqe: c_int) -> c_int {
    let call = Call::begin();
    before(|| check_object("ibv_resize_cq", Kind::CompletionQueue, cq as usize));
    let result = original::ibv_resize_cq(cq, cqe);
    after(|_| {
        call.end(
            "ibv_resize_cq",
            &[
                ("cq", Value::Pointer(cq as usize)),
                ("entries", Value::Number(cqe.into())),
            ],
            Outcome::Code(result),
        );
    });
    result
}

pub unsafe fn ibv_destroy_cq(cq: *mut ibv_cq) -> c_int {
    destroy(
        "ibv_destroy_cq",
        Kind::CompletionQueue,
        cq as usize,
        ("cq", Value::Pointer(cq as usize)),
        || original::ibv_destroy_cq(cq),
    )
}

/// A thread may be cancelled in this call: nothing is held that would have to be
/// released.
pub unsafe fn ibv_get_cq_event(
    channel: *mut ibv_comp_channel,
    cq: *mut *mut ibv_cq,
    context: *mut *mut c_void,
) -> c_int {
    let call = Call::begin();
    before(|| {
        check_object(
            "ibv_get_cq_event",
            Kind::CompletionChannel,
            channel as usize,
        );
        if settings::is(Mode::Check) && !channel.is_null() {
            check::wait_begins(channel);
        }
    });
    let result = original::ibv_get_cq_event(channel, cq, context);
    after(|errno| {
        if settings::is(Mode::Check) {
            check::wait_ends();
        }
        let queue = if result == 0 {
            *cq
        } else {
            std::ptr::null_mut()
        };
        if !queue.is_null() {
            match settings::mode() {
                Some(Mode::Stat) => thread::counters().events.add(1),
                Some(Mode::Check) => {
                    let mut queue = model().completion_queue(queue);
                    queue.armed = queue.armed.saturating_sub(1);
                    queue.unacknowledged += 1;
                }
                _ => {}
            }
        }
        let got = &[("cq", Value::Pointer(queue as usize))];
        call.end(
            "ibv_get_cq_event",
            &[("channel", Value::Pointer(channel as usize))],
            if result == 0 {
                Outcome::Got(got)
            } else {
                Outcome::Errno(result, errno)
            },
        );
    });
    result
}

pub unsafe fn ibv_ack_cq_events(cq: *mut ibv_cq, events: c_uint) {
    let call = Call::begin();
    before(|| {
        check_object("ibv_ack_cq_events", Kind::CompletionQueue, cq as usize);
        match settings::mode() {
            Some(Mode::Stat) => thread::counters().acknowledged.add(events.into()),
            Some(Mode::Check) if !cq.is_null() => {
                let mut queue = model().completion_queue(cq);
                queue.unacknowledged = queue.unacknowledged.saturating_sub(events);
            }
            _ => {}
        }
    });
    original::ibv_ack_cq_events(cq, events);
    after(|_| {
        call.end(
            "ibv_ack_cq_events",
            &[
                ("cq", Value::Pointer(cq as usize)),
                ("events", Value::Number(events.into())),
            ],
            Outcome::Nothing,
        );
    });
}

// --- shared receive queues -----------------------------------------------------------------

pub unsafe fn ibv_create_srq(pd: *mut ibv_pd, attributes: *mut ibv_srq_init_attr) -> *mut ibv_srq {
    let call = Call::begin();
    before(|| check_object("ibv_create_srq", Kind::ProtectionDomain, pd as usize));
    let srq = original::ibv_create_srq(pd, attributes);
    after(|errno| {
        if let (false, Some(granted)) = (srq.is_null(), attributes.as_ref()) {
            model().born(srq as usize);
            let queue = SharedQueue {
                queue: srq as usize,
                context: model().context_id((*srq).context),
                domain: model().root(pd),
                most_buffers: Some(granted.attr.max_sge),
                requests: Requests::with_depth(granted.attr.max_wr),
                ..SharedQueue::default()
            };
            model().shared.insert(srq as u64, queue);
        }
        call.end(
            "ibv_create_srq",
            &[domain_field(pd)],
            Outcome::Object(srq as usize, errno),
        );
    });
    srq
}

pub unsafe fn ibv_destroy_srq(srq: *mut ibv_srq) -> c_int {
    destroy(
        "ibv_destroy_srq",
        Kind::SharedReceiveQueue,
        srq as usize,
        ("srq", Value::Pointer(srq as usize)),
        || original::ibv_destroy_srq(srq),
    )
}

// --- queue pairs ---------------------------------------------------------------------------

pub fn pair_fields(qp: &ibv_qp, limits: Option<Limits>) -> [Field; 3] {
    [
        ("qp", Value::Hex(qp.qp_num.into())),
        (
            "sends",
            Value::Number(limits.map_or(0, |limits| limits.sends.into())),
        ),
        (
            "inline",
            Value::Number(limits.map_or(0, |limits| limits.inline.into())),
        ),
    ]
}

pub unsafe fn ibv_create_qp(pd: *mut ibv_pd, attributes: *mut ibv_qp_init_attr) -> *mut ibv_qp {
    let call = Call::begin();
    before(|| check_object("ibv_create_qp", Kind::ProtectionDomain, pd as usize));
    let qp = original::ibv_create_qp(pd, attributes);
    after(|errno| {
        let Some(granted) = attributes.as_ref() else {
            return;
        };
        let arguments = [
            domain_field(pd),
            ("type", Value::Text(transport_name(granted.qp_type))),
        ];
        if qp.is_null() {
            call.end("ibv_create_qp", &arguments, Outcome::Object(0, errno));
            return;
        }
        let limits = Limits::from(granted.cap);
        let pair = Pair {
            srq: granted.srq as usize,
            send_cq: granted.send_cq as usize,
            recv_cq: granted.recv_cq as usize,
            limits: Some(limits),
            all_signaled: granted.sq_sig_all != 0,
            send: Requests::with_depth(granted.cap.max_send_wr),
            recv: Requests::with_depth(granted.cap.max_recv_wr),
            ..model().describe_pair(qp, pd)
        };
        model().insert_pair(pair);
        call.end(
            "ibv_create_qp",
            &arguments,
            Outcome::Detailed(qp as usize, &pair_fields(&*qp, Some(limits))),
        );
    });
    qp
}

pub unsafe fn ibv_modify_qp(qp: *mut ibv_qp, attributes: *mut ibv_qp_attr, mask: c_int) -> c_int {
    let call = Call::begin();
    before(|| check_object("ibv_modify_qp", Kind::QueuePair, qp as usize));
    let result = original::ibv_modify_qp(qp, attributes, mask);
    after(|_| {
        let state = attributes
            .as_ref()
            .filter(|_| mask as c_uint & IBV_QP_STATE != 0)
            .map(|attributes| attributes.qp_state);
        if (result, state) == (0, Some(IBV_QPS_RESET)) {
            // Its requests are gone, without completions.
            if let Some(mut pair) = model().pairs.get(qp as u64) {
                pair.send.clear();
                pair.recv.clear();
                pair.failed = false;
                pair.full = None;
            }
        }
        let number = qp.as_ref().map_or(0, |qp| qp.qp_num);
        call.end(
            "ibv_modify_qp",
            &[
                ("qp", Value::Hex(number.into())),
                ("state", Value::Text(state.map_or("unchanged", state_name))),
            ],
            Outcome::Code(result),
        );
    });
    result
}

pub unsafe fn ibv_destroy_qp(qp: *mut ibv_qp) -> c_int {
    let mut number = 0;
    before(|| {
        if let Some(pair) = model().pairs.get(qp as u64) {
            number = pair.number;
        }
    });
    destroy(
        "ibv_destroy_qp",
        Kind::QueuePair,
        qp as usize,
        ("qp", Value::Hex(number.into())),
        || original::ibv_destroy_qp(qp),
    )
}

// --- the rest ------------------------------------------------------------------------------

pub unsafe fn ibv_create_ah(pd: *mut ibv_pd, attributes: *mut c_void) -> *mut ibv_ah {
    let call = Call::begin();
    before(|| check_object("ibv_create_ah", Kind::ProtectionDomain, pd as usize));
    let ah = original::ibv_create_ah(pd, attributes);
    after(|errno| {
        model().born(ah as usize);
        call.end(
            "ibv_create_ah",
            &[domain_field(pd)],
            Outcome::Object(ah as usize, errno),
        );
    });
    ah
}

/// Whether it calls the one above depends on how libibverbs was built.
pub unsafe fn ibv_create_ah_from_wc(
    pd: *mut ibv_pd,
    wc: *mut c_void,
    grh: *mut c_void,
    port: u8,
) -> *mut ibv_ah {
    let ah = original::ibv_create_ah_from_wc(pd, wc, grh, port);
    after(|_| model().born(ah as usize));
    ah
}

pub unsafe fn ibv_destroy_ah(ah: *mut ibv_ah) -> c_int {
    destroy(
        "ibv_destroy_ah",
        Kind::AddressHandle,
        ah as usize,
        ("ah", Value::Pointer(ah as usize)),
        || original::ibv_destroy_ah(ah),
    )
}

/// As [`ibv_get_cq_event`]: nothing is held.
pub unsafe fn ibv_get_async_event(context: *mut ibv_context, event: *mut ibv_async_event) -> c_int {
    let call = Call::begin();
    before(|| check_object("ibv_get_async_event", Kind::Context, context as usize));
    let result = original::ibv_get_async_event(context, event);
    after(|errno| {
        let kind = event
            .as_ref()
            .filter(|_| result == 0)
            .map_or(0, |event| event.event_type);
        let got = &[("event", Value::Number(kind.into()))];
        call.end(
            "ibv_get_async_event",
            &[("context", Value::Pointer(context as usize))],
            if result == 0 {
                Outcome::Got(got)
            } else {
                Outcome::Errno(result, errno)
            },
        );
    });
    result
}
