//! One partition as the common door sees it, and what it shares with the thread that polls.

use super::chunk::{Chunk, RECORDS_MAX};
use crate::ingest::{Item, Poll, Source};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// For so long after the last sign of its broker a partition at its end is at its end.
const HEARD: Duration = Duration::from_secs(3);

/// What reader and thread share.
#[derive(Debug, Default)]
pub(super) struct Inner {
    pub(super) chunk: Chunk,
    /// The next offset that the thread will deliver.
    pub(super) next: u64,
    /// The reader wants to go on from here; nothing before is delivered any more.
    pub(super) go: Option<u64>,
    /// The broker said that there is nothing more.
    pub(super) at_end: bool,
    /// Last sign of life of the partition's broker.
    pub(super) heard: Option<Instant>,
    pub(super) paused: bool,
    /// Why it cannot be read for now.
    pub(super) failed: Option<String>,
}

#[derive(Debug, Default)]
pub(super) struct Shared {
    inner: Mutex<Inner>,
    /// The reader has made room or wants to go elsewhere.
    pub(super) asked: AtomicBool,
}

impl Shared {
    pub(super) fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A partition of a topic.
pub(super) struct Partition {
    name: String,
    first: u64,
    shared: Arc<Shared>,
    /// Taken from the thread, not yet handed out.
    own: Chunk,
    begun: bool,
}

impl Partition {
    pub(super) fn new(topic: &str, partition: u32, first: u64, shared: Arc<Shared>) -> Self {
        let name = format!("{topic}/{partition}");
        Self { name, first, shared, own: Chunk::default(), begun: false }
    }

    fn go(&mut self, offset: u64) {
        self.begun = true;
        self.own.clear();
        let mut inner = self.shared.lock();
        inner.chunk.clear();
        (inner.next, inner.go) = (offset, Some(offset));
        (inner.at_end, inner.failed) = (false, None);
        drop(inner);
        self.shared.asked.store(true, Ordering::Release);
    }
}

impl Source for Partition {
    fn poll(&mut self, max: usize, sink: &mut dyn FnMut(Item<'_>)) -> Poll {
        if !self.begun {
            // Only now: whoever starts from a checkpoint goes elsewhere first.
            self.go(self.first);
        }
        if self.own.len() == 0 {
            self.own.clear();
            let mut inner = self.shared.lock();
            if inner.chunk.len() == 0 {
                if let Some(why) = &inner.failed {
                    return Poll::Failed(why.clone());
                }
                let heard = inner.heard.is_some_and(|at| at.elapsed() < HEARD);
                return match (heard, inner.at_end && !inner.paused) {
                    (true, true) => Poll::AtEnd,
                    (true, false) => Poll::Failed("nothing has come yet".into()),
                    (false, _) => Poll::Failed("the broker does not answer".into()),
                };
            }
            std::mem::swap(&mut self.own, &mut inner.chunk);
            if inner.paused {
                self.shared.asked.store(true, Ordering::Release);
            }
        }
        self.own.take(max, sink);
        Poll::More
    }

    fn first_offset(&self) -> u64 {
        self.first
    }

    fn seek(&mut self, offset: u64) -> Result<(), String> {
        self.go(offset);
        Ok(())
    }

    fn name(&self) -> &str {
        &self.name
    }
}

impl Inner {
    /// Whether the partition is to be paused now.
    pub(super) fn is_full(&self) -> bool {
        self.chunk.len() >= RECORDS_MAX
    }
}
