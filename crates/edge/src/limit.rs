//! Two exact limits on messages per time, each a few atomics: a token bucket and a sliding second.

use std::sync::atomic::{AtomicU64, Ordering};

/// Microseconds in a second and in a millisecond.
const SECOND_US: u64 = 1_000_000;
const MS_US: u64 = 1_000;
/// Parts of the sliding second, in milliseconds.
const PART_MS: u64 = 100;
/// The present part and the ten before it: never less than a whole second.
const PARTS: usize = 11;
/// Bits of a part's word that hold its count.
const COUNT_BITS: u32 = 24;

/// A token bucket, kept as the time at which it would be full (generic cell rate algorithm: the same verdicts with one
/// word of state).
#[derive(Debug, Default)]
pub(crate) struct Bucket {
    full_at_us: AtomicU64,
}

impl Bucket {
    /// Takes a token; `Err`: there is none before so many milliseconds.
    pub(crate) fn take(&self, per_s: u32, burst: u32, now_ms: u64) -> Result<(), u32> {
        if per_s == 0 {
            return Err(1_000);
        }
        let (now, each) = (now_ms * MS_US, SECOND_US / u64::from(per_s).min(SECOND_US));
        let room = each * u64::from(burst.max(1));
        let mut at = self.full_at_us.load(Ordering::Relaxed);
        loop {
            let next = at.max(now) + each;
            if next > now + room {
                let wait = (next - now - room).div_ceil(MS_US);
                return Err(u32::try_from(wait).unwrap_or(u32::MAX));
            }
            match self.full_at_us.compare_exchange_weak(
                at,
                next,
                Ordering::Relaxed,
                Ordering::Relaxed,
            ) {
                Ok(_) => return Ok(()),
                Err(other) => at = other,
            }
        }
    }
}

/// Messages of the last second, in parts of 100 ms.
#[derive(Debug, Default)]
pub(crate) struct Second {
    parts: [AtomicU64; PARTS],
}

impl Second {
    /// Counts a message unless the last second holds `most` already; `Err`: try again after so many milliseconds.
    pub(crate) fn take(&self, most: u32, now_ms: u64) -> Result<(), u32> {
        let tick = now_ms / PART_MS;
        let mask = (1 << COUNT_BITS) - 1;
        let oldest = tick.saturating_sub(PARTS as u64 - 1);
        let words = self.parts.iter().map(|p| p.load(Ordering::Relaxed));
        let sum: u64 =
            words.filter(|w| (oldest..=tick).contains(&(w >> COUNT_BITS))).map(|w| w & mask).sum();
        if sum >= u64::from(most) {
            return Err(PART_MS as u32);
        }
        let part = &self.parts[(tick % PARTS as u64) as usize];
        let mut word = part.load(Ordering::Relaxed);
        loop {
            let next = if word >> COUNT_BITS == tick { word + 1 } else { (tick << COUNT_BITS) + 1 };
            match part.compare_exchange_weak(word, next, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return Ok(()),
                Err(other) => word = other,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::VecDeque;

    #[test]
    fn a_bucket_lets_its_burst_pass_and_then_its_rate() {
        let bucket = Bucket::default();
        let passed = |from: u64, to: u64| {
            (from..to)
                .flat_map(|ms| [ms; 5])
                .filter(|ms| bucket.take(200, 500, *ms).is_ok())
                .count()
        };
        assert_eq!(passed(10_000, 10_100), 500, "the burst");
        let later = passed(10_100, 11_100);
        assert!((195..=225).contains(&later), "{later} in the second after it");
        while bucket.take(200, 500, 11_100).is_ok() {}
        assert_eq!(bucket.take(200, 500, 11_100), Err(5), "one every 5 ms");
        assert!(bucket.take(0, 10, 99_000).is_err());
    }

    /// W01: two fixed windows would let twice the limit pass about their edge. In no second do more pass than may.
    #[test]
    fn w01_no_second_holds_more_than_its_limit() {
        let second = Second::default();
        let (mut recent, mut most, mut x) = (VecDeque::new(), 0, 9_u64);
        for ms in 0..30_000_u64 {
            x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            // Quiet, and floods about the edges of seconds.
            let n = if (ms + 150) % 1_000 < 300 { 20 } else { (x >> 62) as usize };
            for _ in 0..n {
                if second.take(800, ms).is_ok() {
                    recent.push_back(ms);
                }
            }
            while recent.front().is_some_and(|t| t + 1_000 <= ms) {
                recent.pop_front();
            }
            most = most.max(recent.len());
        }
        assert!(most <= 800 && most > 700, "{most}");
    }

    #[test]
    fn many_threads_do_not_let_more_pass() {
        let bucket = Bucket::default();
        let passed: usize = std::thread::scope(|scope| {
            let each = || {
                scope.spawn(|| (0..10_000).filter(|_| bucket.take(1, 1_000, 5_000).is_ok()).count())
            };
            let threads: Vec<_> = (0..4).map(|_| each()).collect();
            threads.into_iter().map(|t| t.join().expect("a thread")).sum()
        });
        assert_eq!(passed, 1_000);
    }
}
