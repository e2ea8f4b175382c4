//! From follower to leader: fence, read to the own `lead`, reach the last step, go on from it, or break with it.

use super::config::{Config, Flaw};
use super::follower::Follower;
use super::leader::Leader;
use barrage_protocol::control::{Entry, SCHEMA};
use barrage_protocol::ids::{Level, Slot};
use std::collections::BTreeMap;

/// The record with which the winner of an election fences those before it.
#[must_use]
pub fn lead(epoch: u64) -> Entry {
    Entry::Lead { schema: SCHEMA, epoch, seq: 0 }
}

/// How far a candidate is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// The own `lead` was not read back yet, or steps before it are not taken yet.
    Waiting,
    /// [`Candidate::into_leader`] goes on from the last step.
    Ready,
    /// The last step cannot be reached: [`Candidate::into_leader`] breaks with it. To be counted, and loud.
    Break,
    /// A higher epoch leads: [`Candidate::into_follower`].
    Fenced,
}

/// The winner of an election. It has written [`lead`] and goes on as a follower: feed [`Self::follower`] as before,
/// and ask [`Self::progress`] in each round.
#[derive(Clone, Debug)]
pub struct Candidate<P> {
    /// Still a follower.
    pub follower: Follower<P>,
    epoch: u64,
    since: i64,
}

impl<P: Copy> Candidate<P> {
    /// A follower that won the election of `epoch` and has sent its `lead` to the log.
    #[must_use]
    pub fn new(follower: Follower<P>, epoch: u64, now_ms: i64) -> Self {
        Self { follower, epoch, since: now_ms }
    }

    /// Epoch that it will lead.
    #[must_use]
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    fn config(&self) -> &Config {
        &self.follower.site.config
    }

    /// How far it is, after a [`Follower::turn`] with the same time.
    #[must_use]
    pub fn progress(&self, now_ms: i64) -> Progress {
        let read = self.follower.reader.epoch();
        if read > self.epoch {
            return Progress::Fenced;
        }
        if read < self.epoch && !self.config().flawed(Flaw::FenceLate) {
            return Progress::Waiting;
        }
        let rebuilt = self.follower.rebuilds_to().is_none();
        let reached = self.follower.is_up_to_date() && self.follower.site.due.is_empty();
        if rebuilt && (reached || self.config().flawed(Flaw::Reach)) {
            return Progress::Ready;
        }
        let patient = now_ms.saturating_sub(self.since) < self.config().break_after_ms;
        if patient || !self.follower.is_stalled(now_ms) || self.config().flawed(Flaw::Break) {
            return Progress::Waiting;
        }
        Progress::Break
    }

    /// Leads, if [`Self::progress`] said ready or break. `hash` is that of the decisions up to the last closed slot;
    /// `levels` are those known from the policies in force, for a start or a break. After a break, whoever decides
    /// begins anew with the `start` record that the leader hands out.
    ///
    /// # Errors
    /// Itself, if it must still wait.
    pub fn into_leader(
        self,
        now_ms: i64,
        hash: &str,
        levels: BTreeMap<String, Level>,
    ) -> Result<Leader<P>, Box<Self>> {
        let progress = self.progress(now_ms);
        if !matches!(progress, Progress::Ready | Progress::Break) {
            return Err(Box::new(self));
        }
        let Self { mut follower, epoch, .. } = self;
        let last = follower.last.clone();
        if progress == Progress::Break {
            follower.drop_steps(follower.queue.len());
        }
        let fresh = follower.site.closed.is_none();
        let mut leader = Leader::with(follower.site, follower.reader, epoch, now_ms);
        leader.begin_with(levels);
        match last {
            Some(last) if progress == Progress::Break => leader.break_at(&last, now_ms),
            Some(_) if !fresh => leader.set_hash(hash.into()),
            _ => {}
        }
        Ok(leader)
    }

    /// Gives up: somebody else leads.
    #[must_use]
    pub fn into_follower(self) -> Follower<P> {
        self.follower
    }

    /// The slot that effects are to be sent again after, once it leads.
    #[must_use]
    pub fn done(&self) -> Slot {
        self.follower.done()
    }
}
