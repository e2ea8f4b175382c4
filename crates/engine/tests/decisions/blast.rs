//! The blast radius (semantics §4): how many rooms automation may raise to level 2 and above, and which.

use crate::fixture::{Rng, ladder, shipped};
use crate::twin::Twin;
use barrage_engine::blast::{Arbiter, Grant, Request, SiteTotals, cap};
use barrage_engine::fixed::Fixed;
use barrage_engine::room::{self, Context, State};
use barrage_engine::rules::{Config, Ladder, Trigger};
use barrage_protocol::decision::{Decision, Kind, Value};
use barrage_protocol::ids::{Level, RoomKey, Slot};
use std::collections::BTreeSet;

const START: u64 = 1_000_000;

/// Rooms of one site, each with its own windows, and one arbiter.
struct Site {
    config: Config,
    rooms: Vec<(String, Twin, State)>,
    arbiter: Arbiter,
    slot: u64,
}

impl Site {
    fn new(rooms: usize) -> Self {
        let mut config = shipped();
        for rule in &mut config.rules {
            if let Trigger::Burst(burst) = &mut rule.trigger {
                burst.min_count_60s = 300;
            }
        }
        // Names run against the order of the ratios, so that the one cannot stand in for the other.
        let room = |i: usize| (format!("r_{:03}", 999 - i), Twin::new(START), State::default());
        let rooms = (0..rooms).map(room).collect();
        Self { config, rooms, arbiter: Arbiter::default(), slot: START }
    }

    /// Closes one slot with `count` of room i, and `rest` events of other rooms, `others` in number.
    fn close(
        &mut self,
        count: impl Fn(usize) -> u32,
        rest: u64,
        others: u64,
    ) -> (Vec<Decision>, Vec<Grant>) {
        let (mut all, mut requests, mut total) = (Vec::new(), Vec::new(), rest);
        for (i, (name, twin, state)) in self.rooms.iter_mut().enumerate() {
            let f = twin.close(count(i), state.surge_since());
            total += u64::from(count(i));
            let out = room::step(state, &self.config, name, &f, &Context::default());
            all.extend(out.decisions);
            requests.extend(out.request);
        }
        // The order in which they come from the workers must not matter.
        let at = self.slot as usize % requests.len().max(1);
        requests.rotate_left(at);
        let rooms_60s = self.rooms.len() as u64 + others;
        let totals = SiteTotals { count: total, rooms_60s };
        let (said, grants) =
            self.arbiter.close(Slot(self.slot), &self.config.ladder, "test", totals, requests);
        all.extend(said);
        for grant in &grants {
            let room = self.rooms.iter_mut().find(|r| RoomKey::of(&r.0) == grant.room);
            room.expect("a room of ours").2.granted(&self.config, grant);
        }
        self.slot += 1;
        (all, grants)
    }

    fn at(&self, level: u8) -> BTreeSet<usize> {
        let at = |i: &usize| self.rooms[*i].2.level() == Level(level);
        (0..self.rooms.len()).filter(at).collect()
    }
}

fn caps(all: &[Decision]) -> Vec<&Decision> {
    all.iter().filter(|d| d.kind == Kind::BlastCap).collect()
}

fn int(d: &Decision, name: &str) -> i64 {
    match d.evidence.get(name) {
        Some(Value::Int(i)) => *i,
        other => panic!("{name}: {other:?}"),
    }
}

/// Fifty rooms at 20/s in a busy site; then all of them ask for level 2 in one slot, room i the more the greater i.
fn fifty(others: u64, granted: usize) {
    let mut site = Site::new(50);
    for _ in 0..800 {
        let (said, _) = site.close(|_| 2, 100_000, others);
        assert_eq!(said, []);
    }
    let (said, grants) = site.close(|i| 1_000 + i as u32, 100_000, others);
    assert_eq!(grants.len(), granted, "max(5, 20 %) of {} rooms", 50 + others);
    let right: BTreeSet<usize> = (50 - granted..50).collect();
    assert_eq!(site.at(2), right, "the rooms that rose the most");
    assert_eq!(site.at(1).len(), 50 - granted, "refused, a room at level 0 still rises to 1");
    let levels: Vec<_> = said.iter().filter(|d| d.kind == Kind::Level).collect();
    assert_eq!(levels.len(), 50);
    for d in &levels {
        let answer = d.evidence.get("blast").cloned();
        let granted = d.to == "2";
        let word = if granted { "granted" } else { "refused" };
        assert_eq!(answer, Some(Value::Text(word.to_owned())), "{}", d.subject);
        assert!(granted || d.to == "1");
        assert_eq!(d.slot.0, START + 800, "decisions bear the slot of the request");
    }
    // Every room says its decision and its micro-burst and surge in one chain, whatever the answer.
    for (name, ..) in &site.rooms {
        let mut of: Vec<_> = said.iter().filter(|d| d.subject == *name).collect();
        assert_eq!(of.remove(0).prev, None);
        assert!(!of.is_empty());
    }
    let alarm = caps(&said);
    assert_eq!(alarm.len(), 1, "the alarm is seen in the same slot");
    assert_eq!((alarm[0].subject.as_str(), alarm[0].to.as_str()), ("_site", "on"));
    assert_eq!(int(alarm[0], "asked"), 50);
    assert_eq!(int(alarm[0], "granted"), granted as i64);
    assert_eq!(int(alarm[0], "cap"), granted as i64);
    assert_eq!(int(alarm[0], "rooms_60s"), 50 + others as i64);
}

