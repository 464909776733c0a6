// SPDX-License-Identifier: MIT OR Apache-2.0
//! `dlsym` and `dlvsym`, for programs that load libibverbs with `dlopen` and look its
//! functions up by name: they are answered with a hook where they would have been
//! answered with the hooked function. What is not there is not found.

use std::ffi::{CStr, c_char, c_void};
use std::ops::ControlFlow::{Break, Continue};
use std::ptr;

use super::redirect;
use super::table::{self, Function};
use crate::elf;
use crate::loader;

/// What the assembly below does: goes on to a function, or returns a value.
#[repr(C)]
struct Answer {
    go_on_to: *const c_void,
    value: *mut c_void,
}

impl Answer {
    const fn is(value: *mut c_void) -> Self {
        Self {
            go_on_to: ptr::null(),
            value,
        }
    }
}

/// `dlsym`; the last argument is where it returns to.
unsafe extern "C" fn answer_dlsym(
    handle: *mut c_void,
    name: *const c_char,
    _: usize,
    caller: usize,
) -> Answer {
    let Some(dlsym) = loader::dlsym() else {
        return Answer::is(ptr::null_mut());
    };
    let go_on = Answer {
        go_on_to: dlsym as *const c_void,
        value: ptr::null_mut(),
    };
    answer(handle, name, c"", caller, go_on, || dlsym(handle, name))
}

/// `dlvsym`, likewise.
unsafe extern "C" fn answer_dlvsym(
    handle: *mut c_void,
    name: *const c_char,
    version: *const c_char,
    caller: usize,
) -> Answer {
    let Some(dlvsym) = loader::dlvsym() else {
        return Answer::is(ptr::null_mut());
    };
    let go_on = Answer {
        go_on_to: dlvsym as *const c_void,
        value: ptr::null_mut(),
    };
    if version.is_null() {
        return go_on;
    }
    let version = CStr::from_ptr(version);
    answer(handle, name, version, caller, go_on, || {
        dlvsym(handle, name, version.as_ptr())
    })
}

unsafe fn answer(
    handle: *mut c_void,
    name: *const c_char,
    version: &CStr,
    caller: usize,
    go_on: Answer,
    look_up: impl FnOnce() -> *mut c_void,
) -> Answer {
    // What was loaded just now is about to be used.
    redirect::direct_references();
    if name.is_null() {
        return go_on;
    }
    let name = CStr::from_ptr(name);
    let Some(function) = table::find(name) else {
        return go_on;
    };
    if handle == libc::RTLD_DEFAULT || handle == libc::RTLD_NEXT {
        return from_scope(handle, name, version, caller, function).map_or(go_on, Answer::is);
    }
    let found = look_up();
    if found == function.exported() {
        return Answer::is(behind(name, version, function));
    }
    Answer::is(hook_of(function, found))
}

fn hook_of(function: &Function, found: *mut c_void) -> *mut c_void {
    function.hook_of(found).unwrap_or(found)
}

/// The answer where the lookup has come, or would have come, to this library: what is
/// behind it in the global scope.
fn behind(name: &CStr, version: &CStr, function: &Function) -> *mut c_void {
    let found = loader::behind(name, version);
    if found.is_null() {
        loader::not_found(name, version);
    }
    hook_of(function, found)
}

/// `RTLD_DEFAULT` and `RTLD_NEXT`: what the caller sees. `None` leaves the answer to the C
/// library.
fn from_scope(
    handle: *mut c_void,
    name: &CStr,
    version: &CStr,
    caller: usize,
    function: &Function,
) -> Option<*mut c_void> {
    if !comes_here(handle, name, version, caller) {
        return None;
    }
    let global = loader::behind(name, version);
    if !global.is_null() {
        return Some(hook_of(function, global));
    }
    let local = loader::as_seen_by(caller, name, version);
    if !local.is_null() {
        return Some(hook_of(function, local));
    }
    loader::not_found(name, version);
    Some(ptr::null_mut())
}

/// Whether the lookup would come as far as this library in the global scope: nothing before
/// it has the function, and with `RTLD_NEXT`, the caller is before it.
fn comes_here(handle: *mut c_void, name: &CStr, version: &CStr, caller: usize) -> bool {
    let mut looking = handle == libc::RTLD_DEFAULT;
    elf::each(|object| {
        if object.is_own() {
            return Break(looking);
        }
        if looking && object.function(name, version).is_some() {
            return Break(false);
        }
        looking |= object.contains(caller);
        Continue(())
    })
    .unwrap_or(false)
}

