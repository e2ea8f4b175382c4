//! One policy document made ready for the hot path: checked once, integers only.

use crate::limit::{Bucket, Second};
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

/// What limits on messages per time have counted; survives a newer document of the same room.
#[derive(Debug, Default)]
pub(crate) struct Spent {
    room: Bucket,
    second: Second,
    classes: [Bucket; CLASSES],
}

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
    /// Messages per second and burst of the room, and most messages in a second.
    bucket: Option<(u32, u32)>,
    second: Option<u32>,
    /// Messages per second and burst, by class.
    buckets: [Option<(u32, u32)>; CLASSES],
    pub(crate) spent: Arc<Spent>,
}

impl Measures {
    /// Checks a document. `before` is the document that it replaces, if there was one: what that has counted, counts on.
    ///
    /// # Errors
    /// What is wrong with it, in words.
    pub(crate) fn of(policy: Policy, before: Option<&Self>) -> Result<Self, String> {
        if policy.schema != SCHEMA {
            return Err(format!("schema {} is not {SCHEMA}", policy.schema));
        }
        if policy.level > Level::MAX {
            return Err(format!("level {} is above {}", policy.level.0, Level::MAX.0));
        }
        let mut classes = [(WHOLE, 0); CLASSES];
        let mut buckets = [None; CLASSES];
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
                buckets[class as usize] =
                    measure.qps.map(|qps| (qps, measure.burst.unwrap_or(qps)));
            }
        }
        let top = policy.users.unwrap_or_default().top;
        if top.len() > TOP_MAX {
            return Err(format!("{} users are named, at most {TOP_MAX}", top.len()));
        }
        let limits = policy.limits.unwrap_or_default();
        Ok(Self {
            version: (policy.epoch, policy.seq),
            hold_ms: policy.hold_ms,
            level: policy.level,
            enforced: policy.mode == Mode::Enforce,
            classes,
            top: top.into_iter().collect(),
            counters: before.map(|b| Arc::clone(&b.counters)).unwrap_or_default(),
            bucket: limits
                .qps
                .map(|qps| (limits.safe_qps_per_edge.unwrap_or(qps), limits.burst.unwrap_or(qps))),
            second: limits.window_1s,
            buckets,
            spent: before.map(|b| Arc::clone(&b.spent)).unwrap_or_default(),
        })
    }

    /// The verdict on one message.
    pub(crate) fn admit(
        &self,
        class: Class,
        tier: Tier,
        user: &str,
        decay: u8,
        now_ms: u64,
    ) -> Verdict {
        let level = Level(self.level.0.saturating_sub(decay));
        // Semantics §4: automation never sheds these two, whatever a document says.
        let never_shed = matches!(class, Class::System | Class::Gift);
        let spared = tier == Tier::Vip && level < Level::MAX;
        if !self.enforced || never_shed || spared {
            return Verdict::Admit;
        }
        let survive = level == Level::MAX;
        if survive && self.top.contains(user) {
            return Verdict::Admit;
        }
        // A document tells of its own level only; what lies below is the shipped table of levels.
        let (share, delay) =
            if decay == 0 { self.classes[class as usize] } else { fallen(level, class) };
        if share == 0 {
            let reason = if survive { Reason::Survive } else { Reason::ClassOff };
            return Verdict::Refuse { reason, retry_after_ms: RETRY_LEVEL_MS };
        }
        if share < WHOLE && !self.within_share(class, share) {
            let reason = Reason::OverShare;
            return Verdict::Refuse { reason, retry_after_ms: RETRY_SHARE_MS };
        }
        if let Err(refused) = self.within_limits(class, now_ms) {
            return refused;
        }
        if delay > 0 { Verdict::Delay { ms: delay } } else { Verdict::Admit }
    }

    /// Whether the limits per time let one more pass: the class's own first, so that it does not use up the room's.
    fn within_limits(&self, class: Class, now_ms: u64) -> Result<(), Verdict> {
        let refuse = |reason| move |retry_after_ms| Verdict::Refuse { reason, retry_after_ms };
        if let Some((per_s, burst)) = self.buckets[class as usize] {
            let bucket = &self.spent.classes[class as usize];
            bucket.take(per_s, burst, now_ms).map_err(refuse(Reason::ClassBusy))?;
        }
        if let Some((per_s, burst)) = self.bucket {
            self.spent.room.take(per_s, burst, now_ms).map_err(refuse(Reason::RoomBusy))?;
        }
        if let Some(most) = self.second {
            self.spent.second.take(most, now_ms).map_err(refuse(Reason::RoomBusy))?;
        }
        Ok(())
    }

    /// Whether the next message of a class falls within its share: of the first n, exactly ⌊n · share⌋ do.
    fn within_share(&self, class: Class, share: u64) -> bool {
        // The pattern repeats after WHOLE messages, so the remainder is enough and nothing overflows.
        let n = self.counters[class as usize].fetch_add(1, Ordering::Relaxed) % WHOLE;
        (n + 1) * share / WHOLE > n * share / WHOLE
    }
}

/// What holds for a class at a level that no document tells of (semantics §4, the shipped table).
fn fallen(level: Level, class: Class) -> (u64, u32) {
    match (level.0, class) {
        (1, Class::Chat | Class::Heartbeat) => (WHOLE, 100),
        (2, Class::Chat) => (WHOLE / 10 * 4, 0),
        (2, Class::Command) => (WHOLE / 10 * 9, 0),
        (2, Class::Heartbeat) => (0, 0),
        _ => (WHOLE, 0),
    }
}
