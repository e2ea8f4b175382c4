//! A strict JSON scanner over bytes: no recursion, no allocation, bounded depth, every byte string has an answer.

use super::{Detail, Field, Reason, Reject};
use std::borrow::Cow;

/// Deepest nesting inside an event (one bit each).
const MAX_DEPTH: u32 = 64;

/// A reason without its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Fault(pub(super) Reason);

impl Fault {
    pub(super) fn at(self, at: usize, field: Option<Field>) -> Reject {
        let at = u32::try_from(at).unwrap_or(u32::MAX);
        Reject { reason: self.0, detail: Detail { field, at }, t: None }
    }
}

const JSON: Fault = Fault(Reason::Json);

/// A string as it stands between its quotes; syntax and escapes are checked, UTF-8 is not.
#[derive(Clone, Copy, Debug)]
pub(super) struct Str<'a> {
    raw: Option<&'a str>,
    pub(super) escaped: bool,
}

impl<'a> Str<'a> {
    /// The raw text, if it is UTF-8.
    pub(super) fn utf8(&self) -> Option<&'a str> {
        self.raw
    }

    /// The string with its escapes resolved; nothing where it is not UTF-8 or holds half a surrogate pair.
    pub(super) fn resolve(&self) -> Option<Cow<'a, str>> {
        let raw = self.utf8()?;
        if self.escaped { unescape(raw).map(Cow::Owned) } else { Some(Cow::Borrowed(raw)) }
    }
}

/// A number as it stands; the syntax is checked.
#[derive(Clone, Copy, Debug)]
pub(super) struct Number<'a> {
    pub(super) text: &'a str,
    /// Without fraction and exponent.
    pub(super) integer: bool,
}

