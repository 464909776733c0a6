// SPDX-License-Identifier: MIT OR Apache-2.0
//! The functions behind the hooks.
//!
//! The library is not linked with libibverbs: a process that uses no RDMA stays free of
//! it, and one that brings its own copy keeps that. An original is looked up when a hook
//! is called, among all that is loaded, whatever the file is called: the copy of
//! libibverbs in a Python wheel has a name of its own.
//!
//! A process may hold several copies, and each knows its own objects only. A call goes on
//! to the function that it would have reached without this library:
//!
//! 1. A function that the program looked up with `dlsym` is answered with a hook of its own,
//!    which stays bound to what was found (`hooks::dlsym`).
//! 2. Otherwise, the reference was resolved in the global scope first. If that has the
//!    function behind this library, it is the one.
//! 3. Otherwise, if only one loaded object defines it, it is the one.
//! 4. Otherwise, objects go back to the copy that opened their device. A call without a
//!    known object is resolved as its caller's library would be.
//!
//! The last rule finds the caller by the return address. It can be wrong for a library that
//! opens a device by a tail call and is called from a library that sees another copy.

use std::cell::Cell;
use std::ffi::{CStr, c_void};
use std::ops::ControlFlow::{Break, Continue};
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering::*};

use crate::elf;
use crate::errno::Errno;
use crate::functions::{functions, types::*};
use crate::loader;
use crate::registry::Map;

/// How many functions of one name can be bound by `dlsym` at a time.
pub const BOUND: usize = 4;

/// An original function.
pub struct Original {
    pub name: &'static CStr,
    /// Of a reference to it; empty: the default one.
    pub version: &'static CStr,
    /// What all calls go on to, as long as no library is loaded or unloaded.
    only: AtomicPtr<c_void>,
    generation: AtomicU64,
    /// What was found by `dlsym`, for the hooks that stay bound to it.
    bound: [AtomicPtr<c_void>; BOUND],
}

impl Original {
    const fn new(name: &'static str, suffix: &'static str) -> Self {
        Self {
            name: c_string(name.as_bytes()),
            version: match suffix.as_bytes() {
                [b'@', version @ ..] => c_string(version),
                _ => c"",
            },
            only: AtomicPtr::new(ptr::null_mut()),
            generation: AtomicU64::new(0),
            bound: [const { AtomicPtr::new(ptr::null_mut()) }; BOUND],
        }
    }

    /// What the current call goes on to; NULL where no loaded library has it.
    fn address(&self, context: impl FnOnce() -> *mut ibv_context) -> *mut c_void {
        let (original, address) = CURRENT.get();
        if ptr::eq(original, self) && !address.is_null() {
            return address;
        }
        let generation = elf::generation();
        if self.generation.load(Acquire) == generation {
            return self.only.load(Relaxed);
        }
        let mut definitions = Definitions::default();
        definitions.find(self);
        let address = match definitions.first {
            [0, _] => ptr::null_mut(),
            [one, 0] => one as *mut c_void,
            _ => {
                let global = loader::behind(self.name, self.version);
                if global.is_null() {
                    return self.one_of_several(context(), definitions.first[0]);
                }
                global
            }
        };
        self.only.store(address, Relaxed);
        self.generation.store(generation, Release);
        address
    }

    /// No library has it in the global scope, and several have it elsewhere.
    #[cold]
    fn one_of_several(&self, context: *mut ibv_context, first: usize) -> *mut c_void {
        if let Some(opened_by) = OPENED_BY.get(context as usize) {
            let its_own = elf::each(|object| {
                if object.contains(opened_by) {
                    Break(object.function(self.name, self.version))
                } else {
                    Continue(())
                }
            });
            if let Some(Some(address)) = its_own {
                return address as *mut c_void;
            }
        }
        let callers = loader::as_seen_by(loader::caller(), self.name, self.version);
        if callers.is_null() {
            first as *mut c_void
        } else {
            callers
        }
    }

    /// The number of the hook that is bound to an original, or `None` if all are taken.
    pub fn bind(&self, address: *mut c_void) -> Option<usize> {
        let known = |place: &AtomicPtr<c_void>| place.load(Acquire) == address;
        if let Some(number) = self.bound.iter().position(known) {
            return Some(number);
        }
        self.bound.iter().position(|place| {
            let now = place.load(Acquire);
            let is_free = now.is_null() || !elf::defines(now as usize, self.name, self.version);
            is_free
                && place
                    .compare_exchange(now, address, AcqRel, Relaxed)
                    .is_ok()
        })
    }
}

/// The first two definitions of a function.
#[derive(Default)]
struct Definitions {
    first: [usize; 2],
}

impl Definitions {
    fn find(&mut self, original: &Original) {
        let [one, two] = &mut self.first;
        elf::each(|object| {
            let Some(address) = object.function(original.name, original.version) else {
                return Continue(());
            };
            if object.is_own() {
                Continue(())
            } else if *one == 0 {
                *one = address;
                Continue(())
            } else {
                *two = address;
                Break(())
            }
        });
    }
}

/// From contexts to the function that opened them. An address that is used again is
/// overwritten, so nothing has to be removed.
static OPENED_BY: Map = Map::new();

thread_local! {
    /// The hook that runs, if it is bound to one original.
    static CURRENT: Cell<(*const Original, *mut c_void)> =
        const { Cell::new((ptr::null(), ptr::null_mut())) };
}

