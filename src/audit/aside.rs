//! The file of rows that Postgres cannot hold: named with their reason, kept for a person, never in the way.

use super::rows::Refused;
use serde::Serialize;
use std::fs::OpenOptions;
use std::io::{self, Write as _};
use std::path::Path;

/// Longest file in bytes; what comes after is counted only.
const BYTES_MAX: u64 = 64 << 20;

#[derive(Serialize)]
struct Line<'a> {
    why: &'a str,
    what: &'a str,
    envelope: Option<&'a super::Envelope>,
}

/// Sets rows aside in `aside.jsonl`. Returns how many are kept; the others had no room.
///
/// # Errors
/// When the file cannot be written.
pub(super) fn keep(folder: &Path, refused: &[Refused]) -> io::Result<u64> {
    if refused.is_empty() {
        return Ok(0);
    }
    let mut file = OpenOptions::new().create(true).append(true).open(folder.join("aside.jsonl"))?;
    let mut len = file.metadata()?.len();
    let mut lines = Vec::new();
    let mut kept = 0;
    for row in refused {
        tracing::error!(why = row.why, "a row of the audit cannot be stored and is set aside");
        let line = Line { why: &row.why, what: &row.what, envelope: row.envelope.as_ref() };
        let line = serde_json::to_vec(&line)?;
        if len + line.len() as u64 >= BYTES_MAX {
            continue;
        }
        len += line.len() as u64 + 1;
        lines.extend_from_slice(&line);
        lines.push(b'\n');
        kept += 1;
    }
    file.write_all(&lines)?;
    file.sync_data()?;
    Ok(kept)
}
