// SPDX-License-Identifier: MIT OR Apache-2.0
//! The objects that the loader has loaded, and the functions they define.
//!
//! `dlsym` would answer the same questions, but a lookup that fails replaces the text
//! that the program's next `dlerror` returns, and each lookup takes a lock that another
//! thread holds while it runs the constructors of a library. So the tables are read here.
//!
//! Seen are the objects of the program's own namespace, not those of `dlmopen`.

use std::cell::UnsafeCell;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::ops::ControlFlow::{self, Break, Continue};
use std::slice;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use crate::lock::{Held, Lock};

const DT_PLTRELSZ: i64 = 2;
const DT_HASH: i64 = 4;
const DT_STRTAB: i64 = 5;
const DT_SYMTAB: i64 = 6;
const DT_RELA: i64 = 7;
const DT_RELASZ: i64 = 8;
const DT_JMPREL: i64 = 23;
const DT_GNU_HASH: i64 = 0x6fff_fef5;
const DT_VERSYM: i64 = 0x6fff_fff0;
const DT_VERDEF: i64 = 0x6fff_fffc;

const STT_FUNC: u8 = 2;
/// In a symbol's version: only references to that very version find it.
const VERSYM_HIDDEN: u16 = 0x8000;
const VER_NDX_GLOBAL: u16 = 1;

type Visit = unsafe extern "C" fn(*mut libc::dl_phdr_info, libc::size_t, *mut c_void) -> c_int;

/// `dl_iterate_phdr`. The loader's lock may be held by another thread when this process is
/// forked, and is then never released in the child. This library's threads do not hold it:
/// a fork waits for them.
fn iterate(visit: Visit, data: *mut c_void) {
    // SAFETY: each caller gives its `visit` what that takes.
    let run = || unsafe { libc::dl_iterate_phdr(Some(visit), data) };
    // From a visit, or from a signal handler that has interrupted one.
    if is_iterating() {
        run();
        return;
    }
    let _held = ITERATION.lock();
    ITERATING.store(this_thread(), Relaxed);
    run();
    ITERATING.store(0, Relaxed);
}

static ITERATION: Lock<()> = Lock::new(());
/// The thread that iterates.
static ITERATING: AtomicUsize = AtomicUsize::new(0);

fn is_iterating() -> bool {
    ITERATING.load(Relaxed) == this_thread()
}

/// A number that no other thread has. Thread-local variables are out of reach while the
/// address sanitizer starts, and looks its functions up.
fn this_thread() -> usize {
    // SAFETY: no preconditions.
    unsafe { libc::pthread_self() as usize }
}

/// Held by the thread that forks.
struct Forking(UnsafeCell<Option<Held<'static, ()>>>);

// SAFETY: used by the thread that has the lock.
unsafe impl Sync for Forking {}

static FORKING: Forking = Forking(UnsafeCell::new(None));

/// For `pthread_atfork`.
pub extern "C" fn before_fork() {
    if !is_iterating() {
        let held = ITERATION.lock();
        // SAFETY: this thread has the lock.
        unsafe { *FORKING.0.get() = Some(held) };
    }
}

/// Likewise, in the parent and in the child.
pub extern "C" fn after_fork() {
    if !is_iterating() {
        // SAFETY: as above. Taken out before it is released.
        drop(unsafe { (*FORKING.0.get()).take() });
    }
}

/// How many objects have been loaded and unloaded.
fn counters() -> (u64, u64) {
    unsafe extern "C" fn read(
        object: *mut libc::dl_phdr_info,
        _: libc::size_t,
        counters: *mut c_void,
    ) -> c_int {
        let object = &*object;
        *counters.cast::<(u64, u64)>() = (object.dlpi_adds, object.dlpi_subs);
        // One object is enough.
        1
    }
    let mut counters = (0, 0);
    iterate(read, (&raw mut counters).cast());
    counters
}

/// A number that changes whenever an object is loaded or unloaded.
pub fn generation() -> u64 {
    let (loaded, unloaded) = counters();
    loaded.wrapping_add(unloaded)
}

/// How many objects have been unloaded.
pub fn unloaded() -> u64 {
    counters().1
}

/// A loaded object. It stays loaded while [`each`] shows it.
pub struct Object<'a> {
    base: usize,
    headers: &'a [libc::Elf64_Phdr],
}

