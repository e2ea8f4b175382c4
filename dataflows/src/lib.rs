//! The graph: slots, windows, rules, decisions, and what is incremental by nature.

use barrage_protocol::ids::RoomKey;

mod arbiter;
pub mod command;
mod config;
mod gauge;
mod graph;
mod note;
mod outlet;
mod present;
pub mod report;
mod rooms;
mod rows;
mod rulebook;
pub mod snapshot;
mod source;
mod tally;
mod top;
mod totals;
pub mod view;

pub use graph::{Setup, build};

/// The graph's timestamp: the number of a slot.
type Time = u64;

/// Where a room lives: the same bits for every exchange by room. The high bits, since tables use the low ones and
/// timely takes the low bits of what it is given.
fn route(key: RoomKey) -> u64 {
    key.route() >> 32
}
