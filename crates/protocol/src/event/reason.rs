//! Why a record yields no event, and where in it that was found.

use serde::{Deserialize, Serialize};

/// Why a record yields no event. The names are stable: they are counters and headers of dead letters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// More than [`MAX_BYTES`](super::MAX_BYTES).
    TooLarge,
    /// A byte order mark at the start.
    Bom,
    /// Not one JSON object, or broken syntax (NaN and Infinity are not JSON).
    Json,
    /// Nested deeper than 64.
    Depth,
    /// Not UTF-8, outside `text`.
    Utf8,
    /// A known key more than once.
    DuplicateKey,
    /// No `room`.
    RoomMissing,
    /// `room` is neither text nor an integer.
    RoomType,
    /// `room` is empty, too long, or holds control characters or half a surrogate pair.
    RoomText,
    /// No `ts`.
    TsMissing,
    /// `ts` is not an integer.
    TsType,
    /// `ts` is not in milliseconds: below 10^11 or from 10^14 on.
    TsUnit,
    /// A number beyond the range of its field.
    NumberRange,
    /// Another known field has a wrong type.
    FieldType,
    /// A line of a table lacks columns, or its quotes do not close.
    Columns,
    /// Seen before, by the columns that tell repeated records apart.
    Repeated,
    /// Further behind its partition's clock than is believed.
    Past,
    /// Further ahead of its partition's clock than is believed.
    Future,
    /// Outside what the first records of a partition agreed on as the time.
    Outside,
}

impl Reason {
    /// All reasons.
    pub const ALL: [Self; 19] = [
        Self::TooLarge,
        Self::Bom,
        Self::Json,
        Self::Depth,
        Self::Utf8,
        Self::DuplicateKey,
        Self::RoomMissing,
        Self::RoomType,
        Self::RoomText,
        Self::TsMissing,
        Self::TsType,
        Self::TsUnit,
        Self::NumberRange,
        Self::FieldType,
        Self::Columns,
        Self::Repeated,
        Self::Past,
        Self::Future,
        Self::Outside,
    ];

    /// Stable name in snake case.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::TooLarge => "too_large",
            Self::Bom => "bom",
            Self::Json => "json",
            Self::Depth => "depth",
            Self::Utf8 => "utf8",
            Self::DuplicateKey => "duplicate_key",
            Self::RoomMissing => "room_missing",
            Self::RoomType => "room_type",
            Self::RoomText => "room_text",
            Self::TsMissing => "ts_missing",
            Self::TsType => "ts_type",
            Self::TsUnit => "ts_unit",
            Self::NumberRange => "number_range",
            Self::FieldType => "field_type",
            Self::Columns => "columns",
            Self::Repeated => "repeated",
            Self::Past => "past",
            Self::Future => "future",
            Self::Outside => "outside",
        }
    }

    /// What is wrong, for a person.
    #[must_use]
    pub fn explain(self) -> &'static str {
        match self {
            Self::TooLarge => "longer than 64 KiB",
            Self::Bom => "begins with a byte order mark",
            Self::Json => "is not one JSON object",
            Self::Depth => "is nested deeper than 64",
            Self::Utf8 => "is not UTF-8",
            Self::DuplicateKey => "has a key twice",
            Self::RoomMissing => "has no room",
            Self::RoomType => "room is neither text nor an integer",
            Self::RoomText => "room is empty, longer than 128 bytes or holds control characters",
            Self::TsMissing => "has no time",
            Self::TsType => "time is not an integer",
            Self::TsUnit => "time is not in milliseconds",
            Self::NumberRange => "a number is out of range",
            Self::FieldType => "a field has the wrong type",
            Self::Columns => "lacks columns, or a quote is not closed",
            Self::Repeated => "is a repetition",
            Self::Past => "is too far in the past",
            Self::Future => "is too far in the future",
            Self::Outside => "is not of the time that the first records agree on",
        }
    }
}

/// A known field of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[repr(u8)]
pub enum Field {
    /// The room's id.
    Room,
    /// Event time.
    Ts,
    /// Name of the class.
    Class,
    /// The user's id.
    User,
    /// Weight of the message, for ranking users.
    Weight,
    /// What became of the request.
    Outcome,
    /// How long it took.
    LatencyMs,
    /// Tier of the user.
    Tier,
    /// Downstream service.
    Service,
    /// Method called.
    Method,
    /// Source address.
    Source,
    /// What was said.
    Text,
    /// Further names and values.
    Labels,
    /// W3C trace context.
    Traceparent,
}

impl Field {
    /// All fields.
    pub const ALL: [Self; 14] = [
        Self::Room,
        Self::Ts,
        Self::Class,
        Self::User,
        Self::Weight,
        Self::Outcome,
        Self::LatencyMs,
        Self::Tier,
        Self::Service,
        Self::Method,
        Self::Source,
        Self::Text,
        Self::Labels,
        Self::Traceparent,
    ];

    /// Name of the field in an event.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Room => "room",
            Self::Ts => "ts",
            Self::Class => "class",
            Self::User => "user",
            Self::Weight => "weight",
            Self::Outcome => "outcome",
            Self::LatencyMs => "latency_ms",
            Self::Tier => "tier",
            Self::Service => "service",
            Self::Method => "method",
            Self::Source => "source",
            Self::Text => "text",
            Self::Labels => "labels",
            Self::Traceparent => "traceparent",
        }
    }

    /// The field of that name.
    #[must_use]
    pub fn from_name(name: &[u8]) -> Option<Self> {
        Some(match name {
            b"room" => Self::Room,
            b"ts" => Self::Ts,
            b"class" => Self::Class,
            b"user" => Self::User,
            b"weight" => Self::Weight,
            b"outcome" => Self::Outcome,
            b"latency_ms" => Self::LatencyMs,
            b"tier" => Self::Tier,
            b"service" => Self::Service,
            b"method" => Self::Method,
            b"source" => Self::Source,
            b"text" => Self::Text,
            b"labels" => Self::Labels,
            b"traceparent" => Self::Traceparent,
            _ => return None,
        })
    }
}

/// Where in the record the reason was found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Detail {
    /// The field it concerns, where it concerns one.
    pub field: Option<Field>,
    /// Byte at which it was noticed.
    pub at: u32,
}

/// A record that yields no event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Reject {
    /// Why.
    pub reason: Reason,
    /// Where.
    pub detail: Detail,
    /// The record's time, where a usable one had been read by then: it still tells how late it is.
    pub t: Option<i64>,
}

impl Reject {
    /// A reason that concerns the whole record.
    #[must_use]
    pub fn of(reason: Reason) -> Self {
        Self { reason, detail: Detail::default(), t: None }
    }

    /// A reason that concerns one field.
    #[must_use]
    pub fn field(reason: Reason, field: Field) -> Self {
        Self { reason, detail: Detail { field: Some(field), at: 0 }, t: None }
    }
}

impl Reject {
    /// The same with the record's time.
    #[must_use]
    pub fn with_time(self, t: Option<i64>) -> Self {
        Self { t, ..self }
    }
}

impl std::fmt::Display for Reject {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} ({}", self.reason.explain(), self.reason.name())?;
        if let Some(field) = self.detail.field {
            write!(f, ", field `{}`", field.name())?;
        }
        if self.detail.at > 0 {
            write!(f, ", at byte {}", self.detail.at)?;
        }
        f.write_str(")")
    }
}

impl std::error::Error for Reject {}