/// Shows the loaded objects in the order in which they were loaded, the program first,
/// until `visit` has found what it looks for.
pub fn each<T>(mut visit: impl FnMut(&Object<'_>) -> ControlFlow<T>) -> Option<T> {
    struct Search<'a, T> {
        visit: &'a mut dyn FnMut(&Object<'_>) -> ControlFlow<T>,
        found: Option<T>,
    }
    unsafe extern "C" fn show<T>(
        object: *mut libc::dl_phdr_info,
        _: libc::size_t,
        search: *mut c_void,
    ) -> c_int {
        let search = &mut *search.cast::<Search<'_, T>>();
        let object = &*object;
        let object = Object {
            base: object.dlpi_addr as usize,
            headers: slice::from_raw_parts(object.dlpi_phdr, object.dlpi_phnum.into()),
        };
        match (search.visit)(&object) {
            Continue(()) => 0,
            Break(found) => {
                search.found = Some(found);
                1
            }
        }
    }
    let mut search = Search {
        visit: &mut visit,
        found: None,
    };
    iterate(show::<T>, (&raw mut search).cast());
    search.found
}

/// The first definition of a function behind this library; 0 where there is none.
pub fn behind(name: &CStr) -> usize {
    let mut is_behind = false;
    each(|object| {
        let found = is_behind.then(|| object.function(name, c"")).flatten();
        is_behind |= object.is_own();
        found.map_or(Continue(()), Break)
    })
    .unwrap_or(0)
}

/// Whether the object that holds `address` defines the function there.
pub fn defines(address: usize, name: &CStr, version: &CStr) -> bool {
    each(|object| {
        if object.contains(address) {
            Break(object.function(name, version) == Some(address))
        } else {
            Continue(())
        }
    })
    .unwrap_or(false)
}

/// Whether an address is in this library.
pub fn is_own(address: usize) -> bool {
    each(|object| {
        if object.is_own() {
            Break(object.contains(address))
        } else {
            Continue(())
        }
    })
    .unwrap_or(false)
}

impl Object<'_> {
    pub fn contains(&self, address: usize) -> bool {
        self.headers.iter().any(|header| {
            let start = self.base.wrapping_add(header.p_vaddr as usize);
            header.p_type == libc::PT_LOAD
                && (start..start.wrapping_add(header.p_memsz as usize)).contains(&address)
        })
    }

    /// Whether it is this library.
    pub fn is_own(&self) -> bool {
        self.contains(generation as *const () as usize)
    }

    /// The address of a function that the object defines, as a reference to that version
    /// finds it; an empty version means the default one.
    pub fn function(&self, name: &CStr, version: &CStr) -> Option<usize> {
        // SAFETY: the loader has loaded the object, and keeps it while it is shown.
        let value = unsafe { self.tables()?.function(name, version)? };
        Some(self.base.wrapping_add(value))
    }

    /// Shows the places where the loader has put, or will put, the addresses of functions
    /// of other objects.
    pub fn references(&self, mut visit: impl FnMut(Reference<'_>)) {
        // SAFETY: as above.
        unsafe {
            let Some(tables) = self.tables() else {
                return;
            };
            for relocation in tables.relocations() {
                let index = (relocation.info >> 32) as u32;
                if !ADDRESSES.contains(&(relocation.info as u32)) || index == 0 {
                    continue;
                }
                let symbol = tables.symbol(index);
                if symbol.st_shndx == 0 {
                    visit(Reference {
                        name: tables.string(symbol.st_name),
                        has_version: tables.has_any_version(index),
                        place: self.base.wrapping_add(relocation.place),
                    });
                }
            }
        }
    }

    unsafe fn tables(&self) -> Option<Tables> {
        let dynamic = self
            .headers
            .iter()
            .find(|header| header.p_type == libc::PT_DYNAMIC)?;
        Some(Tables::read(self.base, dynamic.p_vaddr as usize))
    }
}

