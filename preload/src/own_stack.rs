// SPDX-License-Identifier: MIT OR Apache-2.0
//! A stack of this library's own.
//!
//! A thread of the program may have 16 KiB of stack, a signal handler 8, and the program
//! needs them itself. Putting a call stack into words takes 30 KiB. So whatever takes
//! more than a little runs here: one thread at a time, with all signals blocked, and not
//! cancelled, since it holds locks of this library and of the C library's.

use std::ffi::{c_int, c_void};
use std::hint;
use std::mem;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering::Relaxed};

use crate::lock::Lock;

const SIZE: usize = 256 * 1024;
/// Below the stack, and not accessible: at least one page of any size.
const GUARD: usize = 64 * 1024;

/// A function, and what it is called with.
type Job = (unsafe fn(*mut c_void), *mut c_void);
type Area = [u8; SIZE + 2 * GUARD];

struct Machine {
    /// Where the thread comes from, and goes back to.
    back: libc::ucontext_t,
    here: libc::ucontext_t,
    job: Option<Job>,
    area: Area,
}

// SAFETY: used by the thread that holds the lock.
unsafe impl Send for Machine {}

static MACHINE: Lock<Machine> = Lock::new(Machine {
    // SAFETY: numbers and pointers, which are set before they are used.
    back: unsafe { mem::zeroed() },
    // SAFETY: as above.
    here: unsafe { mem::zeroed() },
    job: None,
    area: [0; SIZE + 2 * GUARD],
});

static IS_GUARDED: AtomicBool = AtomicBool::new(false);

type Make = unsafe extern "C" fn(*mut libc::ucontext_t, extern "C" fn(), c_int, ...);
type Swap = unsafe extern "C" fn(*mut libc::ucontext_t, *const libc::ucontext_t) -> c_int;

unsafe extern "C" {
    fn getcontext(context: *mut libc::ucontext_t) -> c_int;
    fn makecontext(context: *mut libc::ucontext_t, function: extern "C" fn(), count: c_int, ...);
    fn swapcontext(from: *mut libc::ucontext_t, to: *const libc::ucontext_t) -> c_int;
    fn pthread_setcancelstate(state: c_int, before: *mut c_int) -> c_int;
}

/// `PTHREAD_CANCEL_DISABLE`
const NOT_CANCELLED: c_int = 1;

/// The C library's own functions: the address sanitizer puts its own in their place,
/// which would warn the program of what this library does.
static MAKE: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());
static SWAP: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());

/// Looks them up, which a signal handler must not do.
pub fn start() {
    for (place, name) in [(&MAKE, c"makecontext"), (&SWAP, c"swapcontext")] {
        // SAFETY: a C string.
        place.store(
            unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) },
            Relaxed,
        );
    }
}

fn make() -> Make {
    // SAFETY: NULL, or the function of that name, which has this type.
    let found: Option<Make> = unsafe { mem::transmute(MAKE.load(Relaxed)) };
    found.unwrap_or(makecontext)
}

fn swap() -> Swap {
    // SAFETY: as above.
    let found: Option<Swap> = unsafe { mem::transmute(SWAP.load(Relaxed)) };
    found.unwrap_or(swapcontext)
}

/// Runs a function on the stack, when no other thread does so; a function that already
/// runs there goes on.
pub fn run<R>(job: impl FnOnce() -> R) -> Option<R> {
    if is_here() {
        return Some(job());
    }
    undisturbed(|| {
        let _held = MACHINE.lock();
        switch(job)
    })
}

/// As [`run`], for signal handlers: whoever runs there may be waiting for what the
/// interrupted function holds, so this does not wait for ever.
pub fn run_soon<R>(job: impl FnOnce() -> R) -> Option<R> {
    undisturbed(|| {
        let _held = MACHINE.lock_within(&PATIENCE)?;
        switch(job)
    })
}

const PATIENCE: libc::timespec = libc::timespec {
    tv_sec: 5,
    tv_nsec: 0,
};

