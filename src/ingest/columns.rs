//! The columns of a table that events are read from, and a row of it as an event.

use super::options::{Options, listed, nearest};
use super::records::{Good, unit_hint};
use super::window::{Cell, Window};
use barrage_protocol::event::{self, Field, Hit, Reason, Reject, Time};
use barrage_protocol::ids::{Class, Outcome, RoomKey};
use std::borrow::Cow;

/// Where the fields of an event stand in a row.
pub(super) struct Columns {
    pub(super) delimiter: u8,
    room: usize,
    ts: usize,
    class: Option<usize>,
    outcome: Option<usize>,
    text: Option<usize>,
    /// Columns that tell records apart.
    pub(super) dedupe: Vec<usize>,
}

impl Columns {
    /// The delimiter of a header: comma, or what else stands there where no comma does.
    pub(super) fn delimiter_of(header: &[u8]) -> u8 {
        let holds = |b: &u8| header.contains(b);
        [b',', b'\t', b';'].into_iter().find(|b| holds(b)).unwrap_or(b',')
    }

    /// Finds the columns by the header's names; tells of what is not there. Nothing without a room and a time.
    pub(super) fn find(
        names: &[String],
        delimiter: u8,
        options: &Options,
        tell: &dyn Fn(String),
    ) -> Option<Self> {
        let schema = options.schema();
        let position = |name: &str| names.iter().position(|n| n == name);
        let missing = |field: Field, end: &str| {
            let name = schema.name_of(field);
            let near = nearest(name, names.iter().map(String::as_str));
            let near = near.map(|n| format!("; did you mean --map {}={n}?", field.name()));
            tell(format!(
                "no column `{name}` for {}, {end}; the columns are {}{}",
                field.name(),
                listed(names),
                near.unwrap_or_default()
            ));
        };
        let needed = |field: Field| {
            let found = position(schema.name_of(field));
            if found.is_none() {
                missing(field, "without which nothing can be read");
            }
            found
        };
        let wanted = |field: Field| {
            let found = position(schema.name_of(field));
            if found.is_none() && options.maps(field) {
                missing(field, "read without it");
            }
            found
        };
        let (room, ts) = (needed(Field::Room), needed(Field::Ts));
        let [class, outcome, text] = [Field::Class, Field::Outcome, Field::Text].map(wanted);
        // Known to the contract, not needed for counts: only whether they exist is looked at.
        for field in Field::ALL {
            let read = [Field::Room, Field::Ts, Field::Class, Field::Outcome, Field::Text];
            if !read.contains(&field) {
                wanted(field);
            }
        }
        let mut dedupe = Vec::new();
        for name in &options.dedupe {
            match position(name) {
                Some(at) => dedupe.push(at),
                None => {
                    let near = nearest(name, names.iter().map(String::as_str));
                    let near = near.map(|n| format!("; did you mean `{n}`?")).unwrap_or_default();
                    tell(format!(
                        "no column `{name}` to tell records apart by{near}: none is left out"
                    ));
                }
            }
        }
        if dedupe.len() < options.dedupe.len() {
            // By fewer columns than asked for, different records would look the same.
            dedupe.clear();
        }
        Some(Self { delimiter, room: room?, ts: ts?, class, outcome, text, dedupe })
    }

    pub(super) fn row<'a>(&'a self, window: &'a Window, cells: &'a [Cell]) -> Row<'a> {
        Row { columns: self, window, cells }
    }
}

/// One row.
#[derive(Clone, Copy)]
pub(super) struct Row<'a> {
    columns: &'a Columns,
    window: &'a Window,
    cells: &'a [Cell],
}

impl<'a> Row<'a> {
    /// A cell's bytes as they stand.
    pub(super) fn raw(&self, column: usize) -> Option<&'a [u8]> {
        self.cells.get(column).map(|c| self.window.bytes(c.range.clone()))
    }

    /// A cell's text; nothing where the row ends before it.
    fn text(&self, column: usize) -> Result<Option<Cow<'a, str>>, Reason> {
        let Some(cell) = self.cells.get(column) else { return Ok(None) };
        let text = std::str::from_utf8(self.window.bytes(cell.range.clone()));
        let text = text.map_err(|_| Reason::Utf8)?;
        Ok(Some(match cell.doubled {
            true => Cow::Owned(text.replace("\"\"", "\"")),
            false => Cow::Borrowed(text),
        }))
    }

    /// A name in an optional column; an empty cell is none.
    fn name(&self, column: Option<usize>, field: Field) -> Result<Option<Cow<'a, str>>, Reject> {
        let Some(column) = column else { return Ok(None) };
        let text = self.text(column).map_err(|reason| Reject::field(reason, field))?;
        Ok(text.filter(|t| !t.trim().is_empty()))
    }

    pub(super) fn event(&self, time: &Time) -> Result<Good<'a>, Reject> {
        let columns = self.columns;
        let room = self.text(columns.room).map_err(|r| Reject::field(r, Field::Room))?;
        let ts = self.text(columns.ts).map_err(|r| Reject::field(r, Field::Ts))?;
        let (Some(room), Some(ts)) = (room, ts) else { return Err(Reject::of(Reason::Columns)) };
        let ts = ts.trim();
        if ts.is_empty() {
            return Err(Reject::field(Reason::TsMissing, Field::Ts));
        }
        let t = time.ms(ts).map_err(|r| Reject::field(r, Field::Ts))?;
        let known = |reject: Reject| reject.with_time(Some(t));
        if room.is_empty() {
            return Err(known(Reject::field(Reason::RoomMissing, Field::Room)));
        }
        event::check_room(&room).map_err(|r| known(Reject::field(r, Field::Room)))?;
        let class = match self.name(columns.class, Field::Class).map_err(known)? {
            Some(name) => Class::from_name(name.trim()).unwrap_or(Class::Heartbeat),
            // Damaged text is no text.
            None => {
                let text = columns.text.and_then(|c| self.text(c).ok().flatten());
                text.map_or(Class::Chat, |t| event::classify(&t))
            }
        };
        let outcome = self.name(columns.outcome, Field::Outcome).map_err(known)?;
        let outcome = outcome.map_or(Outcome::Ok, |name| {
            Outcome::from_name(name.trim()).unwrap_or(Outcome::Ignored)
        });
        Ok(Good { t, hit: Hit { room: RoomKey::of(&room), class, outcome }, room })
    }

    /// What may help with a row that was rejected.
    pub(super) fn hint(&self, reject: &Reject, time: &Time) -> Option<String> {
        let ts = self.text(self.columns.ts).ok().flatten();
        match reject.reason {
            Reason::TsUnit => unit_hint(ts?.trim(), time),
            Reason::TsType => Some(format!("`{}`", ts?.chars().take(40).collect::<String>())),
            _ => None,
        }
    }
}
