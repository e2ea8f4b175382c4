//! How far event time may have come: the beginning at full speed, then so many times as fast as the clock.

use std::time::Instant;

/// Event time against a monotonic clock. Time is an argument, so that a test needs no waiting.
#[derive(Clone, Debug)]
pub struct Pace {
    speed: f64,
    free_ms: i64,
    /// End of the part at full speed, and when it was reached.
    end: Option<i64>,
    since: Option<Instant>,
}

impl Pace {
    /// `free_ms` of event time at full speed, then `speed` seconds a second.
    #[must_use]
    pub fn new(free_ms: i64, speed: f64) -> Self {
        Self { speed, free_ms, end: None, since: None }
    }

    /// Whether an event of time `t_ms` may pass at `now`. Events behind the front always may.
    pub fn passes(&mut self, t_ms: i64, now: Instant) -> bool {
        let end = *self.end.get_or_insert(t_ms.saturating_add(self.free_ms));
        if t_ms < end {
            return true;
        }
        let since = *self.since.get_or_insert(now);
        let passed = now.saturating_duration_since(since).as_secs_f64() * 1000.0 * self.speed;
        ((t_ms - end) as f64) <= passed
    }

    /// Whether the part at full speed is over.
    #[must_use]
    pub fn live(&self) -> bool {
        self.since.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn the_beginning_is_free_and_then_time_is_scaled() {
        let start = Instant::now();
        let mut pace = Pace::new(120_000, 2.0);
        assert!(pace.passes(1_000, start));
        assert!(pace.passes(120_999, start) && !pace.live());
        // The clock starts with the first event that has to wait, not with the program.
        let live = start + Duration::from_secs(7);
        assert!(pace.passes(121_000, live) && pace.live());
        assert!(!pace.passes(121_001, live));
        assert!(pace.passes(123_000, live + Duration::from_secs(1)));
        assert!(!pace.passes(123_001, live + Duration::from_secs(1)));
        assert!(pace.passes(5, live), "late events are not held");
    }
}
