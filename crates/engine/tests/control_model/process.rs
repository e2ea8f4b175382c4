//! One process: the loop around the state machines, as a program would drive them.

use crate::control::{Candidate, Config, Flaw, Follower, Leader, Outbox, Progress, Waiting, lead};
use crate::core::{Core, count};
use crate::world::{CHECKPOINT_EVERY, Kept, World, tell};
use barrage_protocol::control::{Control, Entry};
use barrage_protocol::ids::{Level, Slot};
use std::collections::BTreeMap;

pub(crate) enum Role {
    Follower(Box<Follower<u8>>),
    Candidate(Box<Candidate<u8>>),
    Leader(Box<Leader<u8>>),
}

impl Role {
    /// Stands in while a role changes.
    fn nobody() -> Self {
        Self::Follower(Box::new(Follower::new(Config::default(), 0)))
    }
}

pub(crate) struct Process {
    pub(crate) alive: bool,
    up_at: i64,
    pub(crate) paused_to: i64,
    pub(crate) acted_at: i64,
    pub(crate) role: Role,
    core: Core,
    outbox: Outbox<u64>,
    /// What it has decided and knows to be final; outlives restarts.
    pub(crate) decided: BTreeMap<Slot, u64>,
    waiting: Waiting<Kept>,
    pub(crate) kept: Vec<Kept>,
    checked_at: i64,
    /// When the `lead` is sent, after an election.
    fence_at: Option<i64>,
    jumps: u64,
}

impl Process {
    pub(crate) fn new(config: &Config) -> Self {
        Self {
            alive: true,
            up_at: 0,
            paused_to: 0,
            acted_at: 0,
            role: Role::Follower(Box::new(Follower::new(config.clone(), 0))),
            core: Core::new(),
            outbox: Outbox::default(),
            decided: BTreeMap::new(),
            waiting: Waiting::new(config),
            kept: Vec::new(),
            checked_at: 0,
            fence_at: None,
            jumps: 0,
        }
    }

    pub(crate) fn sleep_until(&mut self, up_at: i64) {
        (self.alive, self.up_at) = (false, up_at);
    }

    pub(crate) fn crash(&mut self, up_at: i64) {
        self.sleep_until(up_at);
        self.fence_at = None;
    }

    pub(crate) fn can_run(&self, now: i64) -> bool {
        self.alive && self.paused_to <= now && matches!(self.role, Role::Follower(_))
    }

    pub(crate) fn elected(&mut self, epoch: u64, now: i64, fence_at: i64) {
        self.acted_at = now;
        self.fence_at = Some(fence_at);
        let place = Role::nobody();
        self.role = match std::mem::replace(&mut self.role, place) {
            Role::Follower(follower) => {
                Role::Candidate(Box::new(Candidate::new(*follower, epoch, now)))
            }
            other => other,
        };
    }
}

impl World {
    pub(crate) fn act(&mut self, i: usize) {
        if self.violation.is_some() {
            return;
        }
        let now = self.now;
        if !self.processes[i].alive {
            if self.processes[i].up_at <= now {
                self.restart(i);
            }
            return;
        }
        if self.processes[i].paused_to > now {
            return;
        }
        self.processes[i].acted_at = now;
        match &self.processes[i].role {
            Role::Follower(_) => self.follow(i),
            Role::Candidate(_) => self.campaign(i),
            Role::Leader(_) => self.lead(i),
        }
    }

    fn restart(&mut self, i: usize) {
        let own = &self.processes[i].kept;
        let kept = match own.len() {
            n if n > 0 && !self.rng.percent(20) => Some(own[n - 1].clone()),
            n if n > 1 && self.rng.percent(50) => Some(own[n - 2].clone()),
            _ => self.processes.iter().flat_map(|p| p.kept.last()).next().cloned(),
        };
        let old = &mut self.processes[i];
        let mut new = Process::new(&self.config);
        new.decided = std::mem::take(&mut old.decided);
        new.kept = std::mem::take(&mut old.kept);
        (new.acted_at, new.checked_at) = (self.now, self.now);
        if let Some(kept) = kept {
            self.tally.restores += 1;
            let c = &kept.control;
            tell!(
                self,
                "process {i} starts from slot {} at entry {}, {:?}",
                c.slot.0,
                c.position(),
                c.offsets()
            );
            // A checkpoint goes through a file.
            let text = serde_json::to_string(c).unwrap();
            let read = serde_json::from_str(&text).unwrap();
            assert_eq!(*c, read);
            new.core = Core::restore(c.base, c.slot, kept.slow);
            new.role = Role::Follower(Box::new(Follower::restore(self.config.clone(), &read)));
        } else {
            tell!(self, "process {i} starts from nothing");
        }
        self.processes[i] = new;
    }

