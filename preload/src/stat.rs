// SPDX-License-Identifier: MIT OR Apache-2.0
//! Latencies and registered memory, and the table of them and of the counters.

use std::fmt::{Result, Write};
use std::sync::atomic::{AtomicU64, Ordering::*};

use crate::counters::{Counter, ThreadCounters};
use crate::event::{Completed, Event, Posted};
use crate::names::Duration;
use crate::operation::{OPERATIONS, Operation};
use crate::output::{self, Buffer};
use crate::request::Request;
use crate::{clock, settings, thread};

/// The child of a fork counts from 0.
pub fn forget() {
    for histogram in &LATENCIES {
        histogram.forget();
    }
    REGISTERED.forget();
}

// --- latencies -----------------------------------------------------------------------------

/// Counts of values, in classes that are 1/16 of a power of two wide.
struct Histogram {
    classes: [AtomicU64; CLASSES],
    least: AtomicU64,
    most: AtomicU64,
}

const STEPS: u64 = 16;
const CLASSES: usize = 61 * STEPS as usize;

impl Histogram {
    const fn new() -> Self {
        Self {
            classes: [const { AtomicU64::new(0) }; CLASSES],
            least: AtomicU64::new(u64::MAX),
            most: AtomicU64::new(0),
        }
    }

    const fn class(value: u64) -> usize {
        if value < STEPS {
            return value as usize;
        }
        let shift = value.ilog2() - STEPS.ilog2();
        let step = (value >> shift) - STEPS;
        ((shift as u64 + 1) * STEPS + step) as usize
    }

    /// The middle of a class.
    const fn middle(class: usize) -> u64 {
        let class = class as u64;
        if class < STEPS {
            return class;
        }
        let shift = class / STEPS - 1;
        let low = (class % STEPS + STEPS) << shift;
        low + (1 << shift) / 2
    }

    fn add(&self, value: u64) {
        if let Some(class) = self.classes.get(Self::class(value)) {
            class.fetch_add(1, Relaxed);
        }
        if value < self.least.load(Relaxed) {
            self.least.fetch_min(value, Relaxed);
        }
        if value > self.most.load(Relaxed) {
            self.most.fetch_max(value, Relaxed);
        }
    }

    /// The value that so many hundredths of all values do not exceed.
    fn percentile(&self, hundredths: u64) -> Option<u64> {
        let total: u64 = self.classes.iter().map(|class| class.load(Relaxed)).sum();
        let rank = (total * hundredths).div_ceil(100);
        let mut seen = 0;
        for (class, count) in self.classes.iter().enumerate() {
            seen += count.load(Relaxed);
            if seen >= rank && seen > 0 {
                let (least, most) = (self.least.load(Relaxed), self.most.load(Relaxed));
                return Some(Self::middle(class).max(least).min(most));
            }
        }
        None
    }

    fn forget(&self) {
        self.classes
            .iter()
            .for_each(|class| class.store(0, Relaxed));
        self.least.store(u64::MAX, Relaxed);
        self.most.store(0, Relaxed);
    }
}

static LATENCIES: [Histogram; OPERATIONS.len()] = [const { Histogram::new() }; OPERATIONS.len()];

// --- what happens --------------------------------------------------------------------------

/// Counts what happened.
#[allow(clippy::inline_always)]
#[inline(always)]
pub fn on(event: &Event<'_>) {
    match event {
        Event::Posted(event) => posted(event),
        Event::TakenBack(request) => taken_back(request),
        Event::Polled {
            completions,
            counters,
            ..
        } => {
            counters.polls.add(1);
            counters.empty_polls.add(u64::from(*completions == 0));
        }
        Event::Armed => thread::counters().arms.add(1),
        Event::Woken(queue) if !queue.is_null() => thread::counters().events.add(1),
        Event::Acknowledges(_, count) => thread::counters().acknowledged.add((*count).into()),
        Event::Registered(length) => registered(*length),
        Event::Reregistered(before, length) => {
            deregistered(*before);
            registered(*length);
        }
        Event::Deregistered(length) => deregistered(*length),
        _ => {}
    }
}

