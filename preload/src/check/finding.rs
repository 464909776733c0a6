// SPDX-License-Identifier: MIT OR Apache-2.0
//! Findings: what is reported, how often, and how it reads.

use std::collections::HashMap;
use std::fmt::{self, Write};
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering::*};

use rdma_verbs_settings::Rule;

use crate::errno::Errno;
use crate::lock::Lock;
use crate::output::{self, Buffer, say};
use crate::own_stack;
use crate::stack::Stack;
use crate::{settings, thread};

/// What follows from a finding.
#[derive(Clone, Copy)]
pub enum Advice {
    /// How to fix it.
    Fix(&'static str),
    /// What has probably caused it.
    Causes(&'static str),
}

/// A rule that was broken.
pub struct Finding {
    pub rule: Rule,
    /// What happened, in one sentence without a full stop.
    pub what: String,
    /// What to do about it, where the rule's own advice is too general.
    pub advice: Option<Advice>,
    /// The manual page, where it depends on the object.
    pub page: Option<&'static str>,
    /// Another place that matters, with a word on it.
    pub other: Option<(&'static str, Stack)>,
}

impl Finding {
    pub fn new(rule: Rule, what: String) -> Self {
        Self {
            rule,
            what,
            advice: None,
            page: None,
            other: None,
        }
    }

    /// Reports it as found at the present call.
    pub fn report(self) {
        self.report_at(Stack::here());
    }

    /// Reports it, unless it was reported for the same place before.
    pub fn report_at(self, stack: Stack) {
        if settings::get().suppressed.contains(self.rule) {
            return;
        }
        let errno = Errno::now();
        own_stack::run(|| {
            // After the total, nothing is counted, either.
            if IS_CLOSED.load(Relaxed) {
                return;
            }
            FOUND.fetch_add(1, Relaxed);
            if seen().is_new(self.rule, &stack) {
                let mut text = Buffer::<[u8; 8192]>::new();
                let _ = self.write(&mut text, &stack);
                output::write(text.bytes());
            }
        });
        errno.restore();
    }

    fn write(&self, out: &mut impl Write, stack: &Stack) -> fmt::Result {
        let (process, thread) = thread::ids();
        writeln!(out, "rdma-verbs check: {}: {}", self.rule.name(), self.what)?;
        writeln!(out, "    in:   {} [{process}/{thread}]", settings::name())?;
        let page = self.page.unwrap_or(self.rule.page());
        writeln!(out, "    rule: {}, see {page}", self.rule.name())?;
        match self.advice.unwrap_or(Advice::Fix(self.rule.advice())) {
            Advice::Fix(text) => writeln!(out, "    fix:  {text}")?,
            Advice::Causes(text) => writeln!(out, "    likely causes: {text}")?,
        }
        if !stack.is_empty() {
            out.write_str("    at:\n")?;
            stack.write(out, "        ")?;
        }
        if let Some((word, other)) = &self.other {
            writeln!(out, "    {word}:")?;
            other.write(out, "        ")?;
        }
        Ok(())
    }
}

/// What was found while a lock was held; reported when it is released.
#[derive(Default)]
pub struct Findings(pub Vec<Finding>);

impl Findings {
    #[cold]
    pub fn add(&mut self, rule: Rule, what: String) {
        self.0.push(Finding::new(rule, what));
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    #[inline]
    pub fn report(self) {
        if !self.0.is_empty() {
            self.report_all();
        }
    }

    #[cold]
    fn report_all(self) {
        self.0.into_iter().for_each(Finding::report);
    }
}

static FOUND: AtomicU64 = AtomicU64::new(0);

/// How often rules were broken.
pub fn found() -> u64 {
    FOUND.load(Relaxed)
}

/// What was reported, by rule and place.
#[derive(Default)]
struct Seen(Lock<HashMap<(u8, u64), u64>>);

impl Seen {
    fn is_new(&self, rule: Rule, stack: &Stack) -> bool {
        let mut places = self.0.lock();
        let count = places.entry((rule as u8, stack.hash())).or_default();
        *count += 1;
        *count == 1
    }
}

static SEEN: AtomicPtr<Seen> = AtomicPtr::new(std::ptr::null_mut());

fn seen() -> &'static Seen {
    let known = SEEN.load(Acquire);
    // SAFETY: NULL, or made below and never freed.
    if let Some(seen) = unsafe { known.as_ref() } {
        return seen;
    }
    let fresh = Box::leak(Box::new(Seen::default()));
    SEEN.store(fresh, Release);
    fresh
}

/// The child of a fork has found nothing yet.
pub fn forget(was_in_use: bool) {
    crate::stack::forget(was_in_use);
    FOUND.store(0, Relaxed);
    IS_CLOSED.store(false, Relaxed);
    SEEN.store(std::ptr::null_mut(), Release);
}

static IS_CLOSED: AtomicBool = AtomicBool::new(false);

/// Says how much was found, and ends the report. Runs on this library's stack: a finding
/// that another thread has begun to report is written by then.
pub fn report_total() {
    IS_CLOSED.store(true, Relaxed);
    let process = thread::process();
    let name = settings::name();
    match found() {
        0 => say(format_args!("check: {name} [{process}]: nothing found")),
        1 => say(format_args!("check: {name} [{process}]: 1 finding")),
        count => say(format_args!(
            "check: {name} [{process}]: {count} findings; repeats at the same place are reported once"
        )),
    }
}
