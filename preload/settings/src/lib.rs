// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the `rdma-verbs` command and the preload library must agree on: the
//! environment variables, the modes and formats, the rules, and how an output file
//! is opened.

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::indexing_slicing))]

mod file;
mod rule;

pub use file::open_output;
pub use rule::{RULES, Rule, RuleSet};

/// The environment variables that the preload library reads.
pub mod variable {
    /// `trace`, `stat` or `check`.
    pub const MODE: &str = "RDMA_VERBS_MODE";
    /// A file to append the output to; standard error if not set.
    pub const OUTPUT: &str = "RDMA_VERBS_OUTPUT";
    /// `text`, `json` or `perfetto`.
    pub const FORMAT: &str = "RDMA_VERBS_FORMAT";
    /// `0`: stat reads no clock.
    pub const LATENCY: &str = "RDMA_VERBS_LATENCY";
    /// `1`: the program exits with status 99 if check found something.
    pub const FAIL: &str = "RDMA_VERBS_FAIL";
    /// Rules that check does not report, separated by commas.
    pub const SUPPRESS: &str = "RDMA_VERBS_SUPPRESS";
    /// The process that the command became. Only this one reports that nothing was
    /// hooked: programs that it starts may have no reason to use RDMA.
    pub const MAIN: &str = "RDMA_VERBS_MAIN";
}

/// The exit status if check found something and `FAIL` is set.
pub const STATUS_FOUND: i32 = 99;

/// What the preload library does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// One line for each event.
    Trace,
    /// A table of counts and latencies at the end.
    Stat,
    /// The rules of the manual pages.
    Check,
}

impl Mode {
    /// The mode of that name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        [Self::Trace, Self::Stat, Self::Check]
            .into_iter()
            .find(|mode| mode.name() == name)
    }

    /// Its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Trace => "trace",
            Self::Stat => "stat",
            Self::Check => "check",
        }
    }
}

/// How a trace is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Lines of text.
    Text,
    /// One JSON object per line.
    Json,
    /// The trace event format of Perfetto and chrome tracing.
    Perfetto,
}

impl Format {
    /// The format of that name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        [Self::Text, Self::Json, Self::Perfetto]
            .into_iter()
            .find(|format| format.name() == name)
    }

    /// Its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Json => "json",
            Self::Perfetto => "perfetto",
        }
    }
}