/// In the child of a fork: whether another thread was there, which the child does not
/// have. What it was about to change may be in any state.
pub fn forget() -> bool {
    MACHINE.free()
}

fn is_here() -> bool {
    let area = MACHINE.as_ptr() as usize;
    let local = 0u8;
    let here = hint::black_box(&raw const local) as usize;
    (area..area + size_of::<Machine>()).contains(&here)
}

fn undisturbed<R>(act: impl FnOnce() -> R) -> R {
    // SAFETY: zeros are a valid set; all pointers are to this frame.
    unsafe {
        let mut all: libc::sigset_t = mem::zeroed();
        let mut before: libc::sigset_t = mem::zeroed();
        let mut state = 0;
        libc::sigfillset(&raw mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut before);
        pthread_setcancelstate(NOT_CANCELLED, &raw mut state);
        let result = act();
        pthread_setcancelstate(state, ptr::null_mut());
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, ptr::null_mut());
        result
    }
}

/// The caller holds the lock.
fn switch<R>(job: impl FnOnce() -> R) -> Option<R> {
    let mut result = None;
    let mut job = Some(job);
    let mut call = || result = job.take().map(|job| job());
    let perform = perform_of(&call);
    let machine = MACHINE.as_ptr();
    // SAFETY: the machine is the lock holder's alone. `call` outlives its use: `enter`
    // goes back to where `swap` returns.
    unsafe {
        (*machine).job = Some((perform, (&raw mut call).cast()));
        getcontext(&raw mut (*machine).here);
        (*machine).here.uc_stack.ss_sp = stack(&raw mut (*machine).area).cast();
        (*machine).here.uc_stack.ss_size = SIZE;
        (*machine).here.uc_link = &raw mut (*machine).back;
        make()(&raw mut (*machine).here, enter, 0);
        swap()(&raw mut (*machine).back, &raw const (*machine).here);
    }
    result
}

fn perform_of<F: FnMut()>(_: &F) -> unsafe fn(*mut c_void) {
    unsafe fn perform<F: FnMut()>(call: *mut c_void) {
        // SAFETY: what `switch` has put next to this function.
        unsafe { (*call.cast::<F>())() }
    }
    perform::<F>
}

/// Where the stack begins in the area: above the guard.
fn stack(area: *mut Area) -> *mut u8 {
    let start: *mut u8 = area.cast();
    let guard = start.wrapping_add(start.align_offset(GUARD));
    if !IS_GUARDED.swap(true, Relaxed) {
        // SAFETY: whole pages of the area, which nothing else uses.
        unsafe { libc::mprotect(guard.cast(), GUARD, libc::PROT_NONE) };
    }
    guard.wrapping_add(GUARD)
}

extern "C" fn enter() {
    // SAFETY: called by `switch`, whose thread holds the lock and has set the job.
    unsafe {
        if let Some((perform, call)) = (*MACHINE.as_ptr()).job.take() {
            perform(call);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{SIZE, run};

    #[test]
    fn runs_elsewhere_and_returns() {
        let here = 0u8;
        let there = run(|| {
            let there = 0u8;
            std::hint::black_box(&raw const there) as usize
        });
        assert!(there.unwrap().abs_diff(&raw const here as usize) > SIZE);
        assert_eq!(run(|| 4711), Some(4711));
        assert_eq!(run(|| run(|| 4711)), Some(Some(4711)));
    }

    #[test]
    fn one_thread_at_a_time() {
        static mut SUM: u64 = 0;
        let threads: Vec<_> = (0..4)
            .map(|_| {
                std::thread::spawn(|| {
                    for _ in 0..5_000 {
                        // SAFETY: that is what is tested.
                        run(|| unsafe { SUM += 1 });
                    }
                })
            })
            .collect();
        for thread in threads {
            thread.join().unwrap();
        }
        // SAFETY: the threads are gone.
        assert_eq!(unsafe { SUM }, 20_000);
    }
}
