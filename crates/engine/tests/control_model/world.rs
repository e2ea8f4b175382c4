//! The world around the processes: partitions, the control log and the way to it, elections, faults.

use crate::control::{Checkpoint, Config, Flaw, Reading};
use crate::core::{ROOMS, Slow, WINDOW, mix};
use crate::process::{Process, Role};
use barrage_protocol::control::{Control, Entry};
use barrage_protocol::event::Reason;
use barrage_protocol::ids::Slot;
use std::collections::BTreeMap;

/// Event time at the monotonic time 0.
pub(crate) const EPOCH: i64 = 1_000_000;
/// What a clock shows that has stopped long ago.
const PAST: i64 = EPOCH - 20_000;
/// Most partitions.
pub(crate) const PARTITIONS: usize = 4;
/// A checkpoint is taken so often, in milliseconds.
pub(crate) const CHECKPOINT_EVERY: i64 = 1_200;
/// A leader that did nothing for so long loses its lease.
const LEASE: i64 = 600;

pub(crate) struct Rng(pub(crate) u64);

impl Rng {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        mix(self.0)
    }

    /// Between `a` and `b`, both included.
    pub(crate) fn range(&mut self, a: i64, b: i64) -> i64 {
        a + (self.next() % (b - a + 1).unsigned_abs()).cast_signed()
    }

    pub(crate) fn percent(&mut self, p: i64) -> bool {
        self.range(0, 99) < p
    }

    pub(crate) fn index(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }
}

/// A checkpoint as a process keeps it.
#[derive(Clone)]
pub(crate) struct Kept {
    pub(crate) control: Checkpoint<u8>,
    pub(crate) slow: Slow,
}

struct Message {
    at: i64,
    from: usize,
    entry: Entry,
}

/// What was found wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Violation {
    pub(crate) kind: &'static str,
    pub(crate) detail: String,
}

#[derive(Default)]
pub(crate) struct Tally {
    pub(crate) slots: u64,
    pub(crate) steps: u64,
    pub(crate) elections: u64,
    pub(crate) breaks: u64,
    pub(crate) jumps: u64,
    pub(crate) restores: u64,
    pub(crate) crashes: u64,
    pub(crate) fenced: u64,
    pub(crate) dropped: u64,
    pub(crate) late: u64,
    pub(crate) absent: u64,
    pub(crate) skips: u64,
}

pub(crate) struct World {
    pub(crate) now: i64,
    pub(crate) rng: Rng,
    pub(crate) config: Config,
    pub(crate) logs: Vec<Vec<Reading<u8>>>,
    own_time: [bool; PARTITIONS],
    pub(crate) ended: [bool; PARTITIONS],
    pub(crate) partitions: usize,
    pub(crate) first_partitions: usize,
    pub(crate) control: Vec<Entry>,
    /// When each entry came into the log.
    pub(crate) written_at: Vec<i64>,
    net: Vec<Message>,
    pub(crate) processes: Vec<Process>,
    pub(crate) holder: Option<usize>,
    epoch: u64,
    unreadable: [i64; PARTITIONS],
    unreadable_for: Vec<(usize, usize, i64)>,
    write_delay: i64,
    pub(crate) read_lag: i64,
    pub(crate) rules: u64,
    pub(crate) effects: BTreeMap<Slot, u64>,
    pub(crate) violation: Option<Violation>,
    pub(crate) told: bool,
    mode: [(i64, u8); PARTITIONS],
    pub(crate) calm: bool,
    pub(crate) calm_kind: i64,
    pub(crate) skip_next: bool,
    pub(crate) tally: Tally,
}

/// Prints a line of the story, where one is asked for.
macro_rules! tell {
    ($world:expr, $($what:tt)*) => {
        if $world.told {
            println!("{:>6} {}", $world.now, format_args!($($what)*));
        }
    };
}
pub(crate) use tell;

