//! The audit log: a spool on the disk, which decisions wait for, and Postgres behind it, which nothing waits for.
//!
//! [`spawn`] starts two threads. The first has the disk keep what [`Handle::append`] hands over, in groups; the second
//! sends it to Postgres, in batches, for as long as that takes. A row is a function of its decision, so that sending
//! twice is harmless, and everything unclear is sent again. [`Store`] holds the checkpoints of the state directory.

mod aside;
mod frame;
mod handle;
mod item;
mod ledger;
mod postgres;
mod reader;
mod rows;
mod spool;
mod store;
#[cfg(test)]
mod tests;
mod writer;

pub use handle::{Handle, spawn};
pub use item::Envelope;
pub use ledger::Stats;
pub use postgres::query::{Cursor, Row, Unreadable, get, newest_checkpoint, retain, tail};
pub use postgres::schema::{check, migrate};
pub use store::{Kept, Store};

use std::path::PathBuf;
use std::time::Duration;

/// How the audit works.
#[derive(Clone)]
pub struct Settings {
    /// Folder of the spool; one process uses it at a time.
    pub folder: PathBuf,
    /// `postgres://user:password@host/database?sslmode=…`; never written anywhere.
    pub url: String,
    /// The shard whose decisions these are.
    pub shard: u32,
    /// Most bytes of the spool on the disk.
    pub spool_bytes_max: u64,
    /// Most rows in one transaction.
    pub batch_rows: usize,
    /// Longest wait for an answer of Postgres.
    pub patience: Duration,
    /// First and longest wait between attempts while Postgres is away; the real ones are drawn below them.
    pub backoff: (Duration, Duration),
}

impl Settings {
    /// The defaults: 1 GiB of spool, 1,000 rows a batch, 15 s of patience, attempts 100 ms to 5 s apart.
    #[must_use]
    pub fn new(folder: impl Into<PathBuf>, url: impl Into<String>) -> Self {
        Self {
            folder: folder.into(),
            url: url.into(),
            shard: 0,
            spool_bytes_max: 1 << 30,
            batch_rows: 1_000,
            patience: Duration::from_secs(15),
            backoff: (Duration::from_millis(100), Duration::from_secs(5)),
        }
    }
}

impl std::fmt::Debug for Settings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Settings")
            .field("folder", &self.folder)
            .field("shard", &self.shard)
            .field("spool_bytes_max", &self.spool_bytes_max)
            .field("batch_rows", &self.batch_rows)
            .field("patience", &self.patience)
            .field("backoff", &self.backoff)
            .finish_non_exhaustive()
    }
}

/// What can go wrong with the audit database, as a person reads it.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The address cannot be read.
    #[error(
        "the address of Postgres cannot be read\nhint: postgres://user:password@host:5432/database"
    )]
    Address,
    /// No connection, or it broke.
    #[error("cannot reach Postgres: {0}")]
    Unreachable(String),
    /// Migrations are missing.
    #[error("the audit database lacks {missing} of {all} migrations\nhint: barrage init")]
    Behind {
        /// Migrations not yet applied.
        missing: usize,
        /// Migrations that this version knows.
        all: usize,
    },
    /// The database was migrated by another version.
    #[error("the audit database does not fit this version: {0}")]
    Strange(String),
    /// The login may not do what a controller does.
    #[error("the login of the audit database may not {0}\nhint: grant it the role barrage_writer")]
    Rights(String),
    /// Postgres answered with an error.
    #[error("Postgres refused: {0}")]
    Refused(String),
}

impl From<sqlx::Error> for Error {
    fn from(e: sqlx::Error) -> Self {
        match e {
            sqlx::Error::Database(e) => Self::Refused(e.message().to_owned()),
            sqlx::Error::Configuration(_) => Self::Address,
            e => Self::Unreachable(e.to_string()),
        }
    }
}
