//! What to do next about a watch, as a pure machine: list, watch from there, ask whether anybody is there, begin again.
//! Time is an argument; what was heard goes in, orders come out.

/// Silence after which the server is asked whether the watch lives, in milliseconds.
const ASK_MS: u64 = 3_000;
/// Silence after the question that ends the watch.
const ANSWER_MS: u64 = 3_000;
/// Least time between two listings that a wrong digest calls for.
const WRONG_MS: u64 = 1_000;
/// First and longest wait before another attempt; the real ones are drawn below them.
const BACKOFF_MS: (u64, u64) = (100, 8_000);
/// A listing that nothing calls for: servers have lost events around compactions.
const RELIST_MS: u64 = 60_000;

/// What to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// List everything, and report it.
    List,
    /// Open a watch from this revision on, in the place of any that is open.
    Watch {
        /// The revision after the last one seen.
        from: i64,
    },
    /// Ask the server for a sign of life.
    Ask,
    /// Go on listening.
    Listen,
}

/// What was heard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Heard {
    /// A listing was taken in.
    Listed {
        /// Its revision.
        revision: i64,
    },
    /// The watch is open; the store is at this revision.
    Created {
        /// Revision of the answer.
        revision: i64,
    },
    /// Events were taken in, the last of this revision.
    Events {
        /// Revision of the last event.
        revision: i64,
    },
    /// An answer without events.
    Alive,
    /// The watch ended, because its revision was compacted.
    Compacted,
    /// The call failed, or the stream ended.
    Failed,
    /// The copy is not complete by the heartbeat's digest.
    Wrong,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// A listing is called for, not before this time.
    List(u64),
    /// A watch is to be opened, not before this time.
    Open(u64),
    /// A watch is being opened since.
    Opening(u64),
    /// The watch lives; the last answer came at this time, and a question was asked at the second.
    Open2(u64, Option<u64>),
    /// A listing is under way.
    Listing,
}

/// The machine of one watch.
#[derive(Clone, Debug)]
pub struct Machine {
    state: State,
    revision: i64,
    listed_at: u64,
    failures: u32,
    seed: u64,
    /// Listings so far.
    pub listings: u64,
    /// Watches opened so far.
    pub watches: u64,
}

