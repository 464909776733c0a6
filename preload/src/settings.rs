// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the library does in this process: set once, before `main`.

use std::ffi::{CStr, CString, c_char};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};

use rdma_verbs_settings::{Format, Mode, RuleSet, variable};

use crate::output::say;

/// What the environment asks for.
pub struct Settings {
    pub format: Format,
    pub latency: bool,
    pub suppressed: RuleSet,
    pub fail: bool,
    /// The first process that the command started, or 0.
    pub main: i32,
    name: String,
}

static DEFAULT: Settings = Settings {
    format: Format::Text,
    latency: true,
    suppressed: RuleSet::from_bits(0),
    fail: false,
    main: 0,
    name: String::new(),
};

static SETTINGS: OnceLock<Settings> = OnceLock::new();

/// The settings of this process.
pub fn get() -> &'static Settings {
    SETTINGS.get().unwrap_or(&DEFAULT)
}

/// The name of the program.
pub fn name() -> &'static str {
    &get().name
}

const INACTIVE: u8 = u8::MAX;
static MODE: AtomicU8 = AtomicU8::new(INACTIVE);

/// What the library does in this process; `None`: nothing.
pub fn mode() -> Option<Mode> {
    match MODE.load(Relaxed) {
        0 => Some(Mode::Trace),
        1 => Some(Mode::Stat),
        2 => Some(Mode::Check),
        _ => None,
    }
}

pub fn is_active() -> bool {
    MODE.load(Relaxed) != INACTIVE
}

/// Reads the environment, once.
pub fn read() {
    let _ = SETTINGS.set(from_environment());
}

/// From here on, this process is watched.
pub fn activate(mode: Mode) {
    MODE.store(mode as u8, Relaxed);
}

fn from_environment() -> Settings {
    let list = variable_of(variable::SUPPRESS).unwrap_or_default();
    let suppressed = RuleSet::parse(&list).unwrap_or_else(|name| {
        say(format_args!("{}: no such rule: {name}", variable::SUPPRESS));
        RuleSet::default()
    });
    let format = variable_of(variable::FORMAT).unwrap_or_default();
    Settings {
        format: Format::named(&format).unwrap_or(Format::Text),
        latency: variable_of(variable::LATENCY).as_deref() != Some("0"),
        suppressed,
        fail: variable_of(variable::FAIL).as_deref() == Some("1"),
        main: variable_of(variable::MAIN)
            .and_then(|number| number.parse().ok())
            .unwrap_or(0),
        name: program_name(),
    }
}

/// A variable, unless the program runs with other rights than its user's.
pub fn variable_of(name: &str) -> Option<String> {
    let name = CString::new(name).ok()?;
    // SAFETY: a C string in, a C string or NULL out.
    let value: *const c_char = unsafe { secure_getenv(name.as_ptr()) };
    if value.is_null() {
        return None;
    }
    // SAFETY: as above.
    let value = unsafe { CStr::from_ptr(value) };
    Some(value.to_string_lossy().into_owned()).filter(|value| !value.is_empty())
}

unsafe extern "C" {
    fn secure_getenv(name: *const c_char) -> *const c_char;
}

fn program_name() -> String {
    std::fs::read_link("/proc/self/exe")
        .ok()
        .as_deref()
        .and_then(Path::file_name)
        .map_or_else(
            || "?".into(),
            |name| String::from_utf8_lossy(name.as_bytes()).into_owned(),
        )
}