/// A place that holds the address of a function, once the reference is resolved.
pub struct Reference<'a> {
    pub name: &'a CStr,
    pub has_version: bool,
    pub place: usize,
}

impl Reference<'_> {
    pub fn value(&self) -> usize {
        // SAFETY: in a loaded object; another thread may resolve it.
        unsafe { AtomicUsize::from_ptr(self.place as *mut usize).load(Relaxed) }
    }
}

/// The types of relocations that are the address of a symbol: in a table of addresses, in a
/// table of functions that are called, and anywhere.
#[cfg(target_arch = "x86_64")]
const ADDRESSES: [u32; 3] = [6, 7, 1];
#[cfg(target_arch = "aarch64")]
const ADDRESSES: [u32; 3] = [1025, 1026, 257];
#[cfg(target_arch = "riscv64")]
const ADDRESSES: [u32; 2] = [5, 2];

/// `Elf64_Rela`.
#[repr(C)]
struct Relocation {
    place: usize,
    info: u64,
    addend: i64,
}

#[derive(Default)]
struct Tables {
    symbols: usize,
    strings: usize,
    gnu_hash: usize,
    hash: usize,
    versions: usize,
    definitions: usize,
    relocations: usize,
    relocations_size: usize,
    calls: usize,
    calls_size: usize,
}

impl Tables {
    unsafe fn read(base: usize, dynamic: usize) -> Self {
        let mut tables = Self::default();
        let mut entry = base.wrapping_add(dynamic) as *const [i64; 2];
        loop {
            let [tag, value] = *entry;
            let value = value as usize;
            // The loader has made addresses of the offsets, but not where it may not
            // write: in the vDSO, and on RISC-V.
            let address = if value < base {
                base.wrapping_add(value)
            } else {
                value
            };
            match tag {
                0 => return tables,
                DT_SYMTAB => tables.symbols = address,
                DT_STRTAB => tables.strings = address,
                DT_GNU_HASH => tables.gnu_hash = address,
                DT_HASH => tables.hash = address,
                DT_VERSYM => tables.versions = address,
                DT_VERDEF => tables.definitions = address,
                DT_RELA => tables.relocations = address,
                DT_RELASZ => tables.relocations_size = value,
                DT_JMPREL => tables.calls = address,
                DT_PLTRELSZ => tables.calls_size = value,
                _ => {}
            }
            entry = entry.add(1);
        }
    }

    unsafe fn relocations(&self) -> impl Iterator<Item = &Relocation> {
        let table = |start: usize, size: usize| {
            let start = if size == 0 {
                align_of::<Relocation>()
            } else {
                start
            };
            slice::from_raw_parts(start as *const Relocation, size / size_of::<Relocation>())
        };
        table(self.calls, self.calls_size)
            .iter()
            .chain(table(self.relocations, self.relocations_size))
    }

    unsafe fn symbol(&self, index: u32) -> &libc::Elf64_Sym {
        &*(self.symbols as *const libc::Elf64_Sym).add(index as usize)
    }

    /// The value of a defined function symbol.
    unsafe fn function(&self, name: &CStr, version: &CStr) -> Option<usize> {
        if self.symbols == 0 || self.strings == 0 {
            None
        } else if self.gnu_hash != 0 {
            self.look_up(name, version)
        } else if self.hash != 0 {
            let count = *(self.hash as *const u32).add(1);
            (1..count).find_map(|index| self.value(index, name, version))
        } else {
            None
        }
    }

