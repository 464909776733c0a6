// SPDX-License-Identifier: MIT OR Apache-2.0
//! A table from keys to nodes, which finds a node without a lock and grows.
//!
//! It is a row of levels, each four times as large as the one before, and made when those
//! before it are full. A node stays in its bucket for ever, and is never freed: when its
//! object goes, another one whose key falls into that bucket takes it over. So nothing
//! moves when a table grows, a pointer into it never dangles, and it takes memory for the
//! largest number of objects that were alive at once. A program with few objects has them
//! all in the first level; a million take six.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::sync::atomic::{AtomicPtr, AtomicU64, AtomicUsize, Ordering::*};
use std::{iter, ptr, slice};

/// Bits of the hash that choose a bucket of the first level.
const BITS: u32 = 10;
const BUCKETS: usize = 1 << BITS;
/// Levels beyond the first; the last has 2^30 buckets.
const MORE: usize = 10;
/// Keys of nodes that hold no object: free, and about to be taken over.
pub const FREE: u64 = 0;
pub const CLAIMED: u64 = u64::MAX;

pub struct Node<V> {
    pub key: AtomicU64,
    pub value: V,
    next: *const Node<V>,
}

/// The newest of its nodes.
type Bucket<V> = AtomicPtr<Node<V>>;

/// From keys to values that are shared: locked ones, or atomic ones.
pub struct Table<V: 'static> {
    first: [Bucket<V>; BUCKETS],
    /// The other levels, made in this order.
    more: [AtomicPtr<Bucket<V>>; MORE],
    /// Nodes in all levels.
    made: AtomicUsize,
}

// SAFETY: nodes are published by atomics and never freed; their values are shared.
unsafe impl<V: Sync> Sync for Table<V> {}
// SAFETY: as above.
unsafe impl<V: Send> Send for Table<V> {}

/// The number of buckets of the level beyond the first.
const fn buckets_of(level: usize) -> usize {
    BUCKETS << (2 * (level + 1))
}

/// The bucket of a key, in a level of that many, which is a power of two.
#[inline]
fn bucket<V>(level: &[Bucket<V>], key: u64) -> Option<&Bucket<V>> {
    let bits = level.len().trailing_zeros();
    level.get((key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - bits)) as usize)
}

#[inline]
fn nodes<V: 'static>(bucket: &Bucket<V>) -> impl Iterator<Item = &'static Node<V>> + use<V> {
    let mut node: *const Node<V> = bucket.load(Acquire);
    iter::from_fn(move || {
        // SAFETY: NULL, or a node, which is never freed.
        let this = unsafe { node.as_ref() }?;
        node = this.next;
        Some(this)
    })
}

impl<V> Table<V> {
    pub const fn new() -> Self {
        Self {
            first: [const { AtomicPtr::new(ptr::null_mut()) }; BUCKETS],
            more: [const { AtomicPtr::new(ptr::null_mut()) }; MORE],
            made: AtomicUsize::new(0),
        }
    }

    /// The levels that there are beyond the first.
    fn beyond(&self) -> impl Iterator<Item = &[Bucket<V>]> {
        self.more.iter().enumerate().map_while(|(level, start)| {
            let start = start.load(Acquire);
            // SAFETY: a level is published when all of it is there, and never freed.
            (!start.is_null()).then(|| unsafe { slice::from_raw_parts(start, buckets_of(level)) })
        })
    }

    fn levels(&self) -> impl Iterator<Item = &[Bucket<V>]> {
        iter::once(self.first.as_slice()).chain(self.beyond())
    }

