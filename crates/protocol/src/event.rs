//! One event as it stands in a record, and its total parsing: every byte string yields an event or a reason.
//!
//! The rules are those of the contract "Kafka in". Parsing borrows from the record and allocates only where a string
//! holds escapes. Where the contract leaves a choice:
//! * `null` in an optional field is the same as its absence; any other wrong type there is `field_type`, except in
//!   `text`, where it drops the text: whatever a flood says, it is a flood.
//! * An unknown `outcome` is `ignored` and an unknown `tier` is `ordinary`, so that newer producers are understood.
//! * `user` may be an integer, as `room` may.
//! * A key is compared after its escapes are resolved, so `"r\u006fom"` is `room` (and a duplicate of it).

mod classify;
mod reason;
mod scan;
mod time;

#[cfg(test)]
mod tests;

pub use classify::classify;
pub use reason::{Detail, Field, Reason, Reject};
pub use time::{TS_MAX, TS_MIN, Time, Unit};

use crate::ids::{Class, Outcome, RoomKey, Tier};
use scan::{Fault, Number, Scan, Str, Value};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// Largest event in bytes.
pub const MAX_BYTES: usize = 64 * 1024;
/// Longest room id in bytes.
pub const MAX_ROOM_BYTES: usize = 128;
/// Longest latency that is believed, in milliseconds (one day).
pub const MAX_LATENCY_MS: u64 = 86_400_000;

/// What the pre-count keeps of an event: 24 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Hit {
    /// The room's key.
    pub room: RoomKey,
    /// Class of the message.
    pub class: Class,
    /// What became of the request.
    pub outcome: Outcome,
}

/// A string of the record, its escapes not yet resolved; known to be resolvable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Text<'a> {
    raw: &'a str,
    escaped: bool,
}

impl<'a> Text<'a> {
    /// A string without escapes.
    #[must_use]
    pub fn plain(raw: &'a str) -> Self {
        Self { raw, escaped: false }
    }

    /// The string itself; allocates only where there are escapes.
    #[must_use]
    pub fn get(&self) -> Cow<'a, str> {
        if self.escaped {
            // Checked when it was scanned: a text that does not resolve was not kept.
            Cow::Owned(scan::unescape(self.raw).unwrap_or_default())
        } else {
            Cow::Borrowed(self.raw)
        }
    }
}

/// One event: `room` and `ts` are always there, everything else only if the producer said it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event<'a> {
    /// The room's id: 1–128 bytes without control characters.
    pub room: Cow<'a, str>,
    /// Event time, milliseconds since the Unix epoch.
    pub ts: i64,
    /// Class: as named, else as classified.
    pub class: Class,
    /// What became of the request; `ok` if not said.
    pub outcome: Outcome,
    /// Tier of the user, if said.
    pub tier: Option<Tier>,
    /// Weight of the message, 1 … 1,000; 1 if not said.
    pub weight: u16,
    /// How long the request took, whole milliseconds.
    pub latency_ms: Option<u32>,
    /// The user's id.
    pub user: Option<Text<'a>>,
    /// Downstream service.
    pub service: Option<Text<'a>>,
    /// Method called.
    pub method: Option<Text<'a>>,
    /// Source address.
    pub source: Option<Text<'a>>,
    /// What was said; absent also where it was damaged.
    pub text: Option<Text<'a>>,
    /// Further names and values: the JSON object as it stands.
    pub labels: Option<&'a str>,
    /// W3C trace context.
    pub traceparent: Option<Text<'a>>,
}

impl Event<'_> {
    /// What the pre-count keeps of it.
    #[must_use]
    pub fn hit(&self) -> Hit {
        Hit { room: RoomKey::of(&self.room), class: self.class, outcome: self.outcome }
    }
}

/// Sees every top-level key and raw value of a record while it is parsed (for de-duplication).
pub trait Watch {
    /// One member of the object: key with escapes resolved, value as it stands.
    fn member(&mut self, key: &[u8], raw: &[u8]);
}

impl Watch for () {
    fn member(&mut self, _: &[u8], _: &[u8]) {}
}

/// How records are read: names of fields other than the contract's, and how times are written.
#[derive(Clone, Debug, Default)]
pub struct Schema {
    /// Fields that stand under another name.
    renamed: Vec<(Box<str>, Field)>,
    /// How times are written.
    pub time: Time,
}

impl Schema {
    /// Reads `field` from the key `name`; its usual name then means nothing.
    pub fn rename(&mut self, field: Field, name: &str) {
        self.renamed.retain(|(_, f)| *f != field);
        self.renamed.push((name.into(), field));
    }

    /// The name under which a field stands.
    #[must_use]
    pub fn name_of(&self, field: Field) -> &str {
        let renamed = self.renamed.iter().find(|(_, f)| *f == field);
        renamed.map_or_else(|| field.name(), |(name, _)| name)
    }

