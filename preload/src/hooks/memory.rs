// SPDX-License-Identifier: MIT OR Apache-2.0
//! Memory regions.

use std::ffi::{c_int, c_uint, c_void};

use rdma_verbs_bindings::{
    IBV_ACCESS_LOCAL_WRITE, IBV_ACCESS_REMOTE_READ, IBV_ACCESS_REMOTE_WRITE, IBV_ACCESS_ZERO_BASED,
    IBV_REREG_MR_CHANGE_ACCESS, IBV_REREG_MR_CHANGE_PD, IBV_REREG_MR_CHANGE_TRANSLATION, ibv_mr,
    ibv_pd,
};

use super::{Call, after, before, domain_field, end_of, tell};
use crate::errno::Errno;
use crate::event::{Event, Field, Outcome, Value};
use crate::functions::RegionAttributes;
use crate::kind::Kind;
use crate::model::{Dying, Region, User, model};
use crate::original;
use crate::thread::Busy;
use crate::watch;

/// `IBV_REG_MR_MASK_IOVA` and `IBV_REG_MR_MASK_ADDR`.
const HAS_IOVA: u64 = 1;
const HAS_ADDR: u64 = 2;

fn length_field(length: usize) -> Field {
    ("length", Value::Size(length as u64))
}

fn access_field(access: u32) -> Field {
    ("access", Value::Access(access))
}

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
    tell(&Event::Registered(length.unwrap_or(0)));
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
        stack: watch::stack().unwrap_or_default(),
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
        watch::uses(self.name, Kind::ProtectionDomain, self.pd as usize);
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
    before(|| dying = Some(model().dying(Kind::MemoryRegion, mr as usize, watch::stack())));
    original::ibv_unimport_mr(mr);
    after(|_| {
        if let Some(region) = dying.as_ref().and_then(Dying::region) {
            tell(&Event::Deregistered(region.length));
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
        watch::uses("ibv_rereg_mr", Kind::MemoryRegion, mr as usize);
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
            tell(&Event::Reregistered(before.length, region.length));
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
        watch::uses("rdma_dereg_mr", Kind::MemoryRegion, mr as usize);
        let marked = model().dying(Kind::MemoryRegion, mr as usize, watch::stack());
        watch::deregisters(&marked);
        dying = Some(marked);
    });
    let result = original::ibv_dereg_mr(mr);
    after(|_| {
        let region = dying.as_ref().and_then(Dying::region).copied();
        if let (0, Some(region)) = (result, region) {
            tell(&Event::Deregistered(region.length));
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