pub(crate) fn config(flaw: Option<Flaw>) -> Config {
    Config {
        late_max_ms: 2_000,
        skew_max_ms: 300,
        lag_max_ms: 600,
        out_of_order_ms: 200,
        jump_max_ms: 2_500,
        start_need: 3,
        start_of: 6,
        parked: 3,
        idle_after_ms: 400,
        absent_after_ms: 1_500,
        break_after_ms: 3_000,
        step_every_ms: 500,
        ahead_ms: 5_000,
        window_slots: WINDOW,
        in_flight: 3,
        flaw,
    }
}

impl World {
    pub(crate) fn new(seed: u64, flaw: Option<Flaw>, told: bool) -> Self {
        let mut rng = Rng(seed.wrapping_mul(0x5851_F42D_4C95_7F2D) ^ 77);
        let own_time = std::array::from_fn(|p| p > 0 && rng.percent(20));
        let processes = (0..3).map(|_| Process::new(&config(flaw))).collect();
        let mut world = Self {
            now: 10_000,
            rng,
            config: config(flaw),
            logs: vec![Vec::new(); PARTITIONS],
            own_time,
            ended: [false; PARTITIONS],
            partitions: 2,
            first_partitions: 2,
            control: Vec::new(),
            written_at: Vec::new(),
            net: Vec::new(),
            processes,
            holder: None,
            epoch: 0,
            unreadable: [0; PARTITIONS],
            unreadable_for: Vec::new(),
            write_delay: 40,
            read_lag: 30,
            rules: 1,
            effects: BTreeMap::new(),
            violation: None,
            told,
            mode: [(25, 0); PARTITIONS],
            calm: false,
            calm_kind: 0,
            skip_next: false,
            tally: Tally::default(),
        };
        let up_at = world.now + world.rng.range(3_000, 15_000);
        world.processes[2].sleep_until(up_at);
        world
    }

    pub(crate) fn bad(&mut self, kind: &'static str, detail: String) {
        if self.violation.is_none() {
            tell!(self, "VIOLATION {kind}: {detail}");
            self.violation = Some(Violation { kind, detail });
        }
    }

    pub(crate) fn readable(&self, process: usize, p: usize) -> bool {
        let now = self.now;
        self.unreadable[p] <= now
            && !self.unreadable_for.iter().any(|(i, q, to)| (*i, *q) == (process, p) && *to > now)
    }

    /// Sends an entry to the log; those of one process stay in order.
    pub(crate) fn send(&mut self, from: usize, entry: Entry) {
        let delay = self.rng.range(10, self.write_delay);
        let last = self.net.iter().filter(|m| m.from == from).map(|m| m.at).max();
        let at = last.unwrap_or(0).max(self.now + delay);
        tell!(self, "process {from} sends {entry:?}");
        self.net.push(Message { at, from, entry });
    }

    fn deliver(&mut self) {
        let now = self.now;
        while let Some(i) = (0..self.net.len()).min_by_key(|i| (self.net[*i].at, *i))
            && self.net[i].at <= now
        {
            let message = self.net.remove(i);
            if let Entry::Step(step) = &message.entry {
                self.tally.steps += 1;
                for record in &step.records {
                    match record.control {
                        Control::Start { .. } => self.tally.breaks += 1,
                        Control::Absent { .. } => self.tally.absent += 1,
                        _ => {}
                    }
                }
            }
            // An acknowledgement may get lost, and the client write twice.
            if self.rng.percent(2) {
                self.control.push(message.entry.clone());
            }
            self.control.push(message.entry);
            self.written_at.resize(self.control.len(), now);
        }
    }

