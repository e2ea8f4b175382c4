//! Event streams for the tests, as counts by slot and partition, and how a host is fed with them.

use barrage::worker::Host;
use barrage_dataflows::command::Options;
use barrage_engine::precount::Record;
use barrage_engine::rules::RuleSet;
use barrage_protocol::decision::Decision;
use barrage_protocol::ids::{Class, Outcome, RoomKey, Slot};
use std::collections::BTreeMap;
use std::sync::Arc;

/// First slot of every stream: a round ten seconds, far from zero.
pub(crate) const START: u64 = 17_000_000_000;

/// splitmix64: small, seeded, the same everywhere.
#[derive(Clone, Debug)]
pub(crate) struct Rng(pub(crate) u64);

impl Rng {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A number below `n`.
    pub(crate) fn below(&mut self, n: u64) -> u64 {
        self.next() % n.max(1)
    }
}

/// Counts of a room in a slot from a partition.
type Cell = (u64, u32, String);

/// A stream of events, kept as counts.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stream {
    cells: BTreeMap<Cell, BTreeMap<(Class, Outcome), u32>>,
    /// The last slot, events or not.
    pub(crate) end: u64,
}

impl Stream {
    pub(crate) fn add(&mut self, slot: u64, partition: u32, room: &str, class: Class, n: u32) {
        self.add_with(slot, partition, room, (class, Outcome::Ok), n);
    }

    pub(crate) fn add_with(
        &mut self,
        slot: u64,
        partition: u32,
        room: &str,
        what: (Class, Outcome),
        n: u32,
    ) {
        if n > 0 {
            let cell = self.cells.entry((slot, partition, room.to_owned())).or_default();
            *cell.entry(what).or_default() += n;
            self.end = self.end.max(slot);
        }
    }

    /// Events of each segment (events per second, milliseconds) evenly: event k of a segment at floor(k · 1000 / rate)
    /// ms after its start. The first segment starts at `at` ms after [`START`]. Returns the end.
    pub(crate) fn steady(&mut self, room: &str, at: u64, segments: &[(u64, u64)]) -> u64 {
        let mut from = at;
        for &(rate, ms) in segments {
            for k in 0.. {
                let t = (k * 1000_u64).checked_div(rate).unwrap_or(ms);
                if t >= ms {
                    break;
                }
                self.add(START + (from + t) / 100, 0, room, Class::Chat, 1);
            }
            from += ms;
        }
        self.end = self.end.max(START + (from - 1) / 100);
        from
    }

    /// Records of a slot by partition.
    pub(crate) fn records(&self, slot: u64) -> BTreeMap<u32, Vec<(String, Record)>> {
        let mut out: BTreeMap<u32, Vec<(String, Record)>> = BTreeMap::new();
        let range = (slot, 0, String::new())..(slot + 1, 0, String::new());
        for ((_, partition, room), counts) in self.cells.range(range) {
            let records = out.entry(*partition).or_default();
            let mut left = counts.clone();
            while left.values().any(|n| *n > 0) {
                let mut record = Record {
                    room: RoomKey::of(room),
                    partitions: 1 << (partition % 32),
                    ..Record::default()
                };
                for ((class, outcome), n) in &mut left {
                    // Small counters on purpose: several records of one room and slot must add up.
                    let part = (*n).min(40_000) as u16;
                    let class = &mut record.classes[*class as usize];
                    let part = part.min(u16::MAX - *class);
                    *class += part;
                    if *outcome != Outcome::Ok {
                        record.outcomes[*outcome as usize - 1] += part;
                    }
                    *n -= u32::from(part);
                }
                records.push((room.clone(), record));
            }
        }
        out
    }

    /// All records of a slot.
    pub(crate) fn all(&self, slot: u64) -> Vec<(String, Record)> {
        self.records(slot).into_values().flatten().collect()
    }
}

/// What a run yields: every decision, in order of slots and canonical within each.
pub(crate) type Log = Vec<Decision>;

/// Feeds a slot's counts, each record to a worker drawn by `rng`.
pub(crate) fn feed(host: &mut Host, stream: &Stream, slot: u64, rng: &mut Rng) {
    let mut parts: BTreeMap<u32, (Vec<Record>, Vec<_>)> = BTreeMap::new();
    for (room, record) in stream.all(slot) {
        let part = parts.entry(rng.below(4) as u32).or_default();
        part.1.push((record.room, room.into_boxed_str()));
        part.0.push(record);
    }
    for (part, (records, names)) in parts {
        host.counts(part, Slot(slot), records, names).unwrap();
    }
}

/// Runs slots `from..=upto`, `batch` slots to a close (0: a random number each time).
pub(crate) fn run(
    host: &mut Host,
    stream: &Stream,
    (from, upto): (u64, u64),
    batch: u64,
    rng: &mut Rng,
) -> Log {
    let mut log = Vec::new();
    let mut next = from;
    while next <= upto {
        let n = if batch == 0 { 1 + rng.below(200) } else { batch };
        let last = (next + n - 1).min(upto);
        for slot in next..=last {
            feed(host, stream, slot, rng);
        }
        log.extend(host.close(Slot(last)).unwrap().into_iter().flat_map(|(_, ds)| ds));
        next = last + 1;
    }
    log
}

/// Decisions of a whole stream on so many workers, followed by `quiet` silent slots.
pub(crate) fn decide(
    stream: &Stream,
    rules: &Arc<RuleSet>,
    workers: usize,
    batch: u64,
    quiet: u64,
) -> Log {
    let mut host =
        Host::start(workers, Slot(START), Arc::clone(rules), Options::default()).unwrap();
    let mut rng = Rng(workers as u64 * 1_000 + batch);
    let log = run(&mut host, stream, (START, stream.end + quiet), batch, &mut rng);
    host.stop().unwrap();
    log
}

/// Canonical bytes of a log.
pub(crate) fn bytes(log: &[Decision]) -> Vec<String> {
    log.iter().map(|d| barrage_engine::decision::canonical(d).unwrap()).collect()
}