// The C library finds the caller of RTLD_DEFAULT (0) and RTLD_NEXT (-1) by the return
// address. So a call that is none of this library's business is passed on by a jump, which
// leaves that address where it is.
#[cfg(all(not(test), target_arch = "x86_64"))]
std::arch::global_asm!(
    ".macro rdma_verbs_look_up name, answer",
    ".globl \\name",
    ".type \\name, @function",
    "\\name:",
    ".cfi_startproc",
    "    endbr64",
    "    mov rcx, [rsp]",
    "    push rdi",
    "    .cfi_adjust_cfa_offset 8",
    "    push rsi",
    "    .cfi_adjust_cfa_offset 8",
    "    push rdx",
    "    .cfi_adjust_cfa_offset 8",
    "    call \\answer",
    "    mov r11, rax",
    "    mov rax, rdx",
    "    pop rdx",
    "    .cfi_adjust_cfa_offset -8",
    "    pop rsi",
    "    .cfi_adjust_cfa_offset -8",
    "    pop rdi",
    "    .cfi_adjust_cfa_offset -8",
    "    test r11, r11",
    "    jz 2f",
    "    jmp r11",
    "2:  ret",
    ".cfi_endproc",
    ".size \\name, . - \\name",
    ".endm",
    ".text",
    "rdma_verbs_look_up dlsym, {dlsym}",
    "rdma_verbs_look_up dlvsym, {dlvsym}",
    dlsym = sym answer_dlsym,
    dlvsym = sym answer_dlvsym,
);

#[cfg(all(not(test), target_arch = "aarch64"))]
std::arch::global_asm!(
    ".macro rdma_verbs_look_up name, answer",
    ".globl \\name",
    ".type \\name, %function",
    "\\name:",
    ".cfi_startproc",
    "    hint #34",
    "    stp x29, x30, [sp, #-48]!",
    "    .cfi_adjust_cfa_offset 48",
    "    .cfi_rel_offset x29, 0",
    "    .cfi_rel_offset x30, 8",
    "    mov x29, sp",
    "    stp x0, x1, [sp, #16]",
    "    str x2, [sp, #32]",
    "    mov x3, x30",
    "    bl \\answer",
    "    mov x9, x0",
    "    mov x10, x1",
    "    ldr x2, [sp, #32]",
    "    ldp x0, x1, [sp, #16]",
    "    ldp x29, x30, [sp], #48",
    "    .cfi_restore x30",
    "    .cfi_restore x29",
    "    .cfi_adjust_cfa_offset -48",
    "    cbz x9, 2f",
    "    br x9",
    "2:  mov x0, x10",
    "    ret",
    ".cfi_endproc",
    ".size \\name, . - \\name",
    ".endm",
    ".text",
    "rdma_verbs_look_up dlsym, {dlsym}",
    "rdma_verbs_look_up dlvsym, {dlvsym}",
    dlsym = sym answer_dlsym,
    dlvsym = sym answer_dlvsym,
);

#[cfg(all(not(test), target_arch = "riscv64"))]
std::arch::global_asm!(
    ".macro rdma_verbs_look_up name, answer",
    ".globl \\name",
    ".type \\name, @function",
    "\\name:",
    ".cfi_startproc",
    "    addi sp, sp, -32",
    "    .cfi_adjust_cfa_offset 32",
    "    sd ra, 24(sp)",
    "    .cfi_rel_offset ra, 24",
    "    sd a0, 0(sp)",
    "    sd a1, 8(sp)",
    "    sd a2, 16(sp)",
    "    mv a3, ra",
    "    call \\answer",
    "    mv t1, a0",
    "    mv t2, a1",
    "    ld a0, 0(sp)",
    "    ld a1, 8(sp)",
    "    ld a2, 16(sp)",
    "    ld ra, 24(sp)",
    "    .cfi_restore ra",
    "    addi sp, sp, 32",
    "    .cfi_adjust_cfa_offset -32",
    "    beqz t1, 2f",
    "    jr t1",
    "2:  mv a0, t2",
    "    ret",
    ".cfi_endproc",
    ".size \\name, . - \\name",
    ".endm",
    ".text",
    "rdma_verbs_look_up dlsym, {dlsym}",
    "rdma_verbs_look_up dlvsym, {dlvsym}",
    dlsym = sym answer_dlsym,
    dlvsym = sym answer_dlvsym,
);

#[cfg(not(any(
    target_arch = "x86_64",
    target_arch = "aarch64",
    target_arch = "riscv64"
)))]
compile_error!(
    "dlsym and dlvsym of the preload library are written in assembly: not for this processor"
);
