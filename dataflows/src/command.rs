//! What goes into the graph: the closed set of commands, and the choices made when it is built.

use barrage_engine::precount::Record;
use barrage_engine::rules::RuleSet;
use barrage_protocol::ids::{Level, RoomKey, Slot};
use std::sync::Arc;

/// The only way into a worker. Commands of one worker are taken in the order in which they were sent.
#[derive(Clone, Debug)]
pub enum Command {
    /// Levels known from the policies in force, by room id: they hold from the first slot on. Sent to every worker
    /// before the first [`Command::Advance`].
    Seed {
        /// First slot decided under them.
        from: Slot,
        /// Level by room id.
        levels: Arc<Vec<(Box<str>, Level)>>,
    },
    /// Counts of one partition in one open slot. May be sent to any worker, once; any worker will do.
    Counts {
        /// The slot, not yet closed.
        slot: Slot,
        /// The counts.
        records: Vec<Record>,
        /// Ids of rooms met for the first time, or again after a while.
        names: Vec<(RoomKey, Box<str>)>,
    },
    /// A rule set comes into force. Sent to every worker.
    Rules {
        /// First slot decided under it.
        from: Slot,
        /// The rule set.
        rules: Arc<RuleSet>,
    },
    /// A control record that touches rooms. Sent to every worker.
    Control {
        /// First slot decided under it.
        from: Slot,
        /// What changes.
        control: Control,
    },
    /// Every slot up to and including this one is complete: close them. Sent to every worker.
    Advance {
        /// The last slot to close.
        upto: Slot,
    },
    /// Hand out the slow state as of the last closed slot. Sent to every worker, when all decisions up to it are out.
    Snapshot,
    /// The input ends: close nothing more, let go of everything. Sent to every worker.
    Stop,
}

/// Control records as the rooms see them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Control {
    /// Partitions that cannot be read, as bits `partition % 32`: rooms fed by any of them are unknown.
    Absent {
        /// All partitions absent from now on; 0: none.
        mask: u32,
    },
    /// The frozen baseline of a room is let go.
    Rebase {
        /// The room's id.
        room: Box<str>,
    },
    /// No level falls before this slot (the windows are not full yet).
    HoldUntil {
        /// The first slot in which a level may fall.
        slot: Slot,
    },
}

/// What the graph is built for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// The rules in force decide.
    Decide,
    /// Rows `count_60s > min_count_60s and 2 · count_10s > count_60s`, one per room and slide, no rules, no ladder.
    Rows {
        /// `count_60s` must exceed it.
        min_count_60s: u32,
        /// Slots between two evaluations: those that end at a multiple of it.
        slide: u64,
    },
    /// Changes of which rules would enter, in every slot and room, under the last group's settings: the way of a count
    /// to a verdict, without ladder, decisions, top rooms and totals. Surges are left out.
    Masks,
}

/// Most rooms that a view names, however many are asked for: what is exposed does not grow with the number of rooms.
pub const TOP_MAX: usize = 100;

/// Choices made when the graph is built.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// What it is built for.
    pub mode: Mode,
    /// Whether the view (top rooms, totals) is computed; without it only the way of a decision is built.
    pub view: bool,
    /// Whether spans of rules are reported as they end; whoever asks for them must take them out.
    pub spans: bool,
    /// Rooms in the view, at most [`TOP_MAX`].
    pub top: usize,
    /// For tests of the host: this worker panics when it closes this slot.
    pub fail: Option<(usize, Slot)>,
}

impl Default for Options {
    fn default() -> Self {
        Self { mode: Mode::Decide, view: true, spans: false, top: TOP_MAX, fail: None }
    }
}
