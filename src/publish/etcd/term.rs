//! A publisher's life: it campaigns, leads, loses, campaigns again.

use super::client::{PATIENCE, tree};
use super::write::{Fence, Outcome, look, write};
use super::{Command, Event, Settings, Status};
use crate::publish::plan::{BATCH_MAX, Plan};
use barrage_protocol::ids::Slot;
use etcd_client::{
    Client, Compare, CompareOp, LeaseKeepAliveStream, LeaseKeeper, PutOptions, Txn, TxnOp,
};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::mpsc::error::TryRecvError;
use tokio::sync::mpsc::{Receiver, Sender};
use tokio::time::{sleep, timeout};

/// How often somebody who does not lead looks whether anybody does.
const CAMPAIGN: Duration = Duration::from_millis(250);
/// How often a leader looks at what is to be done.
const TICK: Duration = Duration::from_millis(20);
/// How often the lease is renewed.
const RENEW: Duration = Duration::from_secs(1);
/// While no more than a batch waits, transactions are at least this far apart.
const PAUSE: Duration = Duration::from_millis(200);
/// The heartbeat is written at least this often.
const BEAT: Duration = Duration::from_millis(900);
/// Wait after a failure.
const AGAIN: Duration = Duration::from_millis(100);

pub(super) struct Task {
    settings: Settings,
    plan: Plan,
    commands: Receiver<Command>,
    events: Sender<Event>,
    status: Arc<Mutex<Status>>,
    stalled: Arc<AtomicBool>,
    /// The last slot that the heartbeat tells.
    slot: Slot,
    /// The last slot whose decisions are taken into the plan.
    taken: Slot,
    told: Slot,
    frozen: bool,
    /// Whether the levels were told.
    knows: bool,
    begin: Option<u64>,
    over: bool,
    overflow: u64,
    /// Whether it has looked for a key that it left behind when it died.
    looked: bool,
}

/// What a won election brought.
struct Won {
    fence: Fence,
    lease: i64,
    keeper: LeaseKeeper,
    answers: LeaseKeepAliveStream,
    renewed: Instant,
    asked: Instant,
}

impl Task {
    pub(super) fn new(
        settings: Settings,
        plan: Plan,
        commands: Receiver<Command>,
        events: Sender<Event>,
        status: Arc<Mutex<Status>>,
        stalled: Arc<AtomicBool>,
    ) -> Self {
        Self {
            settings,
            plan,
            commands,
            events,
            status,
            stalled,
            slot: Slot(0),
            taken: Slot(0),
            told: Slot(0),
            frozen: false,
            knows: false,
            begin: None,
            over: false,
            overflow: 0,
            looked: false,
        }
    }

    pub(super) async fn run(mut self) {
        while !self.over {
            let mut client = match self.settings.connect().await {
                Ok(client) => client,
                Err(error) => {
                    self.failed(&error);
                    self.pause(CAMPAIGN).await;
                    continue;
                }
            };
            let Some(won) = self.campaign(&mut client).await else { continue };
            let lease = won.lease;
            self.status(|s| s.leads = true);
            self.lead(&mut client, won).await;
            self.status(|s| (s.leads, s.epoch) = (false, 0));
            // Takes the key with it if it is still this leader's: nobody has to wait for the lease to run out.
            let _ = timeout(PATIENCE, client.lease_revoke(lease)).await;
        }
    }

    fn status(&self, change: impl FnOnce(&mut Status)) {
        change(&mut self.status.lock().unwrap_or_else(PoisonError::into_inner));
    }

    fn failed(&self, error: &str) {
        let mut status = self.status.lock().unwrap_or_else(PoisonError::into_inner);
        status.failed += 1;
        if status.failed.is_power_of_two() {
            tracing::warn!(error, times = status.failed, "etcd does not take part");
        }
    }

    fn tell(&self, event: Event) {
        if self.events.try_send(event).is_err() {
            self.status(|s| s.unheard += 1);
        }
    }

    /// Takes every command that waits.
    fn take(&mut self) {
        loop {
            match self.commands.try_recv() {
                Ok(Command::Levels(levels)) => {
                    self.plan.levels(&levels, self.slot);
                    self.knows = true;
                }
                Ok(Command::Decisions(slot, decisions)) => {
                    self.plan.take(&decisions);
                    self.taken = self.taken.max(slot);
                }
                Ok(Command::Slot(slot)) => self.slot = self.slot.max(slot),
                Ok(Command::Rules(rules, slot)) => self.plan.rules(rules, slot),
                Ok(Command::Frozen(frozen)) => self.frozen = frozen,
                Ok(Command::Begin { epoch }) => self.begin = Some(epoch),
                Ok(Command::Stalled(stalled)) => self.stalled.store(stalled, Ordering::Relaxed),
                Ok(Command::Resign) | Err(TryRecvError::Disconnected) => {
                    self.over = true;
                    return;
                }
                Err(TryRecvError::Empty) => break,
            }
        }
        let overflow = self.plan.overflow();
        if overflow > self.overflow
            && (self.overflow == 0 || overflow / 1_000 > self.overflow / 1_000)
        {
            self.tell(Event::Alarm(format!(
                "more rooms off their default than are published one by one ({} wanted): the default of their group moves instead",
                self.plan.wanted()
            )));
        }
        self.overflow = overflow;
        let (waiting, keys) = (self.plan.waiting(), self.plan.published().count());
        self.status(|s| (s.waiting, s.keys) = (waiting, keys));
    }

