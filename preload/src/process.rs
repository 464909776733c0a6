// SPDX-License-Identifier: MIT OR Apache-2.0
//! The life of the process: start, fork, signals, end.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{
    AtomicBool, AtomicI32, AtomicPtr, AtomicU8,
    Ordering::{Relaxed, SeqCst},
    compiler_fence,
};

use rdma_verbs_settings::{Format, Mode, RuleSet, STATUS_FOUND, variable};

use crate::check::stack::Stack;
use crate::errno::Errno;

use crate::output::{self, say};
use crate::own_stack;
use crate::thread::{self, Thread};
use crate::{check, clock, model, stat, trace};

/// What the environment asks for.
pub struct Settings {
    pub format: Format,
    pub latency: bool,
    pub suppressed: RuleSet,
    fail: bool,
    main: i32,
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

pub fn settings() -> &'static Settings {
    SETTINGS.get().unwrap_or(&DEFAULT)
}

/// The name of the program.
pub fn name() -> &'static str {
    &settings().name
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

pub fn is(mode: Mode) -> bool {
    MODE.load(Relaxed) == mode as u8
}

/// Whether nothing but counters is wanted, for which no object has to be known.
pub fn only_counts() -> bool {
    is(Mode::Stat) && !settings().latency
}

// --- threads -------------------------------------------------------------------------------

static PROCESS: AtomicI32 = AtomicI32::new(0);

/// The number of the process. For signal handlers, too.
pub fn number() -> i32 {
    PROCESS.load(Relaxed)
}

/// The numbers of the process and of the thread.
pub fn ids() -> (i32, i32) {
    let number = &thread::own().number;
    if number.load(Relaxed) == 0 {
        // SAFETY: no preconditions.
        number.store(unsafe { libc::syscall(libc::SYS_gettid) } as i32, Relaxed);
    }
    (self::number(), number.load(Relaxed))
}

