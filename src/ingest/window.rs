//! A bounded view on a stream of bytes: lines, and rows of a table whose quoted cells may hold line ends.

use super::feed::{Feed, Fill};
use barrage_protocol::event::MAX_BYTES;
use std::ops::Range;

/// Longest line that is looked at: an event of the largest size with a line end of two bytes.
const MAX_LINE: usize = MAX_BYTES + 2;
/// Bytes held: room for the longest line and a good read beside it.
const CAPACITY: usize = 4 * MAX_LINE;

/// What was found at the front of the stream. The range stays valid until the next call.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// A line without its end, or a row.
    Record(Range<usize>),
    /// A line beyond the limit: passed over to its end.
    TooLong,
    /// A row whose quotes do not close within the limit: its first line is passed over.
    Broken,
    /// Nothing whole is there now.
    Pending,
    /// The end of the stream.
    End,
    /// The stream cannot be read on.
    Failed(String),
}

/// One cell of a row, as a range of the window.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Cell {
    pub(super) range: Range<usize>,
    /// Whether doubled quotes in it stand for one.
    pub(super) doubled: bool,
}

pub(super) struct Window {
    feed: Feed,
    buf: Vec<u8>,
    start: usize,
    end: usize,
    ended: bool,
    /// Inside a line that is passed over.
    discarding: bool,
    /// Number of lines begun, that is the number of the line last found.
    pub(super) line: u64,
    /// Line ends inside the row last found.
    extra_lines: u64,
}

impl Window {
    pub(super) fn new(feed: Feed) -> Self {
        let buf = vec![0; CAPACITY];
        let (start, end) = (0, 0);
        Self { feed, buf, start, end, ended: false, discarding: false, line: 0, extra_lines: 0 }
    }

    pub(super) fn bytes(&self, range: Range<usize>) -> &[u8] {
        self.buf.get(range).unwrap_or_default()
    }

    /// The first byte that is not space, and whether a byte order mark stood before it; nothing is consumed.
    pub(super) fn first_byte(&mut self) -> Result<Option<(u8, bool)>, Found> {
        loop {
            let held = &self.buf[self.start..self.end];
            let bom = held.starts_with(b"\xEF\xBB\xBF");
            let text = held.get(if bom { 3 } else { 0 }..).unwrap_or_default();
            if let Some(b) = text.iter().find(|b| !b.is_ascii_whitespace())
                && (held.len() >= 3 || self.ended)
            {
                return Ok(Some((*b, bom)));
            }
            if self.ended || held.len() > MAX_LINE {
                return Ok(None);
            }
            if let Some(stop) = self.more() {
                return Err(stop);
            }
        }
    }

    /// The line at the front, if it is there whole (or the stream has ended).
    pub(super) fn peek_line(&mut self) -> Result<&[u8], Found> {
        loop {
            if let Some((end, _)) = self.line_end(self.start) {
                return Ok(&self.buf[self.start..end]);
            }
            if self.ended || self.end - self.start > MAX_LINE {
                return Ok(&self.buf[self.start..self.end]);
            }
            if let Some(stop) = self.more() {
                return Err(stop);
            }
        }
    }

    /// Passes over `n` bytes.
    pub(super) fn skip(&mut self, n: usize) {
        self.start = (self.start + n).min(self.end);
    }

    /// Reads on; tells why it could not (`End` only once everything held was looked at).
    fn more(&mut self) -> Option<Found> {
        if self.ended {
            return Some(Found::End);
        }
        if self.buf.len() - self.end < MAX_LINE {
            self.buf.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
        }
        match self.feed.fill(&mut self.buf[self.end..]) {
            Fill::Bytes(n) => self.end += n,
            Fill::Pending => return Some(Found::Pending),
            Fill::End => self.ended = true,
            Fill::Failed(e) => {
                self.ended = true;
                return Some(Found::Failed(e));
            }
        }
        None
    }

    /// Where the line at the front ends, and where the next one begins.
    fn line_end(&self, from: usize) -> Option<(usize, usize)> {
        let at = from + newline(&self.buf[from..self.end])?;
        let cr = at > self.start && self.buf[at - 1] == b'\r';
        Some((at - usize::from(cr), at + 1))
    }

    /// Passes over the rest of a line beyond the limit.
    fn discard(&mut self) -> Option<Found> {
        while self.discarding {
            if let Some((_, next)) = self.line_end(self.start) {
                self.start = next;
                self.discarding = false;
                break;
            }
            self.start = self.end;
            if let Some(stop) = self.more() {
                return Some(stop);
            }
        }
        None
    }

