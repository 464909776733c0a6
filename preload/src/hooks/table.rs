// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the library exports under the names of the hooked functions, and what its `dlsym`
//! answers with.
//!
//! A symbol has the version that references to the original name, and is hidden: only a
//! reference to that very version finds it. Such a reference is in a library or program
//! that was linked with the original. What asks whether a function is there — a weak
//! reference without a version, `dlsym` without one — does not find the hook of a
//! function that the process has not loaded.

use std::ffi::{CStr, c_void};

use crate::elf;
use crate::functions::{functions, types::*};
use crate::life;
use crate::loader;
use crate::original::{self, BOUND, Original, statics};

/// A function that is hooked.
pub struct Function {
    pub original: &'static Original,
    exported: Address,
    bound: [Address; BOUND],
}

/// The address of a function.
struct Address(*const ());

// SAFETY: an address.
unsafe impl Sync for Address {}

impl Function {
    /// The hook that is exported: its original is looked up at each call.
    pub fn exported(&self) -> *mut c_void {
        self.exported.0.cast_mut().cast()
    }

    /// Whether it is an original of this function.
    pub fn is(&self, found: usize) -> bool {
        !elf::is_own(found) && elf::defines(found, self.original.name, self.original.version)
    }

    /// The hook of a function of that name, if it is the one that is hooked: there may be
    /// others, in other versions.
    pub fn hook_of(&self, found: *mut c_void) -> Option<*mut c_void> {
        let (name, version) = (self.original.name, self.original.version);
        if !self.is(found as usize) {
            None
        } else if loader::behind(name, version) == found {
            Some(self.exported())
        } else {
            // Of this one original, as long as there are not too many.
            let number = self.original.bind(found)?;
            self.bound.get(number).map(|hook| hook.0.cast_mut().cast())
        }
    }
}

/// The function of a name.
pub fn find(name: &CStr) -> Option<&'static Function> {
    const PREFIXES: [&[u8]; 7] = [
        b"ibv_", b"rdma_", b"verbs_", b"mlx5dv_", b"mlx4dv_", b"efadv_", b"hnsdv_",
    ];
    // Programs ask for thousands of other names.
    let may_be = |prefix: &&[u8]| name.to_bytes().starts_with(prefix);
    PREFIXES.iter().any(may_be).then_some(())?;
    TABLE.iter().find(|function| function.original.name == name)
}

macro_rules! entries {
    ($($suffix:literal {$(
        fn $name:ident($($argument:ident: $type:ty),* $(,)?) $(-> $result:ty)?;
    )*})*) => {
        mod exported {
            use super::*;
            $($(
                #[cfg_attr(not(test), unsafe(export_name = concat!(stringify!($name), $suffix)))]
                pub unsafe extern "C" fn $name($($argument: $type),*) $(-> $result)? {
                    life::start();
                    original::resolved(|| super::hooks::$name($($argument),*))
                }
            )*)*
        }

        mod bound {
            use super::*;
            $($(
                pub unsafe extern "C" fn $name<const NUMBER: usize>(
                    $($argument: $type),*
                ) $(-> $result)? {
                    life::start();
                    original::bound(&statics::$name, NUMBER, || {
                        super::hooks::$name($($argument),*)
                    })
                }
            )*)*
        }

        static TABLE: &[Function] = &[$($(
            Function {
                original: &statics::$name,
                exported: Address(exported::$name as *const ()),
                bound: [
                    Address(bound::$name::<0> as *const ()),
                    Address(bound::$name::<1> as *const ()),
                    Address(bound::$name::<2> as *const ()),
                    Address(bound::$name::<3> as *const ()),
                ],
            },
        )*)*];
    };
}

/// The hooks, wherever they are.
mod hooks {
    pub use super::super::{cm::*, completion::*, device::*, memory::*, queue_pair::*, vendor::*};
}

functions!(entries);

#[cfg(test)]
mod tests {
    use super::{TABLE, find};

    #[test]
    fn all_are_found() {
        for function in TABLE {
            assert!(
                find(function.original.name).is_some(),
                "{:?}",
                function.original.name
            );
        }
        assert!(find(c"ibv_no_such_function").is_none());
        assert!(find(c"getpid").is_none());
    }
}
