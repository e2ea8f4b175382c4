//! A file in order of time: sorted in bounded memory, with runs on disk where it does not fit, merged as it is read.
//!
//! Records that are no events keep their place behind the record they followed, so that they are told in order.

use super::records::{Good, Next, Records};
use super::source::{Item, Poll, Source};
use barrage_protocol::event::{Detail, Field, Hit, Reason, Reject};
use barrage_protocol::ids::{Class, Outcome, RoomKey};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fs::{File, OpenOptions};
use std::io::{self, BufReader, BufWriter, Read, Seek, SeekFrom, Write};
use std::sync::atomic::{AtomicU64, Ordering};

/// Memory for records before they go to disk.
const BUDGET: usize = 64 << 20;
/// Runs that are merged at once: more are first merged into one.
const RUNS: usize = 64;
/// Bytes of a record's place in the order.
const KEY: usize = 16;

/// A record as it is kept: where it belongs and its bytes.
type Kept = (i64, u64, Vec<u8>);

/// The first record of a run: its place, the run, its bytes.
type Head = (i64, u64, usize, Vec<u8>);

/// A partition that is sorted when it is first polled.
pub(super) struct Sorted {
    name: String,
    records: Option<Records>,
    budget: usize,
    merge: Merge,
    offset: u64,
    /// Why it could not be sorted: then nothing of it is handed out.
    failed: Option<String>,
}

impl Sorted {
    pub(super) fn new(name: String, records: Records) -> Self {
        Self::with_budget(name, records, BUDGET)
    }

    fn with_budget(name: String, records: Records, budget: usize) -> Self {
        Self {
            name,
            records: Some(records),
            budget,
            merge: Merge::default(),
            offset: 0,
            failed: None,
        }
    }

    /// Reads everything; what does not fit the budget goes to disk in sorted runs.
    fn read_all(&mut self) -> io::Result<()> {
        let Some(mut records) = self.records.take() else { return Ok(()) };
        let (mut arena, mut order) = (Vec::<u8>::new(), Vec::<(i64, u64, u32)>::new());
        let (mut after, mut seq) = (i64::MIN, 0);
        loop {
            match records.next() {
                Next::Record(record) => {
                    let at = u32::try_from(arena.len()).map_err(io::Error::other)?;
                    after =
                        record.as_ref().map_or_else(|r| r.t, |good| Some(good.t)).unwrap_or(after);
                    encode(&record, &mut arena);
                    order.push((after, seq, at));
                    seq += 1;
                }
                // Only a pipe that is fed live has nothing now; sorting waits for all of it.
                Next::Pending => std::thread::yield_now(),
                Next::End => break,
            }
            if arena.len() + order.len() * size_of::<(i64, u64, u32)>() > self.budget {
                order.sort_unstable();
                self.merge.spill(
                    order.drain(..).map(|(t, seq, at)| Ok((t, seq, one(&arena, at).to_vec()))),
                )?;
                arena.clear();
            }
        }
        order.sort_unstable();
        order.reverse();
        self.merge.memory = order;
        self.merge.arena = arena;
        self.merge.start()
    }
}

impl Source for Sorted {
    fn poll(&mut self, max: usize, sink: &mut dyn FnMut(Item<'_>)) -> Poll {
        if self.failed.is_none()
            && let Err(e) = self.read_all()
        {
            self.failed = Some(format!("{}: cannot be sorted: {e}", self.name));
        }
        if let Some(why) = &self.failed {
            return Poll::Failed(why.clone());
        }
        for _ in 0..max {
            let (t, bytes) = match self.merge.next() {
                Ok(Some((t, _, bytes))) => (t, bytes),
                Ok(None) => return Poll::Ended,
                Err(e) => {
                    let why = format!("{}: a sorted run cannot be read: {e}", self.name);
                    self.failed = Some(why.clone());
                    return Poll::Failed(why);
                }
            };
            decode(t, &bytes, self.offset, sink);
            self.offset += 1;
        }
        Poll::More
    }

    fn name(&self) -> &str {
        &self.name
    }
}

/// The sorted runs, and what stayed in memory as one more.
#[derive(Default)]
struct Merge {
    runs: Vec<Run>,
    heads: BinaryHeap<Reverse<Head>>,
    /// Last first.
    memory: Vec<(i64, u64, u32)>,
    arena: Vec<u8>,
}

impl Merge {
    /// Writes one sorted run.
    fn spill(&mut self, records: impl Iterator<Item = io::Result<Kept>>) -> io::Result<()> {
        if self.runs.len() >= RUNS {
            let mut whole = Self { runs: std::mem::take(&mut self.runs), ..Self::default() };
            whole.start()?;
            self.runs.push(Run::write(std::iter::from_fn(|| whole.next().transpose()))?);
        }
        self.runs.push(Run::write(records)?);
        Ok(())
    }

