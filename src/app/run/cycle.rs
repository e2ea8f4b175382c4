//! A controller's rounds: it follows the control log, claims when it is elected, leads, and ends when it is fenced.

use super::effects::Effects;
use super::keep::Keeper;
use super::setup::Setup;
use crate::app::{Follow, Lead, Round};
use crate::config::OnExpired;
use crate::control::Log;
use crate::ingest::kafka::{Event as TopicEvent, Reports, Topic};
use crate::ops::{Health, Meters};
use crate::publish::etcd::{self, Command, Event, Handle};
use anyhow::Context as _;
use barrage_engine::control::{Progress, Status};
use barrage_engine::rules::RuleSet;
use barrage_protocol::control::Control;
use barrage_protocol::ids::{Level, Slot};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Between two checkpoints.
const CHECKPOINT_MS: i64 = 10_000;
/// Between two checkpoints to Postgres.
const REMOTE_MS: i64 = 60_000;
/// Between two looks at everything that only people see.
const LOOK_MS: i64 = 1_000;
/// So long a log that takes no step is a reason to tell the edges that nothing new is decided.
const BEHIND_MS: i64 = 3_000;
/// A partition that could not be read for so long is a reason to say so to the edges.
const SILENT_MS: i64 = 2_000;

/// How far it is.
pub(super) enum Stage {
    Follows(Box<Follow>, Box<Log>),
    Leads(Box<Lead<Log>>),
    Over,
}

/// Why it ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// Somebody of a higher epoch leads.
    Fenced,
    /// Records that are wanted are gone, and the configuration says to stop.
    Expired(String),
}

/// What a round came to.
pub(super) enum Turn {
    Busy,
    Idle,
    Ended(End),
}

/// What the loop hands in.
pub(super) struct Parts {
    pub(super) setup: Setup,
    pub(super) rules: RuleSet,
    pub(super) follow: Follow,
    pub(super) log: Log,
    pub(super) topic: Topic,
    pub(super) reports: Reports,
    pub(super) effects: Effects,
    pub(super) publish: Option<Handle>,
    pub(super) keeper: Keeper,
    pub(super) health: Arc<Health>,
    pub(super) meters: Arc<Meters>,
    pub(super) runtime: tokio::runtime::Handle,
}

/// A controller.
pub(super) struct Cycle {
    pub(super) parts: Shared,
    pub(super) stage: Stage,
    /// An election won, whose term has not begun.
    won: Option<(u64, u64)>,
    /// Elected again within the term: writing goes on once the log has answered for a slot after this one.
    again: Option<Slot>,
    slot_told: Slot,
    pub(super) frozen: bool,
    failing: BTreeMap<u32, i64>,
    /// The last final slot, and when it became that.
    final_at: (Slot, i64),
    checkpoint_at: i64,
    remote_at: i64,
    look_at: i64,
    diverged: u64,
}

/// What every stage uses.
pub(super) struct Shared {
    pub(super) setup: Setup,
    pub(super) rules: RuleSet,
    pub(super) topic: Topic,
    pub(super) reports: Reports,
    pub(super) effects: Effects,
    pub(super) publish: Option<Handle>,
    pub(super) keeper: Keeper,
    pub(super) health: Arc<Health>,
    pub(super) meters: Arc<Meters>,
    pub(super) runtime: tokio::runtime::Handle,
}

impl Cycle {
    pub(super) fn new(parts: Parts) -> Self {
        let Parts {
            setup,
            rules,
            follow,
            log,
            topic,
            reports,
            effects,
            publish,
            keeper,
            health,
            meters,
            runtime,
        } = parts;
        // Without an election there is nobody to wait for.
        let won = publish.is_none().then_some((0, 0));
        Self {
            parts: Shared {
                setup,
                rules,
                topic,
                reports,
                effects,
                publish,
                keeper,
                health,
                meters,
                runtime,
            },
            stage: Stage::Follows(Box::new(follow), Box::new(log)),
            won,
            again: None,
            slot_told: Slot(0),
            frozen: false,
            failing: BTreeMap::new(),
            final_at: (Slot(0), 0),
            checkpoint_at: 0,
            remote_at: 0,
            look_at: 0,
            diverged: 0,
        }
    }

