//! The graph: slots, windows, rules, decisions, and what is incremental by nature.
//!
//! ```text
//!  commands          (one bounded channel per worker; every worker has the whole graph)
//!     │
//!  ┌──▼─────┐ rules: rows ±1        ┌─────────┐ ┌───────┐ ┌───────┐ ┌─────────┐
//!  │ Source ├──────────────────────►│ Groups  │►│ join  │►│ Parts │►│ Resolve ├─┐ changes of a group's
//!  └─┬────┬─┘                       │ × Rules │ └───────┘ └───────┘ └─────────┘ │ configuration, to all
//!    │    │ notes: names, absences, └─────────┘        (differential)           │ workers
//!    │    │ rebases, "rules change at T"                                        │
//!    │counts, by room                                                           │
//!  ┌─▼────▼─────────────────────────────────────────────────────────────────────▼──┐
//!  │ Rooms: windows, controllers; closes slot after slot                           │◄─┐ grants, to the room's
//!  └─┬──────────────┬───────────────────────────┬──────────────────┬───────────────┘  │ owner, at T + 1
//!    │ decisions    │ parts: requests, sums     │ 1 Hz: own K      │ 1 Hz: own totals │
//!    │              ▼ (all to worker 0)         │ hottest rooms ±1 │ as a difference  │
//!    │         ┌─────────┐ granted at T         ▼                  ▼                  │
//!    │         │ Arbiter ├────────────► Feedback, + 1 slot ─────────────────────────►─┘
//!    │         └────┬────┘          ┌─────────┐        ┌────────┐
//!    │   decisions  │               │ Offered │        │ Totals │
//!    ▼              ▼               │  → Top  │        │ → sum  │   (differential)
//!  ┌──────────────────┐             └────┬────┘        └───┬────┘
//!  │    Decisions     │                  ▼                 ▼
//!  └────────┬─────────┘             ┌──────────────────────────┐
//!           ▼                       │           View           │──► the newest view
//!   reports to the host             └──────────────────────────┘
//! ```
//!
//! **Time** is the number of a slot. [`Source`](source) holds the only capabilities that the world outside moves: an
//! [`Advance`](command::Command::Advance) to slot T lets every slot up to T close, with or without counts in it, so
//! silence moves time as well as noise does. Counts may come early; they wait at the room's owner, and the host bounds
//! how early.
//!
//! **Rooms** live where [`route`] says; every exchange by room uses it. [`Rooms`](rooms) is the one operator with much
//! state. Its share of the work is plain code ([`rooms::Share`]) that knows nothing of timely: configuration and notes
//! of a slot, the slot's counts, the rooms that are due, their decisions.
//!
//! **Rules** enter as rows and leave as changes per group. Between changes their time stands still (no slot stirs the
//! join for nothing); a note that runs with the slots says which slot must wait for a change.
//!
//! **The cycle.** A rise to level 2 or above asks the [`Arbiter`](arbiter), who sees all requests and sums of slot T
//! and answers within it; the answer comes back at T + 1, before T + 1 closes. Only a worker that asked waits. So a
//! batch of calm slots flows through without a round trip, and a slot with a request costs one.
//!
//! **The view** is fed once a second of event time from capabilities of its own, so that differential is stirred once
//! a second, and decisions are complete before it has looked at the slot. Its traces are advanced each second, and
//! their sizes reported; nothing else keeps a handle.
//!
//! **Rows** ([`command::Mode::Rows`]) puts one plain rule in the place of everything behind the source, for
//! comparisons with other engines.
//!
//! What is exact, and on what it may depend: a decision depends on the counts of the slots up to its own, and on the
//! rules and control records in force, and on nothing else; not on the number of workers, on which worker received
//! what, on batches, or on when a slot was closed.

use barrage_protocol::ids::RoomKey;

mod arbiter;
pub mod command;
mod config;
mod gauge;
mod graph;
mod masks;
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