#[test]
fn fifty_rooms_in_one_slot_get_max_of_5_and_20_percent() {
    fifty(0, 10);
    fifty(50, 20);
    fifty(150, 40);
}

#[test]
fn a_few_rooms_get_five() {
    let mut site = Site::new(8);
    for _ in 0..800 {
        site.close(|_| 2, 100_000, 0);
    }
    let (_, grants) = site.close(|i| 1_000 + i as u32, 100_000, 0);
    assert_eq!((grants.len(), site.at(2)), (5, (3..8).collect()));
}

#[test]
fn equal_ratios_are_granted_by_room_id() {
    let mut site = Site::new(50);
    for _ in 0..800 {
        site.close(|_| 2, 100_000, 0);
    }
    site.close(|_| 1_000, 100_000, 0);
    // Room i is called r_{999 − i}: the last ten have the least names.
    assert_eq!(site.at(2), (40..50).collect());
}

#[test]
fn who_is_refused_asks_again_each_slot_until_there_is_room() {
    let mut site = Site::new(50);
    for _ in 0..800 {
        site.close(|_| 2, 100_000, 0);
    }
    // 110 to 159 events a second each: ratios of 4.5 and more once ten seconds are full of them.
    let storm = |i: usize| 11 + (i / 10) as u32;
    let mut granted = Vec::new();
    let mut alarms = Vec::new();
    for k in 0..1_500_u64 {
        let (said, grants) = site.close(storm, 100_000, 0);
        alarms.extend(caps(&said).iter().map(|d| (k, d.to.clone())));
        if !grants.is_empty() {
            granted.push((k, grants.len()));
        }
    }
    // Ten at a time, and the next ones exactly when the last 60 s no longer hold the ones before; all fifty want up.
    let total: usize = granted.iter().map(|g| g.1).sum();
    assert_eq!(total, site.at(2).len() + site.at(3).len());
    for (i, (k, _)) in granted.iter().enumerate() {
        let within: usize = granted[..=i].iter().filter(|g| k - g.0 < 600).map(|g| g.1).sum();
        assert!(within <= 10, "{within} within 60 s at {k}: {granted:?}");
    }
    let first = granted[0].0;
    assert!(granted.contains(&(first + 600, granted[0].1)), "asked again: {granted:?}");
    assert_eq!(alarms[0].1, "on");
    assert_eq!(alarms.len(), 1, "and the alarm stands as long as rooms are refused: {alarms:?}");
    // The storm is over: once the last grant is 60 s old the cap no longer holds.
    let mut off = Vec::new();
    for k in 0..800_u64 {
        let (said, _) = site.close(|_| 2, 100_000, 0);
        off.extend(caps(&said).iter().map(|d| (k, d.to.clone())));
    }
    assert_eq!(off.len(), 1);
    assert_eq!(off[0].1, "off");
}

