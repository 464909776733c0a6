// SPDX-License-Identifier: MIT OR Apache-2.0
//! Links `librdma_verbs` and its dependencies with pkg-config's flags.

use std::process::Command;

fn main() {
    println!("cargo::rerun-if-env-changed=PKG_CONFIG_PATH");
    match pkg_config() {
        Ok(flags) => flags.split_whitespace().for_each(link),
        // The linker may find the libraries anyway; if not, it reports that.
        Err(reason) => {
            println!("cargo::warning=pkg-config --libs librdma_verbs: {reason}");
            ["-lrdma_verbs", "-lrdmacm"].into_iter().for_each(link);
        }
    }
}

fn pkg_config() -> Result<String, String> {
    let output = Command::new("pkg-config")
        .args(["--libs", "librdma_verbs"])
        .output()
        .map_err(|error| error.to_string())?;
    if output.status.success() {
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    } else {
        Err(output.status.to_string())
    }
}

fn link(flag: &str) {
    if let Some(directory) = flag.strip_prefix("-L") {
        println!("cargo::rustc-link-search=native={directory}");
    } else if let Some(library) = flag.strip_prefix("-l") {
        println!("cargo::rustc-link-lib={library}");
    }
}
