//! What must hold when a world has come to rest.

use crate::control::{Flaw, Follower, Status};
use crate::process::{Process, Role};
use crate::world::{EPOCH, Tally, Violation, World};
use barrage_protocol::control::{Control, Entry, Step};
use barrage_protocol::ids::Slot;

/// Runs one seed.
pub(crate) fn of(seed: u64, flaw: Option<Flaw>, told: bool) -> (Option<Violation>, Tally) {
    let mut world = World::new(seed, flaw, told);
    let midst = world.run();
    if world.violation.is_none() {
        world.check_leader(midst);
    }
    if world.violation.is_none() {
        world.settle();
    }
    if world.violation.is_none() {
        world.replay();
    }
    (world.violation, world.tally)
}

impl World {
    /// Faults have stopped: there is a leader, slots go on closing, followers follow.
    fn check_leader(&mut self, (midst, closed_then): (i64, Option<Slot>)) {
        let holder = self.holder.filter(|i| matches!(self.processes[*i].role, Role::Leader(_)));
        let Some(i) = holder else { return self.bad("no leader", String::new()) };
        let Role::Leader(leader) = &self.processes[i].role else { return };
        let Some(closed) = leader.last_closed() else {
            if self.logs.iter().any(|log| log.len() > 20) {
                self.bad("never started", String::new());
            }
            return;
        };
        let late =
            leader.partitions().filter_map(|p| leader.counters(p)).map(|c| c.late).sum::<u64>();
        // Where nothing can be read, nothing closes: silence of the machinery is no calm.
        let may_rest = (0..self.partitions).all(|p| self.ended[p] || !self.readable(i, p));
        let due = ((self.now - midst) / 100).unsigned_abs();
        // Own times may run ahead of the world's; slots then wait for it.
        let behind = closed.0 + 15 < Slot::of_ms(EPOCH + self.now).0;
        if behind && closed.0 + 15 < closed_then.map_or(0, |s| s.0) + due && !may_rest {
            let states: Vec<_> = leader
                .partitions()
                .map(|p| (p, leader.status(p), leader.clock(p).and_then(|c| c.watermark())))
                .collect();
            let detail = format!("leader {i}: {closed_then:?} then, {closed:?} now; {states:?}");
            return self.bad("stalls", detail);
        }
        let astray = leader.partitions().find(|p| {
            let status = leader.status(*p);
            let absent = status == Some(Status::Absent);
            status != Some(Status::Ended) && absent == self.readable(i, *p as usize)
        });
        if let Some(p) = astray {
            let detail = format!("partition {p}: {:?}", leader.status(p));
            return self.bad("absent and readable, or neither", detail);
        }
        let wrong = leader.partitions().find_map(|p| {
            let c = leader.counters(p)?;
            let sum = c.in_slot + c.late + c.rejected + c.skipped + c.overflow + c.held;
            let whole = c.read == sum && c.rejected == c.reasons.values().sum::<u64>();
            (!whole).then(|| format!("partition {p}: {c:?}"))
        });
        if let Some(detail) = wrong {
            return self.bad("does not add up", detail);
        }
        self.tally.late += late;
        // Steps that have been in the log for two seconds are taken.
        let old = self.written_at.partition_point(|at| *at <= self.now - 2_000);
        let steps = self.control[..old].iter().filter_map(|entry| match entry {
            Entry::Step(step) if step.epoch == leader.epoch() => Some(step.slot),
            _ => None,
        });
        let taken = steps.max();
        let behind = (0..3).find(|j| match &self.processes[*j].role {
            Role::Follower(f) => f.last_closed() < taken,
            _ => false,
        });
        if self.calm_kind < 6
            && let Some(j) = behind
        {
            self.bad("follower falls behind", format!("process {j}, leader at {closed:?}"));
        }
    }

    /// Followers take what is there.
    fn settle(&mut self) {
        self.open_all();
        for i in 0..3 {
            if self.processes[i].alive && matches!(self.processes[i].role, Role::Follower(_)) {
                self.let_act(i, 400);
            }
        }
    }

