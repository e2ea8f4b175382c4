//! Random partitions: mostly in order, with late, false and broken records.

use barrage_engine::control::Reading;
use barrage_protocol::event::Reason;

/// Where the streams begin: a slot's edge.
pub(crate) const BASE: i64 = 1_700_000_000_000;

/// Splitmix64.
pub(crate) struct Rng(pub(crate) u64);

impl Rng {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// Between `a` and `b`, both included.
    pub(crate) fn range(&mut self, a: i64, b: i64) -> i64 {
        a + (self.next() % (b - a + 1).unsigned_abs()).cast_signed()
    }

    pub(crate) fn percent(&mut self, p: i64) -> bool {
        self.range(0, 99) < p
    }
}

/// A stream of `n` records, payload = offset; offsets have gaps now and then.
pub(crate) fn random(rng: &mut Rng, n: usize, broker: bool) -> Vec<Reading<u64>> {
    let (mut offset, mut now) = (0, BASE);
    let wild = rng.range(0, 30);
    (0..n)
        .map(|_| {
            offset += 1 + if rng.percent(3) { rng.next() % 5 } else { 0 };
            now += if rng.percent(1) { rng.range(0, 8_000_000) } else { rng.range(0, 300) };
            let t = if rng.percent(wild) { wrong(rng, now) } else { Some(now - rng.range(0, 900)) };
            let event = match t {
                None => Err(Reason::Json),
                Some(_) if rng.percent(3) => Err(Reason::RoomMissing),
                Some(_) => Ok(offset),
            };
            // The broker's clock may step back a little, when a partition gets another leader.
            let append_ms = broker.then_some(now - if rng.percent(2) { 50 } else { 0 });
            Reading { offset, append_ms, t, event }
        })
        .collect()
}

fn wrong(rng: &mut Rng, now: i64) -> Option<i64> {
    match rng.range(0, 6) {
        0 => None,
        1 => Some(now - rng.range(0, 20_000)),
        2 => Some(now + rng.range(0, 5_000)),
        3 => Some(now - rng.range(0, 9_000_000)),
        4 => Some(now + rng.range(0, 9_000_000)),
        5 => Some(100_000_000_000 + rng.range(0, 10_000_000)),
        _ => Some(4_000_000_000_000 + rng.range(0, 10_000_000)),
    }
}