    /// Waits, and goes on taking commands.
    async fn pause(&mut self, how_long: Duration) {
        sleep(how_long).await;
        self.take();
    }

    /// Stands for election until it is won; none: to be begun anew.
    async fn campaign(&mut self, client: &mut Client) -> Option<Won> {
        let leader = self.settings.leader_key();
        loop {
            self.take();
            if self.over {
                return None;
            }
            let stalled = self.stalled.load(Ordering::Relaxed);
            match timeout(PATIENCE, client.get(leader.as_str(), None)).await {
                Ok(Ok(answer)) => {
                    self.status(|s| {
                        s.revision = answer.header().map_or(0, |h| h.revision().unsigned_abs())
                    });
                    let left = answer.kvs().first().filter(|_| !self.looked);
                    if let Some(lease) =
                        left.and_then(|kv| own(kv.value(), &self.settings.instance))
                    {
                        // Its state directory is locked: who held this key under its name is dead.
                        tracing::info!("gives up the leadership of its last run");
                        let _ = timeout(PATIENCE, client.lease_revoke(lease)).await;
                    }
                    self.looked = true;
                    if !answer.kvs().is_empty() || stalled {
                        self.pause(CAMPAIGN).await;
                        continue;
                    }
                }
                Ok(Err(error)) => {
                    self.failed(&error.to_string());
                    self.pause(CAMPAIGN).await;
                    return None;
                }
                Err(_) => {
                    self.failed("no answer");
                    return None;
                }
            }
            match self.stand(client, &leader).await {
                Ok(Some(won)) => return Some(won),
                Ok(None) => {}
                Err(error) => {
                    self.failed(&error);
                    self.pause(CAMPAIGN).await;
                    return None;
                }
            }
        }
    }

    async fn stand(&mut self, client: &mut Client, leader: &str) -> Result<Option<Won>, String> {
        let told = |e: etcd_client::Error| e.to_string();
        let granted = Instant::now();
        let lease = client.lease_grant(self.settings.lease_s, None).await.map_err(told)?.id();
        let (keeper, answers) = client.lease_keep_alive(lease).await.map_err(told)?;
        let value = serde_json::json!({
            "instance": self.settings.instance,
            "version": self.settings.version,
            "lease": lease,
        });
        let put = TxnOp::put(leader, value.to_string(), Some(PutOptions::new().with_lease(lease)));
        let free = Compare::create_revision(leader, CompareOp::Equal, 0);
        let answer = client.txn(Txn::new().when([free]).and_then([put])).await.map_err(told)?;
        if !answer.succeeded() {
            client.lease_revoke(lease).await.map_err(told)?;
            return Ok(None);
        }
        let create_revision = answer.header().map_or(0, etcd_client::ResponseHeader::revision);
        let heartbeat = self.settings.keys().heartbeat();
        let fence = Fence { leader: leader.to_owned(), create_revision, heartbeat, seen: 0 };
        Ok(Some(Won { fence, lease, keeper, answers, renewed: granted, asked: granted }))
    }

    /// Renews the lease; false: it has run out, or may have.
    async fn renew(&self, won: &mut Won) -> bool {
        let lease = Duration::from_secs(self.settings.lease_s.unsigned_abs());
        if won.asked.elapsed() >= RENEW && !self.stalled.load(Ordering::Relaxed) {
            let asked = Instant::now();
            won.asked = asked;
            if timeout(RENEW, won.keeper.keep_alive()).await.is_ok_and(|r| r.is_ok())
                && let Ok(Ok(Some(answer))) = timeout(RENEW, won.answers.message()).await
            {
                if answer.ttl() <= 0 {
                    return false;
                }
                // Counted from the question: the answer may have been long on its way.
                won.renewed = asked;
            }
        }
        won.renewed.elapsed() < lease
    }