/// A value of the object.
#[derive(Clone, Copy, Debug)]
pub(super) enum Value<'a> {
    Text(Str<'a>),
    Number(Number<'a>),
    Bool,
    Null,
    Object(&'a [u8]),
    Array,
}

/// Eight times the same byte.
const fn each(byte: u8) -> u64 {
    u64::from_le_bytes([byte; 8])
}

/// Number of bytes before the first quote, backslash or control character, eight at a time.
#[inline]
fn plain(bytes: &[u8]) -> usize {
    let (chunks, rest) = bytes.as_chunks::<8>();
    for (n, chunk) in chunks.iter().enumerate() {
        let word = u64::from_le_bytes(*chunk);
        // Sets the high bit of every byte that is 0 (and perhaps of later ones), as subtracting 1 borrows there.
        let zero = |w: u64| w.wrapping_sub(each(1)) & !w;
        let control = word.wrapping_sub(each(0x20)) & !word;
        let hits = (zero(word ^ each(b'"')) | zero(word ^ each(b'\\')) | control) & each(0x80);
        if hits != 0 {
            return n * 8 + hits.trailing_zeros() as usize / 8;
        }
    }
    let special = |b: &u8| matches!(b, b'"' | b'\\' | 0..0x20);
    bytes.len() - rest.len() + rest.iter().position(special).unwrap_or(rest.len())
}

pub(super) struct Scan<'a> {
    bytes: &'a [u8],
    /// The whole record, if it is UTF-8: then no part of it need be checked again.
    text: Option<&'a str>,
    at: usize,
    started: bool,
}

impl<'a> Scan<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, text: std::str::from_utf8(bytes).ok(), at: 0, started: false }
    }

    pub(super) fn position(&self) -> usize {
        self.at
    }

    /// What was read since `from`.
    #[inline]
    pub(super) fn since(&self, from: usize) -> &'a [u8] {
        self.bytes.get(from..self.at).unwrap_or_default()
    }

    /// What was read since `from` as text, if it is UTF-8.
    #[inline]
    fn text_since(&self, from: usize) -> Option<&'a str> {
        match self.text {
            Some(text) => text.get(from..self.at),
            None => std::str::from_utf8(self.since(from)).ok(),
        }
    }

    #[inline]
    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    #[inline]
    fn space(&mut self) {
        while let Some(b' ' | b'\n' | b'\r' | b'\t') = self.peek() {
            self.at += 1;
        }
    }

    #[inline]
    fn expect(&mut self, byte: u8) -> Result<(), Fault> {
        self.space();
        if self.peek() == Some(byte) {
            self.at += 1;
            return Ok(());
        }
        Err(JSON)
    }

    pub(super) fn object_start(&mut self) -> Result<(), Fault> {
        self.expect(b'{')
    }

    /// The next key, or nothing at the end of the object.
    #[inline]
    pub(super) fn next_key(&mut self) -> Result<Option<Str<'a>>, Fault> {
        self.space();
        if self.peek() == Some(b'}') {
            self.at += 1;
            return Ok(None);
        }
        if self.started {
            self.expect(b',')?;
            self.space();
        }
        self.started = true;
        self.string().map(Some)
    }

    /// Passes the colon; where the value begins.
    #[inline]
    pub(super) fn value_start(&mut self) -> Result<usize, Fault> {
        self.expect(b':')?;
        self.space();
        Ok(self.at)
    }

    /// Nothing but space may follow the object.
    pub(super) fn end(&mut self) -> Result<(), Fault> {
        self.space();
        if self.at == self.bytes.len() { Ok(()) } else { Err(JSON) }
    }

    /// One value, whole. With `damaged`, a string that is not UTF-8 is handed out all the same.
    #[inline]
    pub(super) fn value(&mut self, damaged: bool) -> Result<Value<'a>, Fault> {
        match self.peek().ok_or(JSON)? {
            b'"' => {
                let s = self.string()?;
                if !damaged && s.utf8().is_none() {
                    return Err(Fault(Reason::Utf8));
                }
                Ok(Value::Text(s))
            }
            b'-' | b'0'..=b'9' => self.number().map(Value::Number),
            b't' => self.word(b"true").map(|()| Value::Bool),
            b'f' => self.word(b"false").map(|()| Value::Bool),
            b'n' => self.word(b"null").map(|()| Value::Null),
            first @ (b'{' | b'[') => {
                let from = self.at;
                self.skip_container()?;
                Ok(if first == b'{' { Value::Object(self.since(from)) } else { Value::Array })
            }
            _ => Err(JSON),
        }
    }

    fn word(&mut self, word: &[u8]) -> Result<(), Fault> {
        if self.bytes[self.at..].starts_with(word) {
            self.at += word.len();
            return Ok(());
        }
        Err(JSON)
    }

    #[inline]
    fn string(&mut self) -> Result<Str<'a>, Fault> {
        if self.peek() != Some(b'"') {
            return Err(JSON);
        }
        self.at += 1;
        let from = self.at;
        let mut escaped = false;
        loop {
            self.at += plain(self.bytes.get(self.at..).unwrap_or_default());
            match self.peek() {
                Some(b'"') => break,
                Some(b'\\') => {
                    escaped = true;
                    self.escape()?;
                }
                _ => return Err(JSON),
            }
        }
        let raw = self.text_since(from);
        self.at += 1;
        Ok(Str { raw, escaped })
    }

    fn escape(&mut self) -> Result<(), Fault> {
        match self.bytes.get(self.at + 1) {
            Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => self.at += 2,
            Some(b'u') => {
                let digits = self.bytes.get(self.at + 2..self.at + 6).ok_or(JSON)?;
                if !digits.iter().all(u8::is_ascii_hexdigit) {
                    return Err(JSON);
                }
                self.at += 6;
            }
            _ => return Err(JSON),
        }
        Ok(())
    }

    fn digits(&mut self) -> usize {
        let from = self.at;
        while let Some(b'0'..=b'9') = self.peek() {
            self.at += 1;
        }
        self.at - from
    }

    #[inline]
    fn number(&mut self) -> Result<Number<'a>, Fault> {
        let from = self.at;
        let mut integer = true;
        if self.peek() == Some(b'-') {
            self.at += 1;
        }
        let zero = self.peek() == Some(b'0');
        let digits = self.digits();
        if digits == 0 || (zero && digits > 1) {
            return Err(JSON);
        }
        if self.peek() == Some(b'.') {
            integer = false;
            self.at += 1;
            if self.digits() == 0 {
                return Err(JSON);
            }
        }
        if let Some(b'e' | b'E') = self.peek() {
            integer = false;
            self.at += 1;
            if let Some(b'+' | b'-') = self.peek() {
                self.at += 1;
            }
            if self.digits() == 0 {
                return Err(JSON);
            }
        }
        let text = self.text_since(from).ok_or(JSON)?;
        Ok(Number { text, integer })
    }

    /// Passes an object or a list, checking its syntax and UTF-8; `open` holds a bit for each level, 1 for an object.
    fn skip_container(&mut self) -> Result<(), Fault> {
        let (mut open, mut depth) = (0_u64, 0_u32);
        loop {
            // Here a value begins.
            match self.peek() {
                Some(first @ (b'{' | b'[')) => {
                    if depth == MAX_DEPTH {
                        return Err(Fault(Reason::Depth));
                    }
                    depth += 1;
                    open = open << 1 | u64::from(first == b'{');
                    self.at += 1;
                    self.space();
                    if self.peek() != Some(if first == b'{' { b'}' } else { b']' }) {
                        if first == b'{' {
                            self.key()?;
                        }
                        continue;
                    }
                    self.at += 1;
                    depth -= 1;
                    open >>= 1;
                }
                _ => {
                    self.value(false)?;
                }
            }
            // Here a value has ended: close what ends with it, then on to the next one.
            loop {
                if depth == 0 {
                    return Ok(());
                }
                let object = open & 1 == 1;
                self.space();
                match self.peek() {
                    Some(b',') => {
                        self.at += 1;
                        self.space();
                        if object {
                            self.key()?;
                        }
                        break;
                    }
                    Some(b'}') if object => self.at += 1,
                    Some(b']') if !object => self.at += 1,
                    _ => return Err(JSON),
                }
                depth -= 1;
                open >>= 1;
            }
        }
    }

    fn key(&mut self) -> Result<(), Fault> {
        if self.string()?.utf8().is_none() {
            return Err(Fault(Reason::Utf8));
        }
        self.value_start().map(|_| ())
    }
}

