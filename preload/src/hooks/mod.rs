// SPDX-License-Identifier: MIT OR Apache-2.0
//! The hooks: functions that stand in for those of libibverbs, librdmacm and the
//! provider, call them, and tell `watch` what happened.

mod classic;
mod cm;
mod completion;
mod counting;
mod device;
mod dlsym;
mod extended;
mod list;
mod memory;
mod queue_pair;
pub mod redirect;
mod slots;
mod table;
mod vendor;

use std::ffi::c_int;

use rdma_verbs_bindings::ibv_pd;

use crate::clock;
use crate::errno::Errno;
use crate::event::{Called, Event, Field, Fields, Outcome, Value};
use crate::kind::Kind;
use crate::model::{Dying, model};
use crate::thread::{self, Busy};
use crate::watch;

/// A call that trace writes a line for.
pub struct Call {
    /// When it began; `None` where nobody wants to know.
    from: Option<u64>,
    silent: bool,
}

impl Call {
    pub fn begin() -> Self {
        Self {
            from: watch::call_begins(),
            silent: false,
        }
    }

    /// Calls one of librdmacm's functions. What these call among themselves gets no
    /// line: the program knows nothing of it.
    pub fn inside<R>(&mut self, call: impl FnOnce() -> R) -> R {
        let (result, by_another) = thread::inside(call);
        self.silent = by_another;
        result
    }

    pub fn end(&self, name: &str, arguments: Fields<'_>, outcome: Outcome<'_>) {
        if let (Some(from), false) = (self.from, self.silent) {
            tell(&Event::Called(&Called {
                name,
                arguments,
                outcome,
                from,
                to: clock::now(),
            }));
        }
    }
}

/// Tells what happened. Which event it is, is known where it is made: nothing asks for
/// that at run time.
#[allow(clippy::inline_always)]
#[inline(always)]
pub fn tell(event: &Event<'_>) {
    // SAFETY: the objects of a hook's event are its caller's.
    unsafe { watch::on(event) }
}

/// Does what is to be done after an original has returned, with its errno in hand.
pub fn after(act: impl FnOnce(i32)) {
    let errno = Errno::now();
    if let Some(_busy) = Busy::enter() {
        act(errno.0);
    }
    errno.restore();
}

/// Does what is to be done before an original is called.
pub fn before(act: impl FnOnce()) {
    after(|_| act());
}

fn domain_field(pd: *mut ibv_pd) -> Field {
    ("pd", Value::Pointer(pd as usize))
}

/// Calls a function that makes an object of another one. `made` enters it in the model.
unsafe fn create<T>(
    name: &str,
    (kind, of): (Kind, usize),
    arguments: Fields<'_>,
    make: impl FnOnce() -> *mut T,
    made: impl FnOnce(*mut T),
) -> *mut T {
    let call = Call::begin();
    before(|| watch::uses(name, kind, of));
    let object = make();
    after(|errno| {
        if !object.is_null() {
            model().born(object as usize);
            made(object);
        }
        call.end(name, arguments, Outcome::Object(object as usize, errno));
    });
    object
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
        watch::uses(name, kind, object);
        watch::destroys(kind, object);
        dying = Some(model().dying(kind, object, watch::stack()));
    });
    let result = destroy();
    after(|_| {
        end_of(dying, result == 0);
        call.end(name, &[field], Outcome::Code(result));
    });
    result
}

/// After the function that destroys an object has returned.
fn end_of(dying: Option<Dying>, is_destroyed: bool) {
    match dying {
        Some(dying) if is_destroyed => model().died(&dying),
        Some(dying) => model().survived(&dying),
        None => {}
    }
}
