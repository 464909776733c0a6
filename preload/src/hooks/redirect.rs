// SPDX-License-Identifier: MIT OR Apache-2.0
//! References that were resolved to an original directly, and go around the exported hooks:
//! those of plugins that were loaded with `RTLD_DEEPBIND`, whose own libraries come before
//! the global scope, and those without a version.
//!
//! The loader calls nobody when it has loaded a plugin. But whoever loads one asks for its
//! functions next, by `dlsym`. So that is when the new objects are looked at. Not seen is
//! what a plugin calls before, in its constructors, and a reference that is resolved later,
//! at its first call.

use std::ffi::c_void;
use std::fs::OpenOptions;
use std::ops::ControlFlow::{Break, Continue};
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::*};

use super::table::{self, Function};
use crate::elf;
use crate::errno::Errno;
use crate::settings;

/// How many objects have been looked at, and when.
static SEEN: AtomicUsize = AtomicUsize::new(0);
static UNLOADED: AtomicU64 = AtomicU64::new(0);
static GENERATION: AtomicU64 = AtomicU64::new(0);

/// Has those of objects that were loaded since the last time come to the hooks.
pub fn direct_references() {
    if settings::mode().is_none() {
        return;
    }
    let generation = elf::generation();
    if GENERATION.swap(generation, Relaxed) == generation {
        return;
    }
    let errno = Errno::now();
    // New objects come last, unless some are gone.
    let unloaded = elf::unloaded();
    if UNLOADED.swap(unloaded, Relaxed) != unloaded {
        SEEN.store(0, Relaxed);
    }
    let places = direct(SEEN.load(Relaxed));
    if !places.is_empty() {
        redirect(&places);
    }
    errno.restore();
}

/// A place that holds the address of an original.
struct Place {
    address: usize,
    original: usize,
    function: &'static Function,
}

/// Those of all objects but the first `seen` ones.
fn direct(seen: usize) -> Vec<Place> {
    let mut places = Vec::new();
    let mut count = 0;
    elf::each::<()>(|object| {
        count += 1;
        if count > seen && !object.is_own() {
            object.references(|reference| {
                let original = reference.value();
                let function = table::find(reference.name);
                if let Some(function) = function.filter(|function| function.is(original)) {
                    places.push(Place {
                        address: reference.place,
                        original,
                        function,
                    });
                }
            });
        }
        Continue(())
    });
    SEEN.store(count, Relaxed);
    places
}

/// Through a file, by which the kernel writes to pages that the loader has protected, too.
/// Where it refuses, the reference stays as it is.
fn redirect(places: &[Place]) {
    let Ok(memory) = OpenOptions::new().write(true).open("/proc/self/mem") else {
        return;
    };
    for place in places {
        // Asks the loader, which must not be done while it shows its objects.
        let Some(hook) = place.function.hook_of(place.original as *mut c_void) else {
            continue;
        };
        elf::each(|object| {
            if !object.contains(place.address) {
                return Continue(());
            }
            let _ = memory.write_all_at(&(hook as usize).to_ne_bytes(), place.address as u64);
            Break(())
        });
    }
}