    /// All nodes, also those without an object.
    pub fn all(&self) -> impl Iterator<Item = &'static Node<V>> {
        self.levels().flatten().flat_map(nodes)
    }

    /// The nodes that a key may have.
    fn possible(&self, key: u64) -> impl Iterator<Item = &'static Node<V>> {
        self.levels()
            .filter_map(move |level| bucket(level, key))
            .flat_map(nodes)
    }

    #[inline]
    pub fn find(&self, key: u64) -> Option<&'static Node<V>> {
        self.find_if(key, |_| true)
    }

    /// The node of a key for which that holds.
    #[inline]
    pub fn find_if(&self, key: u64, holds: impl Fn(&Node<V>) -> bool) -> Option<&'static Node<V>> {
        let is_it = |node: &&Node<V>| node.key.load(Acquire) == key && holds(node);
        let first = bucket(&self.first, key)?;
        nodes(first)
            .find(is_it)
            .or_else(|| self.find_beyond(key, is_it))
    }

    #[cold]
    fn find_beyond(&self, key: u64, is_it: impl Fn(&&Node<V>) -> bool) -> Option<&'static Node<V>> {
        self.beyond()
            .filter_map(|level| bucket(level, key))
            .flat_map(nodes)
            .find(|node| is_it(node))
    }

    /// A node that nobody finds until its key is set.
    pub fn claim(&self, key: u64, fresh: impl FnOnce() -> V) -> &'static Node<V> {
        let free = self.possible(key).find(|node| {
            node.key
                .compare_exchange(FREE, CLAIMED, AcqRel, Relaxed)
                .is_ok()
        });
        if let Some(node) = free {
            return node;
        }
        let node = Box::into_raw(Box::new(Node {
            key: AtomicU64::new(CLAIMED),
            value: fresh(),
            next: ptr::null(),
        }));
        let level = self.level_with_room();
        let bucket = bucket(level, key).unwrap_or(&self.first[0]);
        let mut head = bucket.load(Acquire);
        loop {
            // SAFETY: until it is in its bucket, the node is this thread's alone.
            unsafe { (*node).next = head };
            match bucket.compare_exchange_weak(head, node, AcqRel, Acquire) {
                // SAFETY: never freed.
                Ok(_) => return unsafe { &*node },
                Err(now) => head = now,
            }
        }
    }

    /// The level for the next new node: the first that, with those before it, has more
    /// buckets than there are nodes. Where there is no memory for it, the last one.
    fn level_with_room(&self) -> &[Bucket<V>] {
        let mut left = self.made.fetch_add(1, Relaxed);
        let mut last = self.first.as_slice();
        for (level, place) in self.more.iter().enumerate() {
            if left < last.len() {
                break;
            }
            left -= last.len();
            match Self::made_level(place, buckets_of(level)) {
                Some(made) => last = made,
                None => break,
            }
        }
        last
    }

    fn made_level(place: &AtomicPtr<Bucket<V>>, buckets: usize) -> Option<&[Bucket<V>]> {
        let mut start = place.load(Acquire);
        if start.is_null() {
            let layout = Layout::array::<Bucket<V>>(buckets).ok()?;
            // SAFETY: the layout is not empty; zeros are empty buckets.
            let fresh = unsafe { alloc_zeroed(layout) }.cast::<Bucket<V>>();
            if fresh.is_null() {
                return None;
            }
            match place.compare_exchange(ptr::null_mut(), fresh, AcqRel, Acquire) {
                Ok(_) => start = fresh,
                Err(current) => {
                    // SAFETY: allocated above, and nobody else has seen it.
                    unsafe { dealloc(fresh.cast(), layout) };
                    start = current;
                }
            }
        }
        // SAFETY: as many buckets, never freed.
        Some(unsafe { slice::from_raw_parts(start, buckets) })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering::*};
    use std::thread;

    use super::{BUCKETS, FREE, Table, nodes};

    fn fresh() -> &'static Table<AtomicUsize> {
        Box::leak(Box::new(Table::new()))
    }

    fn insert(table: &Table<AtomicUsize>, key: u64) {
        let node = table.claim(key, AtomicUsize::default);
        node.value.store(key as usize, Relaxed);
        node.key.store(key, Release);
    }

    fn has(table: &Table<AtomicUsize>, key: u64) -> bool {
        table
            .find(key)
            .is_some_and(|node| node.value.load(Relaxed) == key as usize)
    }

    /// The most nodes that one bucket has.
    fn longest(table: &Table<AtomicUsize>) -> usize {
        let buckets = table.levels().flatten();
        buckets.map(|bucket| nodes(bucket).count()).max().unwrap()
    }

    const KEYS: u64 = 200_000;
    /// A million random keys would give no bucket of a level that is full more.
    const MOST: usize = 15;

    /// Addresses of objects of 64 bytes; keys of regions are alike.
    fn keys() -> impl Iterator<Item = u64> {
        (1..=KEYS).map(|number| 0x7f12_3400_0000 + number * 64)
    }

    #[test]
    fn buckets_stay_short_as_it_grows() {
        let table = fresh();
        keys().for_each(|key| insert(table, key));
        assert!(keys().all(|key| has(table, key)));
        assert!(!has(table, 1));
        // The levels of 1, 4, 16, 64 and 256 times 1,024 buckets.
        let sizes: Vec<_> = table.levels().map(<[_]>::len).collect();
        assert_eq!(sizes, [1, 4, 16, 64, 256].map(|times| times * BUCKETS));
        assert!(longest(table) <= MOST, "{} in a bucket", longest(table));
        let regions = fresh();
        (1..=KEYS).for_each(|number| insert(regions, 1 << 63 | 1 << 32 | number << 8));
        assert!(longest(regions) <= MOST, "{} in a bucket", longest(regions));
    }

    #[test]
    fn nodes_are_taken_over() {
        let table = fresh();
        for _ in 0..3 {
            keys().for_each(|key| insert(table, key));
            assert_eq!(table.all().count(), KEYS as usize);
            table.all().for_each(|node| node.key.store(FREE, Release));
            assert!(!keys().any(|key| has(table, key)));
        }
    }

    /// While four threads make a table grow, each finds all that it has put in.
    #[test]
    fn grows_while_it_is_read() {
        const EACH: u64 = 10_000;
        let table = fresh();
        thread::scope(|scope| {
            for thread in 0..4 {
                scope.spawn(move || {
                    let first = thread * EACH + 1;
                    for key in first..first + EACH {
                        insert(table, key);
                        assert!(has(table, key) && has(table, u64::midpoint(first, key)));
                    }
                });
            }
        });
        assert!((1..=4 * EACH).all(|key| has(table, key)));
        assert_eq!(table.all().count(), 4 * EACH as usize);
    }
}
