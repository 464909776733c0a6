// SPDX-License-Identifier: MIT OR Apache-2.0
//! Opening output files.

use std::fs::{File, OpenOptions};
use std::io::{Error, Result};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

/// Opens a file to append output to, creating it if necessary.
///
/// The observed program may run with more rights than the user who named the file. So
/// nothing is written through a symbolic link, or to a file that has other hard links or
/// belongs to another user. Pipes and terminals are fine.
///
/// # Errors
/// The system's error, or one that tells what is wrong with the file.
pub fn open_output(path: &Path) -> Result<File> {
    let file = OpenOptions::new()
        .append(true)
        .create(true)
        .mode(0o600)
        .custom_flags(libc::O_NOFOLLOW | libc::O_CLOEXEC | libc::O_NOCTTY)
        .open(path)?;
    let about = file.metadata()?;
    let kind = about.file_type();
    if kind.is_fifo() || kind.is_char_device() {
        return Ok(file);
    }
    if !kind.is_file() {
        return Err(Error::other("not a regular file"));
    }
    if about.nlink() != 1 {
        return Err(Error::other("the file has more than one hard link"));
    }
    // SAFETY: no preconditions.
    if about.uid() != unsafe { libc::geteuid() } {
        return Err(Error::other("the file belongs to another user"));
    }
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::open_output;
    use std::fs;
    use std::io::Write;
    use std::os::unix::fs::symlink;
    use std::path::PathBuf;

    struct Dir(PathBuf);

    impl Dir {
        fn new(name: &str) -> Self {
            let dir =
                std::env::temp_dir().join(format!("rdma-verbs-{name}-{}", std::process::id()));
            fs::create_dir(&dir).unwrap();
            Self(dir)
        }
    }

    impl Drop for Dir {
        fn drop(&mut self) {
            fs::remove_dir_all(&self.0).unwrap();
        }
    }

    #[test]
    fn creates_and_appends() {
        let dir = Dir::new("append");
        let path = dir.0.join("out");
        open_output(&path).unwrap().write_all(b"one").unwrap();
        open_output(&path).unwrap().write_all(b"two").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"onetwo");
    }

    #[test]
    fn refuses_links() {
        let dir = Dir::new("links");
        let target = dir.0.join("target");
        fs::write(&target, "precious").unwrap();
        symlink(&target, dir.0.join("soft")).unwrap();
        fs::hard_link(&target, dir.0.join("hard")).unwrap();
        assert!(open_output(&dir.0.join("soft")).is_err());
        assert!(open_output(&dir.0.join("hard")).is_err());
        assert!(open_output(&dir.0).is_err());
        assert_eq!(fs::read(&target).unwrap(), b"precious");
    }
}