    /// One round as a follower (of a candidate too).
    pub(crate) fn follow(&mut self, i: usize) {
        let mut process = std::mem::replace(&mut self.processes[i], Process::new(&self.config));
        let Process { role, core, outbox, decided, jumps, .. } = &mut process;
        let follower = match role {
            Role::Follower(follower) => follower,
            Role::Candidate(candidate) => &mut candidate.follower,
            Role::Leader(_) => unreachable!("not called for leaders"),
        };
        self.read_as_follower(i, follower, core);
        self.close_as_follower(i, follower, core, decided, outbox);
        outbox.done(follower.done());
        let found = follower.divergence().map(|d| format!("process {i}: {d:?}"));
        let alarms = follower.alarms().clone();
        if alarms.jumped > *jumps {
            self.tally.jumps += alarms.jumped - *jumps;
            *jumps = alarms.jumped;
            tell!(self, "process {i} takes up from a start it could not reach");
        }
        let misplaced = follower.misplaced();
        self.processes[i] = process;
        if let Some(detail) = found {
            self.bad("diverges", detail);
        }
        if misplaced > 0 {
            self.bad("misplaced", format!("process {i}"));
        }
        self.checkpoint(i);
    }

    fn read_as_follower(&mut self, i: usize, follower: &mut Follower<u8>, core: &mut Core) {
        let entries = if self.rng.percent(self.read_lag) { 0 } else { self.rng.range(1, 12) };
        for _ in 0..entries {
            if let Some(entry) = self.control.get(follower.position() as usize)
                && follower.wants_entries()
            {
                follower.entry(entry.clone());
            }
        }
        if follower.turn(self.now, &mut count(&mut core.counts)) {
            core.counts.clear();
        }
        let known: Vec<u32> = follower.partitions().collect();
        for p in known {
            if let Some(wanted) = follower.wanted(p)
                && self.readable(i, p as usize)
                && self.rng.percent(60)
            {
                let log = &self.logs[p as usize];
                let beyond = self.rng.range(0, 2).unsigned_abs();
                let to =
                    (wanted.start + self.rng.range(1, 15).unsigned_abs()).min(log.len() as u64);
                let to = to.min(wanted.end.saturating_add(beyond));
                for offset in wanted.start..to {
                    follower.read(p, log[offset as usize], &mut count(&mut core.counts));
                }
                if to == log.len() as u64 && self.ended[p as usize] {
                    follower.ended(p);
                }
            }
        }
    }

    fn close_as_follower(
        &mut self,
        i: usize,
        follower: &mut Follower<u8>,
        core: &mut Core,
        decided: &mut BTreeMap<Slot, u64>,
        outbox: &mut Outbox<u64>,
    ) {
        if follower.turn(self.now, &mut count(&mut core.counts)) {
            core.counts.clear();
        }
        for _ in 0..6 {
            for record in follower.records_due() {
                core.take(&record);
                if matches!(record.control, Control::Start { .. }) {
                    tell!(self, "process {i} begins at slot {}", record.from.0);
                }
            }
            let Some(upto) = follower.closable() else { break };
            while follower.last_closed().is_none_or(|c| c < upto) && self.violation.is_none() {
                let next = follower.last_closed().unwrap_or_default().next();
                // As the program does it: several at once, or one by one.
                let many = self.rng.percent(50);
                let last = if many { upto } else { next };
                let mut slot = next;
                while slot <= last {
                    let (closed, digest) = core.close(&follower.offsets_at(slot));
                    assert_eq!(closed, slot, "core and clock are at the same slot");
                    if let Some(digest) = digest {
                        decided.insert(slot, digest);
                        outbox.push(slot, digest);
                    }
                    slot = slot.next();
                }
                follower.closed(last, &core.hash());
            }
        }
    }

