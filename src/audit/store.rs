//! Checkpoints in the state directory: the newest three, each whole or refused.

use barrage_protocol::ids::Slot;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

/// Checkpoints kept.
const KEPT: usize = 3;

/// First bytes of a file: what it is, and the version of its layout.
const MAGIC: [u8; 8] = *b"brgckp1\n";

/// Magic, epoch, slot, length (u64 each, little endian) and a blake3 hash of these three and the bytes.
const HEAD: usize = 8 + 8 + 8 + 8 + 32;

/// Longest checkpoint in bytes.
const BYTES_MAX: u64 = 1 << 30;

/// A checkpoint as it was saved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kept {
    /// Leader term in which it was taken.
    pub epoch: u64,
    /// The slot it stands for.
    pub slot: Slot,
    /// What was saved.
    pub bytes: Vec<u8>,
}

/// The checkpoints of one state directory. Saving is atomic: a crash leaves the older ones as they were.
#[derive(Debug)]
pub struct Store {
    folder: PathBuf,
    /// Whole files by their number, which grows with each save.
    whole: BTreeMap<u64, (u64, Slot)>,
    next: u64,
    torn: u64,
}

impl Store {
    /// Opens the directory, makes it if need be, and checks every file in it. What is not whole is set aside as
    /// `….torn` and counted.
    ///
    /// # Errors
    /// When the directory cannot be made or read.
    pub fn open(folder: &Path) -> io::Result<Self> {
        fs::create_dir_all(folder)?;
        let mut store =
            Self { folder: folder.to_owned(), whole: BTreeMap::new(), next: 1, torn: 0 };
        for entry in fs::read_dir(folder)? {
            let name = entry?.file_name().to_string_lossy().into_owned();
            if name.ends_with(".tmp") {
                fs::remove_file(folder.join(&name))?;
            }
            let Some(number) = number_of(&name) else { continue };
            store.next = store.next.max(number.saturating_add(1));
            match read(&folder.join(&name))? {
                Some(kept) => {
                    store.whole.insert(number, (kept.epoch, kept.slot));
                }
                None => store.refuse(number)?,
            }
        }
        Ok(store)
    }

    /// Saves a checkpoint and lets go of the oldest beyond three. When this returns it is on the disk.
    ///
    /// # Errors
    /// When it cannot be written; the older ones are untouched.
    pub fn save(&mut self, epoch: u64, slot: Slot, bytes: &[u8]) -> io::Result<()> {
        let number = self.next;
        let temporary = self.folder.join("checkpoint.tmp");
        let mut file = File::create(&temporary)?;
        file.write_all(&head(epoch, slot, bytes))?;
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&temporary, self.path(number))?;
        File::open(&self.folder)?.sync_all()?;
        self.next += 1;
        self.whole.insert(number, (epoch, slot));
        while self.whole.len() > KEPT {
            let Some((oldest, _)) = self.whole.pop_first() else { break };
            fs::remove_file(self.path(oldest))?;
        }
        Ok(())
    }

    /// The newest whole checkpoint; one that was damaged since is set aside and counted, and the one before is taken.
    ///
    /// # Errors
    /// When the directory cannot be read.
    pub fn newest(&mut self) -> io::Result<Option<Kept>> {
        while let Some((&number, _)) = self.whole.last_key_value() {
            if let Some(kept) = read(&self.path(number))? {
                return Ok(Some(kept));
            }
            self.whole.remove(&number);
            self.refuse(number)?;
        }
        Ok(None)
    }

    /// (epoch, slot) of those kept, oldest first.
    #[must_use]
    pub fn list(&self) -> Vec<(u64, Slot)> {
        self.whole.values().copied().collect()
    }

    /// Files that were not whole.
    #[must_use]
    pub fn torn(&self) -> u64 {
        self.torn
    }

    fn path(&self, number: u64) -> PathBuf {
        self.folder.join(format!("checkpoint-{number:020}"))
    }

    /// Sets a file aside for whoever wants to look at it; one is kept.
    fn refuse(&mut self, number: u64) -> io::Result<()> {
        self.torn += 1;
        let path = self.path(number);
        tracing::warn!(file = %path.display(), "a checkpoint is damaged and is not used");
        match fs::rename(path, self.folder.join("checkpoint.torn")) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => Err(e),
            _ => Ok(()),
        }
    }
}

fn number_of(name: &str) -> Option<u64> {
    let digits = name.strip_prefix("checkpoint-")?;
    if digits.len() == 20 { digits.parse().ok() } else { None }
}

fn head(epoch: u64, slot: Slot, bytes: &[u8]) -> Vec<u8> {
    let mut head = Vec::with_capacity(HEAD);
    head.extend_from_slice(&MAGIC);
    for number in [epoch, slot.0, bytes.len() as u64] {
        head.extend_from_slice(&number.to_le_bytes());
    }
    let mut hasher = blake3::Hasher::new();
    hasher.update(&head);
    hasher.update(bytes);
    head.extend_from_slice(hasher.finalize().as_bytes());
    head
}

/// A checkpoint from its file; none if it is not whole.
fn read(path: &Path) -> io::Result<Option<Kept>> {
    match fs::metadata(path) {
        Ok(data) if data.len() > BYTES_MAX + HEAD as u64 => return Ok(None),
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(e),
        Ok(_) => {}
    }
    let mut all = fs::read(path)?;
    if all.len() < HEAD {
        return Ok(None);
    }
    let bytes = all.split_off(HEAD);
    let number = |at: usize| {
        let field = all.get(at..at + 8).and_then(|b| b.try_into().ok());
        field.map_or(0, u64::from_le_bytes)
    };
    let (epoch, slot) = (number(8), Slot(number(16)));
    let whole = all == head(epoch, slot, &bytes);
    Ok(whole.then_some(Kept { epoch, slot, bytes }))
}
