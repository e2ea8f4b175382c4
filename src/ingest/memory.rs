//! A partition in memory, for tests: records with the broker's time, answers at the end, failures, in a given order.

use super::source::{Item, Poll, Source};
use barrage_protocol::event;
use std::collections::VecDeque;

/// What the partition answers, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// A record.
    Record {
        /// The broker's timestamp, where it has one.
        append_ms: Option<i64>,
        /// The record's value.
        value: Vec<u8>,
    },
    /// Offsets that hold no record (a transaction's marker).
    Gap(u64),
    /// Nothing more for now: one poll is answered so.
    AtEnd,
    /// One poll fails.
    Failed(String),
}

/// A partition in memory.
#[derive(Debug)]
pub struct Memory {
    name: String,
    answers: VecDeque<Answer>,
    offset: u64,
    ends: bool,
}

impl Memory {
    /// A partition whose first record has the given offset.
    #[must_use]
    pub fn new(name: &str, first_offset: u64) -> Self {
        Self { name: name.to_owned(), answers: VecDeque::new(), offset: first_offset, ends: true }
    }

    /// Whether nothing can come after the last answer (a file), or something may (a topic).
    #[must_use]
    pub fn ends(mut self, ends: bool) -> Self {
        self.ends = ends;
        self
    }

    /// Adds an answer.
    pub fn push(&mut self, answer: Answer) {
        self.answers.push_back(answer);
    }

    /// Adds an event with the broker's time.
    pub fn event(&mut self, append_ms: Option<i64>, room: &str, ts: i64) {
        let room = serde_json::Value::from(room);
        let value = format!(r#"{{"room":{room},"ts":{ts}}}"#).into_bytes();
        self.push(Answer::Record { append_ms, value });
    }
}

impl Source for Memory {
    fn poll(&mut self, max: usize, sink: &mut dyn FnMut(Item<'_>)) -> Poll {
        let mut handed = 0;
        while handed < max {
            match self.answers.front() {
                None => return if self.ends { Poll::Ended } else { Poll::AtEnd },
                // What was read stands before the answer at the end or the failure: those come with the next poll.
                Some(Answer::AtEnd | Answer::Failed(_)) if handed > 0 => return Poll::More,
                _ => {}
            }
            match self.answers.pop_front() {
                Some(Answer::Record { append_ms, value }) => {
                    let offset = self.offset;
                    self.offset += 1;
                    handed += 1;
                    match event::parse(&value) {
                        Ok(e) => sink(Item::event(offset, append_ms, e.ts, e.hit(), &e.room)),
                        Err(reject) => sink(Item::rejected(offset, append_ms, reject)),
                    }
                }
                Some(Answer::Gap(n)) => self.offset += n,
                Some(Answer::AtEnd) => return Poll::AtEnd,
                Some(Answer::Failed(why)) => return Poll::Failed(why),
                None => {}
            }
        }
        Poll::More
    }

    fn first_offset(&self) -> u64 {
        self.offset
    }

    fn name(&self) -> &str {
        &self.name
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_come_in_order_and_offsets_may_have_gaps() {
        let mut memory = Memory::new("m", 100).ends(false);
        memory.event(Some(1_700_000_000_001), "a\"b", 1_700_000_000_000);
        memory.push(Answer::Gap(3));
        memory.push(Answer::Record { append_ms: None, value: b"{".to_vec() });
        memory.push(Answer::AtEnd);
        memory.push(Answer::Failed("gone".into()));
        memory.event(None, "c", 1_700_000_000_500);
        let mut seen = Vec::new();
        let mut polls = Vec::new();
        for _ in 0..5 {
            let poll = memory.poll(10, &mut |i| {
                seen.push((i.offset, i.append_ms, i.room.to_owned(), i.event.is_ok()));
            });
            polls.push(format!("{poll:?}"));
        }
        assert_eq!(polls, ["More", "AtEnd", "Failed(\"gone\")", "AtEnd", "AtEnd"]);
        assert_eq!(
            seen,
            [
                (100, Some(1_700_000_000_001), "a\"b".to_owned(), true),
                (104, None, String::new(), false),
                (105, None, "c".to_owned(), true),
            ]
        );
    }
}
