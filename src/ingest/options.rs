//! How files of others are read: columns, units, what tells repeated records apart. Shared by all commands with files.

use barrage_protocol::event::{Field, Schema, Time, Unit};
use std::str::FromStr;

/// `FIELD=COLUMN`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mapping {
    /// The field of an event.
    pub field: Field,
    /// The column (CSV) or key (JSONL) it is read from.
    pub column: String,
}

impl FromStr for Mapping {
    type Err = String;

    fn from_str(s: &str) -> Result<Self, String> {
        let (name, column) = s
            .split_once('=')
            .ok_or_else(|| format!("`{s}` is not FIELD=COLUMN, as in room=channel"))?;
        let field = Field::from_name(name.trim().as_bytes()).ok_or_else(|| {
            let known = Field::ALL.map(Field::name);
            let near = nearest(name.trim(), known);
            let near = near.map(|n| format!("; did you mean `{n}`?")).unwrap_or_default();
            format!("`{name}` is no field of an event: {}{near}", known.join(", "))
        })?;
        if column.is_empty() {
            return Err(format!("`{s}` names no column"));
        }
        Ok(Self { field, column: column.to_owned() })
    }
}

/// How files are read.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct Options {
    /// Columns (CSV) or keys (JSONL) to read, where they differ from an event's own names
    #[arg(
        long,
        value_delimiter = ',',
        value_name = "room=COL,ts=COL,user=COL,class=COL,outcome=COL"
    )]
    pub map: Vec<Mapping>,
    /// Columns that together tell records apart; a record seen before is left out
    #[arg(long, value_delimiter = ',', value_name = "COL,…")]
    pub dedupe: Vec<String>,
    /// Order each file by time first (in bounded memory)
    #[arg(long)]
    pub sort: bool,
    /// Unit of the times [default: ms]
    #[arg(long, value_name = "s|ms|us|ns")]
    pub ts_unit: Option<Unit>,
    /// Milliseconds added to every time before any check
    #[arg(long, value_name = "MS", allow_negative_numbers = true)]
    pub ts_base: Option<i64>,
}

impl Options {
    /// The schema that JSON records are read by.
    #[must_use]
    pub fn schema(&self) -> Schema {
        let mut schema = Schema::default();
        for mapping in &self.map {
            schema.rename(mapping.field, &mapping.column);
        }
        schema.time = Time {
            unit: self.ts_unit.unwrap_or_default(),
            base_ms: self.ts_base.unwrap_or(0),
            // Who names a unit speaks of files that are not the contract's events.
            decimals: self.ts_unit.is_some(),
        };
        schema
    }

    /// Whether the field was mapped by hand.
    #[must_use]
    pub fn maps(&self, field: Field) -> bool {
        self.map.iter().any(|m| m.field == field)
    }
}

/// The name nearest to `name`, if any is near at all.
pub(super) fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let lower = name.to_lowercase();
    known
        .into_iter()
        .map(|k| {
            let key = k.to_lowercase();
            let part = key.contains(&lower) || lower.contains(&key);
            let far = strsim::damerau_levenshtein(&lower, &key);
            (if part { far.min(2) } else { far }, k)
        })
        .filter(|(far, k)| *far <= 1 + k.len().min(name.len()) / 3)
        .min_by_key(|(far, _)| *far)
        .map(|(_, k)| k)
}

/// Names as a message lists them: the first few, and of a long one its beginning.
pub(super) fn listed(names: &[String]) -> String {
    const FIRST: usize = 16;
    const CHARS: usize = 40;
    let short = |name: &String| match name.char_indices().nth(CHARS) {
        Some((at, _)) => format!("{}…", &name[..at]),
        None => name.clone(),
    };
    let mut list = names.iter().take(FIRST).map(short).collect::<Vec<_>>().join(", ");
    if names.len() > FIRST {
        list.push_str(&format!(" and {} more", names.len() - FIRST));
    }
    list
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mappings_are_read_and_faults_named() {
        let good: Mapping = "room=channel_id".parse().expect("a mapping");
        assert_eq!(good, Mapping { field: Field::Room, column: "channel_id".into() });
        let fault = "rom=x".parse::<Mapping>().expect_err("a fault");
        assert!(fault.contains("did you mean `room`"), "{fault}");
        assert!("room".parse::<Mapping>().is_err());
        assert!("room=".parse::<Mapping>().is_err());
        assert!("1h".parse::<Unit>().is_err());
    }

    #[test]
    fn long_lists_are_cut() {
        let names: Vec<String> = (0..3_000).map(|n| format!("{n}{}", "é".repeat(100))).collect();
        let list = listed(&names);
        assert!(list.chars().count() < 16 * 43 + 20 && list.ends_with("and 2984 more"), "{list}");
        assert_eq!(listed(&["a".into(), "b".into()]), "a, b");
    }

    #[test]
    fn the_nearest_name_is_found() {
        let columns = ["rel_ms", "room", "user", "kind"];
        assert_eq!(nearest("rooom", columns), Some("room"));
        assert_eq!(nearest("rel", columns), Some("rel_ms"));
        assert_eq!(nearest("completely", columns), None);
    }
}
