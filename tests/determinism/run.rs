//! Leading and following a case.

use super::case::{Case, PARTITIONS, Random, Stored, T0};
use barrage::app::{Checkpoint, Follow, Lead, Observer, Round, Settings};
use barrage::ingest::{Item, Poll, Source};
use barrage_engine::control::{Config, Memory, Status};
use barrage_engine::rules::{RuleSet, parse};
use barrage_protocol::control::{Control, Entry};
use barrage_protocol::decision::{Decision, Kind};
use barrage_protocol::event;
use barrage_protocol::ids::Slot;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

/// What came out of a run.
#[derive(Default)]
pub(crate) struct Log {
    pub(crate) lines: Vec<(Slot, String)>,
    pub(crate) kinds: BTreeSet<Kind>,
    pub(crate) entries: Vec<Entry>,
}

impl Observer for Log {
    fn decided(
        &mut self,
        slot: Slot,
        decisions: &[Decision],
        lines: &[String],
    ) -> anyhow::Result<()> {
        self.kinds.extend(decisions.iter().map(|d| d.kind));
        self.lines.extend(lines.iter().map(|line| (slot, line.clone())));
        Ok(())
    }

    fn written(&mut self, entry: &Entry) -> anyhow::Result<()> {
        self.entries.push(entry.clone());
        Ok(())
    }
}

/// A partition of a case: hands out what has been appended by now; unreadable during the outage.
struct Topic {
    log: Arc<Vec<Stored>>,
    at: usize,
    now: Arc<AtomicI64>,
    outage: Option<(i64, i64)>,
    /// Hands out as few and as rarely as it likes.
    whims: Option<Random>,
}

impl Source for Topic {
    fn poll(&mut self, max: usize, sink: &mut dyn FnMut(Item<'_>)) -> Poll {
        let now = self.now.load(Ordering::Relaxed);
        if self.outage.is_some_and(|(from, to)| (from..to).contains(&now)) {
            return Poll::Failed("not to be read".into());
        }
        let mut max = max;
        if let Some(random) = &mut self.whims {
            if random.within(0, 3) == 0 {
                return Poll::More;
            }
            max = random.within(1, max as i64 + 1) as usize;
        }
        for _ in 0..max {
            let Some(stored) = self.log.get(self.at).filter(|s| s.append_ms <= now) else {
                return Poll::AtEnd;
            };
            let (offset, append) = (self.at as u64, Some(stored.append_ms));
            self.at += 1;
            match event::parse(&stored.value) {
                Ok(e) => sink(Item::event(offset, append, e.ts, e.hit(), &e.room)),
                Err(reject) => sink(Item::rejected(offset, append, reject)),
            }
        }
        Poll::More
    }

    fn seek(&mut self, offset: u64) -> Result<(), String> {
        self.at = usize::try_from(offset).map_err(|e| e.to_string())?;
        Ok(())
    }

    fn name(&self) -> &str {
        "topic"
    }
}

/// The partitions of a case as sources on a common clock.
pub(crate) struct Topics {
    logs: Vec<Arc<Vec<Stored>>>,
    pub(crate) now: Arc<AtomicI64>,
}

impl Topics {
    pub(crate) fn new(case: &Case) -> Self {
        let logs = case.partitions.iter().map(|log| Arc::new(log.clone())).collect();
        Self { logs, now: Arc::new(AtomicI64::new(T0)) }
    }

    /// As a leader reads them, with the case's outage.
    pub(crate) fn live(&self, case: &Case) -> Vec<Box<dyn Source>> {
        let outage = |p: u32| (p == case.outage.0).then_some((case.outage.1, case.outage.2));
        self.sources(|p| (outage(p), None))
    }

    /// As a follower reads them later: everything is there, in an order of its own.
    pub(crate) fn later(&self, seed: u64) -> Vec<Box<dyn Source>> {
        self.now.store(i64::MAX, Ordering::Relaxed);
        self.sources(|p| (None, Some(Random(seed ^ (u64::from(p) << 32)))))
    }

    /// All of it, at once and in order.
    pub(crate) fn sources_at_end(&self) -> Vec<Box<dyn Source>> {
        self.sources(|_| (None, None))
    }

