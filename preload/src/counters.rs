// SPDX-License-Identifier: MIT OR Apache-2.0
//! What each thread counts for itself, without atomic operations on shared lines.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::operation::{OPERATIONS, Operation};

/// A number that one thread changes and others read.
#[derive(Default)]
pub struct Counter(AtomicU64);

impl Counter {
    const fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    pub fn add(&self, number: u64) {
        self.0
            .store(self.0.load(Relaxed).wrapping_add(number), Relaxed);
    }

    /// Takes back what this thread has added.
    pub fn take_back(&self, number: u64) {
        self.add(number.wrapping_neg());
    }

    pub fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

/// What is counted for each operation.
pub struct OperationCounters {
    pub posted: Counter,
    pub bytes: Counter,
    pub refused: Counter,
    pub completed: Counter,
    pub failed: Counter,
}

/// The counters of one thread.
pub struct ThreadCounters {
    operations: [OperationCounters; OPERATIONS.len()],
    pub polls: Counter,
    pub empty_polls: Counter,
    pub arms: Counter,
    pub events: Counter,
    pub acknowledged: Counter,
}

impl ThreadCounters {
    pub const fn new() -> Self {
        Self {
            operations: [const {
                OperationCounters {
                    posted: Counter::new(),
                    bytes: Counter::new(),
                    refused: Counter::new(),
                    completed: Counter::new(),
                    failed: Counter::new(),
                }
            }; OPERATIONS.len()],
            polls: Counter::new(),
            empty_polls: Counter::new(),
            arms: Counter::new(),
            events: Counter::new(),
            acknowledged: Counter::new(),
        }
    }

    #[inline]
    pub fn of(&self, operation: Operation) -> &OperationCounters {
        // SAFETY: there is an element for each operation. A check would be paid at
        // each request.
        unsafe { self.operations.get_unchecked(operation as usize) }
    }
}
