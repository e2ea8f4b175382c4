//! Real services for tests: shared ones, given by the environment or started on first use, and private ones that can be
//! killed, stopped, paused and started again with their ports and data.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

/// A service of one test, gone with it.
pub(crate) struct Private {
    name: &'static str,
    dir: PathBuf,
    address: String,
    pid: u32,
}

static COUNT: AtomicU32 = AtomicU32::new(0);

fn script(args: &[&str]) -> String {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/scripts/services");
    let output = Command::new(script).args(args).output().expect("scripts/services runs");
    let err = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "scripts/services {}: {err}", args.join(" "));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn start(name: &str, dir: &Path) -> (String, u32) {
    let own = std::process::id().to_string();
    let told = script(&["start", name, dir.to_str().expect("a path"), "--with", &own]);
    let field = |key: &str| {
        let word = told.split_whitespace().find_map(|word| word.strip_prefix(key));
        word.unwrap_or_else(|| panic!("no {key} in {told}")).to_owned()
    };
    (field("ADDRESS="), field("PID=").parse().expect("a pid"))
}

impl Private {
    fn new(name: &'static str) -> Self {
        let n = COUNT.fetch_add(1, Ordering::Relaxed);
        let dir = std::env::temp_dir().join(format!("barrage-{name}-{}-{n}", std::process::id()));
        let (address, pid) = start(name, &dir);
        Self { name, dir, address, pid }
    }

    /// Its address: `host:port` of Kafka, a URL of the others.
    pub(crate) fn url(&self) -> &str {
        &self.address
    }

    fn signal(&self, signal: &str) {
        let kill = Command::new("kill").args(["-s", signal, &self.pid.to_string()]).status();
        assert!(kill.expect("kill runs").success(), "{} {}", self.name, self.pid);
    }

    /// Ends it at once.
    pub(crate) fn kill9(&self) {
        self.signal("KILL");
        // Its port is free once it is gone.
        let gone = || !Path::new(&format!("/proc/{}/stat", self.pid)).exists();
        eventually("the service is gone", gone);
    }

    /// Ends it in order.
    pub(crate) fn stop(&self) {
        script(&["stop", self.dir.to_str().expect("a path")]);
    }

    /// Starts it again, on the same ports and with its data.
    pub(crate) fn start_again(&mut self) {
        let (address, pid) = start(self.name, &self.dir);
        assert_eq!(address, self.address, "the same address as before");
        self.pid = pid;
    }

    /// Takes its data away; it must not be running.
    pub(crate) fn wipe(&self) {
        std::fs::remove_dir_all(self.dir.join("data")).expect("its data");
    }

    /// Where its data lies.
    pub(crate) fn data(&self) -> PathBuf {
        self.dir.join("data")
    }

    /// Lets it stand still.
    pub(crate) fn pause(&self) {
        self.signal("STOP");
    }

    /// Lets it go on.
    pub(crate) fn resume(&self) {
        self.signal("CONT");
    }
}

impl Drop for Private {
    fn drop(&mut self) {
        let dir = self.dir.to_str().expect("a path");
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/scripts/services");
        // A panic within a panic would hide the first.
        let _ = Command::new(script).args(["stop", dir]).output();
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

/// Asks until it is so; the deadline is for machines, not for people.
pub(crate) fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let (patience, pause) =
        (std::time::Duration::from_secs(30), std::time::Duration::from_millis(20));
    let began = std::time::Instant::now();
    let (_keep, never) = std::sync::mpsc::sync_channel::<()>(1);
    while !is_so() {
        assert!(began.elapsed() < patience, "not within {patience:?}: {what}");
        let _ = never.recv_timeout(pause);
    }
}

fn shared(
    cell: &'static OnceLock<(String, Option<Private>)>,
    variable: &str,
    name: &'static str,
) -> &'static str {
    let (address, _) = cell.get_or_init(|| match std::env::var(variable) {
        Ok(address) if !address.is_empty() => (address, None),
        _ => {
            let private = Private::new(name);
            (private.url().to_owned(), Some(private))
        }
    });
    address
}

/// Kafka, `host:port`.
pub(crate) fn kafka() -> &'static str {
    static CELL: OnceLock<(String, Option<Private>)> = OnceLock::new();
    shared(&CELL, "BARRAGE_TEST_KAFKA", "kafka")
}

/// The etcd of today, a URL.
pub(crate) fn etcd() -> &'static str {
    static CELL: OnceLock<(String, Option<Private>)> = OnceLock::new();
    shared(&CELL, "BARRAGE_TEST_ETCD", "etcd")
}

/// The oldest etcd that is supported, a URL.
pub(crate) fn etcd_oldest() -> &'static str {
    static CELL: OnceLock<(String, Option<Private>)> = OnceLock::new();
    shared(&CELL, "BARRAGE_TEST_ETCD_OLDEST", "etcd-oldest")
}

/// Postgres, the URL of its superuser.
pub(crate) fn postgres() -> &'static str {
    static CELL: OnceLock<(String, Option<Private>)> = OnceLock::new();
    shared(&CELL, "BARRAGE_TEST_POSTGRES", "postgres")
}

/// A Kafka of one's own.
pub(crate) fn private_kafka() -> Private {
    Private::new("kafka")
}

/// An etcd of one's own.
pub(crate) fn private_etcd() -> Private {
    Private::new("etcd")
}

/// A Postgres of one's own.
pub(crate) fn private_postgres() -> Private {
    Private::new("postgres")
}

/// A name that no other test has.
pub(crate) fn unique(what: &str) -> String {
    let n = COUNT.fetch_add(1, Ordering::Relaxed);
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let ms = now.map_or(0, |d| d.as_millis());
    format!("{what}-{}-{n}-{}", std::process::id(), ms % 1_000_000)
}