/// Whether all escapes of a scanned string resolve, that is no half of a surrogate pair stands alone.
pub(super) fn resolvable(raw: &str) -> bool {
    let mut rest = raw;
    while let Some(at) = rest.find('\\') {
        match unit(&rest[at..]) {
            Some((_, len)) => rest = &rest[at + len..],
            None => return false,
        }
    }
    true
}

/// Resolves the escapes of a scanned string; nothing where half a surrogate pair stands alone.
pub(super) fn unescape(raw: &str) -> Option<String> {
    let mut out = String::with_capacity(raw.len());
    let mut rest = raw;
    while let Some(at) = rest.find('\\') {
        out.push_str(&rest[..at]);
        let (c, len) = unit(&rest[at..])?;
        out.push(c);
        rest = &rest[at + len..];
    }
    out.push_str(rest);
    Some(out)
}

/// The character that the escape at the start of `s` stands for, and the escape's length in bytes.
fn unit(s: &str) -> Option<(char, usize)> {
    let c = match s.as_bytes().get(1)? {
        b'b' => '\u{8}',
        b'f' => '\u{c}',
        b'n' => '\n',
        b'r' => '\r',
        b't' => '\t',
        b'u' => return surrogates(s),
        other => char::from(*other),
    };
    c.is_ascii().then_some((c, 2))
}

fn surrogates(s: &str) -> Option<(char, usize)> {
    let code = |at: usize| u32::from_str_radix(s.get(at..at + 4)?, 16).ok();
    let high = code(2)?;
    if !(0xD800..0xDC00).contains(&high) {
        return char::from_u32(high).map(|c| (c, 6));
    }
    if s.get(6..8)? != "\\u" {
        return None;
    }
    let low = code(8)?;
    if !(0xDC00..0xE000).contains(&low) {
        return None;
    }
    char::from_u32(0x1_0000 + ((high - 0xD800) << 10) + (low - 0xDC00)).map(|c| (c, 12))
}
