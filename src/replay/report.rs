//! Everything collected during a run, and the file of decisions written on the way.

use super::{Activity, Alarm};
use anyhow::Context as _;
use barrage_protocol::decision::{Decision, Kind};
use barrage_protocol::event::Reason;
use barrage_protocol::ids::Slot;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

/// What became of the records of one file. `read` is the sum of the others.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileTotals {
    /// The file's name.
    pub name: String,
    /// Records read.
    pub read: u64,
    /// Counted in a slot.
    pub counted: u64,
    /// Came after their slot was closed.
    pub late: u64,
    /// Rejected, by reason.
    pub rejected: BTreeMap<Reason, u64>,
    /// Passed over.
    pub skipped: u64,
    /// Beyond a limit.
    pub overflow: u64,
}

impl FileTotals {
    /// All rejected.
    #[must_use]
    pub fn rejected(&self) -> u64 {
        self.rejected.values().sum()
    }

    /// Adds another file's totals.
    pub fn add(&mut self, other: &Self) {
        self.read += other.read;
        self.counted += other.counted;
        self.late += other.late;
        self.skipped += other.skipped;
        self.overflow += other.overflow;
        for (reason, n) in &other.rejected {
            *self.rejected.entry(*reason).or_insert(0) += n;
        }
    }
}

/// Decisions of one kind with one change.
pub type Change = (Kind, String, String);

/// What was collected.
#[derive(Default)]
pub struct Report {
    /// Rooms and their rates.
    pub activity: Activity,
    /// Spans of rules.
    pub alarms: Vec<Alarm>,
    /// Decisions by kind, from and to.
    pub decisions: BTreeMap<Change, u64>,
    /// The files' totals.
    pub files: Vec<FileTotals>,
    /// What was said about the files, in order.
    pub notes: Vec<String>,
    /// Running hash of the canonical decisions.
    pub hash: String,
    /// The last slot closed.
    pub last: Option<Slot>,
    /// Wall time in milliseconds.
    pub wall_ms: u64,
    /// Worker threads.
    pub workers: u16,
    out: Option<BufWriter<File>>,
}

impl Report {
    /// A report that writes decisions to a file, if one is named.
    ///
    /// # Errors
    /// Where the file cannot be made.
    pub fn new(decisions: Option<&Path>) -> anyhow::Result<Self> {
        let out = decisions
            .map(|path| {
                File::create(path).with_context(|| format!("cannot write {}", path.display()))
            })
            .transpose()?
            .map(BufWriter::new);
        Ok(Self { out, ..Self::default() })
    }

    /// Takes in the decisions of a slot, in canonical order, with their canonical lines.
    ///
    /// # Errors
    /// Where the file of decisions cannot be written.
    pub fn slot(&mut self, decisions: &[Decision], lines: &[String]) -> std::io::Result<()> {
        for d in decisions {
            let change = (d.kind, d.from.clone(), d.to.clone());
            *self.decisions.entry(change).or_insert(0) += 1;
        }
        if let Some(out) = &mut self.out {
            for line in lines {
                writeln!(out, "{line}")?;
            }
        }
        Ok(())
    }

    /// The end of the run: alarms in order of room and time, files written out.
    ///
    /// # Errors
    /// Where a file cannot be written.
    pub fn finish(&mut self, alarms: Option<&Path>, zero_ms: i64) -> anyhow::Result<()> {
        self.alarms.sort();
        if let Some(out) = &mut self.out {
            out.flush().context("cannot write the decisions")?;
        }
        if let Some(path) = alarms {
            let what = || format!("cannot write {}", path.display());
            let mut out = BufWriter::new(File::create(path).with_context(what)?);
            super::alarms::write(&mut out, &self.alarms, zero_ms).with_context(what)?;
        }
        Ok(())
    }

    /// All files together.
    #[must_use]
    pub fn totals(&self) -> FileTotals {
        let mut all = FileTotals::default();
        self.files.iter().for_each(|f| all.add(f));
        all
    }
}
