//! Holes (semantics §2): a silence long enough that the baseline of the last event is kept over it.

use super::line::Line;
use crate::features::{Baseline, W70};

/// Least silence that opens a hole.
const LEAST: u64 = 50;
/// Events that the room would have had, at its baseline, in a silence that opens a hole.
const MISSED: u64 = 12;

/// Whether a silence of so many slots is a hole: `baseline × silence ≥ 12 events`, without a division; a room still in
/// warm-up opens none.
fn opens(at_last: Baseline, silence: u64) -> bool {
    silence >= LEAST
        && at_last.known()
        && u128::from(at_last.sum) * u128::from(silence)
            >= u128::from(MISSED) * u128::from(at_last.n)
}

/// The baseline in force at `t`, and whether it is kept over a hole.
pub(super) fn in_force(line: &Line, t: u32) -> (Baseline, bool) {
    let silence = u64::from(t.saturating_sub(line.last));
    if t < line.kept_until || opens(line.at_last(), silence) {
        (line.at_last(), true)
    } else {
        (line.sliding(t), false)
    }
}

/// An event at `t`, before `last` moves: settles which baseline is in force at it, and remembers that one.
#[inline(always)]
pub(super) fn event(line: &mut Line, t: u32) {
    let gap = t - line.last;
    if u64::from(gap) > LEAST && opens(line.at_last(), u64::from(gap) - 1) {
        // The first slot that no longer keeps it is the one whose baseline holds nothing from before the return.
        line.kept_until = t.saturating_add(W70 as u32);
    } else if t >= line.kept_until {
        line.kept_until = 0;
        line.set_at_last(line.sliding(t));
    }
}