    unsafe fn look_up(&self, name: &CStr, version: &CStr) -> Option<usize> {
        let hash = name.to_bytes().iter().fold(5381u32, |hash, &byte| {
            hash.wrapping_mul(33).wrapping_add(byte.into())
        });
        let header = self.gnu_hash as *const u32;
        let (count, first, words) = (*header, *header.add(1), *header.add(2));
        if count == 0 {
            return None;
        }
        // The bloom filter's words are as long as a pointer.
        let buckets = header
            .add(4)
            .cast::<usize>()
            .add(words as usize)
            .cast::<u32>();
        let chain = buckets.add(count as usize);
        let mut index = *buckets.add((hash % count) as usize);
        if index < first {
            return None;
        }
        loop {
            let link = *chain.add((index.wrapping_sub(first)) as usize);
            if link | 1 == hash | 1 {
                if let Some(value) = self.value(index, name, version) {
                    return Some(value);
                }
            }
            if link & 1 == 1 {
                return None;
            }
            index = index.wrapping_add(1);
        }
    }

    unsafe fn value(&self, index: u32, name: &CStr, version: &CStr) -> Option<usize> {
        let symbol = self.symbol(index);
        let is_defined = symbol.st_info & 0xf == STT_FUNC && symbol.st_shndx != 0;
        (is_defined && self.string(symbol.st_name) == name && self.has_version(index, version))
            .then_some(symbol.st_value as usize)
    }

    /// Whether a reference to that version finds the symbol: the loader's own rule.
    unsafe fn has_version(&self, index: u32, version: &CStr) -> bool {
        if self.versions == 0 {
            return true;
        }
        let own = *(self.versions as *const u16).add(index as usize);
        let is_hidden = own & VERSYM_HIDDEN != 0;
        let number = own & !VERSYM_HIDDEN;
        if version.is_empty() || number <= VER_NDX_GLOBAL {
            return !is_hidden;
        }
        self.name_of_version(number) == Some(version)
    }

    unsafe fn has_any_version(&self, index: u32) -> bool {
        self.versions != 0
            && *(self.versions as *const u16).add(index as usize) & !VERSYM_HIDDEN > VER_NDX_GLOBAL
    }

    unsafe fn name_of_version(&self, number: u16) -> Option<&CStr> {
        if self.definitions == 0 {
            return None;
        }
        let mut definition = self.definitions as *const Definition;
        while (*definition).number & !VERSYM_HIDDEN != number {
            if (*definition).next == 0 {
                return None;
            }
            definition = definition.byte_add((*definition).next as usize);
        }
        // The first of its names is its own.
        let name: *const u32 = definition.byte_add((*definition).names as usize).cast();
        Some(self.string(*name))
    }

    unsafe fn string(&self, offset: u32) -> &CStr {
        CStr::from_ptr((self.strings as *const c_char).add(offset as usize))
    }
}

/// `Elf64_Verdef`.
#[repr(C)]
struct Definition {
    revision: u16,
    flags: u16,
    number: u16,
    count: u16,
    hash: u32,
    names: u32,
    next: u32,
}

#[cfg(test)]
mod tests {
    use super::{behind, defines};

    #[test]
    fn finds_functions_of_the_c_library() {
        assert_eq!(behind(c"dlsym"), libc::dlsym as *const () as usize);
        assert_eq!(behind(c"getpid"), libc::getpid as *const () as usize);
        assert_eq!(behind(c"no_such_function"), 0);
    }

    #[test]
    fn versions_are_those_of_the_definition() {
        // SAFETY: C strings.
        let has = |version| unsafe {
            !libc::dlvsym(libc::RTLD_DEFAULT, c"getpid".as_ptr(), version).is_null()
        };
        for version in [
            c"GLIBC_2.2.5",
            c"GLIBC_2.17",
            c"GLIBC_2.27",
            c"NO_SUCH_VERSION",
        ] {
            let getpid = libc::getpid as *const () as usize;
            assert_eq!(defines(getpid, c"getpid", version), has(version.as_ptr()));
        }
    }
}
