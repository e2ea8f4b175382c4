//! The spool on the disk: segment files of frames, written in groups, cut where torn, bounded in bytes.

use super::frame;
use super::item::Gap;
use super::ledger::Ledger;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A segment this long is closed, and the next begun, in bytes.
const SEGMENT_MAX: u64 = 8 << 20;

/// Room kept for the record of a gap, in bytes.
const RESERVE: u64 = 64 << 10;

/// Name of a segment's file.
pub(super) fn segment_path(folder: &Path, number: u64) -> PathBuf {
    folder.join(format!("{number:020}.seg"))
}

fn number_of(name: &str) -> Option<u64> {
    name.strip_suffix(".seg").filter(|n| n.len() == 20)?.parse().ok()
}

/// The writing end of the spool. Segments of earlier runs are never written again.
pub(super) struct Spool {
    folder: PathBuf,
    limit: u64,
    ledger: Arc<Ledger>,
    active: Option<Active>,
    next: u64,
    /// Frames not yet written.
    buffer: Vec<u8>,
    /// Held as long as the spool is in use.
    _lock: File,
}

struct Active {
    file: File,
    number: u64,
    len: u64,
}

impl Spool {
    /// Opens the spool of a folder, makes it if need be, and cuts torn tails. `limit` is its size in bytes.
    pub(super) fn open(folder: &Path, limit: u64, ledger: Arc<Ledger>) -> io::Result<Self> {
        fs::create_dir_all(folder)?;
        let lock = OpenOptions::new().create(true).append(true).open(folder.join("lock"))?;
        if let Err(e) = lock.try_lock() {
            let what = format!("the spool is in use by another process: {e}");
            return Err(io::Error::new(io::ErrorKind::ResourceBusy, what));
        }
        let mut numbers = Vec::new();
        for entry in fs::read_dir(folder)? {
            numbers.extend(number_of(&entry?.file_name().to_string_lossy()));
        }
        numbers.sort_unstable();
        for number in &numbers {
            mend(folder, *number, &ledger)?;
        }
        let next = numbers.last().map_or(1, |n| n.saturating_add(1));
        Ok(Self {
            folder: folder.to_owned(),
            limit,
            ledger,
            active: None,
            next,
            buffer: Vec::new(),
            _lock: lock,
        })
    }

    /// Whether a payload of this many bytes has room.
    pub(super) fn has_room(&mut self, payload: usize) -> bool {
        self.leave_sent();
        self.bytes() + (payload + frame::HEAD) as u64 + RESERVE <= self.limit
    }

    fn bytes(&self) -> u64 {
        self.ledger.bytes() + self.buffer.len() as u64
    }

    /// Takes a payload to be written with the next [`Spool::sync`].
    pub(super) fn append(&mut self, payload: &[u8]) {
        frame::push(&mut self.buffer, payload);
    }

    /// Bytes that wait for [`Spool::sync`].
    pub(super) fn waiting(&self) -> usize {
        self.buffer.len()
    }

    /// Writes what waits and has the disk keep it. What could not be written is dropped.
    ///
    /// # Errors
    /// Why nothing of it was kept; a second attempt in a new segment has failed too.
    pub(super) fn sync(&mut self) -> io::Result<()> {
        if self.buffer.is_empty() {
            return Ok(());
        }
        let buffer = std::mem::take(&mut self.buffer);
        let first = self.write(&buffer);
        let kept = if first.is_err() { self.write(&buffer) } else { first };
        self.buffer = buffer;
        self.buffer.clear();
        kept
    }

    fn write(&mut self, frames: &[u8]) -> io::Result<()> {
        self.leave_sent();
        if self.active.as_ref().is_some_and(|a| a.len >= SEGMENT_MAX) {
            self.active = None;
        }
        let mut active = match self.active.take() {
            Some(active) => active,
            None => self.begin()?,
        };
        let done = active.file.write_all(frames).and_then(|()| active.file.sync_data());
        if let Err(e) = done {
            // A segment that failed is left at its last good length and never written again.
            let cut = active.file.set_len(active.len);
            tracing::error!(error = %e, cut = cut.is_ok(), "the audit spool cannot be written");
            return Err(e);
        }
        active.len += frames.len() as u64;
        let mut state = self.ledger.lock();
        state.segments.insert(active.number, active.len);
        state.active = Some(active.number);
        state.stats.syncs += 1;
        drop(state);
        self.active = Some(active);
        Ok(())
    }

    /// Leaves and removes the active segment if all of it is sent.
    fn leave_sent(&mut self) {
        let Some(active) = &self.active else { return };
        let number = active.number;
        let mut state = self.ledger.lock();
        // More may have been written since the sender said so.
        if state.sent != Some((number, active.len)) {
            return;
        }
        state.sent = None;
        state.active = None;
        state.segments.remove(&number);
        drop(state);
        self.active = None;
        if let Err(e) = fs::remove_file(segment_path(&self.folder, number)) {
            tracing::warn!(error = %e, number, "a segment of the spool cannot be removed");
        }
    }

    fn begin(&mut self) -> io::Result<Active> {
        let number = self.next;
        self.next += 1;
        let path = segment_path(&self.folder, number);
        let mut file = OpenOptions::new().create_new(true).append(true).open(path)?;
        file.write_all(&frame::MAGIC)?;
        File::open(&self.folder)?.sync_all()?;
        Ok(Active { file, number, len: frame::MAGIC.len() as u64 })
    }

    /// Notes on the disk what is missing, so that a crash does not hide it; best effort, the disk may be full.
    pub(super) fn keep_gap(&self, gap: Option<&Gap>) {
        let path = self.folder.join("gap.json");
        let done = match gap {
            None => fs::remove_file(&path).or_else(|e| match e.kind() {
                io::ErrorKind::NotFound => Ok(()),
                _ => Err(e),
            }),
            Some(gap) => serde_json::to_vec(gap).map_err(Into::into).and_then(|bytes| {
                let temporary = self.folder.join("gap.tmp");
                fs::write(&temporary, bytes)?;
                fs::rename(&temporary, &path)
            }),
        };
        if let Err(e) = done {
            tracing::error!(error = %e, "the note of missing decisions cannot be kept");
        }
    }

    /// What was missing when the last run ended.
    pub(super) fn noted_gap(&self) -> Option<Gap> {
        let bytes = fs::read(self.folder.join("gap.json")).ok()?;
        serde_json::from_slice(&bytes).ok()
    }
}

/// Looks through a segment of an earlier run: cuts its torn tail, removes it if nothing is left.
fn mend(folder: &Path, number: u64, ledger: &Ledger) -> io::Result<()> {
    let path = segment_path(folder, number);
    let bytes = fs::read(&path)?;
    let scan = frame::scan(&bytes);
    let tail = bytes.len() as u64 - scan.len;
    if scan.frames == 0 {
        if bytes.len() > frame::MAGIC.len() {
            // Nothing in it can be read, but it was something: one such file is kept.
            ledger.lock().stats.torn += 1;
            tracing::warn!(file = %path.display(), bytes = tail, "a segment of the spool holds nothing whole");
            return fs::rename(&path, folder.join("segment.torn"));
        }
        return fs::remove_file(&path);
    }
    if tail > 0 {
        tracing::warn!(file = %path.display(), bytes = tail, "cut the torn tail of a spool segment");
        let file = OpenOptions::new().write(true).open(&path)?;
        file.set_len(scan.len)?;
        file.sync_all()?;
    }
    let mut state = ledger.lock();
    state.stats.torn += u64::from(tail > 0);
    state.segments.insert(number, scan.len);
    Ok(())
}
