//! Each move and non-move of the ladder (semantics §4) as a script: what is offered, and what must be said.

use crate::fixture::{Run, Said, burst, fast, ladder, rule, shipped, step_to};
use barrage_engine::room::State;
use barrage_engine::rules::{Config, Ladder, Rate, Rule, Trigger, Window};
use barrage_protocol::decision::Kind;
use barrage_protocol::ids::{Level, Slot};

/// A rule that looks at one second and leaves after three slots, so that a script can drive levels directly: more than
/// 10, 20, 30 events a second ask for level 1, 2, 3; fewer than 5 leave.
fn stairs(id: &str) -> Rule {
    rule(
        id,
        Trigger::Rate(Rate {
            window: Window::S1,
            class: None,
            steps: vec![step_to(1, 10), step_to(2, 20), step_to(3, 30)],
            exit: barrage_engine::fixed::Fixed::int(5),
            enter_ticks: 1,
            exit_ticks: 3,
        }),
    )
}

fn config(ladder: Ladder, rules: Vec<Rule>) -> Config {
    Config { ladder, rules, ..shipped() }
}

/// Dwell 20 slots, steps 20 slots apart.
fn quick() -> Ladder {
    Ladder { min_dwell: 20, step_every: 20, ..ladder() }
}

/// Offers the counts, each for so many slots; the times of what is said are slots from the start, from 1.
fn script(run: &mut Run, offers: &[(u32, u64)]) -> Vec<Said> {
    let zero = run.twin.next().0;
    for (count, slots) in offers {
        for _ in 0..*slots {
            run.close(*count);
        }
    }
    run.said_from(zero)
}

fn levels(said: &[Said]) -> Vec<(u64, u8, u8)> {
    let all = said.iter().filter(|s| s.1 == Kind::Level);
    all.map(|s| (s.0, s.2.parse().expect("a level"), s.3.parse().expect("a level"))).collect()
}

fn of(said: &[Said], kind: Kind) -> Vec<(u64, &str)> {
    said.iter().filter(|s| s.1 == kind).map(|s| (s.0, s.3.as_str())).collect()
}

const START: u64 = 1_000_000;

fn with(ladder: Ladder) -> Run {
    Run::new(config(ladder, vec![stairs("stairs")]), START)
}

#[test]
fn up_at_once_down_one_at_a_time() {
    let said = script(&mut with(quick()), &[(31, 1), (0, 100)]);
    // The 31 events are in the second's window until slot 10; slots 11, 12, 13 leave; the dwell is long over at 21.
    assert_eq!(levels(&said), [(1, 0, 3), (21, 3, 2), (41, 2, 1), (61, 1, 0)]);
}

#[test]
fn a_storm_is_two_moves() {
    let mut run = with(quick());
    let said = script(&mut run, &[(11, 1), (10, 1), (10, 1), (0, 100)]);
    let up = [(1, 0, 1), (2, 1, 2), (3, 2, 3)];
    let down = [(23, 3, 2), (43, 2, 1), (63, 1, 0)];
    assert_eq!(levels(&said), [&up[..], &down[..]].concat());
    // Were each step counted, six moves would hold the second storm up for ever; two moves let a third begin.
    let said = script(&mut run, &[(31, 1), (0, 100)]);
    assert_eq!(levels(&said), [(1, 0, 3)], "three moves: up, down, up; the descent is held");
    assert_eq!(of(&said, Kind::FlapHold), [(21, "on")]);
}

#[test]
fn a_level_stands_for_its_dwell_and_steps_keep_their_distance() {
    let dwell = Ladder { min_dwell: 50, step_every: 20, ..ladder() };
    let said = script(&mut with(dwell), &[(31, 1), (0, 200)]);
    assert_eq!(levels(&said), [(1, 0, 3), (51, 3, 2), (101, 2, 1), (151, 1, 0)]);
    let spaced = Ladder { min_dwell: 20, step_every: 60, ..ladder() };
    let said = script(&mut with(spaced), &[(31, 1), (0, 200)]);
    assert_eq!(levels(&said), [(1, 0, 3), (21, 3, 2), (81, 2, 1), (141, 1, 0)]);
    // A rise between two descents does not shorten the distance between them.
    let spaced = Ladder { min_dwell: 20, step_every: 60, max_moves: 9, ..ladder() };
    let said = script(&mut with(spaced), &[(31, 1), (0, 24), (31, 1), (0, 200)]);
    assert_eq!(levels(&said)[..4], [(1, 0, 3), (21, 3, 2), (26, 2, 3), (81, 3, 2)]);
}

