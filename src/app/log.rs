//! The control log as a line sees it: entries are sent, and count when they are read back.

use barrage_engine::control::Memory;
use barrage_protocol::control::Entry;

/// A control log with its reader.
pub trait Log {
    /// Sends an entry. It counts when [`Self::read`] hands it back.
    ///
    /// # Errors
    /// A log that takes no more entries: the leader must end.
    fn append(&mut self, entry: &Entry) -> anyhow::Result<()>;

    /// The next entry with its position, if there is one by now. Does not wait.
    ///
    /// # Errors
    /// A log that cannot be read any more, or whose next entry is gone.
    fn read(&mut self) -> anyhow::Result<Option<(u64, Entry)>>;
}

/// A log in memory with its reader: the demo's, a replay's, a test's.
#[derive(Clone, Debug)]
pub struct Kept {
    memory: Memory,
    position: u64,
}

impl Kept {
    /// An empty log that keeps `limit` entries.
    #[must_use]
    pub fn new(limit: usize) -> Self {
        Self::at(Memory::new(limit), 0)
    }

    /// A log read from a position on.
    #[must_use]
    pub fn at(memory: Memory, position: u64) -> Self {
        Self { memory, position }
    }

    /// The log.
    #[must_use]
    pub fn memory(&self) -> &Memory {
        &self.memory
    }
}

impl Log for Kept {
    fn append(&mut self, entry: &Entry) -> anyhow::Result<()> {
        self.memory.append(entry.clone());
        Ok(())
    }

    fn read(&mut self) -> anyhow::Result<Option<(u64, Entry)>> {
        let position = self.position;
        let Some(entry) = self.memory.get(position) else {
            anyhow::ensure!(
                position >= self.memory.first(),
                "entry {position} of the control log is gone; it begins at {}",
                self.memory.first()
            );
            return Ok(None);
        };
        self.position += 1;
        Ok(Some((position, entry.clone())))
    }
}

impl Log for crate::control::Log {
    fn append(&mut self, entry: &Entry) -> anyhow::Result<()> {
        Ok(Self::append(self, entry)?)
    }

    fn read(&mut self) -> anyhow::Result<Option<(u64, Entry)>> {
        Ok(Self::read(self)?)
    }
}
