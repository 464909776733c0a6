// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tables from keys to objects, which find an object without a lock.
//!
//! An address may be given out again before the one who freed it has said so here. So
//! each entry has a stamp, and goes only by that: what is gone by now takes nothing away
//! from what has come in its place.

use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicPtr, AtomicU64, AtomicUsize, Ordering::*};
use std::{mem, ptr};

use crate::lock::{Held, Lock};
use crate::table::{CLAIMED, FREE, Node, Table};

static LAST_STAMP: AtomicU64 = AtomicU64::new(0);

/// What no other entry has, or had.
fn stamp() -> u64 {
    LAST_STAMP.fetch_add(1, Relaxed).wrapping_add(1)
}

/// From keys to objects, which are locked while they are used.
pub struct Registry<T: 'static> {
    table: Table<Lock<Stored<T>>>,
    /// Held while a node is claimed, so that no key has two.
    claims: Lock<()>,
}

#[derive(Default)]
struct Stored<T> {
    value: T,
    stamp: u64,
    /// It is about to be destroyed, or has been.
    is_dying: bool,
}

/// An object of the table, locked.
pub struct Entry<T: 'static>(Held<'static, Stored<T>>);

impl<T> Entry<T> {
    pub fn stamp(&self) -> u64 {
        self.0.stamp
    }
}

impl<T> Deref for Entry<T> {
    type Target = T;
    #[inline]
    fn deref(&self) -> &T {
        &self.0.value
    }
}

impl<T> DerefMut for Entry<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        &mut self.0.value
    }
}

impl<T: Default + Send> Registry<T> {
    pub const fn new() -> Self {
        Self {
            table: Table::new(),
            claims: Lock::new(()),
        }
    }

    /// The object of a key; also one that is about to be destroyed, which may fail.
    #[inline]
    pub fn get(&self, key: u64) -> Option<Entry<T>> {
        let node = self.table.find(key)?;
        let value = node.value.lock();
        // It may have gone while this thread waited.
        (node.key.load(Acquire) == key).then_some(Entry(value))
    }

    /// The object of a key, unless it is about to be destroyed: its memory may be gone.
    pub fn alive(&self, key: u64) -> Option<Entry<T>> {
        self.get(key).filter(|entry| !entry.0.is_dying)
    }

    /// Puts an object in, in place of one with the same key.
    pub fn insert(&self, key: u64, value: T) -> Entry<T> {
        self.put(key, value, true)
    }

    /// The object of a key, or this one where there is none.
    pub fn get_or_insert(&self, key: u64, value: T) -> Entry<T> {
        self.put(key, value, false)
    }

    fn put(&self, key: u64, value: T, replaces: bool) -> Entry<T> {
        let fresh = Stored {
            value,
            stamp: stamp(),
            is_dying: false,
        };
        loop {
            if let Some(mut entry) = self.get(key) {
                if replaces {
                    *entry.0 = fresh;
                }
                return entry;
            }
            let claims = self.claims.lock();
            if self.table.find(key).is_none() {
                let node = self.table.claim(key, || Lock::new(Stored::default()));
                let mut place = node.value.lock();
                *place = fresh;
                node.key.store(key, Release);
                return Entry(place);
            }
            // Another thread was faster.
            drop(claims);
        }
    }

    /// Takes an object out.
    pub fn remove(&self, key: u64) -> Option<T> {
        self.remove_if(key, |_| true)
    }

    fn remove_if(&self, key: u64, is_it: impl FnOnce(&Stored<T>) -> bool) -> Option<T> {
        let node = self.table.find(key)?;
        let mut stored = node.value.lock();
        if node.key.load(Acquire) != key || !is_it(&stored) {
            return None;
        }
        let taken = mem::take(&mut *stored);
        node.key.store(FREE, Release);
        Some(taken.value)
    }

    /// Calls a function with each object that nobody destroys, locked one at a time.
    pub fn each(&self, mut visit: impl FnMut(u64, &mut T)) {
        for node in self.table.all() {
            let mut stored = node.value.lock();
            let key = node.key.load(Acquire);
            if key != FREE && key != CLAIMED && !stored.is_dying {
                visit(key, &mut stored.value);
            }
        }
    }
}

