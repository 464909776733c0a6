// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tables from keys to objects, which find an object without a lock.

use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering::*};
use std::{mem, ptr, slice};

use crate::lock::{Held, Lock};
use crate::table::{CLAIMED, FREE, Table};

/// From keys to objects, which are locked while they are used.
pub struct Registry<T: 'static>(Table<Lock<T>>);

/// An object of the table, locked.
pub struct Entry<T: 'static>(Held<'static, T>);

impl<T> Deref for Entry<T> {
    type Target = T;
    #[inline]
    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T> DerefMut for Entry<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        &mut self.0
    }
}

impl<T: Default + Send> Registry<T> {
    pub const fn new() -> Self {
        Self(Table::new())
    }

    /// The object of a key.
    #[inline]
    pub fn get(&self, key: u64) -> Option<Entry<T>> {
        let node = self.0.find(key)?;
        let value = node.value.lock();
        // It may have gone while this thread waited.
        (node.key.load(Acquire) == key).then_some(Entry(value))
    }

    /// Puts an object in, in place of one with the same key.
    pub fn insert(&self, key: u64, value: T) -> Entry<T> {
        if let Some(mut entry) = self.get(key) {
            *entry = value;
            return entry;
        }
        let node = self.0.claim(key, || Lock::new(T::default()));
        let mut place = node.value.lock();
        *place = value;
        node.key.store(key, Release);
        Entry(place)
    }

    /// Takes an object out.
    pub fn remove(&self, key: u64) -> Option<T> {
        let node = self.0.find(key)?;
        let mut value = node.value.lock();
        if node.key.load(Acquire) != key {
            return None;
        }
        let taken = mem::take(&mut *value);
        node.key.store(FREE, Release);
        Some(taken)
    }

    /// Calls a function with each object, locked one at a time.
    pub fn each(&self, mut visit: impl FnMut(u64, &mut T)) {
        for node in self.0.all() {
            let mut value = node.value.lock();
            let key = node.key.load(Acquire);
            if key != FREE && key != CLAIMED {
                visit(key, &mut value);
            }
        }
    }
}

/// From keys to addresses, without any lock: the child of a fork can go on using it.
pub struct Map(Table<AtomicUsize>);

impl Map {
    pub const fn new() -> Self {
        Self(Table::new())
    }

    #[inline]
    pub fn get(&self, key: usize) -> Option<usize> {
        let node = self.0.find(key as u64)?;
        let value = node.value.load(Acquire);
        (node.key.load(Acquire) == key as u64).then_some(value)
    }

    pub fn insert(&self, key: usize, value: usize) {
        if let Some(node) = self.0.find(key as u64) {
            node.value.store(value, Release);
            return;
        }
        let node = self.0.claim(key as u64, AtomicUsize::default);
        node.value.store(value, Release);
        node.key.store(key as u64, Release);
    }

    pub fn remove(&self, key: usize) {
        if let Some(node) = self.0.find(key as u64) {
            node.key.store(FREE, Release);
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

    /// The value that is kept. Made from zeros, so that all its bytes can be compared.
    pub fn keep(&self, value: T) -> &'static T {
        let bytes = |value: &T| {
            let start: *const T = value;
            // SAFETY: as many bytes as the value has, all of them set.
            unsafe { slice::from_raw_parts(start.cast::<u8>(), size_of::<T>()) }
        };
        let head = self.0.load(Acquire);
        let mut item: *const Item<T> = head;
        // SAFETY: NULL, or an item, which is never freed.
        while let Some(this) = unsafe { item.as_ref::<'static>() } {
            if bytes(&this.value) == bytes(&value) {
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
    use super::{Interned, Map, Registry};

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
        let nodes = registry.0.all().count();
        assert!(nodes <= 99);
    }

    #[test]
    fn maps_and_interned_values() {
        static MAP: Map = Map::new();
        static KEPT: Interned<[usize; 3]> = Interned::new();
        MAP.insert(8, 1);
        MAP.insert(8, 2);
        assert_eq!((MAP.get(8), MAP.get(16)), (Some(2), None));
        MAP.remove(8);
        assert_eq!(MAP.get(8), None);
        let first = KEPT.keep([1, 2, 3]);
        assert!(!std::ptr::eq(first, KEPT.keep([1, 2, 4])));
        assert!(std::ptr::eq(first, KEPT.keep([1, 2, 3])));
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
