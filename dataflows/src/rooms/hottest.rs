//! A worker's own hottest rooms at the end of a second, as changes against the last time: the first level of top K.
//!
//! The K hottest of the site are among the K hottest of each worker, so no more than these enter differential, and
//! a second costs as much with a million rooms in the traces as with a hundred.

use super::share::Share;
use crate::view::Room;
use barrage_engine::windows::Idx;
use barrage_protocol::ids::Level;
use serde::{Deserialize, Serialize};
use std::cmp::Reverse;
use std::collections::BTreeSet;

/// What rooms are ordered by: the level, then events of the last ten seconds.
pub(crate) type Heat = (Level, u32);

/// A room in the order of the view: hottest first, then by id.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct Hot {
    heat: Reverse<Heat>,
    pub(crate) room: Room,
}

/// What was said last.
#[derive(Debug)]
pub(crate) struct Hottest {
    top: usize,
    said: BTreeSet<Hot>,
    candidates: Vec<(Reverse<Heat>, Idx)>,
}

impl Hottest {
    pub(crate) fn new(top: usize) -> Self {
        Self { top, said: BTreeSet::new(), candidates: Vec::new() }
    }

    /// Changes since the last call: −1 for what no longer holds, +1 for what does.
    pub(crate) fn changes(&mut self, share: &Share) -> Vec<(Hot, isize)> {
        self.candidates(share);
        if self.top < self.candidates.len() && self.top > 0 {
            // Ties at the edge are kept, so that the choice among them is by id and not by index.
            let (_, edge, _) = self.candidates.select_nth_unstable(self.top - 1);
            let edge = edge.0;
            self.candidates.retain(|(heat, _)| *heat <= edge);
        }
        let now = self.candidates.iter().map(|&(heat, idx)| Hot { heat, room: share.show(idx) });
        let mut now: Vec<Hot> = now.collect();
        now.sort_unstable();
        now.truncate(self.top);
        let now: BTreeSet<Hot> = now.into_iter().collect();
        let gone = self.said.difference(&now).map(|hot| (hot.clone(), -1));
        let changes = gone.chain(now.difference(&self.said).map(|hot| (hot.clone(), 1))).collect();
        self.said = now;
        changes
    }

    /// Every room that can be among the hottest. A few rooms are watched by rules; all others have fewer events than
    /// these, so that they need not be looked at where enough of the watched ones are hot enough.
    fn candidates(&mut self, share: &Share) {
        self.candidates.clear();
        let (least, watched) = share.watched();
        self.candidates.extend(watched.map(|(heat, idx)| (Reverse(heat), idx)));
        let hot_enough = |(Reverse((level, count)), _): &&(Reverse<Heat>, Idx)| {
            *level > Level::NORMAL || *count >= least
        };
        if self.candidates.iter().filter(hot_enough).take(self.top).count() < self.top {
            self.candidates.clear();
            self.candidates.extend(share.warmth().map(|(heat, idx)| (Reverse(heat), idx)));
        }
    }
}