/// How an object leaves a table.
pub trait Leaving {
    /// It is about to be destroyed. Returns its stamp, by which it goes, or stays.
    fn doom(&self, key: u64) -> Option<u64>;
    /// It was destroyed; says whether it was still there.
    fn bury(&self, key: u64, stamp: u64) -> bool;
    /// It was not.
    fn spare(&self, key: u64, stamp: u64);
}

impl<T: Default + Send> Leaving for Registry<T> {
    fn doom(&self, key: u64) -> Option<u64> {
        let mut entry = self.get(key)?;
        entry.0.is_dying = true;
        Some(entry.stamp())
    }

    fn bury(&self, key: u64, stamp: u64) -> bool {
        self.remove_if(key, |stored| stored.stamp == stamp)
            .is_some()
    }

    fn spare(&self, key: u64, stamp: u64) {
        if let Some(mut entry) = self.get(key).filter(|entry| entry.stamp() == stamp) {
            entry.0.is_dying = false;
        }
    }
}

/// From keys to addresses, without any lock: the child of a fork can go on using it.
pub struct Map(Table<Stamped>);

#[derive(Default)]
struct Stamped {
    /// 0 while somebody changes the node; whoever has put that there is the only one.
    stamp: AtomicU64,
    value: AtomicUsize,
}

/// One entry of a map, and none that comes after it.
pub struct Ticket {
    node: &'static Node<Stamped>,
    stamp: u64,
}

/// Makes the caller the only one who changes the node, if it is still that entry.
fn take(node: &Node<Stamped>, stamp: u64) -> bool {
    let place = &node.value.stamp;
    stamp != 0 && place.compare_exchange(stamp, 0, AcqRel, Relaxed).is_ok()
}

impl Map {
    pub const fn new() -> Self {
        Self(Table::new())
    }

    /// The entry of a key, and none that is about to go: then there may be two.
    #[inline]
    fn find(&self, key: usize) -> Option<&'static Node<Stamped>> {
        let is_there = |node: &Node<Stamped>| node.value.stamp.load(Acquire) != 0;
        self.0.find_if(key as u64, is_there)
    }

    #[inline]
    pub fn get(&self, key: usize) -> Option<usize> {
        Some(self.find(key)?.value.value.load(Acquire))
    }

    pub fn insert(&self, key: usize, value: usize) {
        let node = self
            .find(key)
            .filter(|node| take(node, node.value.stamp.load(Acquire)))
            .unwrap_or_else(|| self.0.claim(key as u64, Stamped::default));
        node.value.value.store(value, Release);
        node.value.stamp.store(stamp(), Release);
        node.key.store(key as u64, Release);
    }

    /// What is there now.
    pub fn ticket(&self, key: usize) -> Option<Ticket> {
        let node = self.find(key)?;
        let stamp = node.value.stamp.load(Acquire);
        Some(Ticket { node, stamp })
    }

    /// Removes what was there when the ticket was taken, if it still is.
    pub fn remove(ticket: &Ticket) {
        if take(ticket.node, ticket.stamp) {
            ticket.node.key.store(FREE, Release);
        }
    }
}

/// Values of which only a few differ: each is kept once, for ever.
pub struct Interned<T: 'static>(AtomicPtr<Item<T>>);

struct Item<T> {
    value: T,
    next: *const Item<T>,
}

impl<T> Interned<T> {
    pub const fn new() -> Self {
        Self(AtomicPtr::new(ptr::null_mut()))
    }

    /// The value that is kept.
    pub fn keep(&self, value: T, are_same: impl Fn(&T, &T) -> bool) -> &'static T {
        let head = self.0.load(Acquire);
        let mut item: *const Item<T> = head;
        // SAFETY: NULL, or an item, which is never freed.
        while let Some(this) = unsafe { item.as_ref::<'static>() } {
            if are_same(&this.value, &value) {
                return &this.value;
            }
            item = this.next;
        }
        let fresh = Box::leak(Box::new(Item { value, next: head }));
        // Should another thread have added one, a few values are kept twice.
        let _ = self.0.compare_exchange(head, fresh, AcqRel, Relaxed);
        &fresh.value
    }
}

