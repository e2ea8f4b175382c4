//! From spooled items to rows: every value checked or repaired before it reaches SQL, without a clock or a database.

use super::item::{Envelope, Gap, Item};
use barrage_protocol::decision::Id;
use barrage_protocol::ids::{SLOT_MS, Slot};
use serde::Deserialize;
use serde_json::Value;

/// Instants outside of this are no event's (semantics §1), nor a clock's that is to be believed: [from, before), ms.
const INSTANTS: std::ops::Range<i64> = 100_000_000_000..100_000_000_000_000;

/// A row of `decision`.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct DecisionRow {
    pub(super) slot: i64,
    pub(super) id: Id,
    pub(super) scope: String,
    pub(super) subject: String,
    pub(super) class: Option<String>,
    pub(super) kind: String,
    pub(super) rule: String,
    pub(super) rule_version: i64,
    pub(super) mode: String,
    pub(super) from: String,
    pub(super) to: String,
    pub(super) actor: String,
    pub(super) rules_hash: String,
    pub(super) prev: Option<Id>,
    pub(super) evidence: String,
    pub(super) offsets: String,
    pub(super) canonical: String,
    pub(super) hash: [u8; 32],
    pub(super) by: By,
}

/// An envelope as columns.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct By {
    pub(super) epoch: i64,
    pub(super) instance: String,
    pub(super) revision: i64,
    pub(super) recorded_ms: i64,
}

/// Days since 1970 (UTC) of a slot.
pub(super) fn day(slot: i64) -> i64 {
    slot.div_euclid(86_400_000 / SLOT_MS as i64)
}

/// A row of one of the other tables.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Other {
    /// `controller_epoch`.
    Epoch { slot: i64, by: By },
    /// `control_record`.
    Control { seq: i64, n: i32, kind: String, from: i64, body: String, by: By },
    /// `rule_version`.
    Rules { hash: String, body: String, from: i64, by: By },
    /// `override_log`.
    Override {
        key: String,
        kind: String,
        subject: String,
        actor: String,
        from: i64,
        body: String,
        by: By,
    },
    /// `divergence`.
    Divergence(Divergence),
}

/// A row of `divergence`.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Divergence {
    pub(super) kind: &'static str,
    pub(super) slot: i64,
    pub(super) id: Option<Id>,
    pub(super) ours: Option<String>,
    pub(super) theirs: Option<String>,
    pub(super) decisions: i64,
    pub(super) detail: String,
    pub(super) by: By,
}

impl Divergence {
    /// The same divergence, found again, has the same key.
    pub(super) fn key(&self) -> String {
        let mut hasher = blake3::Hasher::new();
        let id = self.id.map(|id| id.to_string()).unwrap_or_default();
        let slot = self.slot.to_string();
        let parts = [self.kind, &slot, &id, self.ours.as_deref().unwrap_or_default()];
        let parts =
            parts.into_iter().chain([self.theirs.as_deref().unwrap_or_default(), &self.detail]);
        for part in parts {
            hasher.update(&(part.len() as u64).to_le_bytes());
            hasher.update(part.as_bytes());
        }
        hasher.finalize().to_hex().to_string()
    }
}

/// What cannot be stored, and why.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Refused {
    pub(super) why: String,
    pub(super) what: String,
    pub(super) envelope: Option<Envelope>,
}

/// The rows of some items.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Rows {
    pub(super) decisions: Vec<DecisionRow>,
    pub(super) others: Vec<Other>,
    pub(super) refused: Vec<Refused>,
    /// NUL characters replaced.
    pub(super) repaired: u64,
}

impl Rows {
    /// Rows in all.
    pub(super) fn len(&self) -> usize {
        self.decisions.len() + self.others.len()
    }

    /// Takes in an item.
    pub(super) fn add(&mut self, item: &Item) {
        let envelope = item.envelope();
        let by = match self.by(envelope) {
            Ok(by) => by,
            Err(why) => return self.refuse(why, whole(item), envelope),
        };
        let done = match item {
            Item::Decisions { lines, .. } => {
                for line in lines {
                    match self.decision(line, &by) {
                        Ok(row) => self.decisions.push(row),
                        Err(why) => self.refuse(why, line.clone(), envelope),
                    }
                }
                Ok(())
            }
            Item::Entry { slot, entry, .. } => self.entry(*slot, entry, by),
            Item::Diverged { slot, ours, theirs, what, .. } => slot_number(*slot).map(|slot| {
                let row = Divergence {
                    kind: "step",
                    slot,
                    id: None,
                    ours: Some(self.clean(ours)),
                    theirs: Some(self.clean(theirs)),
                    decisions: 0,
                    detail: self.clean(what),
                    by,
                };
                self.others.push(Other::Divergence(row));
            }),
            Item::Gap(gap) => self.gap(gap, by),
        };
        if let Err(why) = done {
            self.refuse(why, whole(item), envelope);
        }
    }