    fn checkpoint(&mut self, i: usize) {
        let now = self.now;
        let process = &mut self.processes[i];
        let (last_final, done) = match &process.role {
            Role::Follower(f) => (f.last_closed().unwrap_or_default(), f.done()),
            Role::Candidate(c) => (c.follower.last_closed().unwrap_or_default(), c.done()),
            Role::Leader(l) => (l.last_final(), l.last_done()),
        };
        if now - process.checked_at > CHECKPOINT_EVERY {
            let checkpoint = match &process.role {
                Role::Follower(f) => f.checkpoint(),
                Role::Candidate(_) => None,
                Role::Leader(l) => l.checkpoint(),
            };
            if let Some(control) = checkpoint {
                process.checked_at = now;
                process.waiting.push(control.slot, Kept { control, slow: process.core.slow() });
            }
        }
        while let Some(kept) = process.waiting.ready(last_final, done) {
            process.kept.push(kept);
            if process.kept.len() > 3 {
                process.kept.remove(0);
            }
        }
    }

    fn campaign(&mut self, i: usize) {
        if self.holder != Some(i) {
            self.stand_down(i);
            return;
        }
        let now = self.now;
        let Role::Candidate(candidate) = &self.processes[i].role else { return };
        let at_end = candidate.follower.position() == self.control.len() as u64;
        let late = self.config.flaw == Some(Flaw::FenceLate);
        let epoch = candidate.epoch();
        if self.processes[i].fence_at.is_some_and(|at| at <= now && (!late || at_end)) {
            self.processes[i].fence_at = None;
            self.send(i, lead(epoch));
        }
        self.follow(i);
        if self.processes[i].fence_at.is_some() || self.violation.is_some() {
            return;
        }
        let Role::Candidate(candidate) = &self.processes[i].role else { return };
        match candidate.progress(now) {
            Progress::Waiting => {}
            Progress::Fenced => self.stand_down(i),
            progress => self.take_over(i, progress),
        }
    }

    fn stand_down(&mut self, i: usize) {
        let place = Role::nobody();
        let process = &mut self.processes[i];
        process.fence_at = None;
        process.role = match std::mem::replace(&mut process.role, place) {
            Role::Candidate(candidate) => Role::Follower(Box::new(candidate.into_follower())),
            other => other,
        };
    }

    fn take_over(&mut self, i: usize, progress: Progress) {
        let (now, first) = (self.now, self.first_partitions);
        let process = &mut self.processes[i];
        let place = Role::nobody();
        let Role::Candidate(candidate) = std::mem::replace(&mut process.role, place) else {
            return;
        };
        let levels = BTreeMap::from([("0".into(), Level(1)), ("2".into(), Level(2))]);
        let done = candidate.done();
        let mut leader = candidate.into_leader(now, &process.core.hash(), levels).unwrap();
        if leader.last_closed().is_none() {
            (0..first as u32).for_each(|p| leader.add_partition(p, 0, now));
        }
        process.outbox.again(done);
        process.waiting = Waiting::new(&self.config);
        tell!(self, "process {i} leads ({progress:?}) from slot {:?}", leader.last_closed());
        self.processes[i].role = Role::Leader(Box::new(leader));
    }

    fn lead(&mut self, i: usize) {
        let mut process = std::mem::replace(&mut self.processes[i], Process::new(&self.config));
        let Role::Leader(leader) = &mut process.role else { unreachable!("called for leaders") };
        let entries = if self.rng.percent(self.read_lag) { 0 } else { self.rng.range(1, 12) };
        for _ in 0..entries {
            if let Some(entry) = self.control.get(leader.position() as usize) {
                leader.entry(entry);
            }
        }
        if leader.is_fenced() {
            self.end_fenced(i, process);
            return;
        }
        if leader.turn(self.now, &mut count(&mut process.core.counts)) {
            process.core.counts.clear();
        }
        self.send_effects(i, leader, &mut process.outbox, &mut process.decided);
        if self.rng.percent(50) {
            self.close_slots(leader, &mut process.core, &mut process.outbox);
            self.poll(i, leader, &mut process.core);
        } else {
            self.poll(i, leader, &mut process.core);
            self.close_slots(leader, &mut process.core, &mut process.outbox);
        }
        self.propose(leader);
        while let Some(step) = leader.step(self.now) {
            self.send(i, Entry::Step(step));
        }
        let misplaced = leader.misplaced();
        self.processes[i] = process;
        if misplaced > 0 {
            self.bad("misplaced", format!("leader {i}"));
        }
        self.checkpoint(i);
    }

