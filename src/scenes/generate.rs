//! `barrage gen`: a night's events as JSON lines in a file, the same bytes for the same seed.

use super::night::{Night, write_json};
use super::{Programme, START_MS};
use anyhow::{Context, bail};
use flate2::{Compression, write::GzEncoder};
use indicatif::{ProgressBar, ProgressStyle};
use std::fs::File;
use std::io::{BufWriter, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

/// Writes a match night's events to a file, one JSON object a line.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// File to write (`.gz`: compressed; `-`: standard output)
    out: PathBuf,
    /// Exactly so many events; without it, as many as the scenes send by themselves
    #[arg(long, value_name = "N")]
    events: Option<u64>,
    /// Number of rooms
    #[arg(long, value_name = "N", default_value_t = 90)]
    rooms: u32,
    /// Seconds of event time; without it, one whole round of the scenes
    #[arg(long, value_name = "S")]
    secs: Option<u64>,
    /// Seed: the same one gives the same bytes
    #[arg(long, value_name = "N", default_value_t = 7)]
    seed: u64,
    /// Which scenes
    #[arg(long, value_enum, default_value_t)]
    scene: Programme,
}

/// Longest night, so that a slip of the finger does not fill the disk: a week.
const MAX_SECS: u64 = 7 * 86_400;
/// Most rooms.
const MAX_ROOMS: u32 = 20_000_000;

/// Writes the file and tells what is in it.
///
/// # Errors
/// Numbers out of range; the file cannot be made or written.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let secs = args.secs.unwrap_or_else(|| args.scene.secs());
    if secs == 0 || secs > MAX_SECS {
        bail!("--secs must be 1 to {MAX_SECS} (a week), not {secs}");
    }
    if args.rooms == 0 || args.rooms > MAX_ROOMS {
        bail!("--rooms must be 1 to {MAX_ROOMS}, not {}", args.rooms);
    }
    if args.events == Some(0) {
        bail!("--events must be at least 1; leave it out for as many as the scenes send");
    }
    let begun = Instant::now();
    let night = Night::new(args.seed, args.rooms as usize, args.scene);
    let events = args.events.unwrap_or_else(|| night.clone().natural(secs));
    let night = if args.events.is_some() { night.scaled(events, secs) } else { night };
    let bar = progress(events);
    let bytes = write(night, secs, &args.out, &bar)
        .with_context(|| format!("cannot write `{}`", args.out.display()))?;
    bar.finish_and_clear();
    let took = begun.elapsed().as_secs_f64();
    let mut err = std::io::stderr().lock();
    writeln!(
        err,
        "{}: {events} events of {} rooms over {secs} s (seed {}), {:.1} MB of JSON in {took:.1} s",
        args.out.display(),
        args.rooms,
        args.seed,
        bytes as f64 / 1e6,
    )?;
    Ok(ExitCode::SUCCESS)
}

fn progress(events: u64) -> ProgressBar {
    if !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template("{bar:40} {percent}% {human_pos} events, {per_sec}");
    ProgressBar::new(events).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}

/// Where the lines go.
enum Out {
    Plain(BufWriter<Box<dyn Write>>),
    Packed(GzEncoder<BufWriter<Box<dyn Write>>>),
}

impl Out {
    fn open(path: &Path) -> std::io::Result<Self> {
        let sink: Box<dyn Write> = if path.as_os_str() == "-" {
            Box::new(std::io::stdout().lock())
        } else {
            Box::new(File::create(path)?)
        };
        let sink = BufWriter::with_capacity(1 << 18, sink);
        Ok(if path.extension().is_some_and(|e| e == "gz") {
            Self::Packed(GzEncoder::new(sink, Compression::fast()))
        } else {
            Self::Plain(sink)
        })
    }

    fn write(&mut self, text: &str) -> std::io::Result<()> {
        match self {
            Self::Plain(out) => out.write_all(text.as_bytes()),
            Self::Packed(out) => out.write_all(text.as_bytes()),
        }
    }

    fn finish(self) -> std::io::Result<()> {
        match self {
            Self::Plain(mut out) => out.flush(),
            Self::Packed(out) => out.finish()?.flush(),
        }
    }
}

/// Writes the events of the first `secs` seconds; returns the bytes of JSON.
fn write(night: Night, secs: u64, path: &Path, bar: &ProgressBar) -> std::io::Result<u64> {
    const CHUNK: usize = 1 << 16;
    let mut out = Out::open(path)?;
    let cast = night.cast().clone();
    let end = START_MS + (secs * 1000) as i64;
    let mut text = String::with_capacity(CHUNK + 256);
    let (mut bytes, mut events) = (0, 0);
    for event in night.take_while(|e| e.t_ms < end) {
        write_json(&event, &cast, &mut text);
        events += 1;
        if text.len() >= CHUNK {
            out.write(&text)?;
            bytes += text.len() as u64;
            text.clear();
            bar.set_position(events);
        }
    }
    out.write(&text)?;
    bytes += text.len() as u64;
    out.finish()?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_and_packed_files_hold_the_same_lines() {
        let dir = std::env::temp_dir().join(format!("barrage-gen-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let night = Night::new(7, 90, Programme::Goal).scaled(5_000, 180);
        let (plain, packed) = (dir.join("a.jsonl"), dir.join("a.jsonl.gz"));
        let bar = ProgressBar::hidden();
        write(night.clone(), 180, &plain, &bar).unwrap();
        write(night, 180, &packed, &bar).unwrap();
        let text = std::fs::read_to_string(&plain).unwrap();
        let mut unpacked = String::new();
        let file = File::open(&packed).unwrap();
        std::io::Read::read_to_string(&mut flate2::read::GzDecoder::new(file), &mut unpacked)
            .unwrap();
        assert_eq!(text.lines().count(), 5_000);
        assert_eq!(text, unpacked);
        for line in text.lines().take(100) {
            let value: serde_json::Value = serde_json::from_str(line).unwrap();
            assert!(value["room"].is_string() && value["ts"].is_u64());
        }
        std::fs::remove_dir_all(&dir).unwrap();
    }
}