    /// One round. `now_ms` is monotonic.
    pub(super) fn turn(&mut self, now_ms: i64) -> anyhow::Result<Turn> {
        self.parts.health.turn();
        if let Some(end) = self.hear() {
            return Ok(Turn::Ended(end));
        }
        let turn = match std::mem::replace(&mut self.stage, Stage::Over) {
            Stage::Follows(follow, log) => self.follow(*follow, *log, now_ms)?,
            Stage::Leads(lead) => self.lead(lead, now_ms)?,
            Stage::Over => Turn::Ended(End::Fenced),
        };
        if now_ms - self.look_at >= LOOK_MS {
            self.look_at = now_ms;
            self.look();
        }
        Ok(turn)
    }

    /// What the publisher has to tell.
    fn hear(&mut self) -> Option<End> {
        while let Some(event) = self.parts.publish.as_mut().and_then(Handle::event) {
            match event {
                Event::Leading { create_revision, published } => {
                    tracing::info!(create_revision, "elected");
                    let published = published.map_or(0, |beat| beat.epoch);
                    match &self.stage {
                        Stage::Leads(lead) if published > lead.epoch() => return Some(End::Fenced),
                        Stage::Leads(lead) => self.again = lead.last_closed(),
                        _ => self.won = Some((create_revision, published)),
                    }
                }
                Event::Lost => {
                    tracing::warn!(
                        "the leadership is lost for now: etcd does not answer, or the lease ran out"
                    );
                    self.again = None;
                    if matches!(self.stage, Stage::Follows(..)) {
                        self.won = None;
                    }
                }
                Event::Published(slot) => self.parts.effects.published(slot),
                Event::Fenced => return Some(End::Fenced),
                Event::Alarm(what) => tracing::error!(what, "alarm"),
            }
        }
        None
    }

    fn follow(&mut self, mut follow: Follow, mut log: Log, now_ms: i64) -> anyhow::Result<Turn> {
        let mut busy = false;
        while follow.wants().is_some()
            && let Some((position, entry)) = log.read()?
        {
            follow.entry_at(position, entry);
            busy = true;
        }
        busy |= follow.round(now_ms, &mut self.parts.effects)? == Round::Busy;
        while let Some(divergence) = follow.divergence() {
            self.diverged += 1;
            tracing::error!(%divergence, "this controller decides otherwise than the leader");
            let slot = follow.last_closed().unwrap_or(Slot(0));
            let envelope = self.parts.effects.envelope();
            self.parts.effects.diverged(slot, &divergence.to_string(), &envelope);
        }
        for event in self.parts.topic.events().collect::<Vec<_>>() {
            match event {
                TopicEvent::Grown(n) => {
                    (0..n).for_each(|p| follow.add(p, self.parts.topic.source(p, 0)));
                }
                // A checkpoint that is newer may reach what this one does not.
                TopicEvent::Expired { .. } | TopicEvent::Shrunk { .. } => {
                    return Ok(Turn::Ended(End::Expired(gone(&event))));
                }
            }
        }
        let progress = follow.progress(now_ms);
        let (won, caught_up) = (self.won, log.is_at_end() && follow.is_up_to_date());
        self.stage = match (progress, won) {
            (Some(Progress::Fenced), _) => return Ok(Turn::Ended(End::Fenced)),
            (Some(progress @ (Progress::Ready | Progress::Break)), _) => {
                if progress == Progress::Break {
                    tracing::error!(
                        "the last step of the control log cannot be reached: decisions begin anew"
                    );
                }
                self.take_over(follow, log, now_ms)?
            }
            // The epoch has to be above every one in the log.
            (None, Some((revision, published))) if log.is_at_end() => {
                let epoch = etcd::epoch(revision, follow.epoch(), published);
                tracing::info!(epoch, "claims the control log");
                let follow = follow.claim(epoch, &mut log, now_ms, &mut self.parts.effects)?;
                Stage::Follows(Box::new(follow), Box::new(log))
            }
            _ => Stage::Follows(Box::new(follow), Box::new(log)),
        };
        if caught_up {
            self.parts.health.started();
        }
        let why = (!caught_up).then(|| "behind the leader's last step".to_owned());
        self.parts.health.ready(why);
        self.checkpoint(now_ms)?;
        Ok(if busy { Turn::Busy } else { Turn::Idle })
    }

