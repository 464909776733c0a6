// SPDX-License-Identifier: MIT OR Apache-2.0
//! Finding the functions behind the hooks, and hooking programs that look functions
//! up by name.
//!
//! The library is not linked with libibverbs: a process that uses no RDMA stays free
//! of it, and one that brings its own copy keeps that. The originals are looked up at
//! the first call: after this library in the global scope, else in the libraries
//! that are loaded by then.
//!
//! A program that loads libibverbs with `dlopen` and asks `dlsym` or `dlvsym` for its
//! functions would get around the hooks. So these two are hooked as well, and
//! answer with the hook where the answer would have been the hooked function.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering::*};

use crate::original;

/// An original function, found at its first use.
pub struct Original {
    name: &'static CStr,
    version: &'static CStr,
    address: AtomicPtr<c_void>,
}

impl Original {
    pub const fn new(name: &'static CStr, version: &'static CStr) -> Self {
        Self {
            name,
            version,
            address: AtomicPtr::new(ptr::null_mut()),
        }
    }

    #[cfg(test)]
    pub fn name(&self) -> &'static str {
        self.name.to_str().unwrap_or_default()
    }

    /// Its address, or NULL where no loaded library has it.
    pub fn address(&self) -> *mut c_void {
        let known = self.address.load(Relaxed);
        if !known.is_null() {
            return known;
        }
        let found = find(self.name, self.version);
        self.address.store(found, Relaxed);
        found
    }
}

type Dlsym = unsafe extern "C" fn(*mut c_void, *const c_char) -> *mut c_void;
type Dlvsym = unsafe extern "C" fn(*mut c_void, *const c_char, *const c_char) -> *mut c_void;

/// The libraries that define what is hooked.
const LIBRARIES: [&CStr; 6] = [
    c"libibverbs.so.1",
    c"librdmacm.so.1",
    c"libmlx5.so.1",
    c"libmlx4.so.1",
    c"libefa.so.1",
    c"libhns.so.1",
];

fn find(name: &CStr, version: &CStr) -> *mut c_void {
    let (Some(dlsym), Some(dlvsym)) = (real_dlsym(), real_dlvsym()) else {
        return ptr::null_mut();
    };
    let look = |handle| {
        // SAFETY: the C library's functions, a valid handle, and C strings. The
        // version matters: libibverbs has an older function of many a name. An empty
        // one makes glibc compare it with a name that is not there.
        unsafe {
            if version.is_empty() {
                dlsym(handle, name.as_ptr())
            } else {
                dlvsym(handle, name.as_ptr(), version.as_ptr())
            }
        }
    };
    let next = look(libc::RTLD_NEXT);
    if !next.is_null() {
        return next;
    }
    for library in LIBRARIES {
        // SAFETY: loads nothing.
        let handle = unsafe { libc::dlopen(library.as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD) };
        if !handle.is_null() {
            let found = look(handle);
            if !found.is_null() {
                return found;
            }
        }
    }
    ptr::null_mut()
}

// --- the C library's own dlsym and dlvsym ------------------------------------------------

static DLSYM: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());
static DLVSYM: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());

fn real_dlsym() -> Option<Dlsym> {
    // SAFETY: NULL, or the address of a function of that type.
    unsafe { std::mem::transmute::<*mut c_void, Option<Dlsym>>(real(&DLSYM, c"dlsym")) }
}

fn real_dlvsym() -> Option<Dlvsym> {
    // SAFETY: as above.
    unsafe { std::mem::transmute::<*mut c_void, Option<Dlvsym>>(real(&DLVSYM, c"dlvsym")) }
}

fn real(place: &AtomicPtr<c_void>, name: &'static CStr) -> *mut c_void {
    let known = place.load(Relaxed);
    if !known.is_null() {
        return known;
    }
    let found = elf::find(name);
    place.store(found, Relaxed);
    found
}

/// Looks a name up in the loaded objects. Nobody else can tell where `dlsym` is, once
/// this library has a function of that name.
mod elf {
    use std::ffi::{CStr, c_int, c_void};
    use std::ptr;

    const DT_HASH: i64 = 4;
    const DT_STRTAB: i64 = 5;
    const DT_SYMTAB: i64 = 6;
    const DT_GNU_HASH: i64 = 0x6fff_fef5;

