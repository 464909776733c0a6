// SPDX-License-Identifier: MIT OR Apache-2.0
//! The hooks: functions that stand in for those of libibverbs, librdmacm and the
//! provider, call them, and tell trace, stat or check what happened.

mod cm;
mod data;
mod dlsym;
mod extended;
pub mod redirect;
mod slots;
mod table;
mod vendor;
mod verbs;

use rdma_verbs_settings::Mode;

use crate::clock;
use crate::errno::Errno;
use crate::settings;
use crate::stack::Stack;
use crate::thread::{self, Busy};
use crate::trace::{self, Called, Fields, Outcome};

/// A call that trace writes a line for.
pub struct Call {
    from: u64,
    silent: bool,
}

impl Call {
    pub fn begin() -> Self {
        let from = if settings::is(Mode::Trace) {
            clock::now()
        } else {
            0
        };
        Self {
            from,
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
        if settings::is(Mode::Trace) && !self.silent {
            trace::called(&Called {
                name,
                arguments,
                outcome,
                from: self.from,
                to: clock::now(),
            });
        }
    }
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

/// The call stack, where check will want it.
pub fn stack() -> Option<Stack> {
    settings::is(Mode::Check).then(Stack::here)
}
