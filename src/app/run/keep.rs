//! Checkpoints, written beside the loop: to the state directory, and the newest to Postgres for who comes later.

use crate::app::Checkpoint;
use crate::audit::{self, Envelope, Store};
use crate::ops::Meters;
use anyhow::Context as _;
use barrage_protocol::ids::Slot;
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use std::io::{Read as _, Write as _};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

/// Longest checkpoint unpacked.
const BYTES_MAX: u64 = 4 << 30;

/// A checkpoint as bytes.
pub(super) fn pack(checkpoint: &Checkpoint) -> anyhow::Result<Vec<u8>> {
    let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
    serde_json::to_writer(&mut packed, checkpoint).context("a checkpoint cannot be written")?;
    packed.flush()?;
    Ok(packed.finish()?)
}

/// Bytes as a checkpoint.
pub(super) fn unpack(bytes: &[u8]) -> anyhow::Result<Checkpoint> {
    let mut text = Vec::new();
    GzDecoder::new(bytes)
        .take(BYTES_MAX)
        .read_to_end(&mut text)
        .context("a checkpoint cannot be unpacked")?;
    serde_json::from_slice(&text).context("a checkpoint of another version")
}

/// The thread that writes.
pub(super) struct Keeper {
    work: Option<SyncSender<Box<(Checkpoint, Envelope)>>>,
    thread: Option<JoinHandle<()>>,
    last: Arc<Mutex<Option<Packed>>>,
}

/// The newest one that lies on the disk.
#[derive(Clone)]
pub(super) struct Packed {
    pub(super) slot: Slot,
    pub(super) bytes: Arc<[u8]>,
}

impl Keeper {
    pub(super) fn new(store: Store, meters: Arc<Meters>) -> std::io::Result<Self> {
        // One is written, one waits: a third is not needed, the next comes in ten seconds.
        let (work, taken) = sync_channel(1);
        let last = Arc::<Mutex<Option<Packed>>>::default();
        let kept = Arc::clone(&last);
        let thread = std::thread::Builder::new().name("checkpoints".into());
        let thread = thread.spawn(move || write(store, &taken, &kept, &meters))?;
        Ok(Self { work: Some(work), thread: Some(thread), last })
    }

    /// Hands one over; false: the last one is still being written.
    pub(super) fn keep(&self, checkpoint: Checkpoint, envelope: Envelope) -> bool {
        let sent = self.work.as_ref().map(|work| work.try_send(Box::new((checkpoint, envelope))));
        !matches!(sent, Some(Err(TrySendError::Full(_))))
    }

    /// The newest one that lies on the disk, once.
    pub(super) fn newest(&self, done: Slot) -> Option<Packed> {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if last.as_ref().is_some_and(|p| p.slot <= done) { last.take() } else { None }
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.work = None;
        if let Some(thread) = self.thread.take() {
            // Its panic was told when it happened.
            let _ = thread.join();
        }
    }
}

fn write(
    mut store: Store,
    work: &Receiver<Box<(Checkpoint, Envelope)>>,
    last: &Mutex<Option<Packed>>,
    meters: &Meters,
) {
    while let Ok(work) = work.recv() {
        let (checkpoint, envelope) = *work;
        let slot = checkpoint.control.slot;
        let packed = pack(&checkpoint);
        let saved = packed.and_then(|bytes| {
            store.save(envelope.epoch, slot, &bytes)?;
            Ok(bytes)
        });
        match saved {
            Ok(bytes) => {
                meters.checkpoint(slot.0, bytes.len());
                let packed = Packed { slot, bytes: bytes.into() };
                *last.lock().unwrap_or_else(PoisonError::into_inner) = Some(packed);
            }
            Err(error) => tracing::error!(%error, slot = slot.0, "a checkpoint could not be kept"),
        }
    }
}

/// The newest checkpoint there is: on this machine, or in Postgres.
///
/// # Errors
/// A state directory that cannot be read. One that cannot be understood is passed over, loudly.
pub(super) async fn newest(
    store: &mut Store,
    url: &str,
    shard: u32,
) -> anyhow::Result<Option<Checkpoint>> {
    let mut found = store.newest().context("the state directory cannot be read")?;
    if !url.is_empty() {
        match audit::newest_checkpoint(url, shard).await {
            Ok(Some(other)) if found.as_ref().is_none_or(|own| own.slot < other.slot) => {
                found = Some(other);
            }
            Ok(_) => {}
            Err(error) => tracing::warn!(%error, "Postgres was not asked for a checkpoint"),
        }
    }
    let Some(kept) = found else { return Ok(None) };
    match unpack(&kept.bytes) {
        Ok(checkpoint) => Ok(Some(checkpoint)),
        Err(error) => {
            tracing::error!(%error, slot = kept.slot.0, "the newest checkpoint cannot be used; starting without one");
            Ok(None)
        }
    }
}