#[inline]
fn posted(event: &Posted<'_>) {
    let operation = event.request.operation;
    let counters = thread::counters().of(operation);
    if event.serial.is_none() {
        counters.refused.add(1);
        return;
    }
    counters.posted.add(1);
    if operation != Operation::Receive {
        counters.bytes.add(event.bytes);
    }
}

fn taken_back(request: &Request<'_>) {
    let counters = thread::counters().of(request.operation);
    counters.posted.take_back(1);
    counters.bytes.take_back(request.length());
    counters.refused.add(1);
}

/// Counts a completion.
#[inline]
pub fn completed(event: &Completed<'_>) {
    let completion = event.completion;
    let operation = match event.request {
        Some(request) => request.operation(),
        None if event.is_receive => Operation::Receive,
        None => Operation::of_completion(completion.opcode),
    };
    let counters = thread::counters().of(operation);
    if completion.has_failed() {
        counters.failed.add(1);
        return;
    }
    counters.completed.add(1);
    if let (true, Some(bytes)) = (event.is_receive, completion.bytes) {
        counters.bytes.add(bytes.into());
    }
    if let (Some(request), Some(histogram)) = (event.request, LATENCIES.get(operation as usize)) {
        histogram.add(event.at.saturating_sub(request.at));
    }
}

// --- registered memory ---------------------------------------------------------------------

struct Registered {
    regions: AtomicU64,
    bytes: AtomicU64,
    most_regions: AtomicU64,
    most_bytes: AtomicU64,
}

static REGISTERED: Registered = Registered {
    regions: AtomicU64::new(0),
    bytes: AtomicU64::new(0),
    most_regions: AtomicU64::new(0),
    most_bytes: AtomicU64::new(0),
};

impl Registered {
    fn forget(&self) {
        for number in [
            &self.regions,
            &self.bytes,
            &self.most_regions,
            &self.most_bytes,
        ] {
            number.store(0, Relaxed);
        }
    }
}

fn registered(length: u64) {
    let regions = REGISTERED.regions.fetch_add(1, Relaxed) + 1;
    let bytes = REGISTERED
        .bytes
        .fetch_add(length, Relaxed)
        .wrapping_add(length);
    REGISTERED.most_regions.fetch_max(regions, Relaxed);
    REGISTERED.most_bytes.fetch_max(bytes, Relaxed);
}

/// Whether there is anything to report.
pub fn has_counted() -> bool {
    let is_any = |counter: &Counter| counter.get() != 0;
    REGISTERED.most_regions.load(Relaxed) != 0
        || thread::all().any(|thread| {
            let counters = &thread.counters;
            [
                &counters.polls,
                &counters.arms,
                &counters.events,
                &counters.acknowledged,
            ]
            .into_iter()
            .any(is_any)
                || OPERATIONS
                    .iter()
                    .map(|&operation| counters.of(operation))
                    .any(|one| is_any(&one.posted) || is_any(&one.refused))
        })
}

fn deregistered(length: u64) {
    REGISTERED.regions.fetch_sub(1, Relaxed);
    REGISTERED.bytes.fetch_sub(length, Relaxed);
}

// --- the table -----------------------------------------------------------------------------

type Table = Buffer<[u8; 8192]>;

fn sum(what: impl Fn(&ThreadCounters) -> &Counter) -> u64 {
    thread::all().fold(0, |sum, thread| {
        sum.wrapping_add(what(&thread.counters).get())
    })
}

/// Writes the table. Runs on a stack that is large enough, and in signal handlers, too.
pub fn report() {
    let mut table = Table::new();
    let _ = write_table(&mut table);
    output::write(table.bytes());
}

