//! Frames of the spool's segment files: `length | checksum | payload`, and what a reader finds in damaged ones.

/// First bytes of a segment: what it is, and the version of its frames.
pub(super) const MAGIC: [u8; 8] = *b"brgspl1\n";

/// Bytes before a payload: its length and a CRC-32 of length and payload, both u32, little endian.
pub(super) const HEAD: usize = 8;

/// Longest payload in bytes; a longer length can only be damage.
pub(super) const PAYLOAD_MAX: usize = 16 << 20;

/// What stands at a place of a segment.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Found<'a> {
    /// A whole frame, and where the next one begins.
    Payload(&'a [u8], usize),
    /// A frame of believable length whose checksum is wrong, and where the next one would begin.
    Damaged(usize),
    /// No frame: the rest cannot be read.
    Torn,
    /// The end.
    End,
}

/// The checksum of a payload.
pub(super) fn checksum(payload: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&length(payload).to_le_bytes());
    hasher.update(payload);
    hasher.finalize()
}

fn length(payload: &[u8]) -> u32 {
    u32::try_from(payload.len()).unwrap_or(u32::MAX)
}

/// Adds a frame to `out`; `payload` is at most [`PAYLOAD_MAX`] bytes.
pub(super) fn push(out: &mut Vec<u8>, payload: &[u8]) {
    out.extend_from_slice(&length(payload).to_le_bytes());
    out.extend_from_slice(&checksum(payload).to_le_bytes());
    out.extend_from_slice(payload);
}

/// Length and checksum of a frame's head; none if no frame can have this length.
pub(super) fn head(bytes: [u8; HEAD]) -> Option<(usize, u32)> {
    let [l0, l1, l2, l3, c0, c1, c2, c3] = bytes;
    let length = u32::from_le_bytes([l0, l1, l2, l3]) as usize;
    let believable = (1..=PAYLOAD_MAX).contains(&length);
    believable.then_some((length, u32::from_le_bytes([c0, c1, c2, c3])))
}

/// What stands at `at` of a segment's bytes.
pub(super) fn at(bytes: &[u8], at: usize) -> Found<'_> {
    if at >= bytes.len() {
        return Found::End;
    }
    let Some(first) = bytes.get(at..at + HEAD).and_then(|b| b.try_into().ok()) else {
        return Found::Torn;
    };
    let Some((length, sum)) = head(first) else { return Found::Torn };
    let end = at + HEAD + length;
    match bytes.get(at + HEAD..end) {
        None => Found::Torn,
        Some(payload) if checksum(payload) == sum => Found::Payload(payload, end),
        Some(_) => Found::Damaged(end),
    }
}

/// What a whole segment holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Scan {
    /// Bytes up to the end of the last whole frame; 0 if it is no segment.
    pub(super) len: u64,
    /// Whole frames.
    pub(super) frames: u64,
    /// Damaged frames with whole ones behind them.
    pub(super) damaged: u64,
}

/// Looks through a segment. What stands behind its last whole frame is a torn tail.
pub(super) fn scan(bytes: &[u8]) -> Scan {
    let mut found = Scan::default();
    if !bytes.starts_with(&MAGIC) {
        return found;
    }
    found.len = MAGIC.len() as u64;
    let mut damaged = 0;
    let mut place = MAGIC.len();
    loop {
        match at(bytes, place) {
            Found::Payload(_, end) => {
                found.frames += 1;
                found.damaged += std::mem::take(&mut damaged);
                found.len = end as u64;
                place = end;
            }
            Found::Damaged(end) => {
                damaged += 1;
                place = end;
            }
            Found::Torn | Found::End => return found,
        }
    }
}
