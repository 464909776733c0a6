// SPDX-License-Identifier: MIT OR Apache-2.0
//! Programs that a library cannot be preloaded into.

use std::env;
use std::ffi::{CString, OsStr};
use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

const SET_ID: u32 = 0o6000;
const PT_INTERP: u32 = 3;

/// Why a program cannot be observed, if that is known in advance.
pub fn out_of_reach(name: &OsStr) -> Option<&'static str> {
    let path = find(name)?;
    let mut file = File::open(&path).ok()?;
    let about = file.metadata().ok()?;
    let mut head = Vec::new();
    file.by_ref().take(4096).read_to_end(&mut head).ok()?;
    if about.mode() & SET_ID != 0 && about.uid() != effective_user() {
        return Some(
            "set-user-ID or set-group-ID: nothing can be preloaded, so nothing will be observed",
        );
    }
    if has_capabilities(&path) && effective_user() != 0 {
        return Some(
            "has file capabilities: nothing can be preloaded, so nothing will be observed",
        );
    }
    (is_static(&head) == Some(true))
        .then_some("statically linked: nothing can be preloaded, so nothing will be observed")
}

fn has_capabilities(path: &Path) -> bool {
    let Ok(path) = CString::new(path.as_os_str().as_bytes()) else {
        return false;
    };
    // SAFETY: C strings; a length of 0 asks for the length only.
    unsafe {
        libc::getxattr(
            path.as_ptr(),
            c"security.capability".as_ptr(),
            std::ptr::null_mut(),
            0,
        ) > 0
    }
}

fn effective_user() -> u32 {
    // SAFETY: no preconditions.
    unsafe { libc::geteuid() }
}

fn find(name: &OsStr) -> Option<PathBuf> {
    if name.as_bytes().contains(&b'/') {
        return Some(Path::new(name).to_path_buf());
    }
    env::split_paths(&env::var_os("PATH")?)
        .map(|directory| directory.join(name))
        .find(|path| path.is_file())
}

/// Whether an ELF file names no loader. `None` if it is not an ELF file, or its program
/// headers are beyond `head`.
fn is_static(head: &[u8]) -> Option<bool> {
    let bytes = |at: usize, count: usize| head.get(at..at.checked_add(count)?);
    let number = |at: usize| Some(u16::from_le_bytes(bytes(at, 2)?.try_into().ok()?));
    if bytes(0, 6)? != b"\x7fELF\x02\x01" {
        return None;
    }
    let table = usize::try_from(u64::from_le_bytes(bytes(32, 8)?.try_into().ok()?)).ok()?;
    let (size, count) = (usize::from(number(54)?), usize::from(number(56)?));
    for index in 0..count {
        let at = table.checked_add(index.checked_mul(size)?)?;
        if u32::from_le_bytes(bytes(at, 4)?.try_into().ok()?) == PT_INTERP {
            return Some(false);
        }
    }
    Some(true)
}

#[cfg(test)]
mod tests {
    use super::is_static;

    #[test]
    fn this_test_is_dynamically_linked() {
        let head = std::fs::read("/proc/self/exe").unwrap();
        assert_eq!(is_static(&head), Some(false));
        assert_eq!(is_static(b"#!/bin/sh"), None);
    }
}