fn write_table(out: &mut Table) -> Result {
    let latency = settings::get().latency;
    let millis = clock::since_start() / 1_000_000;
    writeln!(
        out,
        "rdma-verbs stat: {} [{}], {}.{:03} s",
        settings::name(),
        thread::process(),
        millis / 1000,
        millis % 1000
    )?;
    write!(
        out,
        "{:<21}{:>11}{:>9}{:>15}{:>11}{:>8}",
        "operation", "posted", "refused", "bytes", "completed", "failed"
    )?;
    if latency {
        write!(out, "{:>10}{:>10}{:>10}{:>10}", "min", "p50", "p99", "max")?;
    }
    out.write_str("\n")?;
    for operation in OPERATIONS {
        write_operation(out, operation, latency)?;
    }
    writeln!(
        out,
        "polls {} ({} empty), arms {}, events {} ({} acknowledged)",
        sum(|counters| &counters.polls),
        sum(|counters| &counters.empty_polls),
        sum(|counters| &counters.arms),
        sum(|counters| &counters.events),
        sum(|counters| &counters.acknowledged),
    )?;
    writeln!(
        out,
        "registered now: {} bytes in {} regions; at most: {} bytes, {} regions",
        REGISTERED.bytes.load(Relaxed),
        REGISTERED.regions.load(Relaxed),
        REGISTERED.most_bytes.load(Relaxed),
        REGISTERED.most_regions.load(Relaxed),
    )
}

fn write_operation(out: &mut Table, operation: Operation, latency: bool) -> Result {
    let [posted, bytes, refused, completed, failed] = [
        sum(|counters| &counters.of(operation).posted),
        sum(|counters| &counters.of(operation).bytes),
        sum(|counters| &counters.of(operation).refused),
        sum(|counters| &counters.of(operation).completed),
        sum(|counters| &counters.of(operation).failed),
    ];
    if posted == 0 && refused == 0 && completed == 0 && failed == 0 {
        return Ok(());
    }
    let name = operation.name();
    write!(
        out,
        "{name:<21}{posted:>11}{refused:>9}{bytes:>15}{completed:>11}{failed:>8}"
    )?;
    let histogram = LATENCIES.get(operation as usize).filter(|_| latency);
    if let Some((histogram, median)) = histogram.and_then(|one| Some((one, one.percentile(50)?))) {
        for value in [
            histogram.least.load(Relaxed),
            median,
            histogram.percentile(99).unwrap_or_default(),
            histogram.most.load(Relaxed),
        ] {
            let mut cell = Buffer::<[u8; 16]>::new();
            write!(cell, "{}", Duration(value))?;
            write!(
                out,
                "{:>10}",
                std::str::from_utf8(cell.bytes()).unwrap_or_default()
            )?;
        }
    }
    out.write_str("\n")
}

#[cfg(test)]
mod tests {
    use super::Histogram;

    #[test]
    fn a_class_holds_its_middle() {
        for value in [0, 1, 15, 16, 17, 31, 32, 1000, 123_456_789, u64::MAX] {
            let class = Histogram::class(value);
            assert!(class < super::CLASSES);
            assert_eq!(Histogram::class(Histogram::middle(class)), class);
            let error = Histogram::middle(class).abs_diff(value);
            assert!(error <= value / 16, "{value} {error}");
        }
    }

    #[test]
    fn percentiles() {
        static HISTOGRAM: Histogram = Histogram::new();
        assert_eq!(HISTOGRAM.percentile(50), None);
        (1..=100).for_each(|value| HISTOGRAM.add(value * 10));
        let half = HISTOGRAM.percentile(50).unwrap();
        assert!((470..=530).contains(&half), "{half}");
        assert_eq!(HISTOGRAM.percentile(100), Some(1000));
        assert_eq!(
            HISTOGRAM.least.load(std::sync::atomic::Ordering::Relaxed),
            10
        );
    }
}
