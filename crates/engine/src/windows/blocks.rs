//! Finished 10 s blocks of a room: its background (semantics §3, surge).

/// Slots of a block.
pub(super) const BLOCK: u32 = 100;
/// Finished blocks that count.
pub(super) const KEPT: usize = 18;

/// The last finished blocks, and the number of the unfinished one. Rolled only when somebody looks or an event of a
/// later block comes: the blocks of a silence are zeros.
#[derive(Clone, Debug)]
pub(super) struct Blocks {
    counts: [u32; KEPT],
    /// Number (relative slot / 100) of the unfinished block.
    number: u32,
    /// Slot whose close opened the surge that is on, or `NONE`.
    pub(super) surge: u32,
    len: u8,
    /// Where the next finished block goes.
    at: u8,
}

impl Default for Blocks {
    fn default() -> Self {
        Self::young(0)
    }
}

impl Blocks {
    /// No finished block; the unfinished one is `number`.
    pub(super) fn young(number: u32) -> Self {
        Self { counts: [0; KEPT], number, surge: super::line::NONE, len: 0, at: 0 }
    }

    /// The blocks as they were exported, oldest first.
    pub(super) fn from_finished(finished: &[u32], number: u32, surge: u32) -> Self {
        let mut blocks = Self { surge, ..Self::young(number) };
        for &count in finished {
            blocks.push(count);
        }
        blocks
    }

    fn push(&mut self, count: u32) {
        self.counts[usize::from(self.at)] = count;
        self.at = (self.at + 1) % KEPT as u8;
        self.len = (self.len + 1).min(KEPT as u8);
    }

    /// Takes in every block that ends before block `to` begins; `in_block` is the count of the unfinished one.
    #[inline]
    pub(super) fn roll(&mut self, in_block: &mut u32, to: u32) {
        if self.number < to {
            self.roll_on(in_block, to);
        }
    }

    fn roll_on(&mut self, in_block: &mut u32, to: u32) {
        self.finish(std::mem::take(in_block));
        // Of a long silence only the last blocks can count, one more if one of them is left out.
        self.number = self.number.max(to.saturating_sub(KEPT as u32 + 1));
        while self.number < to {
            self.finish(0);
        }
    }

    fn finish(&mut self, count: u32) {
        if !self.left_out() {
            self.push(count);
        }
        self.number += 1;
    }

    /// Whether the unfinished block will end while a surge is on that is younger than 10 s. The surge began at the end
    /// of slot `surge`; one that begins as the block ends is not yet on when the block is taken in.
    fn left_out(&self) -> bool {
        let end = (u64::from(self.number) + 1) * u64::from(BLOCK);
        self.surge != super::line::NONE
            && (1..u64::from(BLOCK)).contains(&end.wrapping_sub(u64::from(self.surge) + 1))
    }

    /// Number of the unfinished block.
    pub(super) fn number(&self) -> u32 {
        self.number
    }

    /// Finished blocks, oldest first.
    pub(super) fn finished(&self) -> Vec<u32> {
        let (len, at) = (usize::from(self.len), usize::from(self.at));
        (0..len).map(|i| self.counts[(at + KEPT - len + i) % KEPT]).collect()
    }

    /// 1000 × the median of the finished blocks; of two middle values the mean; 0 without one.
    pub(super) fn background(&self) -> u64 {
        let len = usize::from(self.len);
        if len == 0 {
            return 0;
        }
        // The order in the ring does not matter to a median, and a ring that is not full starts at 0.
        let mut sorted = self.counts;
        let sorted = &mut sorted[..len];
        sorted.sort_unstable();
        (u64::from(sorted[(len - 1) / 2]) + u64::from(sorted[len / 2])) * 500
    }
}