    fn field(&self, key: &[u8]) -> Option<Field> {
        if self.renamed.is_empty() {
            return Field::from_name(key);
        }
        if let Some((_, field)) = self.renamed.iter().find(|(name, _)| name.as_bytes() == key) {
            return Some(*field);
        }
        let field = Field::from_name(key)?;
        (!self.renamed.iter().any(|(_, f)| *f == field)).then_some(field)
    }

    /// Reads one event.
    ///
    /// # Errors
    /// The reason why there is none. Every byte string yields one or the other.
    pub fn parse<'a>(&self, record: &'a [u8]) -> Result<Event<'a>, Reject> {
        self.parse_watched(record, &mut ())
    }

    /// Reads one event and shows every member of it to `watch`.
    ///
    /// # Errors
    /// The reason why there is none.
    pub fn parse_watched<'a>(
        &self,
        record: &'a [u8],
        watch: &mut impl Watch,
    ) -> Result<Event<'a>, Reject> {
        if record.len() > MAX_BYTES {
            return Err(Reject::of(Reason::TooLarge));
        }
        if has_bom(record) {
            return Err(Reject::of(Reason::Bom));
        }
        let mut scan = Scan::new(record);
        let mut draft = Draft::default();
        self.members(&mut scan, &mut draft, watch)
            .map_err(|fault| fault.at(scan.position(), draft.current).with_time(draft.ts))?;
        let ts = draft.ts;
        draft.finish().map_err(|reject| reject.with_time(ts))
    }

    fn members<'a>(
        &self,
        scan: &mut Scan<'a>,
        draft: &mut Draft<'a>,
        watch: &mut impl Watch,
    ) -> Result<(), Fault> {
        scan.object_start()?;
        while let Some(key) = scan.next_key()? {
            let name = key.resolve().ok_or(Fault(Reason::Utf8))?;
            draft.current = self.field(name.as_bytes());
            let from = scan.value_start()?;
            match draft.current {
                Some(field) => {
                    if !draft.first(field) {
                        return Err(Fault(Reason::DuplicateKey));
                    }
                    let value = scan.value(field == Field::Text)?;
                    draft.set(field, value, &self.time)?;
                }
                None => {
                    scan.value(false)?;
                }
            }
            watch.member(name.as_bytes(), scan.since(from));
            draft.current = None;
        }
        scan.end()
    }
}

/// Reads one event as the contract says.
///
/// # Errors
/// The reason why there is none. Every byte string yields one or the other.
pub fn parse(record: &[u8]) -> Result<Event<'_>, Reject> {
    Schema::default().parse(record)
}

/// Whether a record begins with the mark of UTF-8 or of UTF-16, either end.
fn has_bom(record: &[u8]) -> bool {
    record.starts_with(b"\xEF\xBB\xBF")
        || record.starts_with(b"\xFF\xFE")
        || record.starts_with(b"\xFE\xFF")
}

/// Checks a room id that is text.
///
/// # Errors
/// `room_text` where it is empty, too long, or holds control characters.
pub fn check_room(room: &str) -> Result<(), Reason> {
    let control = if room.is_ascii() {
        room.bytes().any(|b| b < 0x20 || b == 0x7F)
    } else {
        room.chars().any(char::is_control)
    };
    if room.is_empty() || room.len() > MAX_ROOM_BYTES || control {
        return Err(Reason::RoomText);
    }
    Ok(())
}

/// An event while it is read.
#[derive(Default)]
struct Draft<'a> {
    current: Option<Field>,
    seen: u16,
    room: Option<Cow<'a, str>>,
    ts: Option<i64>,
    class: Option<Class>,
    outcome: Outcome,
    tier: Option<Tier>,
    weight: Option<u16>,
    latency_ms: Option<u32>,
    texts: [Option<Text<'a>>; 6],
    labels: Option<&'a str>,
}

impl<'a> Draft<'a> {
    fn first(&mut self, field: Field) -> bool {
        let bit = 1 << field as u16;
        let first = self.seen & bit == 0;
        self.seen |= bit;
        first
    }

    fn set(&mut self, field: Field, value: Value<'a>, time: &Time) -> Result<(), Fault> {
        match field {
            Field::Room => self.room = Some(room(value)?),
            Field::Ts => self.ts = Some(ts(value, time)?),
            Field::Class => {
                self.class =
                    named(value)?.map(|name| Class::from_name(&name).unwrap_or(Class::Heartbeat));
            }
            Field::Outcome => {
                self.outcome = named(value)?.map_or(Outcome::Ok, |name| {
                    Outcome::from_name(&name).unwrap_or(Outcome::Ignored)
                });
            }
            Field::Tier => {
                self.tier = named(value)?
                    .map(|name| if name == "vip" { Tier::Vip } else { Tier::Ordinary });
            }
            Field::Weight => {
                self.weight = number(value)?.map(weight).transpose()?;
            }
            Field::LatencyMs => {
                self.latency_ms = number(value)?.map(latency).transpose()?;
            }
            Field::User => self.texts[0] = user(value)?,
            Field::Service => self.texts[1] = string(value)?,
            Field::Method => self.texts[2] = string(value)?,
            Field::Source => self.texts[3] = string(value)?,
            Field::Traceparent => self.texts[4] = string(value)?,
            Field::Text => self.texts[5] = said(value),
            Field::Labels => {
                self.labels = match value {
                    Value::Null => None,
                    // Its strings were checked when it was passed over.
                    Value::Object(raw) => std::str::from_utf8(raw).ok(),
                    _ => return Err(Fault(Reason::FieldType)),
                };
            }
        }
        Ok(())
    }