    fn steps(&self) -> impl Iterator<Item = &Step> {
        // What readers hold to: the entries that a reader does not drop.
        let mut reader = crate::control::Reader::at(0);
        let config = crate::world::config(None);
        self.control.iter().filter_map(move |entry| {
            let holds = reader.take(&config, entry);
            match entry {
                Entry::Step(step) if holds => Some(step),
                _ => None,
            }
        })
    }

    /// A replay from the first start comes to the same, whoever decided.
    fn replay(&mut self) {
        self.processes.push(Process::new(&self.config));
        self.let_act(3, 100);
        let Some(last) = self.steps().last().cloned() else { return };
        // What a break may lose: the effects between what was out by then and its slot.
        let starts =
            |s: &&Step| s.records.iter().any(|r| matches!(r.control, Control::Start { .. }));
        let breaks: Vec<(Slot, Slot)> =
            self.steps().filter(starts).skip(1).map(|s| (s.done, s.slot)).collect();
        for _ in 0..200 {
            if self.violation.is_some() {
                return;
            }
            self.let_act(3, 50);
            if self.replayed().is_up_to_date()
                && self.replayed().position() == self.control.len() as u64
            {
                break;
            }
        }
        self.tally.dropped += self.replayed().reader().dropped;
        if self.replayed().last_closed() != Some(last.slot) {
            let at = self.replayed().last_closed();
            return self.bad("replay stops", format!("at {at:?}, last step {:?}", last.slot));
        }
        let replayed = self.processes[3].decided.clone();
        for i in 0..3 {
            let differs = self.processes[i].decided.range(..=last.slot);
            let differs =
                differs.filter(|(s, d)| replayed.get(s) != Some(d)).map(|(s, _)| *s).next();
            if let Some(slot) = differs {
                return self.bad("logs differ", format!("process {i}, slot {}", slot.0));
            }
        }
        let differs = self.effects.range(..=last.slot).find(|(s, d)| replayed.get(s) != Some(d));
        if let Some((slot, _)) = differs {
            let detail = format!("slot {}", slot.0);
            return self.bad("effects differ", detail);
        }
        let lost = replayed.keys().find(|s| {
            let broken = breaks.iter().any(|(done, last)| done < *s && *s <= last);
            **s <= last.done && !self.effects.contains_key(s) && !broken
        });
        if let Some(slot) = lost {
            let detail = format!("slot {}, done {}", slot.0, last.done.0);
            self.bad("effects lost", detail);
        }
    }

    fn replayed(&self) -> &Follower<u8> {
        match &self.processes[3].role {
            Role::Follower(follower) => follower,
            _ => unreachable!("a replay follows"),
        }
    }
}

impl Tally {
    fn fields(&self) -> [(&'static str, u64); 12] {
        [
            ("slots closed", self.slots),
            ("steps", self.steps),
            ("elections", self.elections),
            ("starts and breaks", self.breaks),
            ("jumps", self.jumps),
            ("restores", self.restores),
            ("crashes", self.crashes),
            ("fenced", self.fenced),
            ("dropped", self.dropped),
            ("late", self.late),
            ("absent", self.absent),
            ("skips", self.skips),
        ]
    }

    pub(crate) fn add(&mut self, other: &Self) {
        self.slots += other.slots;
        self.steps += other.steps;
        self.elections += other.elections;
        self.breaks += other.breaks;
        self.jumps += other.jumps;
        self.restores += other.restores;
        self.crashes += other.crashes;
        self.fenced += other.fenced;
        self.dropped += other.dropped;
        self.late += other.late;
        self.absent += other.absent;
        self.skips += other.skips;
    }

    /// The model has been where it is meant to go.
    pub(crate) fn check(&self, seeds: u64) {
        if seeds >= 1_000 {
            for (name, n) in self.fields() {
                assert!(n > 0, "no {name} in {seeds} seeds");
            }
            assert!(self.breaks > seeds, "no breaks in {seeds} seeds");
        }
    }
}

impl std::fmt::Display for Tally {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let parts: Vec<String> =
            self.fields().iter().map(|(name, n)| format!("{n} {name}")).collect();
        f.write_str(&parts.join(", "))
    }
}