    fn end_fenced(&mut self, i: usize, mut process: Process) {
        self.tally.fenced += 1;
        tell!(self, "process {i} learns that it is fenced");
        if self.config.flaw == Some(Flaw::FencedStays) {
            let place = Role::nobody();
            if let Role::Leader(leader) = std::mem::replace(&mut process.role, place) {
                process.role = Role::Follower(Box::new(leader.into_follower()));
            }
            self.processes[i] = process;
        } else {
            self.processes[i] = process;
            self.crash(i);
        }
    }

    fn send_effects(
        &mut self,
        i: usize,
        leader: &mut Leader<u8>,
        outbox: &mut Outbox<u64>,
        decided: &mut BTreeMap<Slot, u64>,
    ) {
        while self.rng.percent(60)
            && let Some((slot, digest)) = outbox.send(leader.last_final())
        {
            let digest = *digest;
            decided.insert(slot, digest);
            if *self.effects.entry(slot).or_insert(digest) != digest {
                self.bad("decided differently", format!("process {i}, slot {}", slot.0));
            }
            leader.done(slot);
        }
        outbox.done(leader.last_done());
    }

    fn close_slots(&mut self, leader: &mut Leader<u8>, core: &mut Core, outbox: &mut Outbox<u64>) {
        for record in leader.records_due() {
            core.take(&record);
        }
        let Some(upto) = leader.closable(self.now) else { return };
        let mut last = leader.last_closed().unwrap_or_default();
        let few = self.rng.range(1, 12).unsigned_abs();
        let upto = Slot(upto.0.min(last.0 + few));
        while last < upto {
            let (slot, digest) = core.close(&leader.offsets_at(last.next()));
            assert_eq!(slot, last.next(), "core and clock are at the same slot");
            outbox.push(slot, digest.expect("a leader has rebuilt its windows"));
            self.tally.slots += 1;
            last = slot;
        }
        let decisions = self.rng.percent(25);
        leader.closed(upto, &core.hash(), decisions);
    }

    fn poll(&mut self, i: usize, leader: &mut Leader<u8>, core: &mut Core) {
        let now = self.now;
        let known: Vec<u32> = leader.partitions().collect();
        for p in known {
            if !leader.can_read(p) || !self.rng.percent(60) {
                continue;
            }
            if !self.readable(i, p as usize) {
                leader.failed(p, now);
                continue;
            }
            let Some(next) = leader.clock(p).map(crate::control::PartitionClock::next) else {
                continue;
            };
            let log = &self.logs[p as usize];
            let to = (next + self.rng.range(0, 15).unsigned_abs()).min(log.len() as u64);
            for offset in next..to {
                leader.read(p, log[offset as usize], &mut count(&mut core.counts));
            }
            let at_end = to == log.len() as u64;
            if at_end && self.ended[p as usize] {
                leader.ended(p, &mut count(&mut core.counts));
            }
            leader.answered(p, now, at_end);
        }
    }

    fn propose(&mut self, leader: &mut Leader<u8>) {
        let now = self.now;
        let hash = self.rules.to_string();
        if leader.rules_hash() != Some(&hash)
            && leader.last_closed().is_some()
            && self.rng.percent(50)
        {
            leader.propose(Control::Rules { text: String::new(), hash }).unwrap();
        }
        if self.rng.percent(1) {
            let room = self.rng.index(3).to_string();
            leader.propose(Control::Rebase { room, actor: "anna".into() }).unwrap();
        }
        if leader.partitions().count() < self.partitions && self.rng.percent(30) {
            let p = leader.partitions().count() as u32;
            leader.add_partition(p, 0, now);
        }
        if self.skip_next {
            let partition = self.rng.index(2) as u32;
            let Some(next) = leader.clock(partition).map(crate::control::PartitionClock::next)
            else {
                return;
            };
            let gone = self.logs[partition as usize].len() as u64;
            let to_offset = gone.min(next + 3);
            let skip = Control::Skip { partition, from_offset: next, to_offset };
            if leader.propose(skip).is_ok() {
                self.skip_next = false;
                self.tally.skips += 1;
                tell!(self, "the leader skips {next} to {to_offset} of partition {partition}");
            }
        }
    }
}
