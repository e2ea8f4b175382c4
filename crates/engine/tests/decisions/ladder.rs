//! The state table of the ladder, printed from the code and equal to docs/ladder.md (`UPDATE_DOCS=1` rewrites it).

use crate::fixture::ladder;
use barrage_engine::room::ladder::{Next, Position, Way, Wish};
use barrage_protocol::ids::{Level, Slot};
use std::collections::VecDeque;
use std::fmt::Write;

const NOW: u64 = 100_000;
const BEGIN: &str = "<!-- printed by the tests of the engine: begin -->";
const END: &str = "<!-- printed by the tests of the engine: end -->";

/// One situation, whole.
#[derive(Clone, Copy, Debug)]
struct Case {
    level: u8,
    asks: u8,
    holds: u8,
    unknown: bool,
    stood: bool,
    spaced: bool,
    down: bool,
    moves: bool,
}

impl Case {
    fn all() -> Vec<Self> {
        let bit = |n: u32, i: u32| n >> i & 1 == 1;
        let levels = (0..64_u8).map(|n| (n & 3, n >> 2 & 3, n >> 4));
        levels
            .flat_map(|(level, asks, holds)| {
                (0..32).map(move |n| Self {
                    level,
                    asks,
                    holds,
                    unknown: bit(n, 0),
                    stood: bit(n, 1),
                    spaced: bit(n, 2),
                    down: bit(n, 3),
                    moves: bit(n, 4),
                })
            })
            .collect()
    }

    /// The situation as the code sees it, each limit met exactly or missed by one slot or one move.
    fn next(&self) -> Next {
        let rules = ladder();
        let stood = rules.min_dwell - u64::from(!self.stood);
        let since_descent = rules.step_every - u64::from(!self.spaced);
        let moves = rules.max_moves - u32::from(!self.moves);
        let position = Position {
            level: Level(self.level),
            since: Slot(NOW - stood),
            way: Some(if self.down { Way::Down } else { Way::Up }),
            descended: Some(Slot(NOW - since_descent)),
            // All of them just within the time over which moves are counted.
            moves: VecDeque::from(vec![Slot(NOW - rules.moves_within + 1); moves as usize]),
            held: false,
        };
        let wish = Wish { asks: Level(self.asks), holds: Level(self.holds), unknown: self.unknown };
        position.next(&rules, Slot(NOW), wish)
    }
}

/// A row of the table: what it says of each column, and which situations it means.
struct Row {
    columns: [&'static str; 7],
    means: fn(&Case) -> bool,
}

/// Together the rows mean every situation exactly once.
const ROWS: [Row; 7] = [
    Row { columns: ["above the level", "", "", "", "", "", ""], means: |c| c.asks > c.level },
    Row {
        columns: ["not above", "at or above the level", "", "", "", "", ""],
        means: |c| c.asks <= c.level && c.holds >= c.level,
    },
    Row {
        columns: ["not above", "below", "yes", "", "", "", ""],
        means: |c| c.asks <= c.level && c.holds < c.level && c.unknown,
    },
    Row { columns: ["not above", "below", "no", "no", "", "", ""], means: |c| free(c) && !c.stood },
    Row {
        columns: ["not above", "below", "no", "yes", "no", "", ""],
        means: |c| free(c) && c.stood && !c.spaced,
    },
    Row {
        columns: ["not above", "below", "no", "yes", "yes", "down", ""],
        means: |c| free(c) && c.stood && c.spaced && c.down,
    },
    Row {
        columns: ["not above", "below", "no", "yes", "yes", "up", "fewer"],
        means: |c| free(c) && c.stood && c.spaced && !c.down && !c.moves,
    },
];

/// The row that the flap guard adds.
const HELD: Row = Row {
    columns: ["not above", "below", "no", "yes", "yes", "up", "as many"],
    means: |c| free(c) && c.stood && c.spaced && !c.down && c.moves,
};

fn free(c: &Case) -> bool {
    c.asks <= c.level && c.holds < c.level && !c.unknown
}

fn words(case: &Case, next: Next) -> &'static str {
    let (level, asked) = (case.level, case.asks);
    match next {
        Next::Up(to) if to.0 == asked && asked > level => "up to what is asked for, at once",
        Next::Down(to) if to.0 + 1 == level && case.down => "down one level",
        Next::Down(to) if to.0 + 1 == level => "down one level: a descent begins",
        Next::Stay => "stays",
        Next::Held => "stays: held by the flap guard",
        other => panic!("{case:?} leads to {other:?}"),
    }
}

fn table() -> String {
    let mut out = String::from(
        "| highest level asked for | highest level held by a rule that is in | unknown | stood ≥ `min_dwell` | last descent ≥ `step_every` ago | last moved | moves in `moves_within` against `max_moves` | then |\n|---|---|---|---|---|---|---|---|\n",
    );
    let all = Case::all();
    for row in ROWS.iter().chain([&HELD]) {
        let mut then: Vec<_> =
            all.iter().filter(|c| (row.means)(c)).map(|c| words(c, c.next())).collect();
        then.sort_unstable();
        then.dedup();
        assert_eq!(then.len(), 1, "one row, one outcome: {:?} gives {then:?}", row.columns);
        writeln!(out, "| {} | {} |", row.columns.join(" | "), then[0]).expect("a string");
    }
    out.push_str("\nWhere nothing stands in the way (known, stood, spaced, few moves), by level and level asked for and held:\n\n");
    out.push_str("| level | asked 0 | asked 1 | asked 2 | asked 3 |\n|---|---|---|---|---|\n");
    for level in 0..4 {
        let to = |asks| {
            let case = Case {
                level,
                asks,
                // A rule that asks for a level is in, and holds it.
                holds: asks,
                unknown: false,
                stood: true,
                spaced: true,
                down: true,
                moves: false,
            };
            match case.next() {
                Next::Up(to) | Next::Down(to) => to,
                Next::Stay | Next::Held => Level(level),
            }
        };
        let row: Vec<String> = (0..4).map(|a| format!("{} {}", to(a).0, to(a).name())).collect();
        writeln!(out, "| {level} {} | {} |", Level(level).name(), row.join(" | "))
            .expect("a string");
    }
    out
}

#[test]
fn every_situation_is_in_exactly_one_row() {
    let all = Case::all();
    assert_eq!(all.len(), 2_048);
    for case in &all {
        let rows = ROWS.iter().chain([&HELD]).filter(|r| (r.means)(case)).count();
        assert_eq!(rows, 1, "{case:?}");
    }
}

#[test]
fn the_page_shows_the_table_that_the_code_makes() {
    let path = crate::pages::root().join("docs/ladder.md");
    let page = std::fs::read_to_string(&path).expect("docs/ladder.md");
    let table = table();
    println!("{table}");
    let begin = page.find(BEGIN).expect("the mark before the table") + BEGIN.len();
    let end = page.find(END).expect("the mark after the table");
    let made = format!("{}\n\n{table}\n{}", &page[..begin], &page[end..]);
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&path, &made).expect("docs/ladder.md can be written");
    } else {
        assert!(page == made, "docs/ladder.md differs from the code; UPDATE_DOCS=1 rewrites it");
    }
}
