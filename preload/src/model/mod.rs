// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the library knows about the program's objects.

mod context;
pub mod devices;
mod life;
mod matching;
mod pair;

use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicUsize, Ordering::*};

use rdma_verbs_bindings::{ibv_context, ibv_cq, ibv_mr, ibv_pd, ibv_qp, ibv_srq};

use crate::lock::Lock;
use crate::outstanding::Requests;
use crate::own_stack;
use crate::registry::{Entry, Map, Registry};
use crate::stack::Stack;

use context::is_iwarp;
pub use context::{Context, Name};
pub use life::{Dead, Dying, keep_originals, originals};
pub use pair::{Building, Full, Limits, Pair};

/// A memory region.
#[derive(Clone, Copy, Default)]
pub struct Region {
    pub mr: usize,
    pub context: u32,
    pub domain: usize,
    /// Where its addresses begin, as work requests name them.
    pub start: u64,
    pub length: u64,
    pub access: u32,
    pub lkey: u32,
    /// All addresses are in it, or they are not known.
    pub anywhere: bool,
    pub user: User,
    pub stack: Stack,
}

/// Whose requests have named a region: the address of the only queue pair, or one of
/// the values below.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct User(pub usize);

impl User {
    pub const NOBODY: Self = Self(0);
    pub const SEVERAL: Self = Self(usize::MAX);

    #[inline]
    pub fn add(&mut self, other: Self) {
        if *self != other {
            *self = if *self == Self::NOBODY {
                other
            } else {
                Self::SEVERAL
            };
        }
    }
}

/// A queue of receives that is no queue pair's: an SRQ or a WQ.
#[derive(Default)]
pub struct SharedQueue {
    pub queue: usize,
    pub context: u32,
    pub domain: usize,
    pub cq: usize,
    pub most_buffers: Option<u32>,
    /// Queue pairs do not name it: their completions are found by their context.
    pub unnamed: bool,
    pub requests: Requests,
}

/// A completion queue.
#[derive(Default)]
pub struct CompletionQueue {
    pub channel: usize,
    /// At most so many events may still come: one for each arming.
    pub armed: u32,
    pub unacknowledged: u32,
    pub polls: u64,
}

/// Everything.
pub struct Model {
    pub contexts: Registry<Context>,
    /// From the address of a context to its number.
    ids: Map,
    pub regions: Registry<Region>,
    pub pairs: Registry<Pair>,
    /// From the number of a queue pair to its address.
    numbers: Map,
    pub shared: Registry<SharedQueue>,
    pub completions: Registry<CompletionQueue>,
    /// From a parent domain to the domain it stands on.
    pub parents: Registry<usize>,
    /// Objects that were destroyed, and where.
    dead: Registry<Dead>,
    dead_count: AtomicUsize,
    /// The program reads or writes queues by itself: what is known of outstanding
    /// requests may be wrong.
    pub direct: AtomicBool,
    next_context: AtomicU32,
    /// The regions that were deregistered last.
    gone: Lock<Gone>,
}

#[derive(Default)]
struct Gone {
    ring: [Region; 32],
    next: usize,
}

static MODEL: AtomicPtr<Model> = AtomicPtr::new(ptr::null_mut());

/// The model of this process.
#[inline]
pub fn model() -> &'static Model {
    let known = MODEL.load(Acquire);
    // SAFETY: NULL, or made below and never freed.
    if let Some(model) = unsafe { known.as_ref() } {
        return model;
    }
    new_model()
}

/// It is large, and comes to its place by way of the stack.
#[inline(never)]
fn empty() -> *mut Model {
    Box::into_raw(Box::new(Model {
        contexts: Registry::new(),
        regions: Registry::new(),
        pairs: Registry::new(),
        ids: Map::new(),
        numbers: Map::new(),
        shared: Registry::new(),
        completions: Registry::new(),
        parents: Registry::new(),
        dead: Registry::new(),
        dead_count: AtomicUsize::new(0),
        direct: AtomicBool::new(false),
        next_context: AtomicU32::new(1),
        gone: Lock::new(Gone::default()),
    }))
}

#[cold]
fn new_model() -> &'static Model {
    let fresh = own_stack::run(empty).unwrap_or_else(empty);
    let current = match MODEL.compare_exchange(ptr::null_mut(), fresh, AcqRel, Acquire) {
        Ok(_) => fresh,
        Err(current) => {
            // SAFETY: made above, and nobody else has seen it.
            drop(unsafe { Box::from_raw(fresh) });
            current
        }
    };
    // SAFETY: as above.
    unsafe { &*current }
}

/// Whether anything was looked up or entered since the process began.
pub fn is_used() -> bool {
    !MODEL.load(Relaxed).is_null()
}

/// After a fork, the child begins anew: other threads of the parent may have held the
/// locks of the old model.
pub fn forget() {
    MODEL.store(ptr::null_mut(), Release);
}

const REGION: u64 = 1 << 63;

fn region_key(context: u32, lkey: u32) -> u64 {
    REGION | u64::from(context) << 32 | u64::from(lkey)
}

fn number_key(context: u32, number: u32) -> usize {
    // The 24 bits of a number leave room.
    (REGION | u64::from(context) << 32 | u64::from(number)) as usize
}

