// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the library keeps for each thread.
//!
//! It is found at each call of a hook, so how it is found matters. A thread-local
//! variable of a shared library costs a function call; one that is known to be loaded
//! at the start costs two instructions, but stable Rust cannot say so.

use std::cell::Cell;
use std::ptr;
use std::sync::atomic::{
    AtomicBool, AtomicI32, AtomicPtr, AtomicU64, AtomicUsize, Ordering::*, compiler_fence,
};

use crate::counters::ThreadCounters;
use crate::output::Buffer;
use crate::settings;

/// A thread's own. It is never freed: when the thread has ended, a new one takes it
/// over, counters and all, so that nothing that was counted is lost.
pub struct Thread {
    pub counters: ThreadCounters,
    /// The thread runs this library's code.
    pub busy: Cell<bool>,
    /// How deep it is inside librdmacm.
    pub inside: Cell<u32>,
    /// Its number, once that is known.
    pub number: AtomicI32,
    /// The completion channel that it waits for, or 0; and since when.
    pub waits_for: AtomicUsize,
    pub waits_since: AtomicU64,
    /// Counts the beginnings and the ends of its polls: odd during one.
    polls: AtomicU64,
    /// Where trace puts its lines together.
    pub line: Cell<Option<Buffer<Box<[u8]>>>>,
    taken: AtomicBool,
    next: AtomicPtr<Thread>,
}

static THREADS: AtomicPtr<Thread> = AtomicPtr::new(ptr::null_mut());

/// This thread's.
#[inline]
pub fn own() -> &'static Thread {
    let own = pointer::get();
    if own.is_null() {
        return first();
    }
    // SAFETY: made below and never freed.
    unsafe { &*own }
}

/// All there have been.
pub fn all() -> impl Iterator<Item = &'static Thread> {
    let mut next = THREADS.load(Acquire);
    std::iter::from_fn(move || {
        // SAFETY: NULL, or made below and never freed.
        let this = unsafe { next.as_ref() }?;
        next = this.next.load(Relaxed);
        Some(this)
    })
}

#[cold]
#[inline(never)]
fn first() -> &'static Thread {
    let own = all()
        .find(|thread| {
            thread
                .taken
                .compare_exchange(false, true, AcqRel, Relaxed)
                .is_ok()
        })
        .unwrap_or_else(fresh);
    own.busy.set(false);
    own.inside.set(0);
    own.number.store(0, Relaxed);
    own.waits_for.store(0, Relaxed);
    own.polls.store(0, Relaxed);
    pointer::set(own);
    give_back_at_exit(own);
    own
}

fn fresh() -> &'static Thread {
    let fresh = Box::leak(Box::new(Thread {
        counters: ThreadCounters::new(),
        busy: Cell::new(false),
        inside: Cell::new(0),
        number: AtomicI32::new(0),
        waits_for: AtomicUsize::new(0),
        waits_since: AtomicU64::new(0),
        polls: AtomicU64::new(0),
        line: Cell::new(None),
        taken: AtomicBool::new(true),
        next: AtomicPtr::new(ptr::null_mut()),
    }));
    let mut head = THREADS.load(Acquire);
    loop {
        fresh.next.store(head, Relaxed);
        match THREADS.compare_exchange_weak(head, fresh, AcqRel, Acquire) {
            Ok(_) => return fresh,
            Err(now) => head = now,
        }
    }
}

static PROCESS: AtomicI32 = AtomicI32::new(0);

/// The number of the process. For signal handlers, too.
pub fn process() -> i32 {
    PROCESS.load(Relaxed)
}

/// At the start, and in the child of a fork.
pub fn note_process() {
    // SAFETY: no preconditions.
    PROCESS.store(unsafe { libc::getpid() }, Relaxed);
}

/// Not in the child of a vfork, which has this process' memory.
pub fn is_of_this_process() -> bool {
    // SAFETY: no preconditions.
    unsafe { libc::getpid() == process() }
}

/// The numbers of the process and of the thread.
pub fn ids() -> (i32, i32) {
    let number = &own().number;
    if number.load(Relaxed) == 0 {
        // SAFETY: no preconditions.
        number.store(unsafe { libc::syscall(libc::SYS_gettid) } as i32, Relaxed);
    }
    (process(), number.load(Relaxed))
}

/// Held by a thread that runs this library's code. A hook that is called meanwhile,
/// by the original or by a signal handler, passes its call on and does no more.
pub struct Busy(&'static Thread);

impl Busy {
    #[inline]
    pub fn enter() -> Option<Self> {
        Self::enter_as(own())
    }

    #[inline]
    fn enter_as(own: &'static Thread) -> Option<Self> {
        if own.busy.get() || !settings::is_active() {
            return None;
        }
        own.busy.set(true);
        // A signal handler sees it before anything that it protects.
        compiler_fence(SeqCst);
        Some(Self(own))
    }

    /// The counters of this thread.
    #[inline]
    pub fn counters(&self) -> &'static ThreadCounters {
        &self.0.counters
    }
}

/// Whether this thread is in the middle of a hook. For signal handlers, too: it makes
/// nothing.
pub fn is_busy() -> bool {
    // SAFETY: NULL, or made by `own` and never freed.
    unsafe { pointer::get().as_ref() }.is_some_and(|own| own.busy.get())
}

impl Drop for Busy {
    #[inline]
    fn drop(&mut self) {
        compiler_fence(SeqCst);
        self.0.busy.set(false);
    }
}

