//! Records of one file: what format it has, and each record as an event or a reason, with its place.

use super::columns::Columns;
use super::dedupe::Seen;
use super::options::{Options, listed, nearest};
use super::problems::Problems;
use super::window::{Cell, Found, Window};
use barrage_protocol::event::{Field, Hit, Reason, Reject, Schema, Time, Watch};
use std::borrow::Cow;
use xxhash_rust::xxh3::xxh3_128;

/// An event as the rest of the program needs it.
pub(super) struct Good<'a> {
    pub(super) t: i64,
    pub(super) hit: Hit,
    pub(super) room: Cow<'a, str>,
}

/// What came next.
pub(super) enum Next<'a> {
    Record(Result<Good<'a>, Reject>),
    Pending,
    End,
}

/// How the file is written.
enum Format {
    /// Not looked at yet.
    Unknown,
    /// One JSON object a line.
    Lines,
    /// CSV with a header.
    Table(Columns),
    /// Nothing in it can be used.
    Unusable,
}

/// Records of one file.
pub(super) struct Records {
    file: String,
    window: Window,
    format: Format,
    schema: Schema,
    dedupe: Dedupe,
    problems: Problems,
    cells: Vec<Cell>,
    /// Mapped keys that no record of a JSONL file has had yet (room and ts are missed by every record).
    unseen: Vec<(String, Field)>,
    map: Options,
}

/// De-duplication of one file.
struct Dedupe {
    columns: Vec<String>,
    hashes: Vec<u128>,
    seen: Seen,
}

impl Dedupe {
    /// Whether the record is new, by the hashes of its columns.
    fn is_new(&mut self) -> bool {
        if self.columns.is_empty() {
            return true;
        }
        let mut bytes = Vec::with_capacity(16 * self.hashes.len());
        self.hashes.iter().for_each(|h| bytes.extend_from_slice(&h.to_le_bytes()));
        self.seen.is_new(xxh3_128(&bytes))
    }
}

/// Looks at the members of a JSON record while it is parsed.
struct Look<'a> {
    dedupe: &'a mut Dedupe,
    unseen: &'a mut Vec<(String, Field)>,
}

impl Watch for Look<'_> {
    fn member(&mut self, key: &[u8], raw: &[u8]) {
        for (column, hash) in self.dedupe.columns.iter().zip(&mut self.dedupe.hashes) {
            if column.as_bytes() == key {
                *hash = xxh3_128(raw);
            }
        }
        if !self.unseen.is_empty() {
            self.unseen.retain(|(column, _)| column.as_bytes() != key);
        }
    }
}

/// Names of a record's members, for a hint.
struct Keys(Vec<String>);

impl Watch for Keys {
    fn member(&mut self, key: &[u8], _: &[u8]) {
        if self.0.len() < 20 {
            self.0.push(String::from_utf8_lossy(key).into_owned());
        }
    }
}

impl Records {
    pub(super) fn new(file: &str, window: Window, options: &Options, problems: Problems) -> Self {
        let optional = |f: Field| !matches!(f, Field::Room | Field::Ts);
        let mapped = options.map.iter().filter(|m| optional(m.field));
        Self {
            file: file.to_owned(),
            window,
            format: Format::Unknown,
            schema: options.schema(),
            dedupe: Dedupe {
                columns: options.dedupe.clone(),
                hashes: vec![0; options.dedupe.len()],
                seen: Seen::default(),
            },
            problems,
            cells: Vec::new(),
            unseen: mapped.map(|m| (m.column.clone(), m.field)).collect(),
            map: options.clone(),
        }
    }