impl Machine {
    /// A machine whose waits follow from the seed: many edges do not come back at once.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self {
            state: State::List(0),
            revision: 0,
            listed_at: 0,
            failures: 0,
            seed,
            listings: 0,
            watches: 0,
        }
    }

    /// The revision up to which everything was seen.
    #[must_use]
    pub fn revision(&self) -> i64 {
        self.revision
    }

    /// What to do at `now_ms`.
    pub fn next(&mut self, now_ms: u64) -> Order {
        match self.state {
            State::List(at) if now_ms >= at => {
                self.state = State::Listing;
                self.listings += 1;
                Order::List
            }
            State::Open(at) if now_ms >= at => {
                self.state = State::Opening(now_ms);
                self.watches += 1;
                Order::Watch { from: self.revision + 1 }
            }
            // A server that was asked and says nothing, not even that the watch is open.
            State::Opening(since) if now_ms.saturating_sub(since) >= ASK_MS => self.again(now_ms),
            State::Open2(heard, asked) => match asked {
                Some(at) if now_ms.saturating_sub(at) >= ANSWER_MS => self.again(now_ms),
                None if now_ms.saturating_sub(heard) >= ASK_MS => {
                    self.state = State::Open2(heard, Some(now_ms));
                    Order::Ask
                }
                _ if now_ms.saturating_sub(self.listed_at)
                    >= RELIST_MS + self.draw(RELIST_MS / 2) =>
                {
                    self.state = State::List(now_ms);
                    self.next(now_ms)
                }
                _ => Order::Listen,
            },
            _ => Order::Listen,
        }
    }

    fn again(&mut self, now_ms: u64) -> Order {
        self.heard(Heard::Failed, now_ms);
        self.next(now_ms)
    }

    /// Takes in what was heard.
    pub fn heard(&mut self, heard: Heard, now_ms: u64) {
        match heard {
            Heard::Listed { revision } => {
                // A store that went back has other revisions: the listing counts, not what was seen before.
                self.revision = revision;
                (self.listed_at, self.failures) = (now_ms, 0);
                self.state = State::Open(now_ms);
            }
            Heard::Created { revision } if revision < self.revision => {
                // The store is behind what was seen: it was restored or wiped, and would say nothing until it is there.
                self.state = State::List(now_ms);
            }
            Heard::Created { .. } => {
                self.failures = 0;
                self.state = State::Open2(now_ms, None);
            }
            Heard::Events { revision } => {
                self.revision = self.revision.max(revision);
                self.alive(now_ms);
            }
            Heard::Alive => self.alive(now_ms),
            Heard::Compacted => self.state = State::List(now_ms + self.draw(BACKOFF_MS.0)),
            Heard::Wrong => {
                let at = (self.listed_at + WRONG_MS).max(now_ms);
                if !matches!(self.state, State::List(_) | State::Listing) {
                    self.state = State::List(at);
                }
            }
            Heard::Failed => {
                self.failures = self.failures.saturating_add(1);
                let most =
                    BACKOFF_MS.0.saturating_mul(1 << self.failures.min(10)).min(BACKOFF_MS.1);
                let at = now_ms + self.draw(most);
                let listing =
                    matches!(self.state, State::Listing | State::List(_)) || self.revision == 0;
                self.state = if listing { State::List(at) } else { State::Open(at) };
            }
        }
    }

    fn alive(&mut self, now_ms: u64) {
        if matches!(self.state, State::Open2(..) | State::Opening(_)) {
            self.state = State::Open2(now_ms, None);
        }
    }

    /// A number below `most`: full jitter (SplitMix64 of the seed).
    fn draw(&mut self, most: u64) -> u64 {
        self.seed = self.seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.seed;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % most.max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(machine: &mut Machine, revision: i64, now: u64) {
        assert_eq!(machine.next(now), Order::List);
        machine.heard(Heard::Listed { revision }, now);
        assert_eq!(machine.next(now), Order::Watch { from: revision + 1 });
        machine.heard(Heard::Created { revision }, now);
        assert_eq!(machine.next(now), Order::Listen);
    }

    #[test]
    fn a_watch_begins_after_its_listing_and_goes_on_where_it_was_cut() {
        let mut machine = Machine::new(1);
        open(&mut machine, 10, 0);
        machine.heard(Heard::Events { revision: 15 }, 100);
        machine.heard(Heard::Failed, 200);
        let mut now = 200;
        while machine.next(now) == Order::Listen {
            now += 1;
        }
        assert!(now <= 200 + 2 * BACKOFF_MS.0, "{now}");
        assert_eq!((machine.listings, machine.watches, machine.revision()), (1, 2, 15));
    }

    /// E02: a watch that hangs in silence is noticed, asked, and opened anew from where it was.
    #[test]
    fn e02_a_silent_watch_is_asked_and_opened_anew() {
        let mut machine = Machine::new(2);
        open(&mut machine, 10, 0);
        machine.heard(Heard::Events { revision: 12 }, 1_000);
        assert_eq!(machine.next(3_999), Order::Listen);
        assert_eq!(machine.next(4_000), Order::Ask);
        assert_eq!(machine.next(4_001), Order::Listen);
        // An answer is enough.
        machine.heard(Heard::Alive, 5_000);
        assert_eq!(machine.next(7_000), Order::Listen);
        assert_eq!(machine.next(8_000), Order::Ask);
        let mut now = 11_000;
        while machine.next(now) == Order::Listen {
            now += 1;
        }
        assert!(now <= 11_000 + 2 * BACKOFF_MS.0, "{now}");
        assert_eq!((machine.watches, machine.revision()), (2, 12));
        // One that is never opened is as silent.
        assert_eq!(machine.next(now + ASK_MS - 1), Order::Listen);
        let mut later = now + ASK_MS;
        while machine.next(later) == Order::Listen {
            later += 1;
        }
        assert_eq!(machine.watches, 3);
    }

    /// E01: a revision that was compacted cannot be watched: everything is listed.
    #[test]
    fn e01_a_compacted_watch_lists_again() {
        let mut machine = Machine::new(3);
        open(&mut machine, 10, 0);
        machine.heard(Heard::Compacted, 50);
        let mut now = 50;
        while machine.next(now) == Order::Listen {
            now += 1;
        }
        assert_eq!(machine.listings, 2);
        machine.heard(Heard::Listed { revision: 90 }, now);
        assert_eq!(machine.next(now), Order::Watch { from: 91 });
    }

    #[test]
    fn a_store_that_went_back_is_listed() {
        let mut machine = Machine::new(4);
        open(&mut machine, 700, 0);
        machine.heard(Heard::Failed, 10);
        let mut now = 10;
        while machine.next(now) == Order::Listen {
            now += 1;
        }
        machine.heard(Heard::Created { revision: 3 }, now);
        assert_eq!(machine.next(now), Order::List);
        machine.heard(Heard::Listed { revision: 3 }, now);
        assert_eq!(machine.next(now), Order::Watch { from: 4 });
    }

    #[test]
    fn a_wrong_copy_is_listed_but_not_without_end() {
        let mut machine = Machine::new(5);
        open(&mut machine, 10, 0);
        let mut listings = 0;
        for now in 0..10_000 {
            machine.heard(Heard::Wrong, now);
            if machine.next(now) == Order::List {
                listings += 1;
                machine.heard(Heard::Listed { revision: 10 }, now);
            }
        }
        assert!((8..=11).contains(&listings), "{listings}");
    }

    /// E06: many edges that lose their server at once do not come back at once.
    #[test]
    fn e06_edges_come_back_spread_over_time() {
        let mut at = Vec::new();
        for seed in 0..1_000 {
            let mut machine = Machine::new(seed);
            open(&mut machine, 10, 0);
            let mut now = 0;
            // The server is away for a while: each attempt fails.
            for _ in 0..8 {
                machine.heard(Heard::Failed, now);
                while machine.next(now) == Order::Listen {
                    now += 1;
                }
            }
            at.push(now);
        }
        at.sort_unstable();
        let (first, last) = (at[50], at[949]);
        assert!(last - first > 5_000, "9 of 10 come back within {} ms", last - first);
        let busiest = (0..).take(60).map(|k| at.iter().filter(|t| **t / 1_000 == k).count()).max();
        assert!(busiest.is_some_and(|n| n < 200), "{busiest:?} in one second");
    }

    /// Nobody listens for ever to a watch that lost an event: everything is listed now and then.
    #[test]
    fn everything_is_listed_now_and_then() {
        let mut machine = Machine::new(6);
        open(&mut machine, 10, 0);
        let mut now = 0;
        loop {
            machine.heard(Heard::Alive, now);
            if machine.next(now) == Order::List {
                break;
            }
            now += 500;
        }
        assert!((RELIST_MS..=2 * RELIST_MS).contains(&now), "{now}");
    }
}
