// SPDX-License-Identifier: MIT OR Apache-2.0
//! rdma-sys has ports of the helpers to Rust, which nobody here wrote. Its layouts are
//! compared with those of the bindings, and its ports with the library by the
//! differential test, which compares the library with librdmacm's header too.
//!
//! `RDMA_VERBS_LIBRARY` names the library. Arguments: as of the differential test.

mod ports;

use std::error::Error;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::mem::offset_of;
use std::process::ExitCode;
use std::ptr;
use std::{env, io, panic};

const HELPERS: usize = 15;

/// Sizes, alignments and offsets: what it is, in the bindings, in rdma-sys.
static PLACES: &[(&str, usize, usize)] = &include!(concat!(env!("OUT_DIR"), "/places.rs"));

/// `struct helpers`: functions in the order of [`helper_names`].
type Helpers = [*const c_void; HELPERS];

/// `struct upstream`.
#[repr(C)]
struct Upstream {
    name: *const c_char,
    with_assert: *const Helpers,
    without_assert: *const Helpers,
    aborts_without_operation: bool,
    zeroes_unnamed_fields: bool,
}

unsafe extern "C" {
    static helper_names: [*const c_char; HELPERS];
    fn differential(
        upstream: *const Upstream,
        ours: *const Helpers,
        argc: c_int,
        argv: *mut *mut c_char,
    );
    fn report_point(passed: bool, format: *const c_char, ...);
    fn report_end() -> c_int;
}

/// Finds the function of each helper.
fn helpers(
    find: impl Fn(&CStr) -> Result<*const c_void, Box<dyn Error>>,
) -> Result<Helpers, Box<dyn Error>> {
    let mut found = [ptr::null(); HELPERS];
    // SAFETY: an array of names that never changes.
    for (function, name) in found.iter_mut().zip(unsafe { helper_names }) {
        // SAFETY: a string literal of C.
        *function = find(unsafe { CStr::from_ptr(name) })?;
    }
    Ok(found)
}

/// The functions of the shared library.
fn library(path: &CStr) -> Result<Helpers, Box<dyn Error>> {
    // SAFETY: the library's initialisation only looks at an environment variable.
    let library = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW) };
    if library.is_null() {
        return Err(dl_error());
    }
    helpers(|name| {
        // SAFETY: a handle that dlopen returned.
        let function = unsafe { libc::dlsym(library, name.as_ptr()) };
        if function.is_null() {
            return Err(dl_error());
        }
        Ok(function.cast_const())
    })
}

fn dl_error() -> Box<dyn Error> {
    // SAFETY: called after a failure, so that there is a text.
    unsafe { CStr::from_ptr(libc::dlerror()) }
        .to_string_lossy()
        .into()
}

/// Compares the layouts of rdma-sys with those of the bindings.
fn compare_layouts() {
    let mut same = true;
    for (what, ours, theirs) in PLACES {
        if ours != theirs {
            println!("# {what}: {ours}, in rdma-sys {theirs}");
            same = false;
        }
    }
    // SAFETY: the arguments are those of the format.
    unsafe {
        report_point(
            same,
            c"layouts: %zu sizes, alignments and offsets".as_ptr(),
            PLACES.len(),
        );
    }
}

fn compare_helpers(library: &Helpers) -> Result<(), Box<dyn Error>> {
    let ports = helpers(ports::find)?;
    let rdma_sys = Upstream {
        name: c"rdma-sys".as_ptr(),
        with_assert: &raw const ports,
        without_assert: ptr::null(),
        aborts_without_operation: true,
        zeroes_unnamed_fields: true,
    };
    let arguments: Vec<CString> = env::args().map(CString::new).collect::<Result<_, _>>()?;
    let mut argv: Vec<*mut c_char> = arguments.iter().map(|a| a.as_ptr().cast_mut()).collect();
    // A panic that is expected says nothing.
    panic::set_hook(Box::new(|_| ()));
    // SAFETY: what it is given has the layouts that it declares, and outlives the call.
    unsafe {
        differential(
            &raw const rdma_sys,
            library,
            c_int::try_from(argv.len())?,
            argv.as_mut_ptr(),
        );
    }
    drop(panic::take_hook());
    Ok(())
}

fn main() -> Result<ExitCode, Box<dyn Error>> {
    if cfg!(debug_assertions) {
        return Err("run with --release: debug assertions are not part of rdma-sys' ports".into());
    }
    let path = env::var("RDMA_VERBS_LIBRARY")
        .map_err(|_| io::Error::other("RDMA_VERBS_LIBRARY names no library"))?;
    let library = library(&CString::new(path)?)?;
    compare_layouts();
    compare_helpers(&library)?;
    // SAFETY: no preconditions.
    let failed = unsafe { report_end() } != 0;
    Ok(if failed {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    })
}