    /// The next record.
    pub(super) fn next(&mut self) -> Next<'_> {
        if matches!(self.format, Format::Unknown)
            && let Some(stop) = self.begin()
        {
            return stop;
        }
        let found = loop {
            let found = match &self.format {
                Format::Lines => self.window.next_line(),
                Format::Table(columns) => self.window.next_row(columns.delimiter, &mut self.cells),
                Format::Unknown | Format::Unusable => Found::End,
            };
            match found {
                Found::Record(r) if self.window.bytes(r.clone()).trim_ascii().is_empty() => {}
                other => break other,
            }
        };
        match found {
            Found::Record(range) => Next::Record(self.decode(range)),
            Found::TooLong => Next::Record(Err(self.refused(Reason::TooLarge))),
            Found::Broken => Next::Record(Err(self.refused(Reason::Columns))),
            Found::Pending => Next::Pending,
            Found::End => {
                self.ended();
                Next::End
            }
            Found::Failed(e) => {
                let line = self.window.line;
                self.problems.note(
                    &self.file,
                    Some(line),
                    format!("cannot be read on after this line: {e}"),
                );
                Next::End
            }
        }
    }

    fn refused(&self, reason: Reason) -> Reject {
        let reject = Reject::of(reason);
        self.problems.reject(&self.file, self.window.line, &reject, || None);
        reject
    }

    /// Finds the format by the first byte; reads a table's header.
    fn begin(&mut self) -> Option<Next<'static>> {
        let (first, bom) = match self.window.first_byte() {
            Ok(Some(found)) => found,
            Ok(None) => {
                self.problems.note(&self.file, None, "is empty");
                self.format = Format::Unusable;
                return None;
            }
            Err(Found::Pending) => return Some(Next::Pending),
            Err(Found::Failed(e)) => {
                self.problems.note(&self.file, None, format!("cannot be read: {e}"));
                self.format = Format::Unusable;
                return None;
            }
            Err(_) => return Some(Next::End),
        };
        if matches!(first, b'{' | b'[') {
            // A mark before the first event stays: it is rejected as the contract says.
            self.format = Format::Lines;
            return None;
        }
        if bom {
            self.window.skip(3);
        }
        self.header()
    }

    fn header(&mut self) -> Option<Next<'static>> {
        let delimiter = match self.window.peek_line() {
            Ok(line) => Columns::delimiter_of(line),
            Err(Found::Pending) => return Some(Next::Pending),
            Err(_) => b',',
        };
        match self.window.next_row(delimiter, &mut self.cells) {
            Found::Record(_) => {}
            Found::Pending => return Some(Next::Pending),
            _ => {
                self.problems.note(
                    &self.file,
                    Some(1),
                    "is neither JSON lines nor a table with a header",
                );
                self.format = Format::Unusable;
                return None;
            }
        }
        let names: Vec<String> = self
            .cells
            .iter()
            .map(|c| {
                let bytes = self.window.bytes(c.range.clone());
                String::from_utf8_lossy(bytes.trim_ascii()).replace("\"\"", "\"")
            })
            .collect();
        let tell = |what: String| self.problems.note(&self.file, Some(1), what);
        self.format = match Columns::find(&names, delimiter, &self.map, &tell) {
            Some(columns) => Format::Table(columns),
            None => Format::Unusable,
        };
        if let Format::Table(columns) = &self.format
            && columns.dedupe.is_empty()
        {
            self.dedupe.columns.clear();
        }
        self.unseen.clear();
        // Tables of others write times as they like: a fraction is cut off.
        self.schema.time.decimals = true;
        None
    }

    fn decode(&mut self, range: std::ops::Range<usize>) -> Result<Good<'_>, Reject> {
        let Self { file, window, format, schema, dedupe, problems, cells, unseen, .. } = self;
        let record = window.bytes(range);
        let line = window.line;
        if let Format::Table(columns) = format {
            let row = columns.row(window, cells);
            let read = row.event(&schema.time).and_then(|good| {
                for (hash, cell) in dedupe.hashes.iter_mut().zip(&columns.dedupe) {
                    *hash = xxh3_128(row.raw(*cell).unwrap_or_default());
                }
                if dedupe.is_new() {
                    Ok(good)
                } else {
                    Err(Reject::of(Reason::Repeated).with_time(Some(good.t)))
                }
            });
            return read.inspect_err(|reject| {
                problems.reject(file, line, reject, || row.hint(reject, &schema.time));
            });
        }
        let event = if dedupe.columns.is_empty() && unseen.is_empty() {
            schema.parse(record)
        } else {
            dedupe.hashes.fill(0);
            schema.parse_watched(record, &mut Look { dedupe, unseen })
        };
        let read = event.and_then(|event| {
            if !dedupe.is_new() {
                return Err(Reject::of(Reason::Repeated).with_time(Some(event.ts)));
            }
            Ok(Good { t: event.ts, hit: event.hit(), room: event.room })
        });
        read.inspect_err(|reject| {
            problems.reject(file, line, reject, || hint(record, schema, reject));
        })
    }

    /// What can be said only when everything was read.
    fn ended(&mut self) {
        for (column, field) in self.unseen.drain(..) {
            let what =
                format!("no record has `{column}`, which was to be read as {}", field.name());
            self.problems.note(&self.file, None, what);
        }
    }
}

/// What may help with a JSON record that was rejected.
fn hint(record: &[u8], schema: &Schema, reject: &Reject) -> Option<String> {
    match reject.reason {
        Reason::TsUnit => {
            let before = record.get(..reject.detail.at as usize)?;
            let from = before.iter().rposition(|b| !b.is_ascii_digit()).map_or(0, |at| at + 1);
            unit_hint(std::str::from_utf8(&before[from..]).ok()?, &schema.time)
        }
        Reason::RoomMissing | Reason::TsMissing => {
            let field = reject.detail.field?;
            let mut keys = Keys(Vec::new());
            let _ = schema.parse_watched(record, &mut keys);
            let near = nearest(schema.name_of(field), keys.0.iter().map(String::as_str));
            let near = near.map(|n| format!("; did you mean --map {}={n}?", field.name()));
            Some(format!(
                "no `{}` among its keys: {}{}",
                schema.name_of(field),
                listed(&keys.0),
                near.unwrap_or_default()
            ))
        }
        _ => None,
    }
}

/// What a time that is not in milliseconds looks like.
pub(super) fn unit_hint(text: &str, time: &Time) -> Option<String> {
    match Time::likely_unit(text) {
        Some("ms") | None if time.base_ms == 0 => {
            Some(format!("`{text}` with --ts-base, if it counts from a start"))
        }
        Some(unit) => Some(format!("`{text}` looks like --ts-unit {unit}")),
        None => None,
    }
}
