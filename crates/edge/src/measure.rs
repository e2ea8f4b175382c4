//! One policy document made ready for the hot path: checked once, integers only.

use crate::verdict::{Reason, Verdict};
use barrage_protocol::ids::{CLASSES, Class, Level, Tier};
use barrage_protocol::policy::{Mode, Policy, SCHEMA};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Parts in a whole share.
const WHOLE: u64 = 1_000_000;
/// Longest delay that a policy may ask for, in milliseconds.
const DELAY_MAX_MS: u32 = 60_000;
/// Most users that a policy may name.
const TOP_MAX: usize = 10_000;
/// When to try again where the next message may already pass, in milliseconds.
const RETRY_SHARE_MS: u32 = 1_000;
/// When to try again where nothing passes before the level falls: the ladder's least time for a step.
const RETRY_LEVEL_MS: u32 = 10_000;

/// How many messages each class has asked for a share; survives a newer document of the same room.
pub(crate) type Counters = Arc<[AtomicU64; CLASSES]>;

/// A policy in force.
#[derive(Debug)]
pub(crate) struct Measures {
    /// Order of documents: the greater one is newer.
    pub(crate) version: (u64, u64),
    /// How long it holds without news; group defaults only.
    pub(crate) hold_ms: Option<u64>,
    pub(crate) level: Level,
    enforced: bool,
    /// Millionths admitted and the delay in milliseconds, by class.
    classes: [(u64, u32); CLASSES],
    top: BTreeSet<String>,
    pub(crate) counters: Counters,
}

impl Measures {
    /// Checks a document. `counters` are those of the document before it, if there was one.
    ///
    /// # Errors
    /// What is wrong with it, in words.
    pub(crate) fn of(policy: Policy, counters: Option<Counters>) -> Result<Self, String> {
        if policy.schema != SCHEMA {
            return Err(format!("schema {} is not {SCHEMA}", policy.schema));
        }
        if policy.level > Level::MAX {
            return Err(format!("level {} is above {}", policy.level.0, Level::MAX.0));
        }
        let mut classes = [(WHOLE, 0); CLASSES];
        for (name, measure) in &policy.classes {
            let share = match measure.admit {
                None => WHOLE,
                Some(x) if (0.0..=1.0).contains(&x) => (x * WHOLE as f64).round() as u64,
                Some(x) => return Err(format!("class `{name}`: admit {x} is not 0 to 1")),
            };
            let delay = measure.delay_ms.unwrap_or(0);
            if delay > DELAY_MAX_MS {
                return Err(format!("class `{name}`: delay {delay} ms is above {DELAY_MAX_MS}"));
            }
            // A class that a later version knows is of no use to this one.
            if let Some(class) = Class::from_name(name) {
                classes[class as usize] = (share, delay);
            }
        }
        let top = policy.users.unwrap_or_default().top;
        if top.len() > TOP_MAX {
            return Err(format!("{} users are named, at most {TOP_MAX}", top.len()));
        }
        Ok(Self {
            version: (policy.epoch, policy.seq),
            hold_ms: policy.hold_ms,
            level: policy.level,
            enforced: policy.mode == Mode::Enforce,
            classes,
            top: top.into_iter().collect(),
            counters: counters.unwrap_or_default(),
        })
    }

    /// The verdict on one message.
    pub(crate) fn admit(&self, class: Class, tier: Tier, user: &str) -> Verdict {
        // Semantics §4: automation never sheds these two, whatever a document says.
        let never_shed = matches!(class, Class::System | Class::Gift);
        let spared = tier == Tier::Vip && self.level < Level::MAX;
        if !self.enforced || never_shed || spared {
            return Verdict::Admit;
        }
        let survive = self.level == Level::MAX;
        if survive && self.top.contains(user) {
            return Verdict::Admit;
        }
        let (share, delay) = self.classes[class as usize];
        if share == 0 {
            let reason = if survive { Reason::Survive } else { Reason::ClassOff };
            return Verdict::Refuse { reason, retry_after_ms: RETRY_LEVEL_MS };
        }
        if share < WHOLE && !self.within_share(class, share) {
            let reason = Reason::OverShare;
            return Verdict::Refuse { reason, retry_after_ms: RETRY_SHARE_MS };
        }
        if delay > 0 { Verdict::Delay { ms: delay } } else { Verdict::Admit }
    }

    /// Whether the next message of a class falls within its share: of the first n, exactly ⌊n · share⌋ do.
    fn within_share(&self, class: Class, share: u64) -> bool {
        // The pattern repeats after WHOLE messages, so the remainder is enough and nothing overflows.
        let n = self.counters[class as usize].fetch_add(1, Ordering::Relaxed) % WHOLE;
        (n + 1) * share / WHOLE > n * share / WHOLE
    }
}