    fn start(&mut self) -> io::Result<()> {
        for run in 0..=self.runs.len() {
            self.refill(run)?;
        }
        Ok(())
    }

    /// Takes the next record of a run (the one behind the last is in memory) among the heads.
    fn refill(&mut self, run: usize) -> io::Result<()> {
        let next = match self.runs.get_mut(run) {
            Some(run) => run.read()?,
            None => self.memory.pop().map(|(t, seq, at)| (t, seq, one(&self.arena, at).to_vec())),
        };
        if let Some((t, seq, bytes)) = next {
            self.heads.push(Reverse((t, seq, run, bytes)));
        }
        Ok(())
    }

    fn next(&mut self) -> io::Result<Option<Kept>> {
        let Some(Reverse((t, seq, run, bytes))) = self.heads.pop() else { return Ok(None) };
        self.refill(run)?;
        Ok(Some((t, seq, bytes)))
    }
}

/// A sorted run in a file that has no name any longer.
struct Run(BufReader<File>);

impl Run {
    fn write(records: impl Iterator<Item = io::Result<Kept>>) -> io::Result<Self> {
        let mut out = BufWriter::new(nameless()?);
        for record in records {
            let (t, seq, bytes) = record?;
            out.write_all(&t.to_le_bytes())?;
            out.write_all(&seq.to_le_bytes())?;
            out.write_all(&bytes)?;
        }
        let mut file = out.into_inner().map_err(io::IntoInnerError::into_error)?;
        file.seek(SeekFrom::Start(0))?;
        Ok(Self(BufReader::with_capacity(64 << 10, file)))
    }

    fn read(&mut self) -> io::Result<Option<Kept>> {
        let mut key = [0; KEY + 2];
        match self.0.read_exact(&mut key) {
            Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
            other => other?,
        }
        let [t, seq] = [0, 8].map(|at| u64::from_le_bytes(std::array::from_fn(|i| key[at + i])));
        let mut bytes = vec![0; usize::from(key[KEY]) + HEAD];
        bytes[..2].copy_from_slice(&key[KEY..]);
        self.0.read_exact(&mut bytes[2..])?;
        Ok(Some((t.cast_signed(), seq, bytes)))
    }
}

/// A file in the directory for temporary files, its name removed at once: it goes with the program.
fn nameless() -> io::Result<File> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let n = NEXT.fetch_add(1, Ordering::Relaxed);
    let path = std::env::temp_dir().join(format!("barrage-sort-{}-{n}", std::process::id()));
    let file = OpenOptions::new().read(true).write(true).create_new(true).open(&path)?;
    std::fs::remove_file(&path)?;
    Ok(file)
}

/// Bytes before the room's id: its length, a tag, and for a reason four more.
const HEAD: usize = 8;
/// Tag of a record that is no event.
const REFUSED: u8 = 0xFF;
/// Tag of one whose time is usable all the same: it is the one that it was sorted by.
const REFUSED_IN_TIME: u8 = 0xFE;

/// One record's bytes in the arena.
fn one(arena: &[u8], at: u32) -> &[u8] {
    let rest = arena.get(at as usize..).unwrap_or_default();
    let len = rest.first().map_or(0, |n| usize::from(*n) + HEAD);
    rest.get(..len).unwrap_or_default()
}

