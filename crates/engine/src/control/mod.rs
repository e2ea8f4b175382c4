//! Time and the control log: what closes a slot, and what is final (semantics §1), as pure state machines. Records,
//! answers of polls, entries of the log and monotonic time come in as arguments; counted events, slots to close and
//! steps to write come out.
//!
//! * [`PartitionClock`]: watermark, late, rejected, parked, one partition.
//! * [`Leader`]: says when to close and writes steps.
//! * [`Follower`]: takes steps whole, and compares.
//! * [`Candidate`]: becomes leader without losing or changing anything.
//! * [`Checkpoint`]: from where a restart is exact. [`Waiting`], [`Outbox`]: what may be kept and sent, and when.
//!
//! One synchronous loop drives either role. Here the deciding core is a sum, the log is in memory, and a replay comes
//! to the same sums:
//! ```
//! use barrage_engine::control::{Config, Follower, Leader, Memory, Outbox, Reading, lead};
//! use barrage_protocol::control::Entry;
//! use barrage_protocol::ids::Slot;
//! use std::collections::BTreeMap;
//!
//! let file = [0, 120, 80, 250, 900, 40, 1900].map(|t| 1_700_000_000_000 + t);
//! let reading = |i: usize| Reading { offset: i as u64, append_ms: None, t: Some(file[i]), event: Ok(1_u32) };
//! # #[derive(Default)]
//! # struct Core { counts: BTreeMap<Slot, u32>, next: Slot, sum: u32 }
//! # impl Core {
//! #     fn close(&mut self, upto: Slot) -> Vec<(Slot, u32)> {
//! #         let mut decided = Vec::new();
//! #         while self.next <= upto {
//! #             self.sum += self.counts.remove(&self.next).unwrap_or(0);
//! #             decided.push((self.next, self.sum));
//! #             self.next = self.next.next();
//! #         }
//! #         decided
//! #     }
//! # }
//!
//! // The leader. `now` is monotonic; a real loop waits for its sources instead of counting rounds.
//! let mut log = Memory::new(1_000);
//! log.append(lead(1));
//! let mut leader = Leader::new(Config::default(), 1, 0);
//! leader.add_partition(0, 0, 0);
//! let (mut core, mut outbox, mut sent) = (Core::default(), Outbox::default(), Vec::new());
//! for now in 0.. {
//!     let counts = &mut core.counts;
//!     let mut sink = |_, slot, n| *counts.entry(slot).or_default() += n;
//!     if leader.turn(now, &mut sink) {
//!         unreachable!("no break here: whatever was counted would have to go");
//!     }
//!     // Poll each partition that may be read: records, then how the poll ended.
//!     if leader.can_read(0) {
//!         for i in 0..file.len() {
//!             leader.read(0, reading(i), &mut sink);
//!         }
//!         leader.ended(0, &mut sink);
//!     }
//!     // What holds from the next slot, before it is closed.
//!     for record in leader.records_due() {
//!         core.next = core.next.max(record.from); // a `start`; rules would go to the workers
//!     }
//!     if let Some(upto) = leader.closable(now) {
//!         let decided = core.close(upto);
//!         let any = !decided.is_empty();
//!         decided.into_iter().for_each(|(slot, sum)| outbox.push(slot, sum));
//!         leader.closed(upto, &core.sum.to_string(), any);
//!     }
//!     while let Some(step) = leader.step(now) {
//!         log.append(Entry::Step(step));
//!     }
//!     // A step is written when it is read back; only then effects leave.
//!     while let Some(entry) = log.get(leader.position()) {
//!         leader.entry(entry);
//!     }
//!     while let Some((slot, sum)) = outbox.send(leader.last_final()) {
//!         sent.push((slot, *sum));
//!         leader.done(slot);
//!     }
//!     outbox.done(leader.last_done());
//!     if leader.is_finished() {
//!         break;
//!     }
//! }
//! assert_eq!(sent.last(), Some(&(Slot(17_000_000_019), 6)), "the event at 40 ms was late");
//! assert_eq!(leader.counters(0).unwrap().late, 1);
//!
//! // A replay: the same records, the same log.
//! let mut follower = Follower::new(Config::default(), 0);
//! let (mut core, mut again) = (Core::default(), Vec::new());
//! for now in 0.. {
//!     while follower.wants_entries() && let Some(entry) = log.get(follower.position()) {
//!         follower.entry(entry.clone());
//!     }
//!     let mut counts = std::mem::take(&mut core.counts);
//!     if follower.turn(now, &mut |_, slot, n| *counts.entry(slot).or_default() += n) {
//!         counts.clear(); // a start
//!     }
//!     let mut sink = |_, slot, n| *counts.entry(slot).or_default() += n;
//!     if let Some(wanted) = follower.wanted(0) {
//!         let end = (wanted.end as usize).min(file.len());
//!         for i in wanted.start as usize..end {
//!             follower.read(0, reading(i), &mut sink);
//!         }
//!         if wanted.end as usize > file.len() {
//!             follower.ended(0);
//!         }
//!     }
//!     core.counts = counts;
//!     for record in follower.records_due() {
//!         core.next = core.next.max(record.from);
//!     }
//!     if let Some(upto) = follower.closable() {
//!         again.extend(core.close(upto));
//!         follower.closed(upto, &core.sum.to_string());
//!     }
//!     if follower.is_up_to_date() && follower.position() == log.end() {
//!         break;
//!     }
//! }
//! assert_eq!(again, sent);
//! assert_eq!(follower.divergence(), None);
//! ```

mod checkpoint;
mod config;
mod follower;
mod leader;
mod log;
mod outbox;
mod own_time;
mod partition;
mod site;
mod takeover;
mod watch;

pub use checkpoint::{Checkpoint, Mark, Waiting};
pub use config::Config;
#[cfg(test)]
pub use config::Flaw;
pub use follower::{Alarms, Divergence, Follower};
pub use leader::Leader;
pub use log::{Memory, Reader};
pub use outbox::Outbox;
pub use partition::{Counters, PartitionClock, Reading};
pub use takeover::{Candidate, Progress, lead};
pub use watch::Status;