    fn elect(&mut self) {
        let now = self.now;
        let is_lost = match self.holder {
            None => true,
            Some(i) => {
                let p = &self.processes[i];
                !p.alive || now - p.acted_at > LEASE || matches!(p.role, Role::Follower(_))
            }
        };
        if !is_lost || !self.rng.percent(15) {
            return;
        }
        let able: Vec<usize> = (0..3).filter(|i| self.processes[*i].can_run(now)).collect();
        if able.is_empty() {
            return;
        }
        let i = able[self.rng.index(able.len())];
        self.epoch += 1;
        self.holder = Some(i);
        self.tally.elections += 1;
        tell!(self, "process {i} is elected, epoch {}", self.epoch);
        let (epoch, delay) = (self.epoch, self.rng.range(0, 200));
        self.processes[i].elected(epoch, now, now + delay);
    }

    fn generate(&mut self) {
        for p in 0..self.partitions {
            if self.ended[p] {
                continue;
            }
            if !self.calm && self.rng.percent(3) {
                self.mode[p] = match self.rng.range(0, 7) {
                    0 | 1 => (0, 0),
                    2 => (3, 0),
                    3 => (60, 0),
                    4 => (20, 1),
                    5 => (10, 2),
                    6 => (25, 3),
                    _ => (25, 0),
                };
            }
            let (rate, kind) = self.mode[p];
            for _ in 0..4 {
                if !self.rng.percent(rate) {
                    break;
                }
                let reading = self.event(p, kind);
                self.logs[p].push(reading);
            }
        }
    }

    /// `kind`: 0 mostly good, 1 half garbage, 2 garbage alone, 3 false clocks.
    fn event(&mut self, p: usize, kind: u8) -> Reading<u8> {
        let append = EPOCH + self.now;
        // False clocks that agree with each other are believed where there is no broker's; here they do not.
        let future = -4_000_000_000_000 - self.rng.range(0, 1_000_000_000_000);
        let behind = match self.rng.range(0, 19) {
            0 => self.rng.range(0, 800),
            1 => self.rng.range(0, 1_900),
            2 => -self.rng.range(0, 400),
            3 => self.rng.range(-4_000, 4_000),
            4 if self.rng.percent(30) => append - PAST,
            5 if self.rng.percent(30) => future,
            _ => self.rng.range(0, 180),
        };
        let behind = match kind {
            3 if self.rng.percent(40) => [append - PAST, future][self.rng.index(2)],
            _ => behind,
        };
        let garbage = kind == 2 || kind == 1 && self.rng.percent(50);
        let room = self.rng.index(ROOMS) as u8;
        let event = match self.rng.range(0, 49) {
            _ if garbage => Err(Reason::Json),
            0 => Err(Reason::RoomMissing),
            _ => Ok(room),
        };
        Reading {
            offset: self.logs[p].len() as u64,
            append_ms: (!self.own_time[p]).then_some(append),
            t: (!garbage).then_some(append - behind),
            event,
        }
    }

    fn fault(&mut self) {
        let leader = self.leader();
        let any = self.rng.index(3);
        let p = self.rng.index(self.partitions);
        match self.rng.range(0, 13) {
            0 | 1 => leader.into_iter().for_each(|i| self.crash(i)),
            2 | 3 => {
                if let Some(i) = leader {
                    let ms = self.rng.range(100, 4_000);
                    self.processes[i].paused_to = self.now + ms;
                    tell!(self, "process {i} stands still for {ms} ms");
                }
            }
            4 => self.crash(any),
            5 | 6 => {
                let ms = self.rng.range(200, 6_000);
                self.unreadable[p] = self.now + ms;
                tell!(self, "partition {p} cannot be read for {ms} ms");
            }
            7 => {
                let ms = self.rng.range(200, 6_000);
                self.unreadable_for.push((any, p, self.now + ms));
                tell!(self, "partition {p} cannot be read by process {any} for {ms} ms");
            }
            8 => {
                self.rules += 1;
                tell!(self, "rules {}", self.rules);
            }
            9 => {
                if self.partitions < PARTITIONS {
                    self.partitions += 1;
                    tell!(self, "a partition is added");
                }
            }
            10 => self.write_delay = self.rng.range(10, 600),
            11 => {
                self.mode = [(0, 0); PARTITIONS];
                tell!(self, "silence");
            }
            12 => self.skip_next = true,
            _ => {
                if p > 0 && self.rng.percent(50) {
                    self.ended[p] = true;
                    tell!(self, "partition {p} ends");
                }
            }
        }
    }