    /// Notes what cannot be stored.
    pub(super) fn refuse(&mut self, why: String, what: String, envelope: &Envelope) {
        self.refused.push(Refused { why, what, envelope: Some(envelope.clone()) });
    }

    fn by(&mut self, envelope: &Envelope) -> Result<By, String> {
        Ok(By {
            epoch: whole_number("epoch", envelope.epoch)?,
            instance: self.clean(&envelope.instance),
            revision: whole_number("revision", envelope.revision)?,
            recorded_ms: instant("recorded_ms", envelope.recorded_ms)?,
        })
    }

    /// Text as Postgres can hold it.
    fn clean(&mut self, text: &str) -> String {
        let (text, replaced) = clean(text);
        self.repaired += replaced;
        text
    }

    /// JSON as `jsonb` can hold it.
    fn json(&mut self, value: &Value) -> String {
        if !holds_nul(value) {
            return value.to_string();
        }
        let mut value = value.clone();
        self.repaired += clean_json(&mut value);
        value.to_string()
    }

    fn decision(&mut self, line: &str, by: &By) -> Result<DecisionRow, String> {
        let read: Line = serde_json::from_str(line).map_err(|e| format!("no decision: {e}"))?;
        // The text itself is escaped JSON and holds no NUL; what was hashed stays as it is.
        let canonical = self.clean(line);
        Ok(DecisionRow {
            slot: slot_number(read.slot)?,
            id: read.id,
            scope: self.clean(&read.scope),
            subject: self.clean(&read.subject),
            class: read.class.map(|c| self.clean(&c)),
            kind: self.clean(&read.kind),
            rule: self.clean(&read.rule),
            rule_version: whole_number("rule_version", read.rule_version)?,
            mode: self.clean(&read.mode),
            from: self.clean(&read.from),
            to: self.clean(&read.to),
            actor: self.clean(&read.actor),
            rules_hash: self.clean(&read.rules_hash),
            prev: read.prev,
            evidence: self.json(&read.evidence),
            offsets: self.json(&read.offsets),
            hash: *blake3::hash(line.as_bytes()).as_bytes(),
            canonical,
            by: by.clone(),
        })
    }

    /// An entry of the control log: a term, or what a step carries. Steps that carry nothing leave no row; the topic
    /// has them all.
    fn entry(&mut self, slot: Slot, entry: &Value, by: By) -> Result<(), String> {
        let read: Carried = serde_json::from_value(entry.clone())
            .map_err(|e| format!("no entry of the control log: {e}"))?;
        let epoch = whole_number("epoch", read.epoch)?;
        if read.kind == "lead" {
            // A term may begin before anything was closed.
            let slot = slot_number(slot).unwrap_or(0);
            self.others.push(Other::Epoch { slot, by: By { epoch, ..by } });
            return Ok(());
        }
        let seq = whole_number("seq", read.seq)?;
        for (n, body) in read.records.iter().enumerate() {
            let record: Order = serde_json::from_value(body.clone())
                .map_err(|e| format!("no control record: {e}"))?;
            let from = slot_number(record.from)?;
            let kind = self.clean(&record.control);
            let by = By { epoch, ..by.clone() };
            let text = self.json(body);
            if let (Some(hash), Some(rules)) = (&record.hash, &record.text) {
                let (hash, body) = (self.clean(hash), self.clean(rules));
                self.others.push(Other::Rules { hash, body, from, by: by.clone() });
            }
            if let Some(actor) = &record.actor {
                let row = Other::Override {
                    key: format!("{epoch}.{seq}.{n}"),
                    kind: kind.clone(),
                    subject: self.clean(record.room.as_deref().unwrap_or_default()),
                    actor: self.clean(actor),
                    from,
                    body: text.clone(),
                    by: by.clone(),
                };
                self.others.push(row);
            }
            let n = i32::try_from(n).map_err(|_| "too many records in a step".to_owned())?;
            self.others.push(Other::Control { seq, n, kind, from, body: text, by });
        }
        Ok(())
    }

