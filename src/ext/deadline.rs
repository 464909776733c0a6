// SPDX-License-Identifier: MIT OR Apache-2.0
//! When a wait ends.

use core::ffi::{c_int, c_long};
use core::mem;

use libc::timespec;

const NS_PER_S: i64 = 1_000_000_000;
const NS_PER_MS: i64 = 1_000_000;

/// The end of a wait, whose time starts when it is first asked how much remains: a call
/// that need not wait does not look at the clock.
#[derive(Clone, Copy)]
pub struct Deadline {
    timeout_ms: c_int,
    /// On the monotonic clock, in nanoseconds.
    end: Option<i64>,
}

impl Deadline {
    /// So many milliseconds; less than 0 is for ever, as for `poll(2)`.
    pub fn after(timeout_ms: c_int) -> Self {
        Self {
            timeout_ms,
            end: None,
        }
    }

    /// A time on the monotonic clock; NULL is for ever.
    ///
    /// # Safety
    /// `end` is NULL or points to a time.
    pub unsafe fn at(end: *const timespec) -> Self {
        if end.is_null() {
            return Self::after(-1);
        }
        Self {
            timeout_ms: c_int::MAX,
            // SAFETY: not NULL, so as the caller promises.
            end: Some(unsafe { nanoseconds(&end.read()) }),
        }
    }

    /// So many nanoseconds from now.
    pub fn until(ns: i64) -> Self {
        Self {
            timeout_ms: c_int::MAX,
            end: Some(now().saturating_add(ns)),
        }
    }

    /// The same end, but no more than so many nanoseconds from now.
    pub fn within(&mut self, ns: i64) -> Self {
        Self::until(self.nanoseconds().map_or(ns, |left| left.min(ns)))
    }

    /// The nanoseconds that remain; none where the wait has no end.
    fn nanoseconds(&mut self) -> Option<i64> {
        if self.timeout_ms < 0 {
            return None;
        }
        let now = now();
        let length = i64::from(self.timeout_ms).wrapping_mul(NS_PER_MS);
        let end = *self.end.get_or_insert(now.wrapping_add(length));
        Some(end.saturating_sub(now).max(0))
    }

    /// The time that remains; none where the wait has no end.
    pub fn remaining(&mut self) -> Option<timespec> {
        self.nanoseconds().map(duration)
    }

    /// The time that remains, but no more than that.
    pub fn remaining_within(&mut self, limit_ns: i64) -> timespec {
        duration(
            self.nanoseconds()
                .map_or(limit_ns, |left| left.min(limit_ns)),
        )
    }

    /// Lets the time start, if it has not.
    pub fn start(&mut self) {
        self.nanoseconds();
    }

    /// No time remains from now on; whether there was none from the start.
    pub fn expire(&mut self) -> bool {
        mem::replace(self, Self::after(0)).timeout_ms == 0
    }

    pub fn has_passed(&mut self) -> bool {
        self.nanoseconds() == Some(0)
    }
}

/// The monotonic clock, in nanoseconds.
pub fn now() -> i64 {
    // SAFETY: integers only, for which zeros are valid.
    let mut time: timespec = unsafe { mem::zeroed() };
    // SAFETY: the clock exists on every Linux, so the call fills `time`.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    nanoseconds(&time)
}

#[allow(clippy::useless_conversion)] // Not 64 bits wide everywhere.
fn nanoseconds(time: &timespec) -> i64 {
    i64::from(time.tv_sec)
        .saturating_mul(NS_PER_S)
        .saturating_add(i64::from(time.tv_nsec))
}

#[allow(clippy::cast_possible_truncation)] // The nanoseconds are less than a second.
fn duration(nanoseconds: i64) -> timespec {
    // SAFETY: as in `now`; there may be padding.
    let mut time: timespec = unsafe { mem::zeroed() };
    time.tv_sec = (nanoseconds.wrapping_div(NS_PER_S)) as libc::time_t;
    time.tv_nsec = (nanoseconds.wrapping_rem(NS_PER_S)) as c_long;
    time
}

#[cfg(test)]
mod tests {
    use core::ptr;

    use super::*;

    fn remaining(timeout_ms: c_int) -> Option<i64> {
        Deadline::after(timeout_ms).nanoseconds()
    }

    #[test]
    fn less_than_0_is_for_ever() {
        for timeout_ms in [-1, c_int::MIN] {
            assert_eq!(remaining(timeout_ms), None);
            assert!(!Deadline::after(timeout_ms).has_passed());
        }
    }

    #[test]
    fn no_time_has_passed_at_once() {
        assert_eq!(remaining(0), Some(0));
        assert!(Deadline::after(0).has_passed());
    }

    #[test]
    fn an_end_is_a_time_on_the_monotonic_clock() {
        let at = |tv_sec| {
            let end = timespec { tv_sec, tv_nsec: 5 };
            // SAFETY: the time is there.
            unsafe { Deadline::at(&raw const end) }
        };
        // SAFETY: NULL is for ever.
        assert_eq!(unsafe { Deadline::at(ptr::null()) }.nanoseconds(), None);
        for past in [i64::MIN, -1, 0] {
            assert!(at(past).has_passed());
        }
        let in_an_hour = now().wrapping_div(NS_PER_S).wrapping_add(3600);
        let left = at(in_an_hour).nanoseconds();
        assert!(left > Some(NS_PER_S.wrapping_mul(3598)));
        assert!(left <= Some(NS_PER_S.wrapping_mul(3600).wrapping_add(5)));
        assert!(!at(i64::MAX).has_passed());
    }

    #[test]
    fn the_time_starts_with_the_first_question() {
        let mut deadline = Deadline::after(c_int::MAX);
        let first = deadline.nanoseconds();
        let second = deadline.nanoseconds();
        assert_eq!(first, Some(i64::from(c_int::MAX).wrapping_mul(NS_PER_MS)));
        assert!(second < first);
        assert!(!deadline.has_passed());
    }

    #[test]
    fn what_has_expired_has_passed() {
        for timeout_ms in [60_000, c_int::MAX] {
            let mut deadline = Deadline::after(timeout_ms);
            deadline.start();
            assert!(!deadline.has_passed());
            assert!(!deadline.expire());
            assert!(deadline.has_passed());
            assert!(deadline.expire());
        }
        assert!(Deadline::after(0).expire());
    }

    #[test]
    fn durations_have_less_than_a_second_of_nanoseconds() {
        for length in [0, 1, NS_PER_S.wrapping_sub(1), NS_PER_S, i64::MAX] {
            let time = duration(length);
            assert_eq!(nanoseconds(&time), length);
            assert!((0..NS_PER_S).contains(&time.tv_nsec));
        }
    }
}