    fn finish(self) -> Result<Event<'a>, Reject> {
        let room = self.room.ok_or(Reject::field(Reason::RoomMissing, Field::Room))?;
        let ts = self.ts.ok_or(Reject::field(Reason::TsMissing, Field::Ts))?;
        let [user, service, method, source, traceparent, text] = self.texts;
        let class = match self.class {
            Some(class) => class,
            None => classify::of_event(text.as_ref(), self.labels),
        };
        Ok(Event {
            room,
            ts,
            class,
            outcome: self.outcome,
            tier: self.tier,
            weight: self.weight.unwrap_or(1),
            latency_ms: self.latency_ms,
            user,
            service,
            method,
            source,
            text,
            labels: self.labels,
            traceparent,
        })
    }
}

fn room(value: Value<'_>) -> Result<Cow<'_, str>, Fault> {
    match value {
        Value::Text(s) => {
            s.utf8().ok_or(Fault(Reason::Utf8))?;
            let room = s.resolve().ok_or(Fault(Reason::RoomText))?;
            check_room(&room).map_err(Fault)?;
            Ok(room)
        }
        Value::Number(n) if n.integer => {
            // As its decimal text: JSON has one form for each integer.
            n.text.parse::<u64>().map_err(|_| Fault(Reason::NumberRange))?;
            Ok(Cow::Borrowed(n.text))
        }
        _ => Err(Fault(Reason::RoomType)),
    }
}

fn ts(value: Value<'_>, time: &Time) -> Result<i64, Fault> {
    match value {
        Value::Number(n) => time.ms(n.text).map_err(Fault),
        _ => Err(Fault(Reason::TsType)),
    }
}

/// A name: text, or nothing.
fn named(value: Value<'_>) -> Result<Option<Cow<'_, str>>, Fault> {
    match value {
        Value::Text(s) => s.resolve().ok_or(Fault(Reason::Utf8)).map(Some),
        Value::Null => Ok(None),
        _ => Err(Fault(Reason::FieldType)),
    }
}

fn string(value: Value<'_>) -> Result<Option<Text<'_>>, Fault> {
    match value {
        Value::Text(s) => text(s).ok_or(Fault(Reason::Utf8)).map(Some),
        Value::Null => Ok(None),
        _ => Err(Fault(Reason::FieldType)),
    }
}

fn user(value: Value<'_>) -> Result<Option<Text<'_>>, Fault> {
    match value {
        Value::Number(n) if n.integer => Ok(Some(Text::plain(n.text))),
        value => string(value),
    }
}

/// `text`: dropped where it is damaged or no string, never a reason to drop the event.
fn said(value: Value<'_>) -> Option<Text<'_>> {
    match value {
        Value::Text(s) => text(s),
        _ => None,
    }
}

fn text(s: Str<'_>) -> Option<Text<'_>> {
    let raw = s.utf8()?;
    if s.escaped && !scan::resolvable(raw) {
        return None;
    }
    Some(Text { raw, escaped: s.escaped })
}

fn number(value: Value<'_>) -> Result<Option<Number<'_>>, Fault> {
    match value {
        Value::Number(n) => Ok(Some(n)),
        Value::Null => Ok(None),
        _ => Err(Fault(Reason::FieldType)),
    }
}

fn weight(n: Number<'_>) -> Result<u16, Fault> {
    if !n.integer {
        return Err(Fault(Reason::FieldType));
    }
    match n.text.parse() {
        Ok(w @ 1..=1000) => Ok(w),
        _ => Err(Fault(Reason::NumberRange)),
    }
}

fn latency(n: Number<'_>) -> Result<u32, Fault> {
    // The one number that producers write with decimals; the whole milliseconds are kept.
    let ms = match n.text.parse::<u32>() {
        Ok(ms) => f64::from(ms),
        Err(_) => n.text.parse::<f64>().unwrap_or(f64::NAN),
    };
    if (0.0..=MAX_LATENCY_MS as f64).contains(&ms) {
        Ok(ms as u32)
    } else {
        Err(Fault(Reason::NumberRange))
    }
}
