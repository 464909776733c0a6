// SPDX-License-Identifier: MIT OR Apache-2.0
//! `rdma-verbs trace|stat|check`: runs a program under the preload library.
//!
//! The command sets the environment and replaces itself with the program: process ID,
//! exit status, signals and standard streams are the program's own.

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod library;
mod program;

use std::env;
use std::error::Error;
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use clap::{Args, Parser, Subcommand, ValueEnum};
use rdma_verbs_settings::{Format, Mode, RULES, open_output, variable};

/// Traces, counts or checks the RDMA verbs of a compiled program.
#[derive(Parser)]
#[command(
    name = "rdma-verbs",
    version,
    subcommand_required = true,
    arg_required_else_help = true
)]
struct Options {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Write a line for each request, completion and call, as they happen.
    Trace {
        /// The format of the trace.
        #[arg(long, value_enum, default_value_t = FormatName::Text)]
        format: FormatName,
        #[command(flatten)]
        common: Common,
    },
    /// Count and measure; write a table at the end and on SIGUSR1.
    Stat {
        /// Do not read the clock: counts only, with the lowest overhead.
        #[arg(long)]
        no_latency: bool,
        #[command(flatten)]
        common: Common,
    },
    /// Report violations of the rules in the manual pages.
    Check {
        /// Exit with status 99 if anything was found.
        #[arg(long)]
        fail: bool,
        /// Do not report this rule; may be repeated.
        #[arg(long, value_name = "RULE", value_parser = rule_names())]
        suppress: Vec<String>,
        #[command(flatten)]
        common: Common,
    },
}

#[derive(Args)]
struct Common {
    /// Write to FILE instead of standard error.
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// The program and its arguments.
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true, value_names = ["PROGRAM", "ARGUMENT"])]
    program: Vec<OsString>,
}

#[derive(Clone, Copy, ValueEnum)]
enum FormatName {
    /// Lines of text.
    Text,
    /// One JSON object per line.
    Json,
    /// A timeline for ui.perfetto.dev or chrome tracing.
    Perfetto,
}

impl From<FormatName> for Format {
    fn from(name: FormatName) -> Self {
        match name {
            FormatName::Text => Self::Text,
            FormatName::Json => Self::Json,
            FormatName::Perfetto => Self::Perfetto,
        }
    }
}

fn rule_names() -> clap::builder::PossibleValuesParser {
    RULES
        .iter()
        .map(|rule| rule.name())
        .collect::<Vec<_>>()
        .into()
}

/// Exit statuses of a program that runs another, as in env(1).
const STATUS_FAILED: u8 = 125;
const STATUS_CANNOT_RUN: u8 = 126;
const STATUS_NOT_FOUND: u8 = 127;

fn main() -> ExitCode {
    match run(Options::parse().action) {
        Ok(never) => match never {},
        Err((status, error)) => {
            eprintln!("rdma-verbs: {error}");
            ExitCode::from(status)
        }
    }
}

type Failure = (u8, Box<dyn Error>);

fn failed(error: impl Into<Box<dyn Error>>) -> Failure {
    (STATUS_FAILED, error.into())
}

fn run(action: Action) -> Result<std::convert::Infallible, Failure> {
    let library = library::find().map_err(failed)?;
    let (mode, variables, common) = settings(action);
    let [name, arguments @ ..] = common.program.as_slice() else {
        return Err(failed("no program"));
    };
    if let Some(reason) = program::out_of_reach(name) {
        eprintln!("rdma-verbs: {}: {reason}", Path::new(name).display());
    }
    let mut command = Command::new(name);
    command
        .args(arguments)
        .env("LD_PRELOAD", preload(&library))
        .env(variable::MODE, mode.name())
        .env(variable::MAIN, std::process::id().to_string());
    for name in [
        variable::OUTPUT,
        variable::FORMAT,
        variable::LATENCY,
        variable::FAIL,
        variable::SUPPRESS,
    ] {
        command.env_remove(name);
    }
    command.envs(variables);
    if let Some(path) = &common.output {
        command.env(variable::OUTPUT, prepare_output(path).map_err(failed)?);
    }
    let error = command.exec();
    let status = if error.kind() == std::io::ErrorKind::NotFound {
        STATUS_NOT_FOUND
    } else {
        STATUS_CANNOT_RUN
    };
    Err((
        status,
        format!("{}: {error}", Path::new(name).display()).into(),
    ))
}

type Variable = (&'static str, String);

fn settings(action: Action) -> (Mode, Vec<Variable>, Common) {
    match action {
        Action::Trace { format, common } => {
            let name = Format::from(format).name().into();
            (Mode::Trace, vec![(variable::FORMAT, name)], common)
        }
        Action::Stat { no_latency, common } => {
            let latency = if no_latency { "0" } else { "1" };
            (
                Mode::Stat,
                vec![(variable::LATENCY, latency.into())],
                common,
            )
        }
        Action::Check {
            fail,
            suppress,
            common,
        } => {
            let fail = if fail { "1" } else { "0" };
            let variables = vec![
                (variable::FAIL, fail.into()),
                (variable::SUPPRESS, suppress.join(",")),
            ];
            (Mode::Check, variables, common)
        }
    }
}

/// The library, before what is already preloaded.
fn preload(library: &Path) -> OsString {
    let mut list = library.as_os_str().to_owned();
    if let Some(others) = env::var_os("LD_PRELOAD").filter(|others| !others.is_empty()) {
        list.push(":");
        list.push(others);
    }
    list
}

/// Empties the output file; the program, which may change its directory, appends to it.
fn prepare_output(path: &Path) -> Result<PathBuf, Box<dyn Error>> {
    let explain = |error: std::io::Error| format!("cannot write to {}: {error}", path.display());
    let file = open_output(path).map_err(explain)?;
    if file.metadata().is_ok_and(|about| about.is_file()) {
        file.set_len(0).map_err(explain)?;
    }
    Ok(std::path::absolute(path)?)
}

#[cfg(test)]
mod tests {
    use super::Options;
    use clap::{CommandFactory, Parser};

    #[test]
    fn the_options_are_consistent() {
        Options::command().debug_assert();
    }

    #[test]
    fn options_of_the_program_are_its_own() {
        for line in [
            ["rdma-verbs", "trace", "--", "program", "--output"],
            ["rdma-verbs", "trace", "program", "--format", "-x"],
        ] {
            assert!(Options::try_parse_from(line).is_ok(), "{line:?}");
        }
    }

    #[test]
    fn rules_are_known_by_name() {
        let parse =
            |rule| Options::try_parse_from(["rdma-verbs", "check", "--suppress", rule, "program"]);
        assert!(parse("no-key").is_ok());
        assert!(parse("no_key").is_err());
    }
}
