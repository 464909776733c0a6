// SPDX-License-Identifier: MIT OR Apache-2.0
//! Questions to the dynamic loader: what a reference would be resolved to without this
//! library.

use std::ffi::{CStr, c_char, c_void};
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering::*};

use crate::elf;

pub type Dlsym = unsafe extern "C" fn(*mut c_void, *const c_char) -> *mut c_void;
pub type Dlvsym = unsafe extern "C" fn(*mut c_void, *const c_char, *const c_char) -> *mut c_void;

/// A function of the C library of which this library has one of the same name. Only the
/// tables of the loaded objects tell where it is.
pub struct Behind {
    name: &'static CStr,
    address: AtomicPtr<c_void>,
}

impl Behind {
    pub const fn new(name: &'static CStr) -> Self {
        Self {
            name,
            address: AtomicPtr::new(ptr::null_mut()),
        }
    }

    /// Its address, or NULL where the C library is too old to have it.
    pub fn address(&self) -> *mut c_void {
        let known = self.address.load(Relaxed);
        if !known.is_null() {
            return known;
        }
        let found = elf::behind(self.name) as *mut c_void;
        self.address.store(found, Relaxed);
        found
    }
}

static DLSYM: Behind = Behind::new(c"dlsym");
static DLVSYM: Behind = Behind::new(c"dlvsym");

/// The C library's `dlsym`.
pub fn dlsym() -> Option<Dlsym> {
    // SAFETY: NULL, or the address of a function of that type.
    unsafe { std::mem::transmute::<*mut c_void, Option<Dlsym>>(DLSYM.address()) }
}

/// The C library's `dlvsym`.
pub fn dlvsym() -> Option<Dlvsym> {
    // SAFETY: as above.
    unsafe { std::mem::transmute::<*mut c_void, Option<Dlvsym>>(DLVSYM.address()) }
}

/// Looks a function up; an empty version means the default one.
fn look_up(handle: *mut c_void, name: &CStr, version: &CStr) -> *mut c_void {
    // SAFETY: the C library's functions, a valid handle, and C strings.
    unsafe {
        if version.is_empty() {
            dlsym().map_or(ptr::null_mut(), |dlsym| dlsym(handle, name.as_ptr()))
        } else {
            dlvsym().map_or(ptr::null_mut(), |dlvsym| {
                dlvsym(handle, name.as_ptr(), version.as_ptr())
            })
        }
    }
}

/// Takes back what a lookup that failed has to say: the program did not ask.
fn forget_error() {
    unsafe extern "C" {
        fn dlerror() -> *mut c_char;
    }
    // SAFETY: no preconditions.
    unsafe { dlerror() };
}

/// What the global scope has behind this library.
pub fn behind(name: &CStr, version: &CStr) -> *mut c_void {
    let found = look_up(libc::RTLD_NEXT, name, version);
    if found.is_null() {
        forget_error();
    }
    found
}

/// Fails as a lookup that finds nothing, error text and all.
pub fn not_found(name: &CStr, version: &CStr) {
    look_up(libc::RTLD_NEXT, name, version);
}

/// What the library at an address finds among itself and what it needs.
pub fn as_seen_by(address: usize, name: &CStr, version: &CStr) -> *mut c_void {
    let mut about = libc::Dl_info {
        dli_fname: ptr::null(),
        dli_fbase: ptr::null_mut(),
        dli_sname: ptr::null(),
        dli_saddr: ptr::null_mut(),
    };
    // SAFETY: any address may be asked for.
    if unsafe { libc::dladdr(address as *const c_void, &raw mut about) } == 0 {
        return ptr::null_mut();
    }
    // SAFETY: the loader's name of a loaded object; loads nothing.
    let handle = unsafe { libc::dlopen(about.dli_fname, libc::RTLD_LAZY | libc::RTLD_NOLOAD) };
    if handle.is_null() {
        forget_error();
        return ptr::null_mut();
    }
    let found = look_up(handle, name, version);
    if found.is_null() {
        forget_error();
    }
    // SAFETY: opened above; the caller's code keeps the object loaded.
    unsafe { libc::dlclose(handle) };
    found
}

/// The address that the current hook returns to.
pub fn caller() -> usize {
    let mut caller = 0;
    let visit = |frame: &backtrace::Frame| {
        caller = frame.ip() as usize;
        elf::is_own(caller)
    };
    // SAFETY: the unwinder is libgcc's, which threads may use at the same time.
    unsafe { backtrace::trace_unsynchronized(visit) };
    caller
}
