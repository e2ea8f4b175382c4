//! `barrage replay`, `barrage demo` and `barrage bench` as a user runs them: the built program on files.
//!
//! * `demo`: the demo decides as a replay of what it was fed.
//! * `recorded`: recorded streams against the reference of the surge rule, and their scores.
//! * `files`: what is named, what goes on, what ends with which exit code.
//! * `rows`: the rows of the benchmark against an exact answer.

#[path = "demo.rs"]
mod demo;
#[path = "files.rs"]
mod files;
#[path = "recorded.rs"]
mod recorded;
#[path = "rows.rs"]
mod rows;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// A directory of a test, removed when it is dropped.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("barrage-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).expect("a directory for the test");
        Self(path)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path(name);
        std::fs::write(&path, text).expect("written");
        path
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Runs the program.
fn barrage<I: AsRef<std::ffi::OsStr>>(args: impl IntoIterator<Item = I>) -> Output {
    Command::new(env!("CARGO_BIN_EXE_barrage")).args(args).output().expect("the program runs")
}

/// Standard output, after checking that all went well.
fn ok(output: &Output) -> String {
    let err = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{:?}\n{err}", output.status);
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// The directory of recorded streams; nothing (told once) where there is none, never so in CI.
fn shared() -> Option<PathBuf> {
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared");
    let shared = std::env::var_os("BARRAGE_SHARED").map_or(beside, PathBuf::from);
    if shared.join("traces").is_dir() {
        return Some(shared);
    }
    assert!(
        std::env::var_os("CI").is_none_or(|ci| ci != "true"),
        "no recorded streams at {}",
        shared.display()
    );
    println!("not run: no recorded streams");
    None
}

/// Lines of a file.
fn lines(path: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(path).expect("a file");
    text.lines().map(str::to_owned).collect()
}
