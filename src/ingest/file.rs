//! A file, or a pipe, as a partition: its records in the order in which they stand; offsets number them from 0.

use super::feed::{Feed, Progress};
use super::options::Options;
use super::problems::Problems;
use super::records::{Next, Records};
use super::sort::Sorted;
use super::source::{Item, Poll, Source};
use super::window::Window;
use std::path::Path;

/// A file opened for reading.
pub struct Opened {
    /// Its records.
    pub source: Box<dyn Source>,
    /// How far it was read.
    pub progress: Progress,
}

/// Opens a file (`-` is standard input), CSV or JSON lines, plain or gzip; found out by what is in it.
/// `live`: standard input is read by a thread, and a poll never waits for it.
///
/// # Errors
/// Where it cannot be opened, or cannot be sorted.
pub fn open(
    path: &Path,
    options: &Options,
    problems: &Problems,
    live: bool,
) -> anyhow::Result<Opened> {
    use anyhow::Context as _;
    let pipe = path.as_os_str() == "-";
    let name = if pipe { "standard input".to_owned() } else { path.display().to_string() };
    let (feed, progress) = Feed::open(path).with_context(|| format!("cannot open {name}"))?;
    let feed = if pipe && live && !options.sort { feed.threaded() } else { feed };
    let file = File::new(&name, feed, options, problems);
    let source: Box<dyn Source> =
        if options.sort { Box::new(Sorted::new(file.name, file.records)) } else { Box::new(file) };
    Ok(Opened { source, progress })
}

/// A file as a partition.
pub struct File {
    name: String,
    records: Records,
    offset: u64,
    ended: bool,
}

impl File {
    fn new(name: &str, feed: Feed, options: &Options, problems: &Problems) -> Self {
        let records = Records::new(name, Window::new(feed), options, problems.clone());
        Self { name: name.to_owned(), records, offset: 0, ended: false }
    }

    /// A partition read from any reader, for tests and pipes of other kinds.
    #[must_use]
    pub fn from_reader(
        name: &str,
        reader: impl std::io::Read + Send + 'static,
        options: &Options,
        problems: &Problems,
    ) -> Self {
        Self::new(name, Feed::of(reader), options, problems)
    }
}

impl Source for File {
    fn poll(&mut self, max: usize, sink: &mut dyn FnMut(Item<'_>)) -> Poll {
        if self.ended {
            return Poll::Ended;
        }
        for _ in 0..max {
            let record = match self.records.next() {
                Next::Record(record) => record,
                Next::Pending => return Poll::AtEnd,
                Next::End => {
                    self.ended = true;
                    return Poll::Ended;
                }
            };
            match &record {
                Ok(good) => {
                    sink(Item::event(self.offset, None, good.t, good.hit, &good.room));
                }
                Err(reject) => sink(Item::rejected(self.offset, None, *reject)),
            }
            self.offset += 1;
        }
        Poll::More
    }

    fn name(&self) -> &str {
        &self.name
    }
}