#[cfg(test)]
mod tests {
    use super::{Interned, Leaving, Map, Registry};

    #[test]
    fn finds_what_was_put_in() {
        let registry: &'static Registry<u32> = Box::leak(Box::new(Registry::new()));
        for key in 1..5000 {
            registry.insert(key, key as u32);
        }
        assert!((1..5000).all(|key| *registry.get(key).unwrap() == key as u32));
        assert_eq!(registry.remove(77), Some(77));
        assert!(registry.get(77).is_none() && registry.remove(77).is_none());
        registry.insert(77, 1);
        assert_eq!(*registry.get(77).unwrap(), 1);
        let mut sum = 0;
        registry.each(|_, _| sum += 1);
        assert_eq!(sum, 4999);
    }

    #[test]
    fn what_is_gone_takes_nothing_away() {
        static REGISTRY: Registry<u32> = Registry::new();
        REGISTRY.insert(7, 1);
        let first = REGISTRY.doom(7).unwrap();
        assert!(REGISTRY.alive(7).is_none() && REGISTRY.get(7).is_some());
        REGISTRY.each(|_, _| unreachable!());
        REGISTRY.insert(7, 2);
        REGISTRY.bury(7, first);
        assert_eq!(*REGISTRY.get(7).unwrap(), 2);
        let second = REGISTRY.doom(7).unwrap();
        REGISTRY.spare(7, first);
        assert!(REGISTRY.alive(7).is_none());
        REGISTRY.spare(7, second);
        assert!(REGISTRY.alive(7).is_some());
        assert_eq!(*REGISTRY.get_or_insert(7, 3), 2);
        let third = REGISTRY.doom(7).unwrap();
        REGISTRY.bury(7, third);
        assert!(REGISTRY.get(7).is_none());
    }

    #[test]
    fn reuses_its_nodes() {
        let registry: &'static Registry<u32> = Box::leak(Box::new(Registry::new()));
        for _ in 0..3 {
            for key in 1..100 {
                registry.insert(key, 1);
            }
            for key in 1..100 {
                registry.remove(key);
            }
        }
        let nodes = registry.table.all().count();
        assert!(nodes <= 99);
    }

    #[test]
    fn maps_and_interned_values() {
        static MAP: Map = Map::new();
        static KEPT: Interned<[usize; 3]> = Interned::new();
        MAP.insert(8, 1);
        MAP.insert(8, 2);
        assert_eq!((MAP.get(8), MAP.get(16)), (Some(2), None));
        let old = MAP.ticket(8).unwrap();
        MAP.insert(8, 3);
        Map::remove(&old);
        assert_eq!(MAP.get(8), Some(3));
        Map::remove(&MAP.ticket(8).unwrap());
        assert_eq!(MAP.get(8), None);
        let first = KEPT.keep([1, 2, 3], |a, b| a == b);
        assert!(!std::ptr::eq(first, KEPT.keep([1, 2, 4], |a, b| a == b)));
        assert!(std::ptr::eq(first, KEPT.keep([1, 2, 3], |a, b| a == b)));
    }

    #[test]
    fn threads_share_it() {
        let registry: &'static Registry<u64> = Box::leak(Box::new(Registry::new()));
        let threads: Vec<_> = (0..4u64)
            .map(|thread| {
                std::thread::spawn(move || {
                    for round in 0..2000 {
                        let key = thread * 1000 + round % 50 + 1;
                        registry.insert(key, key);
                        assert_eq!(*registry.get(key).unwrap(), key);
                        assert_eq!(registry.remove(key), Some(key));
                    }
                })
            })
            .collect();
        for thread in threads {
            thread.join().unwrap();
        }
    }
}