#[test]
fn between_enter_and_exit_a_level_stays() {
    let mut run = with(quick());
    // 6 events in every second: below every step, not below the exit.
    let offers: Vec<(u32, u64)> = (0..30).flat_map(|_| [(6, 1), (0, 9)]).collect();
    let said = script(&mut run, &[(11, 1), (0, 9)]);
    assert_eq!(levels(&said), [(1, 0, 1)]);
    assert_eq!(levels(&script(&mut run, &offers)), []);
    // 4 are below it.
    let offers: Vec<(u32, u64)> = (0..5).flat_map(|_| [(4, 1), (0, 9)]).collect();
    assert_eq!(levels(&script(&mut run, &offers)), [(3, 1, 0)]);
}

#[test]
fn ticks_of_leaving_are_in_a_row() {
    let mut run = with(Ladder { min_dwell: 0, step_every: 0, ..ladder() });
    // Two slots that would leave, one that does not, again and again; then three in a row.
    script(&mut run, &[(11, 1), (0, 9)]);
    assert_eq!(levels(&script(&mut run, &[(0, 2), (5, 1), (0, 9), (0, 2)])), []);
    assert_eq!(levels(&script(&mut run, &[(0, 1)])), [(1, 1, 0)]);
}

#[test]
fn ticks_of_entering_are_in_a_row_and_ask_for_the_least_level_among_them() {
    let Trigger::Rate(rate) = stairs("stairs").trigger else { unreachable!() };
    let slow = Rate { enter_ticks: 3, ..rate };
    let mut run = Run::new(config(quick(), vec![rule("stairs", Trigger::Rate(slow))]), START);
    // Seconds hold 31, 31 only for two slots: nothing. Then 31, 21, 31: level 2.
    let said = script(&mut run, &[(6, 1), (25, 1), (0, 8), (0, 1)]);
    assert_eq!(levels(&said), [(4, 0, 3)], "the window holds them for nine slots");
    let mut run = Run::new(run.config, START);
    let said = script(&mut run, &[(5, 1), (0, 7), (26, 1), (0, 1), (16, 1), (0, 4)]);
    // Seconds: 5 … 5, 31 (slot 9), 31 (10), 42 at 11 less 5: three in a row above 30 at slot 11.
    assert_eq!(levels(&said), [(11, 0, 3)]);
    let mut run = Run::new(run.config, START);
    let said = script(&mut run, &[(10, 1), (0, 7), (21, 1), (0, 1), (0, 3)]);
    // Seconds: 31 at slot 9 and 10, 21 from 11 on: 31, 31, 21 ask for no more than level 2.
    assert_eq!(levels(&said), [(11, 0, 2)]);
}

#[test]
fn no_descent_below_what_a_rule_that_is_in_holds() {
    let Trigger::Rate(rate) = stairs("a").trigger else { unreachable!() };
    // `b` asks for level 1 above 3 a second and stays in down to 1 a second.
    let low = Rate {
        steps: vec![step_to(1, 3)],
        exit: barrage_engine::fixed::Fixed::int(1),
        ..rate.clone()
    };
    let rules = vec![rule("a", Trigger::Rate(rate)), rule("b", Trigger::Rate(low))];
    let mut run = Run::new(config(quick(), rules), START);
    let offers: Vec<(u32, u64)> = (0..10).flat_map(|_| [(4, 1), (0, 9)]).collect();
    let said = script(&mut run, &[(31, 1), (0, 9)]);
    assert_eq!(levels(&said), [(1, 0, 3)]);
    assert_eq!(levels(&script(&mut run, &offers)), [(11, 3, 2), (31, 2, 1)], "not below 1");
    assert_eq!(levels(&script(&mut run, &[(0, 40)])), [(3, 1, 0)], "until `b` has left");
}

