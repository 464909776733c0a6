// SPDX-License-Identifier: MIT OR Apache-2.0
//! Time.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed};

fn read(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` is writable. These clocks are always there.
    unsafe { libc::clock_gettime(clock, &raw mut time) };
    (time.tv_sec as u64)
        .wrapping_mul(1_000_000_000)
        .wrapping_add(time.tv_nsec as u64)
}

/// Nanoseconds of the monotonic clock, which all processes of a machine share.
pub fn now() -> u64 {
    read(libc::CLOCK_MONOTONIC)
}

static STARTED: AtomicU64 = AtomicU64::new(0);
/// From the monotonic clock to nanoseconds of the local day.
static TO_LOCAL: AtomicI64 = AtomicI64::new(0);

/// Remembers when the process started, and where the local day begins.
pub fn start() {
    let (monotonic, real) = (now(), read(libc::CLOCK_REALTIME));
    let seconds = (real / 1_000_000_000) as libc::time_t;
    // SAFETY: zeros are a valid tm; both pointers are to this frame.
    let mut local: libc::tm = unsafe { std::mem::zeroed() };
    // SAFETY: as above.
    unsafe { libc::localtime_r(&raw const seconds, &raw mut local) };
    let offset = local.tm_gmtoff.wrapping_mul(1_000_000_000);
    TO_LOCAL.store(
        (real as i64)
            .wrapping_add(offset)
            .wrapping_sub(monotonic as i64),
        Relaxed,
    );
    STARTED.store(monotonic, Relaxed);
}

/// Nanoseconds since the process started.
pub fn since_start() -> u64 {
    now().wrapping_sub(STARTED.load(Relaxed))
}

/// Hours, minutes, seconds and microseconds of the local day.
pub fn local(at: u64) -> (u64, u64, u64, u64) {
    let micros = (at as i64).wrapping_add(TO_LOCAL.load(Relaxed)) as u64 / 1000;
    let seconds = micros / 1_000_000;
    (
        seconds / 3600 % 24,
        seconds / 60 % 60,
        seconds % 60,
        micros % 1_000_000,
    )
}
