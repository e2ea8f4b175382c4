//! Metrics stay within their bounds, and probes tell the truth.

use super::meters::{ROOMS, Room};
use super::{Health, Meters};

fn room(i: usize) -> Room {
    Room { id: format!("r_{i}"), rate: i as f64, ratio: 1.5, level: 2 }
}

/// The hottest rooms change all the time; the number of series does not.
#[test]
fn p01_rooms_never_become_labels_without_bound() {
    let meters = Meters::new("1.2.3", "abc").expect("metrics");
    let series = |meters: &Meters| {
        let text = meters.text().expect("text");
        text.lines().filter(|l| !l.starts_with('#')).count()
    };
    meters.hottest(&(0..5_000).map(room).collect::<Vec<_>>());
    let first = series(&meters);
    for turn in 1..200 {
        let rooms: Vec<_> = (turn * 7..turn * 7 + 5_000).map(room).collect();
        meters.hottest(&rooms);
    }
    assert_eq!(series(&meters), first);
    let text = meters.text().expect("text");
    assert_eq!(text.matches("barrage_room_rate{").count(), ROOMS);
    assert!(text.contains("barrage_room_level{room=\"r_1393\"} 2"), "{text}");
}

/// Counts kept elsewhere are totals: two readers of one total do not add up (a counter never goes down either).
#[test]
fn totals_are_taken_as_totals() {
    let meters = Meters::new("1.2.3", "abc").expect("metrics");
    for total in [5, 5, 9, 9, 3] {
        meters.outcome("slot", total);
    }
    let text = meters.text().expect("text");
    assert!(text.contains("barrage_events_outcome_total{outcome=\"slot\"} 9"), "{text}");
}

#[test]
fn changes_of_leader_are_counted() {
    let meters = Meters::new("1.2.3", "abc").expect("metrics");
    for leads in [false, true, true, false] {
        meters.leads(leads, 7);
    }
    let text = meters.text().expect("text");
    assert!(text.contains("barrage_leader_transitions_total 2"), "{text}");
    assert!(text.contains("barrage_leader_epoch 7"), "{text}");
}

#[test]
fn probes_say_why() {
    let health = Health::default();
    assert!(health.is_alive().is_ok());
    assert!(!health.is_started());
    assert_eq!(health.is_ready(), Err("it has just begun".into()));
    health.started();
    health.ready(None);
    assert!(health.is_started() && health.is_ready().is_ok());
    health.ready(Some("120 steps behind the leader".into()));
    assert_eq!(health.is_ready(), Err("120 steps behind the leader".into()));
}