#[test]
fn the_flap_guard_counts_moves_within_its_time() {
    let guard = Ladder { max_moves: 3, moves_within: 300, ..quick() };
    let mut run = with(guard.clone());
    let said = script(&mut run, &[(11, 1), (0, 29), (11, 1), (0, 400)]);
    // Moves at 1 (up), 21 (down), 31 (up). The one at 1 leaves the last 300 slots at 301; then two are left.
    assert_eq!(levels(&said), [(1, 0, 1), (21, 1, 0), (31, 0, 1), (301, 1, 0)]);
    assert_eq!(of(&said, Kind::FlapHold), [(51, "on"), (301, "off")]);
    let hold = run.decisions.iter().find(|d| d.kind == Kind::FlapHold).expect("a hold");
    assert_eq!(hold.rule, "flap");
    let at = |name: &str| serde_json::to_value(&hold.evidence[name]).expect("a value");
    assert_eq!((at("moves"), at("max_moves"), at("move_1")), (3.into(), 3.into(), START.into()));
    // One more allowed: no hold.
    let mut run = with(Ladder { max_moves: 4, ..guard });
    let said = script(&mut run, &[(11, 1), (0, 29), (11, 1), (0, 100)]);
    assert_eq!(levels(&said), [(1, 0, 1), (21, 1, 0), (31, 0, 1), (51, 1, 0)]);
    assert_eq!(of(&said, Kind::FlapHold), []);
}

#[test]
fn a_descent_that_has_begun_is_not_held() {
    let guard = Ladder { max_moves: 2, moves_within: 6_000, ..quick() };
    let said = script(&mut with(guard), &[(31, 1), (0, 100)]);
    // Up and down are two moves; the second and third step down belong to the same move.
    assert_eq!(levels(&said), [(1, 0, 3), (21, 3, 2), (41, 2, 1), (61, 1, 0)]);
    assert_eq!(of(&said, Kind::FlapHold), []);
}

#[test]
fn a_hold_ends_when_a_rule_enters_again() {
    let guard = Ladder { max_moves: 1, ..quick() };
    let said = script(&mut with(guard), &[(11, 1), (0, 39), (11, 1), (0, 40)]);
    assert_eq!(levels(&said), [(1, 0, 1)], "level 1 is asked for again: no move at all");
    assert_eq!(of(&said, Kind::FlapHold), [(21, "on"), (41, "off"), (53, "on")]);
}

#[test]
fn unknown_holds_the_level_and_the_ticks_start_again() {
    let mut run = with(quick());
    script(&mut run, &[(11, 1), (0, 11)]);
    run.ctx.unknown = true;
    assert_eq!(script(&mut run, &[(0, 200)]), [], "nothing leaves or comes down");
    assert_eq!(script(&mut run, &[(40, 20)]), [], "nothing enters");
    assert_eq!(run.state.level(), Level(1));
    run.ctx.unknown = false;
    // Two of three ticks were seen before; three are needed again, after the second has run empty.
    assert_eq!(levels(&script(&mut run, &[(0, 40)]))[..1], [(1, 1, 3)]);
    let mut run = with(quick());
    script(&mut run, &[(11, 1), (0, 11)]);
    run.ctx.unknown = true;
    script(&mut run, &[(0, 100)]);
    run.ctx.unknown = false;
    assert_eq!(levels(&script(&mut run, &[(0, 5)])), [(3, 1, 0)]);
}

#[test]
fn after_a_start_a_level_may_rise_and_not_fall() {
    let mut run = with(quick());
    run.state = State::seeded(Level(2), Slot(START));
    run.ctx.no_descent_before = Slot(START + 500);
    let said = script(&mut run, &[(1, 1), (0, 99), (31, 1), (0, 500)]);
    assert_eq!(levels(&said), [(101, 2, 3), (501, 3, 2), (521, 2, 1), (541, 1, 0)]);
}

#[test]
fn a_rule_in_warm_up_holds_what_another_has_raised() {
    let rules = vec![rule("burst", Trigger::Burst(burst())), stairs("stairs")];
    let mut run = Run::new(config(quick(), rules), START);
    let said = script(&mut run, &[(21, 1), (0, 600)]);
    // The baseline has 300 slots of life when slots [T − 399, T − 100] are of the room: at the 400th.
    assert_eq!(levels(&said), [(1, 0, 2), (400, 2, 1), (420, 1, 0)]);
}

