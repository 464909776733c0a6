// SPDX-License-Identifier: MIT OR Apache-2.0
//! Finding the preload library.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

const NAME: &str = "librdma_verbs_preload.so";

/// Overrides the path of the library.
const VARIABLE: &str = "RDMA_VERBS_PRELOAD";

/// The library of this command: next to it in a build directory, otherwise in the
/// library directory of its prefix.
pub fn find() -> Result<PathBuf, String> {
    if let Some(path) = env::var_os(VARIABLE) {
        return Ok(path.into());
    }
    let command = env::current_exe().map_err(|error| error.to_string())?;
    let directory = command.parent().unwrap_or(Path::new("/"));
    let prefix = directory.parent().unwrap_or(Path::new("/"));
    let mut places = vec![directory.to_path_buf()];
    for lib in ["lib", "lib64"].map(|name| prefix.join(name)) {
        places.push(lib.join("rdma_verbs"));
        // Debian and Ubuntu have one directory per architecture.
        let inner = fs::read_dir(&lib).into_iter().flatten().flatten();
        places.extend(inner.map(|entry| entry.path().join("rdma_verbs")));
    }
    places
        .into_iter()
        .map(|place| place.join(NAME))
        .find(|path| path.is_file())
        .ok_or_else(|| {
            format!(
                "{NAME} not found under {}; set {VARIABLE} to its path",
                prefix.display()
            )
        })
}