    /// Leads until the term is over.
    async fn lead(&mut self, client: &mut Client, mut won: Won) {
        self.begin = None;
        let published = match look(client, &won.fence).await {
            Ok(standing) => standing.beat,
            Err(error) => {
                self.failed(&error);
                self.tell(Event::Lost);
                return;
            }
        };
        let create_revision = won.fence.create_revision.unsigned_abs();
        self.tell(Event::Leading { create_revision, published });
        let mut writing = false;
        let (mut written, mut failed_at) = (None::<Instant>, None::<Instant>);
        loop {
            self.pause(TICK).await;
            if self.over {
                return;
            }
            if !self.renew(&mut won).await {
                self.tell(Event::Lost);
                return;
            }
            if !writing {
                let Some(epoch) = self.begin.filter(|_| self.knows) else { continue };
                writing = self.adopt(client, &mut won.fence, epoch).await;
                continue;
            }
            if failed_at.is_some_and(|at| at.elapsed() < AGAIN) {
                continue;
            }
            let waiting = self.plan.waiting();
            let since = written.map_or(Duration::MAX, |at| at.elapsed());
            let due = waiting > BATCH_MAX || (waiting > 0 && since >= PAUSE) || since >= BEAT;
            if !due {
                continue;
            }
            match self.step(client, &mut won.fence).await {
                Step::Written => (written, failed_at) = (Some(Instant::now()), None),
                Step::Again => failed_at = Some(Instant::now()),
                Step::List => writing = false,
                Step::Lost => {
                    self.tell(Event::Lost);
                    return;
                }
                Step::Fenced => {
                    self.tell(Event::Fenced);
                    self.over = true;
                    return;
                }
            }
        }
    }

    /// Takes up what stands in etcd.
    async fn adopt(&mut self, client: &mut Client, fence: &mut Fence, epoch: u64) -> bool {
        let standing = match look(client, fence).await {
            Ok(standing) => standing,
            Err(error) => {
                self.failed(&error);
                return false;
            }
        };
        let prefix = self.settings.keys().tree().to_owned();
        match tree(client, &prefix).await {
            Ok((present, revision)) => {
                fence.seen = standing.revision;
                self.plan.adopt(epoch, &present, self.slot);
                self.status(|s| (s.epoch, s.revision) = (epoch, revision.unsigned_abs()));
                true
            }
            Err(error) => {
                self.failed(&error.to_string());
                false
            }
        }
    }

    async fn step(&mut self, client: &mut Client, fence: &mut Fence) -> Step {
        let batch = self.plan.batch(self.slot, self.frozen);
        // What is taken in while the transaction is under way is not in it.
        let taken = self.taken;
        match write(client, fence, &batch).await {
            Outcome::Taken(revision) => {
                fence.seen = revision;
                self.status(|s| (s.taken, s.revision) = (s.taken + 1, revision.unsigned_abs()));
            }
            Outcome::Failed(error) => {
                self.failed(&error);
                return Step::Again;
            }
            Outcome::Unknown(error) => {
                self.status(|s| s.unknown += 1);
                tracing::warn!(error, "the answer to a transaction was lost");
                match self.find_out(client, fence, &batch.heartbeat).await {
                    Step::Written => {}
                    other => return other,
                }
            }
            Outcome::Refused => match self.find_out(client, fence, &batch.heartbeat).await {
                Step::Written => {}
                other => return other,
            },
        }
        self.plan.written(batch);
        if self.plan.waiting() == 0 && taken > self.told {
            self.told = taken;
            self.tell(Event::Published(taken));
        }
        Step::Written
    }

    /// What became of a transaction that was refused, or whose answer was lost: the heartbeat tells.
    async fn find_out(&mut self, client: &mut Client, fence: &mut Fence, ours: &[u8]) -> Step {
        let standing = match look(client, fence).await {
            Ok(standing) => standing,
            Err(error) => {
                self.failed(&error);
                return Step::Again;
            }
        };
        if standing.bytes == ours {
            fence.seen = standing.revision;
            self.status(|s| s.taken += 1);
            return if standing.leads { Step::Written } else { Step::Lost };
        }
        let epoch = self.status.lock().unwrap_or_else(PoisonError::into_inner).epoch;
        let other = standing.beat.as_ref().map_or(0, |beat| beat.epoch);
        if standing.revision == fence.seen && standing.leads {
            // Nothing has happened: the same may be sent again, because only one of the two can be taken.
            return Step::Again;
        }
        self.status(|s| s.fenced += 1);
        if other > epoch {
            return Step::Fenced;
        }
        if !standing.leads {
            return Step::Lost;
        }
        // The store went back or was wiped, or somebody of an earlier term wrote: what stands there is listed again.
        self.begin.get_or_insert(epoch);
        Step::List
    }
}

/// The lease of a leader's key that bears this name.
fn own(value: &[u8], instance: &str) -> Option<i64> {
    let told: serde_json::Value = serde_json::from_slice(value).ok()?;
    if told["instance"] == instance { told["lease"].as_i64() } else { None }
}

/// What comes next.
enum Step {
    Written,
    Again,
    List,
    Lost,
    Fenced,
}