/// Calls a hook: the original is whatever the reference would have been resolved to.
pub fn resolved<R>(hook: impl FnOnce() -> R) -> R {
    during((ptr::null(), ptr::null_mut()), hook)
}

/// Calls the hook that is bound to one original.
pub fn bound<R>(original: &'static Original, number: usize, hook: impl FnOnce() -> R) -> R {
    let address = original
        .bound
        .get(number)
        .map_or(ptr::null_mut(), |place| place.load(Acquire));
    during((original, address), hook)
}

fn during<R>(current: (*const Original, *mut c_void), hook: impl FnOnce() -> R) -> R {
    let outer = CURRENT.replace(current);
    let result = hook();
    CURRENT.set(outer);
    result
}

const fn c_string(text: &'static [u8]) -> &'static CStr {
    match CStr::from_bytes_with_nul(text) {
        Ok(text) => text,
        Err(_) => c"",
    }
}

// --- arguments and results -----------------------------------------------------------------

/// An argument that may tell the context of a call.
trait Argument {
    unsafe fn context(self) -> *mut ibv_context;
}

impl Argument for *mut ibv_context {
    unsafe fn context(self) -> *mut ibv_context {
        self
    }
}

/// Objects that name their context.
macro_rules! objects {
    ($($object:ident)*) => {$(
        impl Argument for *mut $object {
            unsafe fn context(self) -> *mut ibv_context {
                self.as_ref().map_or(ptr::null_mut(), |object| object.context)
            }
        }
    )*};
}

objects! { ibv_pd ibv_mr ibv_cq ibv_srq ibv_qp ibv_ah ibv_comp_channel }

/// Other arguments, which do not.
macro_rules! others {
    ($($other:ty)*) => {$(
        impl Argument for $other {
            unsafe fn context(self) -> *mut ibv_context {
                ptr::null_mut()
            }
        }
    )*};
}

others! {
    c_int *mut c_void *mut ibv_device *mut rdma_event_channel *mut rdma_cm_id
    *mut *mut rdma_cm_id *mut rdma_cm_event
}

/// What a function returns.
trait Returned {
    /// Where the original is missing: the program refers to the function without having
    /// loaded it.
    fn missing() -> Self;

    /// It was returned by the function at that address.
    fn remember(&self, _by: *mut c_void) {}
}

impl Returned for () {
    fn missing() {}
}

impl Returned for c_int {
    fn missing() -> Self {
        Errno(libc::ENOSYS).restore();
        -1
    }
}

fn no_object<T>() -> *mut T {
    Errno(libc::ENOSYS).restore();
    ptr::null_mut()
}

macro_rules! returned_objects {
    ($($object:ident)*) => {$(
        impl Returned for *mut $object {
            fn missing() -> Self {
                no_object()
            }
        }
    )*};
}

returned_objects! {
    c_void ibv_pd ibv_mr ibv_cq ibv_cq_ex ibv_srq ibv_qp ibv_ah ibv_comp_channel
}

impl Returned for *mut ibv_context {
    fn missing() -> Self {
        no_object()
    }

    fn remember(&self, by: *mut c_void) {
        if !self.is_null() {
            OPENED_BY.insert(*self as usize, by as usize);
        }
    }
}

// --- the callers ---------------------------------------------------------------------------

macro_rules! callers {
    ($($suffix:literal {$(
        fn $name:ident($first:ident: $first_type:ty $(, $argument:ident: $type:ty)* $(,)?)
            $(-> $result:ty)?;
    )*})*) => {
        /// What is known of each.
        pub mod statics {
            #![allow(non_upper_case_globals)]
            use super::Original;
            $($(
                pub static $name: Original = Original::new(
                    concat!(stringify!($name), "\0"),
                    concat!($suffix, "\0"),
                );
            )*)*
        }

        $($(
            pub unsafe fn $name($first: $first_type $(, $argument: $type)*) $(-> $result)? {
                // SAFETY: the object is what the program passes on.
                let address = statics::$name.address(|| unsafe { $first.context() });
                if address.is_null() {
                    return Returned::missing();
                }
                type Function =
                    unsafe extern "C" fn($first_type $(, $type)*) $(-> $result)?;
                // SAFETY: the function of that name and version has this type.
                let function: Function = unsafe { std::mem::transmute(address) };
                let result = function($first $(, $argument)*);
                Returned::remember(&result, address);
                result
            }
        )*)*
    };
}

functions!(callers);

// Looked up and called, not hooked.
static TO_EX: Original = Original::new("ibv_qp_to_qp_ex\0", "@IBVERBS_1.6\0");

/// The extended object of a queue pair, or NULL where it has none.
pub unsafe fn ibv_qp_to_qp_ex(qp: *mut ibv_qp) -> *mut rdma_verbs_bindings::ibv_qp_ex {
    // SAFETY: a queue pair of the program.
    let address = TO_EX.address(|| unsafe { qp.context() });
    if address.is_null() {
        return ptr::null_mut();
    }
    type Function = unsafe extern "C" fn(*mut ibv_qp) -> *mut rdma_verbs_bindings::ibv_qp_ex;
    // SAFETY: the function of that name and version has this type.
    let function: Function = unsafe { std::mem::transmute(address) };
    function(qp)
}
