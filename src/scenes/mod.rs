//! A match night, made up: named scenes, a cast of rooms, events by event time. A pure function of seed and time.
//!
//! * [`cast`]: the rooms, their roles, and how many events a second each sends at a moment.
//! * [`night`]: the events themselves, slot by slot.
//! * [`generate`]: `barrage gen`, the same events in a file.

pub mod cast;
pub mod generate;
pub mod night;
mod random;

use std::fmt;

/// Event time at which every night begins (milliseconds since the Unix epoch); on the edge of a 10 s block.
pub const START_MS: i64 = 1_700_000_000_000;

/// Quiet time before the first scene, in seconds: enough for every baseline to be known.
pub const PRELUDE_SECS: u64 = 120;

/// What is going on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scene {
    /// An ordinary evening; once in a while a small room wakes up.
    Quiet,
    /// People arrive before the match: everything grows slowly, nothing is wrong.
    WarmUp,
    /// A goal: within a second the match's room is seven times as loud, then it calms down by itself.
    Goal,
    /// A raid: one match's room at twelve times its rate, twenty fan rooms at six times theirs.
    Storm,
    /// The raid is over; what was raised comes down step by step.
    Recovery,
}

impl Scene {
    /// Every scene, in the order of a match.
    pub const ALL: [Self; 5] = [Self::Quiet, Self::WarmUp, Self::Goal, Self::Storm, Self::Recovery];

    /// Name as on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Quiet => "quiet",
            Self::WarmUp => "warm-up",
            Self::Goal => "goal",
            Self::Storm => "storm",
            Self::Recovery => "recovery",
        }
    }

    /// The scene told in one sentence.
    #[must_use]
    pub fn tale(self) -> &'static str {
        match self {
            Self::Quiet => "An ordinary evening. A small room wakes up now and then.",
            Self::WarmUp => "The crowd arrives. Every room grows, none of them too fast.",
            Self::Goal => "Goal. One room is seven times as loud within a second.",
            Self::Storm => "A raid. One match and twenty fan rooms are flooded at once.",
            Self::Recovery => "The raid is over. What was raised comes down, step by step.",
        }
    }

    /// How long it lasts, in seconds.
    #[must_use]
    pub const fn secs(self) -> u64 {
        match self {
            Self::Quiet => 10,
            Self::WarmUp => 25,
            Self::Goal => 40,
            Self::Storm => 50,
            Self::Recovery => 75,
        }
    }
}

impl fmt::Display for Scene {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Which scenes a night shows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Programme {
    /// Nothing but an ordinary evening.
    Quiet,
    /// A quiet two minutes, then the crowd arriving.
    WarmUp,
    /// A quiet two minutes, then a goal.
    Goal,
    /// A quiet two minutes, then a raid.
    Storm,
    /// A quiet two minutes, then the time after a raid.
    Recovery,
    /// A quiet two minutes, then all scenes in order; a minute later the next match.
    #[default]
    Match,
}

/// Quiet time between two matches, in seconds.
const INTERVAL_SECS: u64 = 60;

/// A point of the night: which scene, how far into it, and in which match.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    /// The scene.
    pub scene: Scene,
    /// Milliseconds since it began; none in the prelude and between matches.
    pub into_ms: Option<u64>,
    /// Number of the match, from 0.
    pub round: u64,
}

impl Programme {
    /// The scenes of one round.
    fn scenes(self) -> &'static [Scene] {
        match self {
            Self::Quiet => &[Scene::Quiet],
            Self::WarmUp => &[Scene::WarmUp],
            Self::Goal => &[Scene::Goal],
            Self::Storm => &[Scene::Storm],
            Self::Recovery => &[Scene::Recovery],
            Self::Match => &Scene::ALL,
        }
    }

    /// Length of the prelude and one round without the interval after it, in seconds.
    #[must_use]
    pub fn secs(self) -> u64 {
        PRELUDE_SECS + self.scenes().iter().map(|s| s.secs()).sum::<u64>()
    }

    /// What goes on `ms` after the start.
    #[must_use]
    pub fn at(self, ms: u64) -> Moment {
        let between = |round| Moment { scene: Scene::Quiet, into_ms: None, round };
        let Some(ms) = ms.checked_sub(PRELUDE_SECS * 1000) else { return between(0) };
        let length = (self.secs() - PRELUDE_SECS + INTERVAL_SECS) * 1000;
        let (round, mut into) = (ms / length, ms % length);
        for &scene in self.scenes() {
            let scene_ms = scene.secs() * 1000;
            if into < scene_ms {
                return Moment { scene, into_ms: Some(into), round };
            }
            into -= scene_ms;
        }
        between(round)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_match_shows_every_scene_in_order_and_then_the_next_match() {
        let mut seen = Vec::new();
        for s in 0..Programme::Match.secs() + INTERVAL_SECS + PRELUDE_SECS {
            let m = Programme::Match.at(s * 1000);
            if seen.last() != Some(&(m.round, m.scene)) {
                seen.push((m.round, m.scene));
            }
        }
        let first: Vec<Scene> = seen.iter().filter(|(r, _)| *r == 0).map(|(_, s)| *s).collect();
        let mut want = Scene::ALL.to_vec();
        want.push(Scene::Quiet);
        assert_eq!(first, want);
        assert!(seen.contains(&(1, Scene::Goal)));
    }

    #[test]
    fn one_scene_begins_after_the_prelude() {
        assert_eq!(Programme::Storm.at(119_999).into_ms, None);
        let first = Programme::Storm.at(120_000);
        assert_eq!((first.scene, first.into_ms), (Scene::Storm, Some(0)));
    }
}