fn encode(record: &Result<Good<'_>, Reject>, out: &mut Vec<u8>) {
    match record {
        Ok(good) => {
            // A room's id is at most 128 bytes: its length fits one.
            let (class, outcome) = (good.hit.class as u8, good.hit.outcome as u8);
            out.extend_from_slice(&[good.room.len() as u8, 0, class, outcome, 0, 0, 0, 0]);
            out.extend_from_slice(good.room.as_bytes());
        }
        Err(reject) => {
            let reason = Reason::ALL.iter().position(|r| *r == reject.reason).unwrap_or(0) as u8;
            let field = reject.detail.field.map_or(0xFF, |f| f as u8);
            let at = reject.detail.at.to_le_bytes();
            let tag = if reject.t.is_some() { REFUSED_IN_TIME } else { REFUSED };
            out.extend_from_slice(&[0, tag, reason, field, at[0], at[1], at[2], at[3]]);
        }
    }
}

fn decode(t: i64, bytes: &[u8], offset: u64, sink: &mut dyn FnMut(Item<'_>)) {
    let Some((head, room)) = bytes.split_first_chunk::<HEAD>() else { return };
    if let tag @ (REFUSED | REFUSED_IN_TIME) = head[1] {
        let reason = Reason::ALL.get(usize::from(head[2])).copied().unwrap_or(Reason::Json);
        let field = Field::ALL.get(usize::from(head[3])).copied();
        let at = u32::from_le_bytes([head[4], head[5], head[6], head[7]]);
        let t = (tag == REFUSED_IN_TIME).then_some(t);
        let reject = Reject { reason, detail: Detail { field, at }, t };
        return sink(Item::rejected(offset, None, reject));
    }
    let room = std::str::from_utf8(room).unwrap_or_default();
    let class = Class::ALL.get(usize::from(head[2])).copied().unwrap_or(Class::Heartbeat);
    let outcome = Outcome::ALL.get(usize::from(head[3])).copied().unwrap_or_default();
    let hit = Hit { room: RoomKey::of(room), class, outcome };
    sink(Item::event(offset, None, t, hit, room));
}

#[cfg(test)]
mod tests {
    use super::super::feed::Feed;
    use super::super::options::Options;
    use super::super::problems::Problems;
    use super::super::window::Window;
    use super::*;
    use std::io::Cursor;

    fn sorted(text: String, budget: usize) -> (Vec<(u64, Option<i64>, String)>, Problems) {
        let problems = Problems::default();
        let window = Window::new(Feed::of(Cursor::new(text.into_bytes())));
        let records = Records::new("f", window, &Options::default(), problems.clone());
        let mut sorted = Sorted::with_budget("f".into(), records, budget);
        let mut out = Vec::new();
        loop {
            let poll = sorted.poll(7, &mut |i| out.push((i.offset, i.t, i.room.to_owned())));
            match poll {
                Poll::More => {}
                Poll::Ended => return (out, problems),
                other => panic!("{other:?}"),
            }
        }
    }

    #[test]
    fn any_budget_gives_the_order_of_time_then_of_the_file() {
        let seed = 5_u64;
        let mut x = seed;
        let mut text = String::from("ts,room\n");
        let mut expected = Vec::new();
        for n in 0..3_000_u64 {
            x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let t = 1_700_000_000_000 + (x >> 40) as i64 % 500;
            if n % 500 == 499 {
                text.push_str("not a time,r\n");
                let after = expected.last().map_or(i64::MIN, |(t, _, _): &(i64, u64, _)| *t);
                expected.push((after, n, None));
            } else {
                text.push_str(&format!("{t},r{n}\n"));
                expected.push((t, n, Some(format!("r{n}"))));
            }
        }
        expected.sort();
        // All in memory; tens of runs; more runs than are merged at once.
        for budget in [BUDGET, 4_000, 500] {
            let (got, problems) = sorted(text.clone(), budget);
            assert_eq!(got.len(), expected.len(), "seed {seed}, budget {budget}");
            for (at, (got, (t, _, room))) in got.iter().zip(&expected).enumerate() {
                assert_eq!(got.0, at as u64);
                assert_eq!(got.1, room.as_ref().map(|_| *t), "budget {budget}, {at}");
                assert_eq!(got.2, room.clone().unwrap_or_default());
            }
            assert_eq!(problems.rejected().get(&Reason::TsType), Some(&6));
            assert!(problems.notes()[0].place == "f:501", "{:?}", problems.notes());
        }
    }
}