#[test]
fn the_cap_is_lifted_while_the_site_runs_at_twice_its_baseline() {
    let mut site = Site::new(50);
    for _ in 0..800 {
        site.close(|_| 2, 1_000, 0);
    }
    site.close(|i| 1_000 + i as u32, 1_000, 0);
    assert_eq!(site.at(2).len(), 10, "at the cap it holds");
    assert!(site.arbiter.capped());
    // The whole site rises to 2.2 times: its ten seconds are at twice the baseline some nine seconds later.
    let mut lifted = None;
    for k in 0..100_u64 {
        let (said, grants) = site.close(|_| 11, 2_000, 0);
        if let Some(cap) = caps(&said).first() {
            lifted = Some(k);
            assert_eq!(cap.to, "off");
            assert_eq!(int(cap, "lifted"), 1);
            assert_eq!(int(cap, "refused"), 0);
            assert_eq!(grants.len(), 40, "all that were refused");
            // rate_10s ≥ 2 × baseline, redone from the evidence in whole numbers.
            let (rate, sum) = (int(cap, "site_count_10s"), int(cap, "site_baseline_sum"));
            assert!(rate * int(cap, "site_baseline_n") >= 2 * 100 * sum);
            break;
        }
        assert_eq!(grants.len(), 0);
    }
    let k = lifted.expect("lifted");
    assert_eq!(site.at(2).len(), 50);
    // By hand: baseline 1,100 a slot; after the 51,225 more of the first slot, each further slot has 1,450 more.
    let sum = |k: u64| 1_100 * (98 - k) + (1_000 + 50_000 + 1_225) + 2_550 * (k + 1);
    assert!(sum(k) >= 220_000 && (k == 0 || sum(k - 1) < 220_000), "slot {k}: {}", sum(k));
}

fn request(name: &str, ratio: i64) -> Request {
    Request {
        room: RoomKey::of(name),
        name: name.to_owned(),
        slot: Slot(0),
        ratio,
        from: Level(1),
        to: Level(2),
        granted: Vec::new(),
        refused: Vec::new(),
    }
}

#[test]
fn the_cap_is_the_greater_of_the_two() {
    let at = |rooms| cap(&ladder(), rooms);
    let rows = [(0, 5), (25, 5), (29, 5), (30, 6), (34, 6), (50, 10), (1_000_000, 200_000)];
    for (rooms, expected) in rows {
        assert_eq!(at(rooms), expected, "{rooms} rooms");
    }
    let third = Ladder { blast_max_share: Fixed(333_333), ..ladder() };
    assert_eq!(cap(&third, 3_000_000), 999_999, "exact: no rounding of a share up");
}

#[test]
fn the_arbiter_equals_its_oracle_on_random_requests() {
    for seed in 0..300 {
        let mut rng = Rng(seed);
        let within = 5 + rng.below(40);
        let rules = Ladder { blast_min: 2, blast_within: within, ..ladder() };
        let mut arbiter = Arbiter::default();
        let (mut grants, mut counts): (Vec<u64>, Vec<u64>) = (Vec::new(), Vec::new());
        let mut site = 10;
        for t in 0..900_u64 {
            if rng.below(80) == 0 {
                site = rng.pick(&[0, 10, 10, 30, 60]);
            }
            let (count, rooms_60s) = (site + rng.below(3), rng.below(30));
            counts.push(count);
            let asked: Vec<Request> = (0..rng.below(8))
                .map(|_| request(&format!("r{}", rng.below(1_000)), rng.below(4) as i64))
                .collect();
            let mut order: Vec<(i64, String)> =
                asked.iter().map(|r| (-r.ratio, r.name.clone())).collect();
            order.sort();
            let first = counts.iter().position(|c| *c > 0).unwrap_or(counts.len());
            let end = counts.len().saturating_sub(100);
            let base = counts.get(end.saturating_sub(600).max(first)..end).unwrap_or(&[]);
            let ten: u64 = counts[end..].iter().sum();
            // rate_10s = ten / 10; baseline = 10 · Σ / n
            let sum: u64 = base.iter().sum();
            let lifted = base.len() >= 300 && ten * base.len() as u64 >= 200 * sum;
            let used = grants.iter().filter(|g| t - **g < within).count() as u64;
            let limit = 2.max(rooms_60s / 5);
            let may = if lifted { order.len() as u64 } else { limit.saturating_sub(used) };
            let expected: Vec<RoomKey> =
                order.iter().take(may as usize).map(|o| RoomKey::of(&o.1)).collect();
            grants.extend(expected.iter().map(|_| t));
            let totals = SiteTotals { count, rooms_60s };
            let (said, got) = arbiter.close(Slot(START + t), &rules, "test", totals, asked);
            let got: Vec<RoomKey> = got.iter().map(|g| g.room).collect();
            assert_eq!(got, expected, "seed {seed}, slot {t}");
            if expected.len() < order.len() {
                assert!(arbiter.capped(), "seed {seed}, slot {t}: refused without an alarm");
            }
            assert!(said.len() <= 1);
            // What a checkpoint keeps is everything.
            if rng.below(100) == 0 {
                let kept = serde_json::to_string(&arbiter).expect("kept");
                arbiter = serde_json::from_str(&kept).expect("taken up");
            }
        }
    }
    println!("arbiter: seeds 0 to 299 equal");
}