    /// The next line.
    pub(super) fn next_line(&mut self) -> Found {
        if let Some(stop) = self.discard() {
            return stop;
        }
        self.line += std::mem::take(&mut self.extra_lines);
        let mut looked = 0;
        loop {
            if let Some((end, next)) = self.line_end(self.start + looked) {
                let range = self.start..end;
                self.start = next;
                self.line += 1;
                return if range.len() > MAX_LINE { Found::TooLong } else { Found::Record(range) };
            }
            looked = self.end - self.start;
            if looked > MAX_LINE {
                self.line += 1;
                self.discarding = true;
                return Found::TooLong;
            }
            if self.ended {
                if looked == 0 {
                    return Found::End;
                }
                let range = self.start..self.end;
                self.start = self.end;
                self.line += 1;
                return Found::Record(range);
            }
            if let Some(stop) = self.more() {
                return stop;
            }
        }
    }

    /// Passes over the first line of what is no row: a quote that does not close would swallow all that follows.
    fn give_up(&mut self) -> Found {
        match self.next_line() {
            Found::Record(_) => Found::Broken,
            other => other,
        }
    }

    /// The next row of a table; its cells go to `cells`.
    pub(super) fn next_row(&mut self, delimiter: u8, cells: &mut Vec<Cell>) -> Found {
        if let Some(stop) = self.discard() {
            return stop;
        }
        loop {
            let held = &self.buf[self.start..self.end];
            match split(held, delimiter, self.ended, cells) {
                Split::Row { len, .. } if len > MAX_LINE + 2 => return self.give_up(),
                Split::Row { len, lines } => {
                    self.line += std::mem::take(&mut self.extra_lines) + 1;
                    self.extra_lines = lines;
                    let range = self.start..self.start + len;
                    for cell in cells.iter_mut() {
                        cell.range = cell.range.start + self.start..cell.range.end + self.start;
                    }
                    self.start = range.end;
                    return Found::Record(range);
                }
                Split::Quote | Split::Line if held.len() > MAX_LINE => return self.give_up(),
                Split::Quote if self.ended => return self.give_up(),
                Split::Empty if self.ended => return Found::End,
                Split::Quote | Split::Line | Split::Empty => {
                    if let Some(stop) = self.more() {
                        return stop;
                    }
                }
            }
        }
    }
}

/// Position of the first line end, eight bytes at a time.
fn newline(bytes: &[u8]) -> Option<usize> {
    const ONES: u64 = u64::from_le_bytes([1; 8]);
    const ENDS: u64 = u64::from_le_bytes([b'\n'; 8]);
    let (chunks, rest) = bytes.as_chunks::<8>();
    for (n, chunk) in chunks.iter().enumerate() {
        // A byte that is 0 borrows from its high bit; the first such bit is exact.
        let word = u64::from_le_bytes(*chunk) ^ ENDS;
        let hits = word.wrapping_sub(ONES) & !word & (ONES << 7);
        if hits != 0 {
            return Some(n * 8 + hits.trailing_zeros() as usize / 8);
        }
    }
    let at = rest.iter().position(|b| *b == b'\n')?;
    Some(chunks.len() * 8 + at)
}

/// What splitting the front of `held` into cells came to.
enum Split {
    /// A row of `len` bytes, its end included, with `lines` line ends inside quotes.
    Row { len: usize, lines: u64 },
    /// A quote is open at the end of what is held.
    Quote,
    /// The line is not whole.
    Line,
    /// Nothing is held.
    Empty,
}

/// Splits one row (RFC 4180; a quote counts only at the start of a cell). `last`: nothing follows what is held.
fn split(held: &[u8], delimiter: u8, last: bool, cells: &mut Vec<Cell>) -> Split {
    cells.clear();
    if held.is_empty() {
        return Split::Empty;
    }
    let (mut at, mut lines) = (0, 0);
    loop {
        let mut cell = Cell { range: at..at, doubled: false };
        if held.get(at) == Some(&b'"') {
            let Some(close) = closing_quote(held, at + 1, &mut cell.doubled, &mut lines) else {
                return Split::Quote;
            };
            cell.range = at + 1..close;
            at = close + 1;
            // Whatever stands between the closing quote and the delimiter is no part of the cell.
            while held.get(at).is_some_and(|b| *b != delimiter && *b != b'\n') {
                at += 1;
            }
        } else {
            while held.get(at).is_some_and(|b| *b != delimiter && *b != b'\n') {
                at += 1;
            }
            let cr =
                held.get(at) != Some(&delimiter) && at > cell.range.start && held[at - 1] == b'\r';
            cell.range.end = at - usize::from(cr);
        }
        cells.push(cell);
        if cells.len() > MAX_CELLS {
            cells.pop();
        }
        match held.get(at) {
            Some(b'\n') => return Split::Row { len: at + 1, lines },
            Some(_) => at += 1,
            None if last => return Split::Row { len: at, lines },
            None => return Split::Line,
        }
    }
}

/// Most columns that are looked at.
const MAX_CELLS: usize = 1024;

