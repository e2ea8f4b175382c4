//! The seeded input of a case: eight partitions of records with the broker's time, and rules quick enough to move.

use std::fmt::Write;

/// Partitions of a case.
pub(crate) const PARTITIONS: u32 = 8;
/// When the first record is appended.
pub(crate) const T0: i64 = 1_700_000_000_000;

/// A small generator of random numbers (splitmix64).
pub(crate) struct Random(pub u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A number from `low` up to, not including, `high`.
    pub(crate) fn within(&mut self, low: i64, high: i64) -> i64 {
        low + (self.next() % (high - low).max(1) as u64) as i64
    }
}

/// A record of a topic.
#[derive(Clone)]
pub(crate) struct Stored {
    pub(crate) append_ms: i64,
    pub(crate) value: Vec<u8>,
}

/// A whole case.
pub(crate) struct Case {
    pub(crate) seed: u64,
    /// Per partition, its records in order.
    pub(crate) partitions: Vec<Vec<Stored>>,
    /// The partition that cannot be read, from when to when.
    pub(crate) outage: (u32, i64, i64),
    /// The partition that falls silent, from when to when.
    pub(crate) silence: (u32, i64, i64),
    /// When the second rule set comes into force.
    pub(crate) second_rules_at: i64,
    /// When the run ends.
    pub(crate) end: i64,
}

/// A room's traffic: events per second, multiplied while a burst is on.
struct Room {
    name: String,
    rate: i64,
    bursts: Vec<(i64, i64, i64)>,
    partition: u32,
}

impl Case {
    pub(crate) fn new(seed: u64) -> Self {
        let mut random = Random(seed.wrapping_mul(0x5851_F42D_4C95_7F2D));
        let seconds = random.within(62, 84);
        let end = T0 + seconds * 1000;
        let rooms: Vec<Room> = (0..10).map(|n| room(&mut random, n, seconds)).collect();
        let from = T0 + random.within(44_000, 50_000);
        let outage = (random.within(0, 8) as u32, from, from + random.within(4_500, 7_000));
        let quiet = T0 + random.within(20_000, 40_000);
        let other = (outage.0 + 1 + random.within(0, 7) as u32) % PARTITIONS;
        let silence = (other, quiet, quiet + random.within(3_000, 6_000));
        let mut case = Self {
            seed,
            partitions: vec![Vec::new(); PARTITIONS as usize],
            outage,
            silence,
            second_rules_at: T0 + random.within(42_000, 56_000),
            end,
        };
        for ms in (0..seconds * 1000).step_by(20) {
            case.tick(&mut random, &rooms, ms);
        }
        case
    }

    /// What is appended in the 20 ms from `ms` on.
    fn tick(&mut self, random: &mut Random, rooms: &[Room], ms: i64) {
        for room in rooms {
            let burst = room.bursts.iter().find(|(from, to, _)| (*from..*to).contains(&ms));
            let rate = room.rate * burst.map_or(1, |b| b.2);
            let many = rate / 50 + i64::from(random.within(0, 50) < rate % 50);
            for _ in 0..many {
                let append = T0 + ms + random.within(0, 20);
                let late = match random.within(0, 200) {
                    0 => random.within(2_600, 6_000),
                    1 => random.within(11_000, 50_000),
                    2 => -random.within(1_500, 9_000),
                    3..20 => random.within(0, 450),
                    _ => random.within(0, 60),
                };
                let mut value = String::new();
                let class = ["chat", "gift", "command", "heartbeat"][random.within(0, 4) as usize];
                let ts = append - late;
                let _ = write!(value, r#"{{"room":"{}","ts":{ts},"class":"{class}"}}"#, room.name);
                // Most rooms stay on one partition, some wander.
                let p = match random.within(0, 10) {
                    0 => random.within(0, 8) as u32,
                    _ => room.partition,
                };
                self.append(p, append, value.into_bytes());
            }
        }
        for p in 0..PARTITIONS {
            if random.within(0, 25) == 0 {
                let append = T0 + ms + random.within(0, 20);
                let garbage = [&b"{"[..], b"[]", b"\xff\xfe", b"{\"room\":\"x\"}"];
                self.append(p, append, garbage[random.within(0, 4) as usize].to_vec());
            }
        }
    }

    fn append(&mut self, p: u32, append_ms: i64, value: Vec<u8>) {
        if p == self.silence.0 && (self.silence.1..self.silence.2).contains(&append_ms) {
            return;
        }
        let log = &mut self.partitions[p as usize];
        // A broker's clock does not go back within a partition.
        let append_ms = log.last().map_or(append_ms, |last| append_ms.max(last.append_ms));
        log.push(Stored { append_ms, value });
    }

    /// The rule set, the first or the second.
    pub(crate) fn rules(&self, second: bool) -> String {
        let (count, ratio) = if second { (60, "0.7") } else { (90, "1.0") };
        format!(
            r#"schema = 1
plan = ["likes", "effects", "badges", "rank"]
[ladder]
min_dwell = "1s"
step_every = "1s"
max_moves_per_10m = 2
blast = {{ min = 1, max_share = 0.1, within = "10s", lift_ratio = 50.0 }}
frozen = {{ max = "30s", alarm = "4s" }}
[[rule]]
id = "burst"
kind = "burst"
version = {count}
trigger = {{ ratio_exit = 0.5, min_count_60s = {count}, z = 2.0 }}
steps = [ {{ level = 1, ratio = {ratio} }}, {{ level = 2, ratio = 2.0 }}, {{ level = 3, ratio = 4.0 }} ]
hold = {{ enter_ticks = 2, exit_ticks = 8 }}
[[rule]]
id = "fast"
kind = "fast"
trigger = {{ ratio = 3.0, min_count_1s = 25 }}
steps = [ {{ level = 1 }} ]
hold = {{ enter_ticks = 1, exit_ticks = 8 }}
[[rule]]
id = "rate"
kind = "rate"
trigger = {{ window = "1s", enter = 45, exit = 20 }}
steps = [ {{ level = 2 }} ]
hold = {{ enter_ticks = 1, exit_ticks = 6 }}
[[rule]]
id = "surge"
kind = "surge"
trigger = {{ c = 8 }}
[[rule]]
id = "micro"
kind = "micro"
trigger = {{ ratio = 3.0, min_rate = 80 }}
hold = {{ exit_ticks = 10 }}
"#
        )
    }
}

fn room(random: &mut Random, n: i64, seconds: i64) -> Room {
    let mut bursts = Vec::new();
    let mut at = random.within(41_500, 52_000);
    while at < seconds * 1000 {
        let long = random.within(300, 5_000);
        bursts.push((at, at + long, random.within(3, 14)));
        at += long + random.within(1_500, 9_000);
    }
    Room {
        name: format!("room-{n}"),
        rate: random.within(2, 9),
        bursts,
        partition: random.within(0, 8) as u32,
    }
}
