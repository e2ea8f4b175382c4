//! What is spooled: decisions of a slot, entries of the control log, divergences and gaps, each with its envelope.

use barrage_protocol::ids::Slot;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Version of the spool's records.
pub(super) const SCHEMA: u32 = 1;

/// Most bytes of canonical lines in one record; a slot with more is several.
const LINES_MAX: usize = 1 << 20;

/// Who recorded something, in which term, and when: kept beside what was decided, never compared.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Envelope {
    /// Leader term.
    pub epoch: u64,
    /// Name of the controller.
    pub instance: Arc<str>,
    /// Revision of etcd last seen by it.
    pub revision: u64,
    /// Wall clock, milliseconds since 1970.
    pub recorded_ms: i64,
}

/// Decisions that were made and could not be spooled.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Gap {
    /// First slot concerned.
    pub from: Slot,
    /// Last slot concerned.
    pub to: Slot,
    /// Decisions missing.
    pub decisions: u64,
    /// Control entries and divergences missing.
    pub others: u64,
    /// Why.
    pub why: String,
    /// Of the first thing missing.
    pub envelope: Envelope,
}

/// One thing on its way to Postgres.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Item {
    Decisions {
        slot: Slot,
        lines: Vec<String>,
        envelope: Envelope,
    },
    /// An entry of the control log, as JSON: one of a later version is kept as it is.
    Entry {
        slot: Slot,
        entry: serde_json::Value,
        envelope: Envelope,
    },
    Diverged {
        slot: Slot,
        ours: String,
        theirs: String,
        what: String,
        envelope: Envelope,
    },
    Gap(Gap),
}

impl Item {
    pub(super) fn slot(&self) -> Slot {
        match self {
            Self::Decisions { slot, .. }
            | Self::Entry { slot, .. }
            | Self::Diverged { slot, .. } => *slot,
            Self::Gap(gap) => gap.to,
        }
    }

    pub(super) fn envelope(&self) -> &Envelope {
        match self {
            Self::Decisions { envelope, .. }
            | Self::Entry { envelope, .. }
            | Self::Diverged { envelope, .. } => envelope,
            Self::Gap(gap) => &gap.envelope,
        }
    }

    /// (decisions, other things) in it.
    pub(super) fn count(&self) -> (u64, u64) {
        match self {
            Self::Decisions { lines, .. } => (lines.len() as u64, 0),
            Self::Entry { .. } | Self::Diverged { .. } | Self::Gap(_) => (0, 1),
        }
    }
}

/// First line of a record; canonical decisions follow, one a line.
#[derive(Debug, Serialize, Deserialize)]
struct Head {
    schema: u32,
    #[serde(flatten)]
    what: What,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "what", rename_all = "snake_case")]
enum What {
    Decisions { slot: Slot, envelope: Envelope },
    Entry { slot: Slot, entry: serde_json::Value, envelope: Envelope },
    Diverged { slot: Slot, ours: String, theirs: String, detail: String, envelope: Envelope },
    Gap { gap: Gap },
}

/// The payloads of an item, each small enough for a frame.
///
/// # Errors
/// When a part of it cannot be written as JSON.
pub(super) fn encode(item: &Item) -> Result<Vec<Vec<u8>>, serde_json::Error> {
    let envelope = item.envelope().clone();
    let what = match item {
        Item::Decisions { slot, lines, .. } => {
            return encode_lines(*slot, lines, envelope);
        }
        Item::Entry { slot, entry, .. } => {
            What::Entry { slot: *slot, entry: entry.clone(), envelope }
        }
        Item::Diverged { slot, ours, theirs, what, .. } => What::Diverged {
            slot: *slot,
            ours: ours.clone(),
            theirs: theirs.clone(),
            detail: what.clone(),
            envelope,
        },
        Item::Gap(gap) => What::Gap { gap: gap.clone() },
    };
    Ok(vec![serde_json::to_vec(&Head { schema: SCHEMA, what })?])
}

fn encode_lines(
    slot: Slot,
    lines: &[String],
    envelope: Envelope,
) -> Result<Vec<Vec<u8>>, serde_json::Error> {
    let head = Head { schema: SCHEMA, what: What::Decisions { slot, envelope } };
    let head = serde_json::to_vec(&head)?;
    let mut payloads = Vec::new();
    let mut payload = head.clone();
    for line in lines {
        if payload.len() > head.len() && payload.len() + line.len() > LINES_MAX {
            payloads.push(std::mem::replace(&mut payload, head.clone()));
        }
        payload.push(b'\n');
        payload.extend_from_slice(line.as_bytes());
    }
    payloads.push(payload);
    Ok(payloads)
}

/// Reads a payload.
///
/// # Errors
/// Why it is none of this version.
pub(super) fn decode(payload: &[u8]) -> Result<Item, String> {
    let text = std::str::from_utf8(payload).map_err(|_| "a record that is no text".to_owned())?;
    let (head, body) = text.split_once('\n').map_or((text, None), |(h, b)| (h, Some(b)));
    let head: Head =
        serde_json::from_str(head).map_err(|e| format!("a record that cannot be read: {e}"))?;
    if head.schema > SCHEMA {
        return Err(format!("a record of a later version, {}", head.schema));
    }
    Ok(match head.what {
        What::Decisions { slot, envelope } => {
            let lines = body.map(|b| b.split('\n').map(str::to_owned).collect());
            Item::Decisions { slot, lines: lines.unwrap_or_default(), envelope }
        }
        What::Entry { slot, entry, envelope } => Item::Entry { slot, entry, envelope },
        What::Diverged { slot, ours, theirs, detail, envelope } => {
            Item::Diverged { slot, ours, theirs, what: detail, envelope }
        }
        What::Gap { gap } => Item::Gap(gap),
    })
}
