// SPDX-License-Identifier: MIT OR Apache-2.0
//! References that were resolved to an original directly, and go around the exported hooks:
//! those of plugins that were loaded with `RTLD_DEEPBIND`, whose own libraries come before
//! the global scope, and those without a version.
//!
//! The loader calls nobody when it has loaded a plugin. But whoever loads one asks for its
//! functions next, by `dlsym`. So that is when the new objects are looked at. Not seen is
//! what a plugin calls before, in its constructors, and, with `RTLD_DEEPBIND`, a reference
//! that is resolved later, at its first call.

use std::ffi::c_void;
use std::fs::OpenOptions;
use std::ops::ControlFlow::{Break, Continue};
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::*};

use super::table::{self, Function};
use crate::elf;
use crate::errno::Errno;
use crate::loader;
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

/// A place that holds the address of an original, or will hold it after the first call.
struct Place {
    address: usize,
    original: Option<usize>,
    function: &'static Function,
}

impl Place {
    /// The hook that is to be there. Asks the loader, which must not be done while it shows
    /// its objects.
    fn hook(&self) -> Option<*mut c_void> {
        if let Some(original) = self.original {
            return self.function.hook_of(original as *mut c_void);
        }
        let (name, version) = (self.function.original.name, self.function.original.version);
        let global = loader::behind(name, version);
        let own = loader::as_seen_by(self.address, name, version);
        // Otherwise it is not certain what the loader would find.
        (!global.is_null() && (own.is_null() || own == global)).then(|| self.function.exported())
    }
}

/// Those of all objects but the first `seen` ones.
fn direct(seen: usize) -> Vec<Place> {
    let mut places = Vec::new();
    let mut count = 0;
    elf::each::<()>(|object| {
        count += 1;
        if count > seen && !object.is_own() {
            object.references(|reference| {
                let Some(function) = table::find(reference.name) else {
                    return;
                };
                let now = reference.value();
                // It leads back to where the object calls the loader.
                let is_open = object.contains(now) && !reference.has_version;
                if is_open || function.is(now) {
                    places.push(Place {
                        address: reference.place,
                        original: (!is_open).then_some(now),
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
        let Some(hook) = place.hook() else {
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