/// Held by a thread that runs this library's code. A hook that is called meanwhile,
/// by the original or by a signal handler, passes its call on and does no more.
pub struct Busy(&'static Thread);

impl Busy {
    #[inline]
    pub fn enter() -> Option<Self> {
        let own = thread::own();
        if own.busy.get() || mode().is_none() {
            return None;
        }
        own.busy.set(true);
        // A signal handler sees it before anything that it protects.
        compiler_fence(SeqCst);
        Some(Self(own))
    }
}

impl Drop for Busy {
    #[inline]
    fn drop(&mut self) {
        compiler_fence(SeqCst);
        self.0.busy.set(false);
    }
}

/// Calls one of librdmacm's functions; says whether another one of them did so, and
/// not the program.
pub fn inside<R>(call: impl FnOnce() -> R) -> (R, bool) {
    let inside = &thread::own().inside;
    let depth = inside.get();
    inside.set(depth.wrapping_add(1));
    let result = call();
    inside.set(depth);
    (result, depth > 0)
}

// --- start ---------------------------------------------------------------------------------

/// A variable, unless the program runs with other rights than its user's.
fn variable_of(name: &str) -> Option<String> {
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
    fn __cxa_atexit(
        function: extern "C" fn(*mut c_void),
        argument: *mut c_void,
        library: *mut c_void,
    ) -> c_int;
    fn __cxa_at_quick_exit(function: extern "C" fn(*mut c_void), library: *mut c_void) -> c_int;
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

/// Called by the loader, before `main`.
extern "C" fn start() {
    let errno = Errno::now();
    // SAFETY: no preconditions.
    PROCESS.store(unsafe { libc::getpid() }, Relaxed);
    clock::start();
    if let Some(mode) = variable_of(variable::MODE) {
        start_mode(&mode);
    }
    errno.restore();
}

fn start_mode(mode_name: &str) {
    let output = variable_of(variable::OUTPUT).map(PathBuf::from);
    if let Err(error) = output::open(output.as_deref()) {
        let path = output.unwrap_or_default();
        if output::open(None).is_ok() {
            say(format_args!(
                "cannot write to {}: {error}; nothing is watched",
                path.display()
            ));
        }
        return;
    }
    let Some(mode) = Mode::named(mode_name) else {
        say(format_args!(
            "{}={mode_name}: not trace, stat or check",
            variable::MODE
        ));
        return;
    };
    let _ = SETTINGS.set(read_settings());
    match mode {
        Mode::Trace if settings().format == Format::Perfetto => trace::start(),
        Mode::Trace => {}
        Mode::Stat => {
            on_signal(libc::SIGUSR1, report_now);
            on_fatal_signals();
        }
        Mode::Check => on_fatal_signals(),
    }
    // SAFETY: both functions may be called whenever they are.
    unsafe {
        libc::pthread_atfork(None, None, Some(forked));
        // Of no library, so that it is called last: destructors of libraries may well
        // deregister and destroy.
        __cxa_atexit(end, ptr::null_mut(), ptr::null_mut());
        __cxa_at_quick_exit(end_quickly, ptr::null_mut());
    }
    share_with_children();
    MODE.store(mode as u8, Relaxed);
}

fn read_settings() -> Settings {
    let list = variable_of(variable::SUPPRESS).unwrap_or_default();
    let suppressed = RuleSet::parse(&list).unwrap_or_else(|name| {
        say(format_args!(
            "{}: no rule is called {name}",
            variable::SUPPRESS
        ));
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

/// The child of a fork is a process of its own, with objects of its own.
extern "C" fn forked() {
    // SAFETY: no preconditions.
    PROCESS.store(unsafe { libc::getpid() }, Relaxed);
    let was_in_use = own_stack::forget();
    thread::forget();
    HAS_INHERITED.store(HOOKED.load(Relaxed) || has_inherited(), Relaxed);
    HOOKED.store(false, Relaxed);
    HAS_ENDED.store(false, Relaxed);
    model::forget();
    stat::forget();
    check::forget(was_in_use);
    if is(Mode::Trace) && settings().format == Format::Perfetto {
        trace::forget();
        trace::start();
    }
}

// --- signals -------------------------------------------------------------------------------

type Handler = extern "C" fn(c_int);

/// Handles a signal that the program leaves to the system. What the program installs
/// later takes its place.
fn on_signal(signal: c_int, handler: Handler) {
    // SAFETY: zeros are a valid sigaction; the handler is async-signal-safe.
    unsafe {
        let mut now: libc::sigaction = std::mem::zeroed();
        if libc::sigaction(signal, ptr::null(), &raw mut now) != 0
            || now.sa_sigaction != libc::SIG_DFL
        {
            return;
        }
        now.sa_sigaction = handler as *const () as usize;
        now.sa_flags = libc::SA_RESTART | libc::SA_ONSTACK;
        // One report at a time.
        libc::sigfillset(&raw mut now.sa_mask);
        libc::sigaction(signal, &raw const now, ptr::null_mut());
    }
}

/// Servers are ended by a signal; they deserve a report, too.
fn on_fatal_signals() {
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
        on_signal(signal, report_and_die);
    }
}

extern "C" fn report_now(_: c_int) {
    let errno = Errno::now();
    if has_hooked() {
        own_stack::run_soon(stat::report);
    }
    errno.restore();
}

extern "C" fn report_and_die(signal: c_int) {
    if has_hooked() {
        let is_in_hook = thread::own().busy.get();
        own_stack::run_soon(|| {
            if is(Mode::Check) && !is_in_hook {
                check::report_waits();
            }
            last_report();
        });
    }
    // SAFETY: the signal is blocked until this handler returns, and then ends the
    // process as it would have without this library.
    unsafe {
        libc::signal(signal, libc::SIG_DFL);
        libc::raise(signal);
    }
}

// --- end -----------------------------------------------------------------------------------

static HOOKED: AtomicBool = AtomicBool::new(false);
/// The parent of this process has opened a device before it forked.
static HAS_INHERITED: AtomicBool = AtomicBool::new(false);
/// Whether this process or a child of it has opened a device: all see the same.
static ANY_HOOKED: AtomicPtr<AtomicBool> = AtomicPtr::new(ptr::null_mut());

fn share_with_children() {
    // SAFETY: a fresh page, zeroed.
    let page = unsafe {
        libc::mmap(
            ptr::null_mut(),
            size_of::<AtomicBool>(),
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_SHARED | libc::MAP_ANONYMOUS,
            -1,
            0,
        )
    };
    if page != libc::MAP_FAILED {
        ANY_HOOKED.store(page.cast(), Relaxed);
    }
}

fn any_hooked() -> Option<&'static AtomicBool> {
    // SAFETY: NULL, or a page that is never unmapped.
    unsafe { ANY_HOOKED.load(Relaxed).as_ref() }
}

/// Remembers that there is something to watch.
pub fn hooked() {
    HOOKED.store(true, Relaxed);
    if let Some(any) = any_hooked() {
        any.store(true, Relaxed);
    }
}

pub fn has_inherited() -> bool {
    HAS_INHERITED.load(Relaxed)
}

/// Whether there was something to watch: a device, or objects of the parent's that this
/// process has used.
fn has_hooked() -> bool {
    let has_used = || {
        if is(Mode::Stat) {
            stat::has_counted()
        } else {
            model::is_used()
        }
    };
    HOOKED.load(Relaxed) || (has_inherited() && has_used())
}

static HAS_ENDED: AtomicBool = AtomicBool::new(false);

/// The table, or the number of findings: once. Runs on this library's stack, so that
/// whoever comes second waits until it is written.
fn last_report() {
    if !HAS_ENDED.swap(true, Relaxed) {
        match mode() {
            Some(Mode::Stat) => stat::report(),
            Some(Mode::Check) => check::report_total(),
            _ => {}
        }
    }
}

/// What is left to be said at the end, all of it where that `is_safe`; says whether the
/// exit status is to be [`STATUS_FOUND`].
fn finish(is_safe: bool) -> bool {
    let Some(mode) = mode().filter(|_| !HAS_ENDED.load(Relaxed)) else {
        return false;
    };
    let has_hooked = has_hooked();
    if !has_hooked {
        say_that_nothing_was_hooked(mode);
    }
    // A signal handler may have ended the program in the middle of a hook. Then this
    // thread holds locks, and has not seen what destructors did since.
    if mode == Mode::Check && is_safe && !thread::own().busy.get() {
        check::at_exit();
    }
    if mode == Mode::Trace && settings().format == Format::Perfetto {
        trace::finish();
    }
    if has_hooked && is_safe {
        own_stack::run(last_report);
    } else if has_hooked {
        own_stack::run_soon(last_report);
    }
    settings().fail && check::found() > 0
}

fn say_that_nothing_was_hooked(mode: Mode) {
    let main = settings().main;
    let in_child = any_hooked().is_some_and(|any| any.load(Relaxed));
    if !in_child && (main == 0 || main == number()) {
        say(format_args!(
            "{} [{}] opened no RDMA device: there was nothing to {}",
            name(),
            number(),
            mode.name()
        ));
    }
}

/// Called when the program has ended by `exit`, from `main`, or with its last thread,
/// after all else.
extern "C" fn end(_: *mut c_void) {
    if finish(true) {
        // What the program has printed comes first: the status is all that changes.
        // SAFETY: flushes all streams.
        unsafe { libc::fflush(ptr::null_mut()) };
        exit_now(STATUS_FOUND);
    }
}

/// Called when the program has ended by `quick_exit`, which flushes nothing.
extern "C" fn end_quickly(_: *mut c_void) {
    if finish(true) {
        exit_now(STATUS_FOUND);
    }
}

/// Before the program ends by `_exit`; the status that it is to end with. A signal
/// handler may do so, whatever it has interrupted.
pub fn leave(status: c_int) -> c_int {
    if is_this_process() && finish(!Stack::is_in_a_handler()) {
        STATUS_FOUND
    } else {
        status
    }
}

/// Ends the process as `_exit` does.
pub fn exit_now(status: c_int) -> ! {
    loop {
        // SAFETY: no preconditions.
        unsafe { libc::syscall(libc::SYS_exit_group, status) };
    }
}

/// Not in the child of a vfork, which has this process' memory.
fn is_this_process() -> bool {
    // SAFETY: no preconditions.
    unsafe { libc::getpid() == number() }
}

/// The program is about to use that number for a descriptor of its own.
pub fn make_way(descriptor: c_int) {
    if output::is_at(descriptor) && is_this_process() {
        output::make_way();
    }
}

#[cfg(not(test))]
#[used]
#[unsafe(link_section = ".init_array")]
static START: extern "C" fn() = start;
