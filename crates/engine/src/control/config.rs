//! Settings of clocks, steps and take-overs, with the specification's defaults.

use serde::{Deserialize, Serialize};

/// Settings of semantics §1. All times are milliseconds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// With a broker's clock: an event further behind the broker's timestamp is rejected as `past`.
    pub late_max_ms: i64,
    /// With a broker's clock: an event further ahead of the broker's timestamp is rejected as `future`.
    pub skew_max_ms: i64,
    /// With a broker's clock: how far a record's own time may hold the watermark behind the broker's.
    pub lag_max_ms: i64,
    /// How much out of order events may come: the watermark stays this much behind the latest.
    pub out_of_order_ms: i64,
    /// Without a broker's clock: how far times may lie apart and still be believed.
    pub jump_max_ms: i64,
    /// Without a broker's clock: so many of the last `start_of` records must agree before a partition has a watermark.
    pub start_need: usize,
    /// Without a broker's clock: how many records are held while a partition has no watermark. At most 1,024.
    pub start_of: usize,
    /// Without a broker's clock: so many parked records in a row that agree move the clock. At most 1,024.
    pub parked: usize,
    /// A partition that was answered at its end and brought nothing for so long is not waited for.
    pub idle_after_ms: i64,
    /// A partition that was not answered for so long releases the others.
    pub absent_after_ms: i64,
    /// A new leader, or a reader of a break, waits so long without any progress for what it cannot reach.
    pub break_after_ms: i64,
    /// A step is written at least so often.
    pub step_every_ms: i64,
    /// A partition is not read while its watermark is further ahead of the last closed slot.
    pub ahead_ms: i64,
    /// How many slots before a checkpoint's slot have to be rebuilt from records.
    pub window_slots: u64,
    /// Steps on their way to the log and not read back; no more are made meanwhile.
    pub in_flight: usize,
    /// Which rule is taken out, for the test of the test.
    #[cfg(test)]
    #[serde(skip)]
    pub flaw: Option<Flaw>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            late_max_ms: 10_000,
            skew_max_ms: 1_000,
            lag_max_ms: 2_000,
            out_of_order_ms: 500,
            jump_max_ms: 3_600_000,
            start_need: 20,
            start_of: 40,
            parked: 20,
            idle_after_ms: 1_000,
            absent_after_ms: 30_000,
            break_after_ms: 30_000,
            step_every_ms: 1_000,
            ahead_ms: 30_000,
            window_slots: 700,
            in_flight: 3,
            #[cfg(test)]
            flaw: None,
        }
    }
}

impl Config {
    /// Whether the settings make sense together.
    ///
    /// # Errors
    /// Names the first setting that does not, and why.
    pub fn check(&self) -> Result<(), String> {
        let times = [
            ("late_max_ms", self.late_max_ms),
            ("skew_max_ms", self.skew_max_ms),
            ("lag_max_ms", self.lag_max_ms),
            ("out_of_order_ms", self.out_of_order_ms),
            ("jump_max_ms", self.jump_max_ms),
            ("idle_after_ms", self.idle_after_ms),
            ("absent_after_ms", self.absent_after_ms),
            ("break_after_ms", self.break_after_ms),
            ("step_every_ms", self.step_every_ms),
            ("ahead_ms", self.ahead_ms),
        ];
        if let Some((name, ms)) = times.iter().find(|(_, ms)| !(0..=TIME_MAX_MS).contains(ms)) {
            return Err(format!("`{name}` is {ms}, must be between 0 and {TIME_MAX_MS} ms"));
        }
        if self.start_need == 0 || self.start_need > self.start_of || self.start_of > HELD_MAX {
            return Err(format!(
                "`start_need` of `start_of`: 1 to {HELD_MAX}, and no more needed than held"
            ));
        }
        if self.parked == 0 || self.parked > HELD_MAX {
            return Err(format!("`parked` must be between 1 and {HELD_MAX}"));
        }
        if self.in_flight == 0 {
            return Err("`in_flight` must be at least 1".into());
        }
        Ok(())
    }

    /// Whether the rule is taken out: never, outside the tests of the tests.
    #[cfg(not(test))]
    #[expect(clippy::unused_self, reason = "the test's version reads a field")]
    pub(super) const fn flawed(&self, _: Flaw) -> bool {
        false
    }

    #[cfg(test)]
    pub(super) fn flawed(&self, flaw: Flaw) -> bool {
        self.flaw == Some(flaw)
    }
}

/// Longest time that a setting may be: a day.
const TIME_MAX_MS: i64 = 86_400_000;
/// Most records that a partition without a broker's clock may hold back.
const HELD_MAX: usize = 1_024;

/// Rules that a test can take out, to see that it notices. Nothing outside a test can set one.
#[cfg_attr(not(test), expect(unreachable_pub, reason = "only tests can name it"))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flaw {
    /// Effects leave before their step is written.
    Finality,
    /// Steps claim that all effects are out.
    Done,
    /// Checkpoints are kept before their slot is final.
    CheckpointFinal,
    /// Checkpoints are kept before the effects are out.
    CheckpointDone,
    /// Checkpoints forget the watermark.
    CheckpointClock,
    /// A follower reads on beyond the step's offsets.
    ReadBeyond,
    /// A follower closes slots before it has read up to the step's offsets.
    CloseEarly,
    /// A new leader goes on without having taken the last step.
    Reach,
    /// A new leader that cannot reach the last step waits for ever.
    Break,
    /// A new leader reads to the end first and writes its `lead` then.
    FenceLate,
    /// Readers keep what a lower epoch wrote after a `lead`.
    Drop,
    /// Rejected records do not move the watermark.
    Garbage,
    /// The clock closes slots only where all partitions are idle.
    ClockAllIdle,
    /// An absent partition is back only with a record.
    BackNeedsRecord,
    /// An idle partition that cannot be read does not become absent.
    IdleAbsent,
    /// A woken partition is read at once.
    Cut,
    /// Steps do not raise the watermark.
    Raise,
    /// A leader that is fenced goes on as a follower.
    #[cfg(test)]
    FencedStays,
}