    /// From the last step on as a leader.
    fn take_over(&mut self, follow: Follow, log: Log, now_ms: i64) -> anyhow::Result<Stage> {
        let parts = &mut self.parts;
        let fresh = follow.last_closed().is_none();
        let known = match &parts.publish {
            Some(_) if fresh => {
                let levels = parts.runtime.block_on(etcd::levels(&parts.setup.etcd));
                levels.map_err(anyhow::Error::msg).context("cannot read the levels published")?.0
            }
            _ => BTreeMap::<String, Level>::new(),
        };
        parts.effects.leads = true;
        let mut lead = follow.into_lead(log, now_ms, known.clone())?;
        if lead.rules_hash() != Some(parts.rules.hash.as_str()) {
            let (text, hash) = (parts.rules.text.clone(), parts.rules.hash.clone());
            lead.propose(Control::Rules { text, hash })?;
        }
        parts.topic.sends_letters.store(true, Ordering::Relaxed);
        let levels = if fresh { known } else { lead.levels()? };
        let epoch = lead.epoch();
        tracing::info!(
            epoch,
            rooms = levels.len(),
            slot = lead.last_closed().map(|s| s.0),
            "leads"
        );
        parts.effects.epoch = epoch;
        parts.send(Command::Levels(levels));
        parts.send(Command::Begin { epoch });
        self.won = None;
        (self.checkpoint_at, self.remote_at) = (now_ms, now_ms);
        Ok(Stage::Leads(Box::new(lead)))
    }

    fn lead(&mut self, mut lead: Box<Lead<Log>>, now_ms: i64) -> anyhow::Result<Turn> {
        let busy = lead.round(now_ms, &mut self.parts.effects)? == Round::Busy;
        if lead.is_fenced() {
            return Ok(Turn::Ended(End::Fenced));
        }
        if let Some(end) = self.topic_events(&mut lead, now_ms)? {
            return Ok(Turn::Ended(end));
        }
        while let Some((slot, decisions)) = self.parts.effects.durable() {
            if !self.parts.send(Command::Decisions(slot, decisions)) {
                anyhow::bail!("the publisher has ended, or takes nothing any more");
            }
        }
        let last_final = lead.last_final();
        if last_final > self.slot_told {
            self.slot_told = last_final;
            self.parts.send(Command::Slot(last_final));
        }
        if self.again.is_some_and(|slot| last_final > slot) {
            // The log has answered after the election, and nobody else leads: the term goes on.
            self.again = None;
            self.parts.send(Command::Begin { epoch: lead.epoch() });
        }
        self.freeze(&lead, now_ms);
        self.parts.health.started();
        self.parts.health.ready(None);
        self.stage = Stage::Leads(lead);
        self.checkpoint(now_ms)?;
        Ok(if busy { Turn::Busy } else { Turn::Idle })
    }

    /// Tells the edges when nothing new can be decided, and when it can again.
    fn freeze(&mut self, lead: &Lead<Log>, now_ms: i64) {
        for p in lead.partitions() {
            match lead.status(p) {
                Some((Status::Active | Status::Idle, Some(_))) => {
                    self.failing.entry(p).or_insert(now_ms);
                }
                _ => {
                    self.failing.remove(&p);
                }
            }
        }
        let silent = self.failing.values().any(|since| now_ms - since >= SILENT_MS);
        let last_final = lead.last_final();
        if last_final > self.final_at.0 || lead.last_closed().is_none_or(|c| c <= last_final) {
            self.final_at = (last_final, now_ms);
        }
        let behind = now_ms - self.final_at.1 >= BEHIND_MS;
        let frozen = silent || behind;
        if frozen != self.frozen {
            self.frozen = frozen;
            tracing::warn!(frozen, silent, behind, "what edges are told about new decisions");
            self.parts.meters.frozen(frozen);
            self.parts.send(Command::Frozen(frozen));
        }
    }