    pub(crate) fn leader(&self) -> Option<usize> {
        (0..3).find(|i| {
            self.processes[*i].alive && !matches!(self.processes[*i].role, Role::Follower(_))
        })
    }

    pub(crate) fn crash(&mut self, i: usize) {
        if !self.processes[i].alive {
            return;
        }
        self.tally.crashes += 1;
        let up_at = self.now + self.rng.range(50, 2_000);
        tell!(self, "process {i} crashes");
        self.processes[i].crash(up_at);
    }

    /// Faults stop; what goes on depends on the seed.
    fn calm_down(&mut self) {
        self.calm = true;
        self.write_delay = 50;
        self.read_lag = 20;
        self.unreadable = [0; PARTITIONS];
        self.unreadable_for.clear();
        let kind = self.calm_kind;
        for p in 0..PARTITIONS {
            self.mode[p] = match kind {
                0 => (0, 0),
                1 => (30, if p == 0 { 2 } else { 0 }),
                2 => (2, 0),
                3 => (if p == 0 { 30 } else { 0 }, 0),
                4 => (8, 2),
                7 | 9 if p > 0 => (0, 0),
                _ => (30, 0),
            };
        }
        if kind >= 6 {
            self.unreadable[0] = i64::MAX;
        }
        if kind >= 8
            && let Some(i) = self.leader()
        {
            self.crash(i);
        }
        self.processes.iter_mut().for_each(|p| p.paused_to = 0);
        tell!(self, "calm, kind {kind}");
    }

    /// Lets the world run with faults, then calm. Returns the slot closed by the leader in the midst of the calm, and
    /// when.
    pub(crate) fn run(&mut self) -> (i64, Option<Slot>) {
        let short = self.rng.percent(50);
        let (length, most) = if short { (8_000, 3) } else { (30_000, 9) };
        let number = self.rng.range(i64::from(!short), most);
        let end = 10_000 + length;
        let mut faults: Vec<i64> =
            (0..number).map(|_| self.rng.range(10_500, end - 1_000)).collect();
        faults.sort_unstable_by(|a, b| b.cmp(a));
        self.calm_kind = self.rng.range(0, 9);
        let mut dusk = [0, 3].contains(&self.calm_kind);
        let mut midst = None;
        while self.violation.is_none() && self.now < end + 20_000 {
            self.now += self.rng.range(10, 30);
            while faults.last().is_some_and(|at| *at <= self.now) {
                faults.pop();
                self.fault();
            }
            if dusk && self.now > end - 2_500 {
                // Silence follows: whoever is absent then is back without a record.
                dusk = false;
                self.unreadable[1..].fill(end);
            }
            if !self.calm && self.now > end {
                self.calm_down();
            }
            self.generate();
            self.deliver();
            self.elect();
            for i in 0..3 {
                if self.rng.percent(60) {
                    self.act(i);
                }
            }
            if midst.is_none() && self.now > end + 10_000 {
                let closed = self.processes.iter().filter_map(|p| match &p.role {
                    Role::Leader(leader) => leader.last_closed(),
                    _ => None,
                });
                midst = Some((self.now, closed.max()));
            }
        }
        midst.unwrap_or((self.now, None))
    }

    /// Everything can be read from now on.
    pub(crate) fn open_all(&mut self) {
        self.unreadable = [0; PARTITIONS];
        self.read_lag = 0;
    }

    /// The only one to act is `i`, for a while.
    pub(crate) fn let_act(&mut self, i: usize, rounds: usize) {
        for _ in 0..rounds {
            self.now += 20;
            self.act(i);
        }
    }
}
