//! Top K and totals against sorting and adding up, second by second.

use crate::oracle::Oracle;
use crate::random::{low, stream};
use crate::stream::{Rng, START, feed};
use barrage::worker::Host;
use barrage_dataflows::command::Options;
use barrage_dataflows::view::Tally;
use barrage_protocol::ids::Slot;
use std::collections::BTreeMap;
use std::sync::Arc;

fn sum(groups: &BTreeMap<String, Tally>) -> Tally {
    let mut site = Tally::default();
    for tally in groups.values() {
        let add = |to: &mut [i64; 6], from: &[i64; 6]| {
            to.iter_mut().zip(from).for_each(|(t, f)| *t += f);
        };
        add(&mut site.last_200ms, &tally.last_200ms);
        add(&mut site.last_1s, &tally.last_1s);
        add(&mut site.last_10s, &tally.last_10s);
    }
    site
}

#[test]
fn the_view_is_what_sorting_and_adding_up_gives() {
    for seed in 600..604 {
        let mut rng = Rng(seed);
        let rules = Arc::new(low(&mut rng));
        let stream = stream(&mut rng, 1_000);
        let workers = 1 + (seed as usize - 600) % 4;
        let top = 5;
        let options = Options { top, ..Options::default() };
        let mut host = Host::start(workers, Slot(START), Arc::clone(&rules), options).unwrap();
        let mut oracle = Oracle::new(START, &rules);
        let mut changed = 0;
        let mut last = Vec::new();
        for slot in START..=stream.end + 200 {
            feed(&mut host, &stream, slot, &mut rng);
            oracle.close(&stream.all(slot));
            if slot % 10 != 9 {
                continue;
            }
            host.close(Slot(slot)).unwrap();
            let view = host.settle(Slot(slot)).unwrap();
            let what = format!("seed {seed}, {workers} workers, slot {}", slot - START);
            assert_eq!(view.slot, Slot(slot), "{what}");
            let rooms = oracle.top(top);
            assert_eq!(view.rooms, rooms, "{what}");
            let groups = oracle.totals(slot);
            assert_eq!(view.groups, groups, "{what}");
            assert_eq!(view.site, sum(&groups), "{what}");
            changed += usize::from(rooms != last);
            last = rooms;
        }
        assert!(changed > 50, "the view hardly moved");
        host.stop().unwrap();
    }
}
