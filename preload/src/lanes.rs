// SPDX-License-Identifier: MIT OR Apache-2.0
//! The rows of a timeline that the requests of a queue are drawn in.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// A lane for each bit; the last one takes all that find no free lane.
const LANES: u8 = 31;
/// The number of the first row: above the numbers of threads.
pub const FIRST_ROW: u64 = 1 << 30;

static NEXT_QUEUE: AtomicU32 = AtomicU32::new(0);

/// The lanes of a queue.
#[derive(Default)]
pub struct Lanes {
    taken: u32,
    /// The rows that have their names, a bit for each.
    pub named: u64,
    /// The queue's number, from 1; 0 as long as it has none.
    queue: u32,
    /// Where the last slice of each lane ends. Several requests may be in flight in the
    /// crowded lane; in the others, a request that had to wait for a lock is older.
    /// Only as many as were used.
    ends: Vec<u64>,
}

impl Lanes {
    pub fn take(&mut self) -> u8 {
        let lane = self.taken.trailing_ones() as u8;
        if lane < LANES {
            self.taken |= 1 << lane;
        }
        lane
    }

    pub fn give_back(&mut self, lane: u8) {
        if lane < LANES {
            self.taken &= !(1 << lane);
        }
    }

    pub fn clear(&mut self) {
        self.taken = 0;
    }

    /// The beginning of a slice, which is not before the end of the last one.
    pub fn begin(&mut self, lane: u8, from: u64, to: u64) -> u64 {
        let lane = usize::from(lane);
        if lane >= self.ends.len() {
            self.ends.resize(lane.saturating_add(1), 0);
        }
        let Some(end) = self.ends.get_mut(lane) else {
            return from;
        };
        let from = from.max(*end);
        *end = to.max(from);
        from
    }

    pub fn row(&mut self, lane: u8) -> u64 {
        if self.queue == 0 {
            self.queue = NEXT_QUEUE.fetch_add(1, Relaxed).wrapping_add(1);
        }
        FIRST_ROW + u64::from(self.queue) * 64 + u64::from(lane)
    }
}

#[cfg(test)]
mod tests {
    use super::Lanes;

    #[test]
    fn the_lowest_free_lane_is_taken() {
        let mut lanes = Lanes::default();
        assert_eq!([lanes.take(), lanes.take(), lanes.take()], [0, 1, 2]);
        lanes.give_back(1);
        assert_eq!([lanes.take(), lanes.take()], [1, 3]);
        for _ in 4..31 {
            lanes.take();
        }
        assert_eq!(lanes.take(), 31);
        lanes.give_back(31);
        assert_eq!(lanes.take(), 31);
    }

    #[test]
    fn slices_of_a_lane_do_not_overlap() {
        let mut lanes = Lanes::default();
        assert_eq!(lanes.begin(0, 10, 20), 10);
        assert_eq!(lanes.begin(0, 19, 30), 20);
        assert_eq!(lanes.begin(1, 19, 30), 19);
        assert_eq!(lanes.begin(0, 40, 50), 40);
    }
}
