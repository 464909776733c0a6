// SPDX-License-Identifier: MIT OR Apache-2.0
//! Devices and protection domains.

use std::ffi::{c_int, c_void};

use rdma_verbs_bindings::{ibv_async_event, ibv_context, ibv_device, ibv_pd};

use super::{Call, after, before, create, destroy, domain_field, end_of, extended, slots};
use crate::event::{Field, Outcome, Value};
use crate::kind::Kind;
use crate::model::{Name, devices, model};
use crate::original;
use crate::watch;

fn context_field(context: *mut ibv_context) -> Field {
    ("context", Value::Pointer(context as usize))
}

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
    before(|| watch::uses("ibv_open_device", Kind::Device, device as usize));
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
        watch::uses("ibv_close_device", Kind::Context, context as usize);
        is_hooked = !context.is_null() && model().contexts.alive(context as u64).is_some();
        if is_hooked {
            slots::uninstall(context);
            extended::uninstall(context);
        }
        dying = Some(model().dying(Kind::Context, context as usize, watch::stack()));
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
            &[context_field(context)],
            Outcome::Errno(result, errno),
        );
    });
    result
}

pub unsafe fn ibv_alloc_pd(context: *mut ibv_context) -> *mut ibv_pd {
    create(
        "ibv_alloc_pd",
        (Kind::Context, context as usize),
        &[context_field(context)],
        || original::ibv_alloc_pd(context),
        |_| {},
    )
}

pub unsafe fn ibv_import_pd(context: *mut ibv_context, handle: u32) -> *mut ibv_pd {
    create(
        "ibv_import_pd",
        (Kind::Context, context as usize),
        &[context_field(context)],
        || original::ibv_import_pd(context, handle),
        |_| {},
    )
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

/// As `ibv_get_cq_event`: nothing is held.
pub unsafe fn ibv_get_async_event(context: *mut ibv_context, event: *mut ibv_async_event) -> c_int {
    let call = Call::begin();
    before(|| watch::uses("ibv_get_async_event", Kind::Context, context as usize));
    let result = original::ibv_get_async_event(context, event);
    after(|errno| {
        let kind = event
            .as_ref()
            .filter(|_| result == 0)
            .map_or(0, |event| event.event_type);
        let got = &[("event", Value::Number(kind.into()))];
        call.end(
            "ibv_get_async_event",
            &[context_field(context)],
            if result == 0 {
                Outcome::Got(got)
            } else {
                Outcome::Errno(result, errno)
            },
        );
    });
    result
}
