// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the library knows about the program's objects.

pub mod devices;

use std::ffi::c_int;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicUsize, Ordering::*};

use rdma_verbs_bindings::{
    IBV_QPS_ERR, IBV_QPS_RESET, IBV_TRANSPORT_IWARP, ibv_context, ibv_cq, ibv_mr, ibv_pd, ibv_qp,
    ibv_qp_cap, ibv_srq, ibv_transport_type,
};

use crate::lock::Lock;
use crate::own_stack;
use crate::registry::{Entry, Map, Registry};
use crate::request::{Request, Requests};
use crate::stack::Stack;

/// A device that was opened.
#[derive(Default)]
pub struct Context {
    /// Small, from 1; 0 stands for a context whose opening was not seen.
    pub id: u32,
    /// All its registrations are seen: it was not imported from another process, and
    /// no keys are made by means that are not hooked.
    pub complete: bool,
    pub name: Name,
}

/// A device's name.
#[derive(Clone, Copy, Default)]
pub struct Name {
    bytes: [u8; 24],
}

impl Name {
    pub fn new(name: &[u8]) -> Self {
        let mut this = Self::default();
        for (to, from) in this.bytes.iter_mut().zip(name) {
            *to = *from;
        }
        this
    }

    pub fn text(&self) -> &str {
        let end = self
            .bytes
            .iter()
            .position(|&byte| byte == 0)
            .unwrap_or(self.bytes.len());
        std::str::from_utf8(self.bytes.get(..end).unwrap_or_default()).unwrap_or("?")
    }
}

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

/// A queue pair.
// Four facts that have nothing to do with one another.
#[allow(clippy::struct_excessive_bools)]
#[derive(Default)]
pub struct Pair {
    pub qp: usize,
    pub number: u32,
    pub context: u32,
    pub kind: u32,
    pub domain: usize,
    pub srq: usize,
    pub send_cq: usize,
    pub recv_cq: usize,
    /// What the provider granted; `None` where the creation was not seen.
    pub limits: Option<Limits>,
    pub all_signaled: bool,
    /// The kernel connects it, and libibverbs is not told of its states.
    pub iwarp: bool,
    pub send: Requests,
    pub recv: Requests,
    /// A completion said that the queue pair is in error.
    pub failed: bool,
    /// The send queue was found full when that many polls had been made.
    pub full: Option<crate::check::Full>,
    /// Whether it has the operations of `ibv_wr_start` and so on.
    pub extended: bool,
    /// The batch in the making.
    pub batch: Vec<Building>,
}

/// Whether a device speaks iWARP.
///
/// # Safety
/// `context` is open.
pub unsafe fn is_iwarp(context: *mut ibv_context) -> bool {
    /// In `struct ibv_device`, after two pointers and the type of its node.
    const OFFSET: usize = 2 * size_of::<usize>() + size_of::<c_int>();
    let device = (*context).device.cast::<u8>();
    !device.is_null() && *device.add(OFFSET).cast::<ibv_transport_type>() == IBV_TRANSPORT_IWARP
}

/// What a queue pair was granted.
#[derive(Clone, Copy)]
pub struct Limits {
    pub sends: u32,
    pub send_buffers: u32,
    pub receive_buffers: u32,
    pub inline: u32,
}

impl From<ibv_qp_cap> for Limits {
    fn from(cap: ibv_qp_cap) -> Self {
        Self {
            sends: cap.max_send_wr,
            send_buffers: cap.max_send_sge,
            receive_buffers: cap.max_recv_sge,
            inline: cap.max_inline_data,
        }
    }
}

/// A request of `ibv_wr_…`, whose buffers are set by calls of their own.
#[derive(Clone, Copy)]
pub struct Building {
    pub request: Request<'static>,
    pub buffers: [rdma_verbs_bindings::ibv_sge; 4],
}

impl Building {
    pub fn request(&self) -> Request<'_> {
        let count = (self.request.count.max(0) as usize).min(self.buffers.len());
        Request {
            buffers: self.buffers.get(..count).unwrap_or_default(),
            ..self.request
        }
    }
}

