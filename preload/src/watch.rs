// SPDX-License-Identifier: MIT OR Apache-2.0
//! Who watches: trace, stat or check. No other file looks at the mode.

use rdma_verbs_settings::{Format, Mode};

use crate::check;
use crate::clock;
use crate::event::{Completed, Event};
use crate::kind::Kind;
use crate::lanes::Lanes;
use crate::model::{self, Dying, Pair, SharedQueue};
use crate::registry::Entry;
use crate::request::Request;
use crate::settings;
use crate::stack::Stack;
use crate::stat;
use crate::trace;

pub use check::Findings;

fn is(mode: Mode) -> bool {
    settings::mode() == Some(mode)
}

/// Whether nothing but counters is wanted, for which no object has to be known.
pub fn only_counts() -> bool {
    is(Mode::Stat) && !settings::get().latency
}

/// The call stack, where somebody will want it.
pub fn stack() -> Option<Stack> {
    is(Mode::Check).then(Stack::here)
}

/// A clock reading, where requests and completions have one.
pub fn moment() -> u64 {
    if is(Mode::Check) { 0 } else { clock::now() }
}

/// A clock reading, where other calls have one.
pub fn call_begins() -> Option<u64> {
    is(Mode::Trace).then(clock::now)
}

// --- what happens --------------------------------------------------------------------------

/// Tells what happened.
///
/// # Safety
/// The objects that the event names exist.
#[allow(clippy::inline_always)]
#[inline(always)]
pub unsafe fn on(event: &Event<'_>) {
    match settings::mode() {
        Some(Mode::Trace) => trace::on(event),
        Some(Mode::Stat) => stat::on(event),
        // SAFETY: by the contract of this function.
        Some(Mode::Check) => unsafe { check::on(event) },
        None => {}
    }
}

/// A completion was taken. What was found is to be reported when no lock is held.
#[inline]
#[must_use]
pub fn completed(event: &Completed<'_>, lanes: Option<&mut Lanes>) -> Findings {
    let mut found = Findings::default();
    match settings::mode() {
        Some(Mode::Trace) => trace::completed(event, lanes),
        Some(Mode::Stat) => stat::completed(event),
        Some(Mode::Check) => check::completed(event, &mut found),
        None => {}
    }
    found
}

/// After requests were posted to a send queue, or refused.
#[inline]
#[must_use]
pub fn sent(pair: &mut Pair, refused: bool) -> Findings {
    let mut found = Findings::default();
    if is(Mode::Check) {
        check::sent(pair, refused, &mut found);
    }
    found
}

// --- what will happen ----------------------------------------------------------------------

/// Before a call uses an object.
pub fn uses(call: &str, kind: Kind, object: usize) {
    if is(Mode::Check) {
        check::object(call, kind, object);
    }
}

/// Before an object is destroyed.
pub fn destroys(kind: Kind, object: usize) {
    if is(Mode::Check) {
        check::destroy(kind, object);
    }
}

/// Before a region is deregistered.
pub fn deregisters(dying: &Dying) {
    if let (true, Some(region)) = (is(Mode::Check), dying.region()) {
        check::deregister(region);
    }
}

/// Hands over each request that is about to be posted.
type Look<'a> = &'a mut dyn FnMut(&Request<'_>);

/// Before requests go to a send queue.
#[inline]
pub fn sends(
    pair: Entry<Pair>,
    each: impl FnOnce(Look<'_>),
    again: impl FnOnce() -> Entry<Pair>,
) -> Entry<Pair> {
    ahead(pair, check::send, each, again)
}

/// Before receives go to a queue pair.
#[inline]
pub fn receives(
    pair: Entry<Pair>,
    each: impl FnOnce(Look<'_>),
    again: impl FnOnce() -> Entry<Pair>,
) -> Entry<Pair> {
    ahead(pair, check::receive, each, again)
}

/// Before receives go to a shared queue.
#[inline]
pub fn receives_shared(
    shared: Entry<SharedQueue>,
    each: impl FnOnce(Look<'_>),
    again: impl FnOnce() -> Entry<SharedQueue>,
) -> Entry<SharedQueue> {
    ahead(shared, check::shared_receive, each, again)
}

/// Looks at what is about to be posted to a queue. It is not locked while that is
/// reported, as that takes long.
#[inline]
fn ahead<T>(
    entry: Entry<T>,
    rules: impl Fn(&T, &Request<'_>, &mut Findings),
    each: impl FnOnce(Look<'_>),
    again: impl FnOnce() -> Entry<T>,
) -> Entry<T> {
    if !is(Mode::Check) {
        return entry;
    }
    let mut found = Findings::default();
    each(&mut |request| rules(&entry, request, &mut found));
    if found.is_empty() {
        return entry;
    }
    drop(entry);
    found.report();
    again()
}

// --- the life of the process ---------------------------------------------------------------

/// The signals at which there is something to say: at any time, and at the end.
pub fn signals(mode: Mode) -> (&'static [i32], &'static [i32]) {
    const FATAL: &[i32] = &[libc::SIGINT, libc::SIGTERM, libc::SIGHUP];
    match mode {
        Mode::Trace => (&[], &[]),
        Mode::Stat => (&[libc::SIGUSR1], FATAL),
        Mode::Check => (&[], FATAL),
    }
}

fn draws_a_timeline() -> bool {
    is(Mode::Trace) && settings::get().format == Format::Perfetto
}

/// From here on, this process is watched.
pub fn start(mode: Mode) {
    settings::activate(mode);
    if draws_a_timeline() {
        trace::start();
    }
}

/// In the child of a fork. Where the parent reported something at that moment, what it was
/// about to change may be in any state.
pub fn forget(was_reporting: bool) {
    stat::forget();
    check::forget(was_reporting);
    if draws_a_timeline() {
        trace::forget();
        trace::start();
    }
}

/// Whether anything that belongs to a device was used.
pub fn has_seen_something() -> bool {
    if is(Mode::Stat) {
        stat::has_counted()
    } else {
        model::is_used()
    }
}

/// The table as it is now.
pub fn report_now() {
    stat::report();
}

/// Waits that last when a signal ends the process.
pub fn report_waits() {
    if is(Mode::Check) {
        check::report_waits();
    }
}

/// The table, or the number of findings.
pub fn last_report() {
    match settings::mode() {
        Some(Mode::Stat) => stat::report(),
        Some(Mode::Check) => check::report_total(),
        _ => {}
    }
}

/// At the end of the process, where the objects may be looked at.
pub fn at_exit() {
    if is(Mode::Check) {
        check::at_exit();
    }
}

/// At the end of the process, where memory may be allocated.
pub fn finish() {
    if draws_a_timeline() {
        trace::finish();
    }
}

/// How often something was found.
pub fn found() -> u64 {
    check::found()
}
