//! The reading end of the spool: frames in order, up to what the disk keeps; segments go once they are sent.

use super::frame;
use super::ledger::Ledger;
use super::spool::segment_path;
use std::fs::{self, File};
use std::io::{self, BufReader, Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A place in the spool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    segment: u64,
    offset: u64,
}

/// Reads the spool from its oldest frame on.
pub(super) struct Reader {
    folder: PathBuf,
    ledger: Arc<Ledger>,
    place: Place,
    file: Option<BufReader<File>>,
}

impl Reader {
    pub(super) fn new(folder: &Path, ledger: Arc<Ledger>) -> Self {
        Self { folder: folder.to_owned(), ledger, place: Place::default(), file: None }
    }

    /// After the last frame read.
    pub(super) fn place(&self) -> Place {
        self.place
    }

    /// The next frame's payload; none if there is no more on the disk. Damaged ones are counted and passed over.
    ///
    /// # Errors
    /// When a segment cannot be read; the place stays.
    pub(super) fn next(&mut self) -> io::Result<Option<Vec<u8>>> {
        loop {
            let (known, following) = {
                let state = self.ledger.lock();
                let known = state.segments.get(&self.place.segment).copied();
                let after = state.segments.range(self.place.segment.saturating_add(1)..);
                (known, after.map(|(n, _)| *n).next())
            };
            let here = known.unwrap_or(0);
            if self.place.offset < here {
                match self.frame(here)? {
                    Some(payload) => return Ok(Some(payload)),
                    None => continue,
                }
            }
            let Some(following) = following else { return Ok(None) };
            self.place = Place { segment: following, offset: frame::MAGIC.len() as u64 };
            self.file = None;
        }
    }

    /// Reads at the place, within the first `len` bytes of the segment.
    fn frame(&mut self, len: u64) -> io::Result<Option<Vec<u8>>> {
        if self.file.is_none() {
            let mut file = match File::open(segment_path(&self.folder, self.place.segment)) {
                Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(self.give_up(len)),
                other => other?,
            };
            file.seek(SeekFrom::Start(self.place.offset))?;
            self.file = Some(BufReader::with_capacity(64 << 10, file));
        }
        let read = match self.read(len) {
            // Shorter than what the disk was told to keep.
            Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => Ok(self.give_up(len)),
            other => other,
        };
        if !matches!(read, Ok(Some(_))) {
            self.file = None;
        }
        read
    }

    /// Somebody has removed or cut the segment: its rest is counted as damaged, the next one is read.
    fn give_up(&mut self, len: u64) -> Option<Vec<u8>> {
        tracing::error!(
            segment = self.place.segment,
            "a segment of the audit spool is gone or cut"
        );
        self.ledger.lock().stats.damaged += 1;
        self.place.offset = len;
        None
    }

    fn read(&mut self, len: u64) -> io::Result<Option<Vec<u8>>> {
        let Some(file) = &mut self.file else { return Ok(None) };
        let mut head = [0; frame::HEAD];
        let left = len - self.place.offset;
        let mut rest = None;
        if left >= frame::HEAD as u64 {
            file.read_exact(&mut head)?;
            rest = frame::head(head).filter(|(n, _)| (n + frame::HEAD) as u64 <= left);
        }
        let Some((length, sum)) = rest else {
            // What follows cannot be told apart any more.
            self.ledger.lock().stats.damaged += 1;
            self.place.offset = len;
            return Ok(None);
        };
        let mut payload = vec![0; length];
        file.read_exact(&mut payload)?;
        self.place.offset += (length + frame::HEAD) as u64;
        if frame::checksum(&payload) == sum {
            return Ok(Some(payload));
        }
        self.ledger.lock().stats.damaged += 1;
        Ok(None)
    }

    /// Everything before `place` is in Postgres: removes the segments that are done with.
    pub(super) fn sent(&mut self, place: Place) {
        let mut state = self.ledger.lock();
        let active = state.active;
        let whole = |number: u64, len: u64| {
            number < place.segment || (number, len) == (place.segment, place.offset)
        };
        let sent = state.segments.range(..=place.segment).filter(|(n, len)| whole(**n, **len));
        let done: Vec<u64> = sent.map(|(n, _)| *n).filter(|n| active != Some(*n)).collect();
        for number in &done {
            state.segments.remove(number);
        }
        // Only the spool can leave the segment that it writes; a short one is not worth it.
        let last = state.segments.get(&place.segment).copied();
        let worth = last == Some(place.offset) && place.offset >= 64 << 10;
        state.sent = worth.then_some((place.segment, place.offset));
        drop(state);
        for number in done {
            if let Err(e) = fs::remove_file(segment_path(&self.folder, number)) {
                tracing::warn!(error = %e, number, "a segment of the spool cannot be removed");
            }
        }
    }

    /// All is sent and the spool has ended: nothing need be read again by the next run.
    pub(super) fn clear(&mut self, place: Place) {
        let state = self.ledger.lock();
        let rest: Vec<u64> = state.segments.keys().copied().collect();
        let last = state.segments.last_key_value().map(|(n, len)| (*n, *len));
        let all = state.ended && last.is_none_or(|l| l == (place.segment, place.offset));
        drop(state);
        if all {
            self.file = None;
            self.ledger.lock().segments.clear();
            for number in rest {
                let _gone = fs::remove_file(segment_path(&self.folder, number));
            }
        }
    }
}
