//! Records seen before, told by chosen columns, in bounded memory: the last million of a file at least.

use std::collections::HashSet;

/// Records of a generation; two are kept (about 64 MB at most).
const GENERATION: usize = 1 << 20;

/// Which records of one file were seen: membership only, so that no order of a hash enters the results.
#[derive(Debug, Default)]
pub(super) struct Seen {
    young: HashSet<u128>,
    old: HashSet<u128>,
}

impl Seen {
    /// Whether the record is new; it is known from then on.
    pub(super) fn is_new(&mut self, key: u128) -> bool {
        if self.old.contains(&key) || !self.young.insert(key) {
            return false;
        }
        if self.young.len() >= GENERATION {
            self.old = std::mem::take(&mut self.young);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeats_are_known_for_a_million_records_and_memory_is_bounded() {
        let mut seen = Seen::default();
        for key in 0..3 * GENERATION as u128 {
            assert!(seen.is_new(key));
            if key >= GENERATION as u128 {
                assert!(!seen.is_new(key - GENERATION as u128 + 1));
            }
        }
        assert!(seen.young.len() + seen.old.len() <= 2 * GENERATION);
    }
}
