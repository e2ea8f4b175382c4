//! The edge's copy on the disk: what it enforces when it starts while etcd is away. Whole or refused.

use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::path::Path;

/// First bytes of the file: what it is, and the version of its layout.
const MAGIC: [u8; 8] = *b"brgedg1\n";
/// A copy older than this is not used, in milliseconds.
pub const AGE_MAX_MS: u64 = 24 * 3_600_000;
/// Longest file read.
const BYTES_MAX: u64 = 1 << 30;

/// A copy of keys and values.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// When it was written, milliseconds since 1970.
    pub saved_ms: u64,
    /// Keys and values.
    pub entries: Vec<(String, Vec<u8>)>,
}

/// Writes a copy; a crash leaves the one before it.
///
/// # Errors
/// When it cannot be written.
pub fn save(path: &Path, snapshot: &Snapshot) -> io::Result<()> {
    let mut body = snapshot.saved_ms.to_le_bytes().to_vec();
    for (key, value) in &snapshot.entries {
        for part in [key.as_bytes(), value.as_slice()] {
            let length = u32::try_from(part.len()).map_err(io::Error::other)?;
            body.extend_from_slice(&length.to_le_bytes());
            body.extend_from_slice(part);
        }
    }
    let temporary = path.with_extension("tmp");
    let mut file = File::create(&temporary)?;
    file.write_all(&MAGIC)?;
    file.write_all(&crc32fast::hash(&body).to_le_bytes())?;
    file.write_all(&body)?;
    file.sync_data()?;
    fs::rename(&temporary, path)
}

/// Reads a copy; none: there is none, or it is damaged or too old at `now_ms` (milliseconds since 1970).
///
/// # Errors
/// When the file is there and cannot be read.
pub fn load(path: &Path, now_ms: u64) -> io::Result<Option<Snapshot>> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(e),
    };
    let mut bytes = Vec::new();
    file.take(BYTES_MAX).read_to_end(&mut bytes)?;
    let snapshot = decode(&bytes);
    Ok(snapshot.filter(|s| now_ms.saturating_sub(s.saved_ms) <= AGE_MAX_MS))
}

fn decode(bytes: &[u8]) -> Option<Snapshot> {
    let rest = bytes.strip_prefix(&MAGIC)?;
    let (sum, body) = rest.split_at_checked(4)?;
    if crc32fast::hash(body).to_le_bytes() != sum {
        return None;
    }
    let (saved, mut rest) = body.split_at_checked(8)?;
    let mut entries = Vec::new();
    let part = |rest: &mut &[u8]| -> Option<Vec<u8>> {
        let (length, after) = rest.split_at_checked(4)?;
        let (part, after) =
            after.split_at_checked(u32::from_le_bytes(length.try_into().ok()?) as usize)?;
        *rest = after;
        Some(part.to_vec())
    };
    while !rest.is_empty() {
        let key = String::from_utf8(part(&mut rest)?).ok()?;
        entries.push((key, part(&mut rest)?));
    }
    Some(Snapshot { saved_ms: u64::from_le_bytes(saved.try_into().ok()?), entries })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_is_whole_or_refused() {
        let path = std::env::temp_dir().join(format!("barrage-edge-{}", std::process::id()));
        let snapshot = Snapshot {
            saved_ms: 5_000,
            entries: vec![
                ("a".into(), b"1".to_vec()),
                ("弹".into(), vec![0, 255]),
                (String::new(), Vec::new()),
            ],
        };
        save(&path, &snapshot).expect("written");
        assert_eq!(load(&path, 6_000).expect("read"), Some(snapshot.clone()));
        assert_eq!(load(&path, 5_001 + AGE_MAX_MS).expect("read"), None, "too old");
        let whole = fs::read(&path).expect("bytes");
        for cut in 0..whole.len() {
            assert_eq!(decode(&whole[..cut]), None, "cut at {cut}");
        }
        for at in 0..whole.len() {
            let mut changed = whole.clone();
            changed[at] ^= 1;
            assert_eq!(decode(&changed), None, "changed at {at}");
        }
        fs::remove_file(&path).expect("removed");
        assert_eq!(load(&path, 0).expect("nothing"), None);
    }
}
