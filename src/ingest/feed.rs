//! Bytes of a file or a pipe, plain or gzip, counted as they are read.

use flate2::read::MultiGzDecoder;
use std::fs::File;
use std::io::{self, Cursor, Read};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};

/// Bytes of a chunk that a pipe's thread hands over.
const CHUNK: usize = 32 * 1024;
/// Chunks that may wait; then the pipe is not read on, and its writer feels it.
const CHUNKS: usize = 16;

/// How far a file was read, in bytes as they lie on disk; for progress bars.
#[derive(Clone, Debug, Default)]
pub struct Progress {
    read: Arc<AtomicU64>,
    /// Size of the file; 0 where it is not known (a pipe).
    pub total: u64,
}

impl Progress {
    /// Bytes read so far.
    #[must_use]
    pub fn read(&self) -> u64 {
        self.read.load(Ordering::Relaxed)
    }
}

/// Counts what passes.
struct Counted<R> {
    inner: R,
    read: Arc<AtomicU64>,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let n = self.inner.read(buf)?;
        self.read.fetch_add(n as u64, Ordering::Relaxed);
        Ok(n)
    }
}

/// What an attempt to get more bytes came to.
pub(super) enum Fill {
    Bytes(usize),
    Pending,
    End,
    Failed(String),
}

/// Where bytes come from.
pub(super) enum Feed {
    /// Read when asked; waits for the other end.
    Blocking(Box<dyn Read + Send>),
    /// Read by a thread of its own; never waits.
    Pipe { chunks: Receiver<io::Result<Vec<u8>>>, rest: Cursor<Vec<u8>> },
}

impl Feed {
    /// Opens a file, or standard input for `-`.
    ///
    /// # Errors
    /// Where the file cannot be opened.
    pub(super) fn open(path: &Path) -> io::Result<(Self, Progress)> {
        if path.as_os_str() == "-" {
            let progress = Progress::default();
            let read = Arc::clone(&progress.read);
            return Ok((Self::of(Counted { inner: io::stdin(), read }), progress));
        }
        let file = File::open(path)?;
        let meta = file.metadata()?;
        if meta.is_dir() {
            return Err(io::Error::new(io::ErrorKind::IsADirectory, "it is a directory"));
        }
        let progress = Progress { total: meta.len(), ..Progress::default() };
        let read = Arc::clone(&progress.read);
        Ok((Self::of(Counted { inner: file, read }), progress))
    }

    /// Reads from `reader` when asked.
    pub(super) fn of(reader: impl Read + Send + 'static) -> Self {
        Self::Blocking(Box::new(Inflate::Unknown(Some(Box::new(reader)))))
    }

    /// Hands the reading to a thread, so that asking never waits.
    pub(super) fn threaded(self) -> Self {
        let Self::Blocking(reader) = self else { return self };
        let (to, chunks) = sync_channel(CHUNKS);
        // The thread ends with its reader, or when nobody takes its chunks any longer.
        std::thread::spawn(move || pump(reader, &to));
        Self::Pipe { chunks, rest: Cursor::default() }
    }

    /// Reads some bytes into `buf`, which is not empty.
    pub(super) fn fill(&mut self, buf: &mut [u8]) -> Fill {
        match self {
            Self::Blocking(reader) => loop {
                match reader.read(buf) {
                    Ok(0) => return Fill::End,
                    Ok(n) => return Fill::Bytes(n),
                    Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                    Err(e) => return Fill::Failed(e.to_string()),
                }
            },
            Self::Pipe { chunks, rest } => {
                if rest.position() >= rest.get_ref().len() as u64 {
                    *rest = match chunks.try_recv() {
                        Ok(Ok(chunk)) => Cursor::new(chunk),
                        Ok(Err(e)) => return Fill::Failed(e.to_string()),
                        Err(TryRecvError::Empty) => return Fill::Pending,
                        Err(TryRecvError::Disconnected) => return Fill::End,
                    };
                }
                Fill::Bytes(rest.read(buf).unwrap_or(0))
            }
        }
    }
}

fn pump(mut reader: Box<dyn Read + Send>, to: &SyncSender<io::Result<Vec<u8>>>) {
    loop {
        let mut chunk = vec![0; CHUNK];
        match reader.read(&mut chunk) {
            Ok(0) => return,
            Ok(n) => {
                chunk.truncate(n);
                if to.send(Ok(chunk)).is_err() {
                    return;
                }
            }
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => {
                let _ = to.send(Err(e));
                return;
            }
        }
    }
}

/// The first two bytes, and what follows them.
type Whole = io::Chain<Cursor<Vec<u8>>, Box<dyn Read + Send>>;

/// A reader that finds out by the first two bytes whether it is gzip: names lie, and a pipe has none.
enum Inflate {
    Unknown(Option<Box<dyn Read + Send>>),
    Plain(Whole),
    Gzip(Box<MultiGzDecoder<Whole>>),
}

impl Read for Inflate {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        loop {
            match self {
                Self::Plain(r) => return r.read(buf),
                Self::Gzip(r) => return r.read(buf),
                Self::Unknown(reader) => {
                    let Some(mut reader) = reader.take() else { return Ok(0) };
                    let mut head = Vec::new();
                    (&mut reader).take(2).read_to_end(&mut head)?;
                    let gzip = head == [0x1F, 0x8B];
                    let whole = Cursor::new(head).chain(reader);
                    *self = if gzip {
                        Self::Gzip(Box::new(MultiGzDecoder::new(whole)))
                    } else {
                        Self::Plain(whole)
                    };
                }
            }
        }
    }
}
