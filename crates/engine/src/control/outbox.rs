//! Decisions on their way out: kept until their slot is final, sent in order, kept until everybody may forget them.

use barrage_protocol::ids::Slot;
use std::collections::BTreeMap;

/// Decisions by slot, of a leader or a follower (which keeps them for a take-over).
#[derive(Clone, Debug)]
pub struct Outbox<D> {
    slots: BTreeMap<Slot, D>,
    sent: Slot,
}

impl<D> Default for Outbox<D> {
    fn default() -> Self {
        Self { slots: BTreeMap::new(), sent: Slot(0) }
    }
}

impl<D> Outbox<D> {
    /// Decisions of a closed slot (none need not be said).
    pub fn push(&mut self, slot: Slot, decisions: D) {
        self.slots.insert(slot, decisions);
    }

    /// The next slot that may leave now, with its decisions; it stays until [`Self::done`].
    pub fn send(&mut self, last_final: Slot) -> Option<(Slot, &D)> {
        let (slot, decisions) = self.slots.range(self.sent.next()..).next()?;
        if *slot > last_final {
            return None;
        }
        self.sent = *slot;
        Some((*slot, decisions))
    }

    /// Effects of slots up to `slot` are out: nobody will ask for them again.
    pub fn done(&mut self, slot: Slot) {
        self.slots = self.slots.split_off(&slot.next());
        self.sent = self.sent.max(slot);
    }

    /// A new leader sends again whatever lies after `done`.
    pub fn again(&mut self, done: Slot) {
        self.sent = done;
    }

    /// Slots kept.
    #[must_use]
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// Whether none is kept.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }
}