    fn gap(&mut self, gap: &Gap, by: By) -> Result<(), String> {
        let row = Divergence {
            kind: "gap",
            slot: slot_number(gap.from)?,
            id: None,
            ours: None,
            theirs: None,
            decisions: whole_number("decisions", gap.decisions)?,
            detail: format!(
                "slots {} to {}: {} decisions and {} other records are missing ({})",
                gap.from.0,
                gap.to.0,
                gap.decisions,
                gap.others,
                self.clean(&gap.why)
            ),
            by,
        };
        self.others.push(Other::Divergence(row));
        Ok(())
    }
}

/// An item as text, for the file of what was set aside.
fn whole(item: &Item) -> String {
    match item {
        Item::Decisions { lines, .. } => lines.join("\n"),
        Item::Entry { entry, .. } => entry.to_string(),
        Item::Diverged { what, .. } => what.clone(),
        Item::Gap(gap) => format!("gap of {} decisions from slot {}", gap.decisions, gap.from.0),
    }
}

/// A canonical decision, read without knowing its kinds: a later version's is stored all the same.
#[derive(Deserialize)]
struct Line {
    id: Id,
    slot: Slot,
    scope: String,
    subject: String,
    class: Option<String>,
    kind: String,
    rule: String,
    rule_version: u64,
    mode: String,
    from: String,
    to: String,
    actor: String,
    rules_hash: String,
    prev: Option<Id>,
    evidence: Value,
    #[serde(default)]
    offsets: Value,
}

/// What an entry of the control log has that concerns us.
#[derive(Deserialize)]
struct Carried {
    #[serde(rename = "type")]
    kind: String,
    epoch: u64,
    #[serde(default)]
    seq: u64,
    #[serde(default)]
    records: Vec<Value>,
}

/// What a control record has that concerns us.
#[derive(Deserialize)]
struct Order {
    from: Slot,
    control: String,
    hash: Option<String>,
    text: Option<String>,
    room: Option<String>,
    actor: Option<String>,
}

/// Text without NUL characters, which Postgres refuses, and how many were replaced by U+FFFD.
pub(super) fn clean(text: &str) -> (String, u64) {
    match text.matches('\0').count() {
        0 => (text.to_owned(), 0),
        n => (text.replace('\0', "\u{fffd}"), n as u64),
    }
}

fn holds_nul(value: &Value) -> bool {
    match value {
        Value::String(s) => s.contains('\0'),
        Value::Array(items) => items.iter().any(holds_nul),
        Value::Object(map) => map.iter().any(|(k, v)| k.contains('\0') || holds_nul(v)),
        _ => false,
    }
}

/// Replaces NUL characters anywhere in JSON; how many there were. As deep as JSON can be read, which is bounded.
fn clean_json(value: &mut Value) -> u64 {
    match value {
        Value::String(s) => {
            let (cleaned, n) = clean(s);
            *s = cleaned;
            n
        }
        Value::Array(items) => items.iter_mut().map(clean_json).sum(),
        Value::Object(map) => {
            let mut n = 0;
            for (key, mut value) in std::mem::take(map) {
                n += clean_json(&mut value);
                let (key, in_key) = clean(&key);
                n += in_key;
                map.insert(key, value);
            }
            n
        }
        _ => 0,
    }
}

/// An instant that both sides can hold and that makes sense, in milliseconds since 1970.
///
/// # Errors
/// Which value is out of range.
pub(super) fn instant(name: &str, ms: i64) -> Result<i64, String> {
    if INSTANTS.contains(&ms) { Ok(ms) } else { Err(format!("{name} {ms} is no believable time")) }
}

fn slot_number(slot: Slot) -> Result<i64, String> {
    let number = whole_number("slot", slot.0)?;
    let ms = number.checked_mul(SLOT_MS as i64).ok_or("a slot beyond all time")?;
    instant("slot", ms).map(|_| number)
}

fn whole_number(name: &str, n: u64) -> Result<i64, String> {
    i64::try_from(n).map_err(|_| format!("{name} {n} is too large"))
}