/// A poll of a completion queue, until its completions have been matched.
pub struct Polling(&'static Thread);

impl Polling {
    #[inline]
    pub fn begin() -> Self {
        let this = Self(own());
        this.count();
        this
    }

    fn count(&self) {
        let polls = &self.0.polls;
        polls.store(polls.load(Relaxed).wrapping_add(1), Release);
    }

    /// As [`Busy::enter`].
    #[inline]
    pub fn enter(&self) -> Option<Busy> {
        Busy::enter_as(self.0)
    }
}

impl Drop for Polling {
    #[inline]
    fn drop(&mut self) {
        self.count();
    }
}

/// How long to wait for polls of other threads, in steps of 0.1 ms.
const STEPS: u32 = 2000;

/// Waits until no poll of another thread that began before is under way: such a thread
/// may have taken completions that it has not matched yet. Says whether that came.
#[cold]
pub fn await_polls() -> bool {
    others().all(|other| {
        let at = other.polls.load(Acquire);
        at % 2 == 0 || (0..STEPS).any(|_| has_moved_on(other, at))
    })
}

fn has_moved_on(other: &Thread, at: u64) -> bool {
    // SAFETY: no preconditions.
    unsafe { libc::usleep(100) };
    other.polls.load(Acquire) != at
}

/// Whether another thread polls now and then.
#[cold]
pub fn others_poll() -> bool {
    others().any(|other| other.polls.load(Relaxed) != 0)
}

fn others() -> impl Iterator<Item = &'static Thread> {
    all().filter(|&other| !ptr::eq(other, own()))
}

/// Calls one of librdmacm's functions; says whether another one of them did so, and
/// not the program.
pub fn inside<R>(call: impl FnOnce() -> R) -> (R, bool) {
    let inside = &own().inside;
    let depth = inside.get();
    inside.set(depth.wrapping_add(1));
    let result = call();
    inside.set(depth);
    (result, depth > 0)
}

/// The counters of this thread.
#[inline]
pub fn counters() -> &'static ThreadCounters {
    &own().counters
}

/// The child of a fork has one thread, which counts from 0.
pub fn forget() {
    THREADS.store(ptr::null_mut(), Release);
    pointer::set(ptr::null());
}

/// The key whose destructor is told that a thread ends, plus 1.
static KEY: AtomicU64 = AtomicU64::new(0);

fn give_back_at_exit(own: &'static Thread) {
    let mut key = KEY.load(Acquire);
    if key == 0 {
        let mut fresh = 0;
        // SAFETY: the key is this frame's, the destructor takes what is set below.
        if unsafe { libc::pthread_key_create(&raw mut fresh, Some(give_back)) } != 0 {
            return;
        }
        key = u64::from(fresh) + 1;
        if let Err(other) = KEY.compare_exchange(0, key, AcqRel, Acquire) {
            // SAFETY: nobody knows the key yet.
            unsafe { libc::pthread_key_delete(fresh) };
            key = other;
        }
    }
    let value: *const Thread = own;
    // SAFETY: a key that was made above.
    unsafe { libc::pthread_setspecific((key - 1) as libc::pthread_key_t, value.cast()) };
}

unsafe extern "C" fn give_back(own: *mut libc::c_void) {
    pointer::set(ptr::null());
    // SAFETY: what was set above, which is never freed.
    let own = unsafe { &*own.cast::<Thread>() };
    // It may have been cancelled there.
    own.waits_for.store(0, Relaxed);
    own.polls.store(0, Release);
    own.taken.store(false, Release);
}

/// The thread-local pointer, in the initial-exec model.
#[cfg(all(not(test), target_arch = "x86_64"))]
mod pointer {
    use super::Thread;
    use std::arch::{asm, global_asm};

    global_asm!(
        ".section .tbss.rdma_verbs_own, \"awT\", @nobits",
        ".balign 8",
        ".hidden rdma_verbs_own",
        ".globl rdma_verbs_own",
        ".type rdma_verbs_own, @object",
        ".size rdma_verbs_own, 8",
        "rdma_verbs_own:",
        ".zero 8",
        ".text",
    );

    #[inline]
    pub fn get() -> *const Thread {
        let own;
        // SAFETY: reads the variable above.
        unsafe {
            asm!(
                "mov {own}, qword ptr [rip + rdma_verbs_own@gottpoff]",
                "mov {own}, qword ptr fs:[{own}]",
                own = out(reg) own,
                options(nostack, preserves_flags, readonly),
            );
        }
        own
    }

    pub fn set(own: *const Thread) {
        // SAFETY: writes the variable above.
        unsafe {
            asm!(
                "mov {place}, qword ptr [rip + rdma_verbs_own@gottpoff]",
                "mov qword ptr fs:[{place}], {own}",
                place = out(reg) _,
                own = in(reg) own,
                options(nostack, preserves_flags),
            );
        }
    }
}

#[cfg(any(test, not(target_arch = "x86_64")))]
mod pointer {
    use super::Thread;
    use std::cell::Cell;
    use std::ptr;

    thread_local! {
        static OWN: Cell<*const Thread> = const { Cell::new(ptr::null()) };
    }

    pub fn get() -> *const Thread {
        OWN.get()
    }

    pub fn set(own: *const Thread) {
        OWN.set(own);
    }
}

// SAFETY: only its own thread uses the cells.
unsafe impl Sync for Thread {}