impl Model {
    /// # Safety
    /// `context` is open.
    pub unsafe fn insert_context(&self, context: *mut ibv_context, complete: bool) {
        self.born(context as usize);
        let id = self.next_context.fetch_add(1, Relaxed) & 0x7fff_ffff;
        self.ids.insert(context as usize, id as usize);
        self.contexts.insert(
            context as u64,
            Context {
                id,
                complete,
                name: Name::of(context),
            },
        );
    }

    pub fn context_id(&self, context: *mut ibv_context) -> u32 {
        self.ids.get(context as usize).map_or(0, |id| id as u32)
    }

    /// The domain below parent domains.
    pub fn root(&self, pd: *mut ibv_pd) -> usize {
        let mut domain = pd as usize;
        for _ in 0..4 {
            match self.parents.get(domain as u64) {
                Some(below) => domain = *below,
                None => break,
            }
        }
        domain
    }

    pub fn insert_region(&self, region: Region) {
        self.born(region.mr);
        self.regions
            .insert(region_key(region.context, region.lkey), region);
    }

    #[inline]
    pub fn region_entry(&self, context: u32, lkey: u32) -> Option<Entry<Region>> {
        self.regions.get(region_key(context, lkey))
    }

    pub fn region(&self, context: u32, lkey: u32) -> Option<Region> {
        self.region_entry(context, lkey).map(|region| *region)
    }

    /// # Safety
    /// `mr` points to a memory region.
    pub unsafe fn region_of(&self, mr: *mut ibv_mr) -> Option<Region> {
        self.region(self.context_id((*mr).context), (*mr).lkey)
    }

    /// Remembers a region that was deregistered, at that place.
    fn deregistered(&self, region: Region, stack: Stack) {
        let mut gone = self.gone.lock();
        let next = gone.next;
        gone.next = (next + 1) % gone.ring.len();
        if let Some(place) = gone.ring.get_mut(next) {
            *place = Region { stack, ..region };
        }
    }

    /// A region was registered again, with other properties or keys.
    pub fn change_region(&self, before: &Region, now: Region) {
        if before.lkey != now.lkey {
            self.regions.remove(region_key(before.context, before.lkey));
            self.deregistered(*before, Stack::default());
        }
        self.regions.insert(region_key(now.context, now.lkey), now);
    }

    /// A region of that key that was deregistered not long ago.
    pub fn gone_region(&self, context: u32, lkey: u32) -> Option<Region> {
        let gone = self.gone.lock();
        gone.ring
            .iter()
            .find(|region| region.mr != 0 && region.context == context && region.lkey == lkey)
            .copied()
    }

    pub fn insert_pair(&self, pair: Pair) -> Entry<Pair> {
        self.born(pair.qp);
        self.numbers
            .insert(number_key(pair.context, pair.number), pair.qp);
        self.pairs.insert(pair.qp as u64, pair)
    }

    /// What a queue pair says of itself.
    ///
    /// # Safety
    /// `qp` points to a queue pair.
    pub unsafe fn describe_pair(&self, qp: *mut ibv_qp, pd: *mut ibv_pd) -> Pair {
        let queue = &*qp;
        Pair {
            qp: qp as usize,
            number: queue.qp_num,
            context: self.context_id(queue.context),
            kind: queue.qp_type,
            domain: self.root(pd),
            srq: queue.srq as usize,
            send_cq: queue.send_cq as usize,
            recv_cq: queue.recv_cq as usize,
            iwarp: is_iwarp(queue.context),
            ..Pair::default()
        }
    }

    /// A queue pair, also one whose creation was not seen.
    ///
    /// # Safety
    /// `qp` points to a queue pair.
    #[inline]
    pub unsafe fn pair(&self, qp: *mut ibv_qp) -> Entry<Pair> {
        match self.pairs.get(qp as u64) {
            Some(pair) => pair,
            None => self.unknown_pair(qp),
        }
    }

    #[cold]
    unsafe fn unknown_pair(&self, qp: *mut ibv_qp) -> Entry<Pair> {
        let fresh = self.describe_pair(qp, (*qp).pd);
        let key = number_key(fresh.context, fresh.number);
        let pair = self.pairs.get_or_insert(qp as u64, fresh);
        if self.numbers.get(key) != Some(qp as usize) {
            self.numbers.insert(key, qp as usize);
        }
        pair
    }

    pub fn pair_of_number(&self, context: u32, number: u32) -> Option<Entry<Pair>> {
        let qp = self.numbers.get(number_key(context, number))?;
        let pair = self.pairs.get(qp as u64)?;
        (pair.number == number && pair.context == context).then_some(pair)
    }

    /// # Safety
    /// `srq` points to a shared receive queue.
    pub unsafe fn shared_queue(&self, srq: *mut ibv_srq) -> Entry<SharedQueue> {
        if let Some(queue) = self.shared.get(srq as u64) {
            return queue;
        }
        let fresh = SharedQueue {
            queue: srq as usize,
            context: self.context_id((*srq).context),
            domain: self.root((*srq).pd),
            ..SharedQueue::default()
        };
        self.shared.get_or_insert(srq as u64, fresh)
    }

    /// # Safety
    /// `cq` points to a completion queue.
    pub unsafe fn completion_queue(&self, cq: *mut ibv_cq) -> Entry<CompletionQueue> {
        if let Some(queue) = self.completions.get(cq as u64) {
            return queue;
        }
        let fresh = CompletionQueue {
            channel: (*cq).channel as usize,
            // How often it was armed is not known.
            armed: u32::MAX,
            ..CompletionQueue::default()
        };
        self.completions.get_or_insert(cq as u64, fresh)
    }
}