impl Pair {
    /// The state as libibverbs keeps it, where it does.
    pub fn state(&self) -> Option<u32> {
        // SAFETY: the queue pair is in use by the caller of a hook.
        (!self.iwarp).then(|| unsafe { (*(self.qp as *const ibv_qp)).state })
    }

    /// Whether requests on it may end without touching memory.
    pub fn is_dead(&self) -> bool {
        self.failed || matches!(self.state(), None | Some(IBV_QPS_ERR | IBV_QPS_RESET))
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
    pub dead: Registry<Dead>,
    dead_count: AtomicUsize,
    /// The program reads or writes queues by itself: what is known of outstanding
    /// requests may be wrong.
    pub direct: AtomicBool,
    next_context: AtomicU32,
    /// The regions that were deregistered last.
    gone: Lock<Gone>,
}

/// An object that was destroyed.
#[derive(Clone, Copy, Default)]
pub struct Dead {
    pub kind: &'static str,
    pub stack: Stack,
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
    pub fn insert_context(&self, context: *mut ibv_context, complete: bool, name: Name) {
        let id = self.next_context.fetch_add(1, Relaxed) & 0x7fff_ffff;
        self.ids.insert(context as usize, id as usize);
        self.contexts
            .insert(context as u64, Context { id, complete, name });
    }

    pub fn remove_context(&self, context: *mut ibv_context) {
        self.ids.remove(context as usize);
        self.contexts.remove(context as u64);
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
        self.alive(region.mr);
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

    /// The region is deregistered, at that place.
    pub fn remove_region(&self, region: &Region, stack: Stack) {
        self.regions.remove(region_key(region.context, region.lkey));
        let mut gone = self.gone.lock();
        let next = gone.next;
        gone.next = (next + 1) % gone.ring.len();
        if let Some(place) = gone.ring.get_mut(next) {
            *place = Region { stack, ..*region };
        }
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
        self.alive(pair.qp);
        self.numbers
            .insert(number_key(pair.context, pair.number), pair.qp);
        self.pairs.insert(pair.qp as u64, pair)
    }

    /// A queue pair, also one whose creation was not seen.
    ///
    /// # Safety
    /// `qp` points to a queue pair.
    #[inline]
    pub unsafe fn pair(&self, qp: *mut ibv_qp) -> Entry<Pair> {
        if let Some(pair) = self.pairs.get(qp as u64) {
            return pair;
        }
        let queue = &*qp;
        self.insert_pair(Pair {
            qp: qp as usize,
            number: queue.qp_num,
            context: self.context_id(queue.context),
            kind: queue.qp_type,
            domain: self.root(queue.pd),
            srq: queue.srq as usize,
            send_cq: queue.send_cq as usize,
            recv_cq: queue.recv_cq as usize,
            iwarp: is_iwarp(queue.context),
            ..Pair::default()
        })
    }

    pub fn pair_of_number(&self, context: u32, number: u32) -> Option<Entry<Pair>> {
        let qp = self.numbers.get(number_key(context, number))?;
        self.pairs.get(qp as u64)
    }

    pub fn remove_pair(&self, qp: usize) -> Option<Pair> {
        let pair = self.pairs.remove(qp as u64)?;
        // Two threads may have met it at the same moment, where its making was not seen.
        while self.pairs.remove(qp as u64).is_some() {}
        self.numbers.remove(number_key(pair.context, pair.number));
        Some(pair)
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
        self.shared.insert(srq as u64, fresh)
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
        self.completions.insert(cq as u64, fresh)
    }

    /// An object came to life at an address where another may have died.
    pub fn alive(&self, object: usize) {
        if self.dead.remove(object as u64).is_some() {
            self.dead_count.fetch_sub(1, Relaxed);
        }
    }

    pub fn died(&self, object: usize, kind: &'static str, stack: Stack) {
        if self.dead_count.load(Relaxed) < MOST_DEAD {
            self.dead_count.fetch_add(1, Relaxed);
            self.dead.insert(object as u64, Dead { kind, stack });
        }
    }
}

/// A program that makes and destroys objects for ever must not fill the memory with
/// them. Most of their addresses come again, and make room.
const MOST_DEAD: usize = 1 << 14;
