// SPDX-License-Identifier: MIT OR Apache-2.0
//! The life of objects, of all kinds.
//!
//! When a function that destroys an object returns, another thread may already have a new
//! object at that address, under that number, with that key. So what is known of an
//! object is marked before the call, stays while the call may still fail, and goes after
//! it only if nothing has come in its place since.

use std::sync::atomic::Ordering::Relaxed;

use rdma_verbs_bindings::ibv_mr;

use super::{Model, Region, number_key, region_key};
use crate::kind::Kind;
use crate::registry::{Leaving, Map, Ticket};
use crate::stack::Stack;

/// An object that was destroyed, and where.
#[derive(Clone, Copy, Default)]
pub struct Dead {
    pub kind: Kind,
    pub stack: Stack,
    /// The function that destroys it has returned.
    is_certain: bool,
}

/// A program that makes and destroys objects for ever must not fill the memory with
/// them. Most of their addresses come again, and make room.
const MOST_DEAD: usize = 1 << 14;

/// From objects to the operations that hooks have replaced in them. Without a lock, and
/// not the model's: the hooks stay in the objects that the child of a fork inherits.
static ORIGINALS: Map = Map::new();

/// The operations that an object had. Before its hooks are put in.
pub fn keep_originals<T>(object: usize, operations: &'static T) {
    ORIGINALS.insert(object, std::ptr::from_ref(operations) as usize);
}

/// The operations that an object had.
///
/// # Safety
/// They were kept as a `T`.
#[inline]
pub unsafe fn originals<T>(object: usize) -> Option<&'static T> {
    let address = ORIGINALS.get(object)?;
    // SAFETY: what was kept lives for ever.
    Some(unsafe { &*(address as *const T) })
}

/// An object that is about to be destroyed.
pub struct Dying {
    kind: Kind,
    address: usize,
    /// Its key in the table of its kind, and its stamp there.
    entry: Option<(u64, u64)>,
    /// By its number, or that of its context.
    number: Option<Ticket>,
    originals: Option<Ticket>,
    /// The stamp of its obituary, and what was there before.
    obituary: Option<(u64, Option<Dead>)>,
    stack: Option<Stack>,
    region: Option<Region>,
}

impl Dying {
    /// The region, if it is one that is known.
    pub fn region(&self) -> Option<&Region> {
        self.region.as_ref()
    }
}

impl Model {
    /// An object came to life at an address where another, of any kind, may have died.
    pub fn born(&self, address: usize) {
        if self.dead.remove(address as u64).is_some() {
            self.dead_count.fetch_sub(1, Relaxed);
        }
    }

    /// The object that was destroyed at an address, if none has come after it.
    pub fn dead(&self, address: usize) -> Option<Dead> {
        let dead = self.dead.get(address as u64)?;
        dead.is_certain.then_some(*dead)
    }

    /// Before an object is destroyed, at that place if it is to be remembered.
    ///
    /// # Safety
    /// `address` is NULL, or points to an object of that kind.
    pub unsafe fn dying(&self, kind: Kind, address: usize, stack: Option<Stack>) -> Dying {
        let region = match kind {
            Kind::MemoryRegion if address != 0 && self.dead(address).is_none() => {
                // SAFETY: by the contract of this function.
                unsafe { self.region_of(address as *mut ibv_mr) }
            }
            _ => None,
        };
        let key = match kind {
            Kind::MemoryRegion => region.map(|region| region_key(region.context, region.lkey)),
            _ => Some(address as u64),
        };
        let number = match kind {
            Kind::Context => self.ids.ticket(address),
            Kind::QueuePair => self
                .pairs
                .get(address as u64)
                .and_then(|pair| self.numbers.ticket(number_key(pair.context, pair.number))),
            _ => None,
        };
        let stamp = |key| self.table(kind)?.doom(key);
        Dying {
            kind,
            address,
            entry: key.and_then(|key| Some((key, stamp(key)?))),
            number,
            originals: ORIGINALS.ticket(address),
            obituary: stack.and_then(|stack| self.write_obituary(kind, address, stack)),
            stack,
            region,
        }
    }

    /// It was destroyed.
    pub fn died(&self, dying: &Dying) {
        if let (Some(table), Some((key, stamp))) = (self.table(dying.kind), dying.entry) {
            table.bury(key, stamp);
        }
        if let Some(region) = dying.region {
            self.deregistered(region, dying.stack.unwrap_or_default());
        }
        for ticket in [&dying.number, &dying.originals].into_iter().flatten() {
            Map::remove(ticket);
        }
        if let Some((stamp, _)) = dying.obituary {
            let dead = self.dead.get(dying.address as u64);
            if let Some(mut dead) = dead.filter(|dead| dead.stamp() == stamp) {
                dead.is_certain = true;
            }
        }
    }

    /// It was not destroyed after all.
    pub fn survived(&self, dying: &Dying) {
        if let (Some(table), Some((key, stamp))) = (self.table(dying.kind), dying.entry) {
            table.spare(key, stamp);
        }
        let Some((stamp, before)) = dying.obituary else {
            return;
        };
        let key = dying.address as u64;
        match before {
            // It was destroyed before: that is why it could not be.
            Some(before) => {
                let dead = self.dead.get(key);
                if let Some(mut dead) = dead.filter(|dead| dead.stamp() == stamp) {
                    *dead = before;
                }
            }
            None => {
                if self.dead.bury(key, stamp) {
                    self.dead_count.fetch_sub(1, Relaxed);
                }
            }
        }
    }

    /// The table that holds the objects of a kind.
    fn table(&self, kind: Kind) -> Option<&dyn Leaving> {
        match kind {
            Kind::Context => Some(&self.contexts),
            Kind::ProtectionDomain => Some(&self.parents),
            Kind::MemoryRegion => Some(&self.regions),
            Kind::CompletionQueue => Some(&self.completions),
            Kind::SharedReceiveQueue | Kind::WorkQueue => Some(&self.shared),
            Kind::QueuePair => Some(&self.pairs),
            Kind::Device | Kind::CompletionChannel | Kind::AddressHandle | Kind::ConnectionId => {
                None
            }
        }
    }

    fn write_obituary(
        &self,
        kind: Kind,
        address: usize,
        stack: Stack,
    ) -> Option<(u64, Option<Dead>)> {
        let before = self.dead(address);
        let is_full = self.dead_count.load(Relaxed) >= MOST_DEAD;
        if address == 0 || (before.is_none() && is_full) {
            return None;
        }
        if before.is_none() {
            self.dead_count.fetch_add(1, Relaxed);
        }
        let dead = Dead {
            kind,
            stack,
            is_certain: false,
        };
        Some((self.dead.insert(address as u64, dead).stamp(), before))
    }
}