#[test]
fn a_burst_freezes_the_baseline_until_700_slots_after_level_0() {
    let rules = vec![rule("burst", Trigger::Burst(burst())), rule("fast", Trigger::Fast(fast()))];
    let mut run = Run::new(config(ladder(), rules), START);
    script(&mut run, &[(12, 800)]);
    let said = script(&mut run, &[(48, 100), (12, 200)]);
    assert_eq!(levels(&said), [(67, 0, 1), (273, 1, 0)]);
    let frozen = run.state.frozen_since().expect("frozen");
    assert_eq!(frozen.0, START + 800 + 66);
    let unfrozen = (0..2_000).find(|_| {
        run.close(12);
        run.state.frozen_since().is_none()
    });
    // Level 0 came at slot 273 of the script; 300 slots were offered; the first slot judged without is the 973rd.
    assert_eq!(unfrozen, Some(973 - 300 - 1));
}

#[test]
fn a_long_overload_is_told_and_then_becomes_the_norm() {
    let long = Ladder { frozen_alarm: 1_000, frozen_max: 3_000, ..ladder() };
    let rules = vec![rule("burst", Trigger::Burst(burst()))];
    let mut run = Run::new(config(long, rules), START);
    script(&mut run, &[(12, 800)]);
    let said = script(&mut run, &[(48, 4_000)]);
    assert_eq!(of(&said, Kind::FrozenLong), [(1_067, "on"), (3_067, "off")]);
    // Judged against itself the overload is none: the rule leaves a hundred slots later.
    assert_eq!(levels(&said), [(67, 0, 1), (3_067 + 99, 1, 0)]);
}

#[test]
fn an_operator_lets_a_frozen_baseline_go() {
    let rules = vec![rule("burst", Trigger::Burst(burst()))];
    let mut run = Run::new(config(Ladder { frozen_alarm: 100, ..ladder() }, rules), START);
    script(&mut run, &[(12, 800), (48, 1_000)]);
    assert_eq!(run.state.level(), Level(1));
    run.state.rebase();
    let said = script(&mut run, &[(48, 200)]);
    assert_eq!(of(&said, Kind::FrozenLong), [(1, "off")]);
    assert_eq!(levels(&said), [(100, 1, 0)]);
    assert_eq!(run.state.frozen_since(), None);
}

#[test]
fn a_change_of_rules_keeps_what_is_known_by_id() {
    let mut run = Run::new(config(quick(), vec![stairs("a"), stairs("b")]), START);
    script(&mut run, &[(31, 1), (0, 9)]);
    // `a` gets another exit and another version and stays in; `b` is gone and no longer holds.
    let Trigger::Rate(rate) = stairs("a").trigger else { unreachable!() };
    let mut changed = rule("a", Trigger::Rate(Rate { exit_ticks: 50, ..rate }));
    changed.version = 2;
    run.config.rules = vec![changed];
    run.state.reconfigure(&run.config);
    let since: Vec<_> = run.state.open().map(|s| (s.rule, s.from.0)).collect();
    assert_eq!(since, [("a".to_owned(), START)]);
    assert_eq!(levels(&script(&mut run, &[(0, 51)])), [(50, 3, 2)], "after 50 ticks, no sooner");
    // A rule that vanishes while it is in no longer holds.
    let mut run = with(quick());
    script(&mut run, &[(31, 1), (0, 1)]);
    run.config.rules = Vec::new();
    run.state.reconfigure(&run.config);
    assert_eq!(levels(&script(&mut run, &[(31, 60)])), [(19, 3, 2), (39, 2, 1), (59, 1, 0)]);
}

#[test]
fn a_rule_whose_kind_changes_starts_anew_and_a_surge_ends_with_its_rule() {
    let mut run = Run::new(shipped(), START);
    script(&mut run, &[(12, 800), (48, 30)]);
    assert_eq!(run.state.surge_since().map(|s| s.0), Some(START + 812));
    run.config.rules.retain(|r| r.id != "surge");
    run.config.rules.push(stairs("surge"));
    run.state.reconfigure(&run.config);
    let said = script(&mut run, &[(48, 1)]);
    assert_eq!(of(&said, Kind::Surge), [(1, "off")]);
    assert_eq!(levels(&said), [(1, 0, 3)], "now it is a rate rule, and enters as one");
    assert_eq!(run.spans.last().map(|s| (s.from.0, s.to.0)), Some((START + 812, START + 829)));
    assert_eq!(run.state.surge_since(), None);
}
