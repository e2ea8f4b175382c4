//! Services for tests: shared ones that are there for all, private ones for tests that kill, stop or pause them.
//!
//! A shared service is the one whose address stands in the environment (`BARRAGE_TEST_KAFKA`, `_ETCD`,
//! `_ETCD_OLDEST`, `_POSTGRES`), or else one that `scripts/services` starts on first use. Tests on it choose names of
//! their own ([`unique`]). Whatever is started here ends with the test process, in whatever way that ends: the
//! script watches for it. A service that cannot be had fails the test.

use std::net::{TcpStream, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// Bootstrap address of the shared Kafka, `127.0.0.1:PORT`.
pub(crate) fn kafka() -> &'static str {
    static ADDRESS: OnceLock<String> = OnceLock::new();
    ADDRESS.get_or_init(|| shared("kafka", "BARRAGE_TEST_KAFKA"))
}

/// Endpoint of the shared etcd, the newest that is supported, `http://127.0.0.1:PORT`.
pub(crate) fn etcd() -> &'static str {
    static ADDRESS: OnceLock<String> = OnceLock::new();
    ADDRESS.get_or_init(|| shared("etcd", "BARRAGE_TEST_ETCD"))
}

/// Endpoint of the shared etcd that is the oldest supported.
pub(crate) fn etcd_oldest() -> &'static str {
    static ADDRESS: OnceLock<String> = OnceLock::new();
    ADDRESS.get_or_init(|| shared("etcd-oldest", "BARRAGE_TEST_ETCD_OLDEST"))
}

/// URL of the shared PostgreSQL: a superuser on its database `postgres`. Tests make databases of their own.
pub(crate) fn postgres() -> &'static str {
    static ADDRESS: OnceLock<String> = OnceLock::new();
    ADDRESS.get_or_init(|| shared("postgres", "BARRAGE_TEST_POSTGRES"))
}

/// A Kafka of the test's own; takes some seconds.
pub(crate) fn private_kafka() -> Private {
    Private::start("kafka")
}

/// An etcd of the test's own.
pub(crate) fn private_etcd() -> Private {
    Private::start("etcd")
}

/// A PostgreSQL of the test's own.
pub(crate) fn private_postgres() -> Private {
    Private::start("postgres")
}

/// A name that no other test and no other run uses on the shared services: lower case, digits, `_`.
pub(crate) fn unique(prefix: &str) -> String {
    format!("{prefix}_{:08x}", rand::random::<u32>())
}

/// Looks every 20 ms whether something holds; fails the test if it does not within `limit`.
pub(crate) fn within(limit: Duration, what: &str, mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < limit, "not within {limit:?}: {what}");
        std::thread::park_timeout(Duration::from_millis(20));
    }
}

/// As [`within`], with a limit for machines that have much to do.
pub(crate) fn eventually(what: &str, holds: impl FnMut() -> bool) {
    within(Duration::from_secs(60), what, holds);
}

/// Whether something takes connections at an address (`host:port`, or a URL with both).
pub(crate) fn listens(address: &str) -> bool {
    let end = address.rsplit_once("://").map_or(address, |(_, rest)| rest);
    let end = end.rsplit_once('@').map_or(end, |(_, rest)| rest);
    let end = end.split(['/', ',']).next().unwrap();
    let Ok(found) = end.to_socket_addrs() else { return false };
    found.into_iter().any(|at| TcpStream::connect_timeout(&at, Duration::from_secs(5)).is_ok())
}

fn shared(name: &str, variable: &str) -> String {
    let Some(given) = std::env::var(variable).ok().filter(|v| !v.is_empty()) else {
        return start(&[name, "--with", &std::process::id().to_string()]).address;
    };
    assert!(
        given != "missing",
        "{name} could not be started: the step `services` of scripts/test says why"
    );
    assert!(
        listens(&given),
        "nothing answers at {variable}={given}; hint: without that variable {name} is started for the tests"
    );
    given
}

/// What `scripts/services start` says.
pub(crate) struct Started {
    pub(crate) address: String,
    pub(crate) pid: u32,
    pub(crate) dir: PathBuf,
}

/// Runs `scripts/services start`.
pub(crate) fn start(arguments: &[&str]) -> Started {
    let told = script(&[&["start"], arguments].concat());
    let field = |key: &str| {
        let from = told.find(key).unwrap_or_else(|| panic!("no {key} in `{told}`"));
        told[from + key.len()..].trim_end()
    };
    let word = |key: &str| field(key).split(' ').next().unwrap();
    Started {
        address: word("ADDRESS=").to_owned(),
        pid: word("PID=").parse().unwrap(),
        dir: field("DIR=").into(),
    }
}

/// Runs `scripts/services`; what it printed.
fn script(arguments: &[&str]) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let script = root.join("scripts/services");
    let done = Command::new(&script).args(arguments).current_dir(root).output();
    let done = done.unwrap_or_else(|e| panic!("{}: {e}", script.display()));
    let said = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "scripts/services {} failed:\n{said}", arguments.join(" "));
    if !said.is_empty() {
        println!("{}", said.trim_end());
    }
    String::from_utf8_lossy(&done.stdout).into_owned()
}

/// A service of one test, stopped when dropped. It keeps its ports and its data over any end and new start.
pub(crate) struct Private {
    name: &'static str,
    address: String,
    dir: PathBuf,
}

impl Private {
    fn start(name: &'static str) -> Self {
        let started = start(&[name, "--with", &std::process::id().to_string()]);
        Self { name, address: started.address, dir: started.dir }
    }

    fn path(&self) -> &str {
        self.dir.to_str().unwrap()
    }

    /// Where it answers: a URL, for Kafka `host:port`.
    pub(crate) fn url(&self) -> &str {
        &self.address
    }

    /// Its directory, with the data in `data/`.
    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    /// Ends it with all its processes, without a chance to put anything in order.
    pub(crate) fn kill9(&self) {
        script(&["signal", "KILL", self.path()]);
    }

    /// Ends it in order.
    pub(crate) fn stop(&self) {
        script(&["stop", "--keep", self.path()]);
    }

    /// Starts it after `kill9` or `stop`, and waits until it answers.
    pub(crate) fn start_again(&self) {
        let started = start(&[self.name, "--dir", self.path()]);
        assert_eq!(started.address, self.address);
    }

    /// Takes its data away; it must not be running.
    pub(crate) fn wipe(&self) {
        std::fs::remove_dir_all(self.dir.join("data")).unwrap();
    }

    /// Halts it: connections stay open, nothing answers.
    pub(crate) fn pause(&self) {
        script(&["signal", "STOP", self.path()]);
    }

    /// Lets it go on after `pause`.
    pub(crate) fn resume(&self) {
        script(&["signal", "CONT", self.path()]);
    }
}

impl Drop for Private {
    fn drop(&mut self) {
        // Perhaps in the middle of a panic, where another one would end the process: what is left, the script's
        // watch over this process ends.
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts/services");
        let _ = Command::new(script).arg("stop").arg(&self.dir).output();
    }
}