fn closing_quote(held: &[u8], from: usize, doubled: &mut bool, lines: &mut u64) -> Option<usize> {
    let mut at = from;
    loop {
        match held.get(at)? {
            b'"' if held.get(at + 1) == Some(&b'"') => {
                *doubled = true;
                at += 2;
            }
            b'"' => return Some(at),
            b'\n' => {
                *lines += 1;
                at += 1;
            }
            _ => at += 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Cursor, Read};

    /// A reader that hands out `step` bytes at a time.
    struct Dribble(Cursor<Vec<u8>>, usize);

    impl Read for Dribble {
        fn read(&mut self, buf: &mut [u8]) -> std::io::Result<usize> {
            let n = self.1.min(buf.len());
            self.0.read(&mut buf[..n])
        }
    }

    fn window(text: &[u8], step: usize) -> Window {
        Window::new(Feed::of(Dribble(Cursor::new(text.to_vec()), step)))
    }

    fn lines(text: &[u8], step: usize) -> Vec<(u64, Result<String, &'static str>)> {
        let mut w = window(text, step);
        let mut out = Vec::new();
        loop {
            let found = match w.next_line() {
                Found::Record(r) => Ok(String::from_utf8_lossy(w.bytes(r)).into_owned()),
                Found::TooLong => Err("too long"),
                Found::End => return out,
                other => panic!("{other:?}"),
            };
            out.push((w.line, found));
        }
    }

    fn rows(text: &[u8], step: usize) -> Vec<(u64, Result<Vec<String>, &'static str>)> {
        let mut w = window(text, step);
        let (mut out, mut cells) = (Vec::new(), Vec::new());
        loop {
            let found = match w.next_row(b',', &mut cells) {
                Found::Record(_) => Ok(cells
                    .iter()
                    .map(|c| String::from_utf8_lossy(w.bytes(c.range.clone())).into_owned())
                    .collect()),
                Found::TooLong => Err("too long"),
                Found::Broken => Err("broken"),
                Found::End => return out,
                other => panic!("{other:?}"),
            };
            out.push((w.line, found));
        }
    }

    #[test]
    fn lines_are_found_however_they_arrive() {
        let long = "x".repeat(3 * CAPACITY);
        let text = format!("a\r\n\nb\n{long}\nc\n{}\nd", "y".repeat(MAX_LINE));
        for step in [1 << 20, 4096, 7919] {
            let got = lines(text.as_bytes(), step);
            assert_eq!(got.len(), 7, "step {step}");
            assert_eq!(got[0], (1, Ok("a".into())));
            assert_eq!(got[1], (2, Ok(String::new())));
            assert_eq!(got[2], (3, Ok("b".into())));
            assert_eq!(got[3], (4, Err("too long")));
            assert_eq!(got[4], (5, Ok("c".into())));
            assert_eq!(got[5].1.as_ref().map(String::len), Ok(MAX_LINE));
            assert_eq!(got[6], (7, Ok("d".into())));
        }
        assert_eq!(lines(b"a\nb\n", 1), vec![(1, Ok("a".into())), (2, Ok("b".into()))]);
        assert_eq!(lines(b"", 1), vec![]);
    }

    #[test]
    fn rows_may_hold_quotes_and_line_ends() {
        let text = b"a,b\r\n1,\"x,\"\"y\nz\",3\n,\n4,5\"6,\"7\"8";
        for step in [1, 2, 3, 1000] {
            let got = rows(text, step);
            let row = |cells: &[&str]| Ok(cells.iter().map(|c| (*c).to_owned()).collect());
            assert_eq!(got[0], (1, row(&["a", "b"])));
            assert_eq!(got[1], (2, row(&["1", "x,\"\"y\nz", "3"])));
            assert_eq!(got[2], (4, row(&["", ""])));
            assert_eq!(got[3], (5, row(&["4", "5\"6", "7"])));
            assert_eq!(got.len(), 4);
        }
    }

    #[test]
    fn an_open_quote_costs_its_own_line_only() {
        let mut text = b"1,\"open\n".to_vec();
        for n in 0..20_000 {
            text.extend_from_slice(format!("{n},plain\n").as_bytes());
        }
        for step in [1 << 20, 4096] {
            let got = rows(&text, step);
            assert_eq!(got[0], (1, Err("broken")));
            assert_eq!(got.len(), 20_001);
            assert!(got[1..].iter().all(|(_, r)| r.as_ref().is_ok_and(|c| c[1] == "plain")));
        }
        assert_eq!(rows(b"1,\"open", 3), vec![(1, Err("broken"))]);
        let long = [b"1,".as_slice(), &b"x".repeat(CAPACITY * 2), b"\n2,y\n"].concat();
        let got = rows(&long, 5000);
        assert_eq!(got[0], (1, Err("too long")));
        assert_eq!(got[1], (2, Ok(vec!["2".into(), "y".into()])));
    }
}
