//! The graph: slots, windows, rules, decisions, and what is incremental by nature.

use barrage_protocol::ids::RoomKey;

pub mod command;
mod graph;
mod note;
mod outlet;
pub mod report;
mod rulebook;
pub mod snapshot;
mod source;
pub mod view;

pub use graph::{Setup, build};

/// The graph's timestamp: the number of a slot.
type Time = u64;

/// Where a room lives: the same bits for every exchange by room. The high bits, since tables use the low ones and
/// timely takes the low bits of what it is given.
fn route(key: RoomKey) -> u64 {
    key.route() >> 32
}