    /// What happens to the topic of events while it leads.
    fn topic_events(&mut self, lead: &mut Lead<Log>, now_ms: i64) -> anyhow::Result<Option<End>> {
        let events: Vec<TopicEvent> = self.parts.topic.events().collect();
        for event in events {
            match event {
                TopicEvent::Grown(n) => {
                    tracing::warn!(partitions = n, "the topic of events has more partitions");
                    let known: Vec<u32> = lead.partitions().collect();
                    for p in (0..n).filter(|p| !known.contains(p)) {
                        lead.add(p, self.parts.topic.source(p, 0), now_ms);
                    }
                }
                TopicEvent::Expired { partition, wanted, low } => {
                    let what = gone(&event);
                    if self.parts.setup.config.kafka.on_expired == OnExpired::Stop {
                        return Ok(Some(End::Expired(what)));
                    }
                    let skip = Control::Skip { partition, from_offset: wanted, to_offset: low };
                    match lead.propose(skip) {
                        Ok(()) => {
                            tracing::error!(what, "skipped");
                            lead.go(partition, low)?;
                        }
                        // It is told again while it stands.
                        Err(why) => tracing::warn!(%why, "not yet skipped"),
                    }
                }
                TopicEvent::Shrunk { .. } => return Ok(Some(End::Expired(gone(&event)))),
            }
        }
        Ok(None)
    }

    fn checkpoint(&mut self, now_ms: i64) -> anyhow::Result<()> {
        let due = now_ms - self.checkpoint_at >= CHECKPOINT_MS;
        if due {
            self.checkpoint_at = now_ms;
        }
        let mut kept = Vec::new();
        let done = match &mut self.stage {
            Stage::Leads(lead) => {
                if due && lead.last_closed().is_some() {
                    lead.checkpoint()?;
                }
                let durable = self.parts.effects.spooled_until(lead.last_final());
                kept.extend(std::iter::from_fn(|| lead.kept_until(durable)));
                lead.last_done()
            }
            Stage::Follows(follow, _) => {
                if due && follow.last_closed().is_some() && follow.rebuilt() {
                    kept.extend(follow.checkpoint()?);
                }
                Slot(0)
            }
            Stage::Over => Slot(0),
        };
        for checkpoint in kept {
            if !self.parts.keeper.keep(checkpoint, self.parts.effects.envelope()) {
                tracing::warn!("the last checkpoint is still being written; this one is left out");
            }
        }
        if now_ms - self.remote_at >= REMOTE_MS
            && let Some(packed) = self.parts.keeper.newest(done)
        {
            self.remote_at = now_ms;
            let envelope = self.parts.effects.envelope();
            self.parts.effects.remember(packed.slot, packed.bytes, &envelope);
        }
        Ok(())
    }

    /// Ends in order: the leadership is given up, what is spooled stays.
    pub(super) fn stop(mut self) -> anyhow::Result<()> {
        self.parts.send(Command::Resign);
        if let Some(publish) = self.parts.publish.as_mut() {
            let ended = async { while publish.next().await.is_some() {} };
            // Somebody who does not answer does not keep us.
            let _ = self.parts.runtime.block_on(async {
                tokio::time::timeout(std::time::Duration::from_secs(3), ended).await
            });
        }
        match self.stage {
            Stage::Leads(lead) => lead.stop()?,
            Stage::Follows(follow, _) => follow.stop()?,
            Stage::Over => {}
        }
        self.parts.effects.stop();
        Ok(())
    }
}

impl Shared {
    fn send(&self, command: Command) -> bool {
        self.publish.as_ref().is_none_or(|publish| publish.send(command))
    }
}

/// What is not there any more, and what can be done.
fn gone(event: &TopicEvent) -> String {
    match event {
        TopicEvent::Expired { partition, wanted, low } => format!(
            "partition {partition}: offsets {wanted} to {} are gone; hint: `on_expired = \"skip\"` in [kafka] has the leader go on after them, and records it",
            low.saturating_sub(1)
        ),
        TopicEvent::Shrunk { partition, wanted, high } => format!(
            "partition {partition} ends at offset {high}, before {wanted}, which comes next: the topic was made anew or has lost records; hint: use another `cluster` name, or remove the state directory and the control topic, to begin anew"
        ),
        TopicEvent::Grown(n) => format!("the topic has {n} partitions"),
    }
}