    struct Search {
        name: &'static CStr,
        found: *mut c_void,
    }

    pub fn find(name: &'static CStr) -> *mut c_void {
        let mut search = Search {
            name,
            found: ptr::null_mut(),
        };
        // SAFETY: `visit` takes what it is given here.
        unsafe { libc::dl_iterate_phdr(Some(visit), (&raw mut search).cast()) };
        search.found
    }

    unsafe extern "C" fn visit(
        object: *mut libc::dl_phdr_info,
        _: libc::size_t,
        search: *mut c_void,
    ) -> c_int {
        let search = &mut *search.cast::<Search>();
        let object = &*object;
        let base = object.dlpi_addr as usize;
        let headers = std::slice::from_raw_parts(object.dlpi_phdr, object.dlpi_phnum.into());
        let own = find as *const () as usize;
        let holds_this_code = headers.iter().any(|header| {
            let start = base.wrapping_add(header.p_vaddr as usize);
            header.p_type == libc::PT_LOAD
                && (start..start.wrapping_add(header.p_memsz as usize)).contains(&own)
        });
        if holds_this_code {
            return 0;
        }
        let Some(dynamic) = headers
            .iter()
            .find(|header| header.p_type == libc::PT_DYNAMIC)
        else {
            return 0;
        };
        let tables = Tables::read(base, dynamic.p_vaddr as usize);
        let value = tables.lookup(search.name);
        if value == 0 {
            return 0;
        }
        search.found = base.wrapping_add(value) as *mut c_void;
        1
    }

    #[derive(Default)]
    struct Tables {
        symbols: usize,
        strings: usize,
        gnu_hash: usize,
        hash: usize,
    }

    impl Tables {
        unsafe fn read(base: usize, dynamic: usize) -> Self {
            let mut tables = Self::default();
            let mut entry = base.wrapping_add(dynamic) as *const [i64; 2];
            loop {
                let [tag, value] = *entry;
                let value = value as usize;
                // The loader has made addresses of the offsets, but not in the vDSO.
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
                    _ => {}
                }
                entry = entry.add(1);
            }
        }

        /// The value of a defined function symbol, or 0.
        unsafe fn lookup(&self, name: &CStr) -> usize {
            if self.symbols == 0 || self.strings == 0 {
                0
            } else if self.gnu_hash != 0 {
                self.lookup_gnu(name)
            } else if self.hash != 0 {
                let count = *(self.hash as *const u32).add(1);
                (1..count)
                    .map(|index| self.value(index, name))
                    .find(|&value| value != 0)
                    .unwrap_or(0)
            } else {
                0
            }
        }

        unsafe fn lookup_gnu(&self, name: &CStr) -> usize {
            let hash = name.to_bytes().iter().fold(5381u32, |hash, &byte| {
                hash.wrapping_mul(33).wrapping_add(byte.into())
            });
            let header = self.gnu_hash as *const u32;
            let (count, first, words) = (*header, *header.add(1), *header.add(2));
            if count == 0 {
                return 0;
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
                return 0;
            }
            loop {
                let link = *chain.add((index.wrapping_sub(first)) as usize);
                if link | 1 == hash | 1 {
                    let value = self.value(index, name);
                    if value != 0 {
                        return value;
                    }
                }
                if link & 1 == 1 {
                    return 0;
                }
                index = index.wrapping_add(1);
            }
        }

        unsafe fn value(&self, index: u32, name: &CStr) -> usize {
            let symbol = &*(self.symbols as *const libc::Elf64_Sym).add(index as usize);
            let text = (self.strings as *const libc::c_char).add(symbol.st_name as usize);
            let is_function = symbol.st_info & 0xf == 2;
            if is_function && symbol.st_shndx != 0 && CStr::from_ptr(text) == name {
                symbol.st_value as usize
            } else {
                0
            }
        }
    }
}

// --- dlsym and dlvsym as the program sees them ---------------------------------------------

/// The hook of a function, if that is what was found.
fn hooked(name: &CStr, found: *mut c_void) -> *mut c_void {
    if found.is_null() || !original::has_prefix(name.to_bytes()) {
        return found;
    }
    let Some((original, hook)) = original::TABLE.iter().find(|(one, _)| one.name == name) else {
        return found;
    };
    if original.address() == found {
        return hook.address();
    }
    found
}