    fn sources(
        &self,
        how: impl Fn(u32) -> (Option<(i64, i64)>, Option<Random>),
    ) -> Vec<Box<dyn Source>> {
        let topic = |(p, log): (u32, &Arc<Vec<Stored>>)| {
            let (outage, whims) = how(p);
            let (log, now) = (Arc::clone(log), Arc::clone(&self.now));
            Box::new(Topic { log, at: 0, now, outage, whims }) as Box<dyn Source>
        };
        (0..).zip(&self.logs).map(topic).collect()
    }
}

pub(crate) fn settings(workers: usize, batch: usize) -> Settings {
    let control = Config { absent_after_ms: 2_500, idle_after_ms: 600, ..Config::default() };
    let mut settings = Settings { control, workers, batch, ..Settings::default() };
    settings.graph.view = false;
    settings
}

pub(crate) fn rules(case: &Case, second: bool) -> RuleSet {
    parse(&case.rules(second)).unwrap_or_else(|problems| panic!("{problems:?}"))
}

/// A leader's run.
pub(crate) struct Led {
    pub(crate) log: Log,
    pub(crate) hash: String,
    pub(crate) late: BTreeMap<u32, u64>,
    /// Statuses seen, by partition, in order.
    pub(crate) statuses: Vec<(u32, Status)>,
    pub(crate) checkpoints: Vec<Checkpoint>,
}

/// Leads a case on a simulated clock until `until`; checkpoints are taken at the given times.
pub(crate) fn lead(case: &Case, workers: usize, checkpoints: &[i64], until: i64) -> Led {
    let topics = Topics::new(case);
    let mut log = Log::default();
    let sources = topics.live(case);
    let first = rules(case, false);
    let line = Lead::new(settings(workers, 256), first, sources, T0, &mut log).expect("a leader");
    drive(case, line, &topics, log, T0, checkpoints, until).0
}

/// Drives a leader from `from` to `until`; returns what came out, and its control log.
pub(crate) fn drive(
    case: &Case,
    mut line: Lead,
    topics: &Topics,
    mut log: Log,
    from: i64,
    checkpoints: &[i64],
    until: i64,
) -> (Led, Memory) {
    let mut statuses: Vec<(u32, Status)> = Vec::new();
    let mut last: BTreeMap<u32, Status> = BTreeMap::new();
    let mut kept = Vec::new();
    let mut due = checkpoints.to_vec();
    let mut second = line.rules().text != case.rules(false);
    let mut now = from;
    while now < until {
        now += 40;
        topics.now.store(now, Ordering::Relaxed);
        if !second && now >= case.second_rules_at {
            second = true;
            let RuleSet { text, hash, .. } = rules(case, true);
            line.propose(Control::Rules { text, hash }).expect("rules are taken");
        }
        while line.round(now, &mut log).expect("a round") == Round::Busy {}
        if due.first().is_some_and(|at| now >= *at) {
            due.remove(0);
            line.checkpoint().expect("a checkpoint");
        }
        kept.extend(std::iter::from_fn(|| line.kept()));
        for p in 0..PARTITIONS {
            if let Some((status, _)) = line.status(p)
                && last.insert(p, status) != Some(status)
            {
                statuses.push((p, status));
            }
        }
    }
    assert_eq!(line.misplaced(), 0, "seed {}", case.seed);
    conservation(case, |p| line.counters(p).cloned());
    let memory = line.log().memory().clone();
    // The decisions that belong to the last step: what was closed after it is not final.
    let steps = log.entries.iter().rev();
    let step = steps.filter_map(|e| match e {
        Entry::Step(step) => Some(step),
        Entry::Lead { .. } => None,
    });
    let last = step.into_iter().next().expect("a step").clone();
    line.stop().expect("the workers end");
    let led = Led { log, hash: last.hash, late: last.late, statuses, checkpoints: kept };
    (led, memory)
}

fn conservation(case: &Case, counters: impl Fn(u32) -> Option<barrage_engine::control::Counters>) {
    for p in 0..PARTITIONS {
        let c = counters(p).expect("a partition");
        let sum = c.in_slot + c.late + c.rejected + c.skipped + c.overflow + c.held;
        assert_eq!(c.read, sum, "seed {}, partition {p}: {c:?}", case.seed);
    }
}

/// Follows a recorded control log to its end; returns the log, the hash and the late counts.
pub(crate) fn follow(
    case: &Case,
    mut line: Follow,
    entries: &[Entry],
) -> (Log, String, BTreeMap<u32, u64>) {
    let mut log = Log::default();
    let mut stall = 0;
    loop {
        while let Some(position) = line.wants()
            && let Some(entry) = entries.get(position as usize)
        {
            line.entry(entry.clone());
        }
        let round = line.round(0, &mut log).expect("a round");
        let divergence = line.divergence();
        assert!(divergence.is_none(), "seed {}: {divergence:?}", case.seed);
        let at_end = line.wants().is_some_and(|position| position as usize >= entries.len());
        if round == Round::Finished && at_end {
            break;
        }
        stall = if round == Round::Busy { 0 } else { stall + 1 };
        assert!(stall < 20_000, "seed {}: the follower stands still", case.seed);
    }
    conservation(case, |p| line.counters(p).cloned());
    let late = (0..PARTITIONS).map(|p| (p, line.counters(p).map_or(0, |c| c.late))).collect();
    let hash = line.hash();
    line.stop().expect("the workers end");
    (log, hash, late)
}

/// A follower from the first entry on.
pub(crate) fn follower(case: &Case, seed: u64, workers: usize, batch: usize) -> Follow {
    let sources = Topics::new(case).later(seed);
    Follow::new(settings(workers, batch), rules(case, false), sources).expect("a follower")
}