/// `dlsym` with a handle. What depends on the caller never comes here.
#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C" fn rdma_verbs_dlsym(handle: *mut c_void, name: *const c_char) -> *mut c_void {
    match real_dlsym() {
        Some(dlsym) if name.is_null() => dlsym(handle, name),
        Some(dlsym) => hooked(CStr::from_ptr(name), dlsym(handle, name)),
        None => ptr::null_mut(),
    }
}

/// `dlvsym` with a handle.
#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C" fn rdma_verbs_dlvsym(
    handle: *mut c_void,
    name: *const c_char,
    version: *const c_char,
) -> *mut c_void {
    match real_dlvsym() {
        Some(dlvsym) if name.is_null() => dlvsym(handle, name, version),
        Some(dlvsym) => hooked(CStr::from_ptr(name), dlvsym(handle, name, version)),
        None => ptr::null_mut(),
    }
}

/// The address of the real function, for the assembly below.
#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C" fn rdma_verbs_real(which: c_int) -> *mut c_void {
    if which == 0 {
        real(&DLSYM, c"dlsym")
    } else {
        real(&DLVSYM, c"dlvsym")
    }
}

// RTLD_DEFAULT (0) and RTLD_NEXT (-1) mean "as seen from the caller", whom the C
// library finds by the return address. So these calls are passed on by a jump, which
// leaves that address on the stack. Their answers need no look: what they find first
// in the global scope is this library.
#[cfg(all(not(test), target_arch = "x86_64"))]
std::arch::global_asm!(
    ".macro rdma_verbs_pass_on name, which",
    ".globl \\name",
    ".type \\name, @function",
    "\\name:",
    ".cfi_startproc",
    "    endbr64",
    "    lea rax, [rdi + 1]",
    "    cmp rax, 1",
    "    ja rdma_verbs_\\name",
    "    push rdi",
    "    .cfi_adjust_cfa_offset 8",
    "    push rsi",
    "    .cfi_adjust_cfa_offset 8",
    "    push rdx",
    "    .cfi_adjust_cfa_offset 8",
    "    mov edi, \\which",
    "    call rdma_verbs_real",
    "    pop rdx",
    "    .cfi_adjust_cfa_offset -8",
    "    pop rsi",
    "    .cfi_adjust_cfa_offset -8",
    "    pop rdi",
    "    .cfi_adjust_cfa_offset -8",
    "    jmp rax",
    ".cfi_endproc",
    ".size \\name, . - \\name",
    ".endm",
    ".text",
    "rdma_verbs_pass_on dlsym, 0",
    "rdma_verbs_pass_on dlvsym, 1",
);

#[cfg(all(not(test), target_arch = "aarch64"))]
std::arch::global_asm!(
    ".macro rdma_verbs_pass_on name, which",
    ".globl \\name",
    ".type \\name, %function",
    "\\name:",
    ".cfi_startproc",
    "    add x9, x0, #1",
    "    cmp x9, #1",
    "    b.hi rdma_verbs_\\name",
    "    stp x29, x30, [sp, #-48]!",
    "    .cfi_adjust_cfa_offset 48",
    "    stp x0, x1, [sp, #16]",
    "    str x2, [sp, #32]",
    "    mov w0, #\\which",
    "    bl rdma_verbs_real",
    "    mov x9, x0",
    "    ldr x2, [sp, #32]",
    "    ldp x0, x1, [sp, #16]",
    "    ldp x29, x30, [sp], #48",
    "    .cfi_adjust_cfa_offset -48",
    "    br x9",
    ".cfi_endproc",
    ".size \\name, . - \\name",
    ".endm",
    ".text",
    "rdma_verbs_pass_on dlsym, 0",
    "rdma_verbs_pass_on dlvsym, 1",
);

#[cfg(test)]
mod tests {
    use super::{elf, find};

    #[test]
    fn finds_functions_of_the_c_library() {
        assert_eq!(elf::find(c"dlsym"), libc::dlsym as *mut _);
        assert_eq!(elf::find(c"getpid"), libc::getpid as *mut _);
        assert!(elf::find(c"no_such_function").is_null());
    }

    #[test]
    fn finds_originals() {
        assert!(!find(c"getpid", c"").is_null());
        assert!(find(c"no_such_function", c"").is_null());
    }
}
