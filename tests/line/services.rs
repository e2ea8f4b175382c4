//! PostgreSQL for tests: one that all share, and private ones that may be killed.

use std::net::{TcpListener, TcpStream};
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, OnceLock};
use std::time::{Duration, Instant};

/// Address of the PostgreSQL that tests share, as its superuser.
pub(crate) fn postgres() -> &'static str {
    static SHARED: OnceLock<(String, Option<Private>)> = OnceLock::new();
    let (url, _) = SHARED.get_or_init(|| match std::env::var("BARRAGE_TEST_POSTGRES") {
        Ok(url) => (url, None),
        Err(_) => {
            let service = private_postgres();
            (service.url().to_owned(), Some(service))
        }
    });
    url
}

/// A PostgreSQL of one's own.
pub(crate) fn private_postgres() -> Private {
    let folder = std::env::temp_dir().join(format!("barrage-pg-{:016x}", rand::random::<u64>()));
    std::fs::create_dir(&folder).unwrap();
    let user = as_postgres();
    if let Some((uid, gid)) = user {
        std::os::unix::fs::chown(&folder, Some(uid), Some(gid)).unwrap();
    }
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let url = format!("postgres://postgres@127.0.0.1:{port}/postgres");
    let service = Private { folder, port, url, user, keeper: Mutex::new(None) };
    let data = service.folder.join("data");
    let made = service
        .command(&tool("initdb"))
        .args(["-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync", "-D"])
        .arg(data)
        .output()
        .unwrap();
    assert!(made.status.success(), "initdb: {}", String::from_utf8_lossy(&made.stderr));
    service.start_again();
    service
}

/// A service that its test may treat badly. Gone when dropped, and when the test's process ends.
pub(crate) struct Private {
    folder: PathBuf,
    port: u16,
    url: String,
    user: Option<(u32, u32)>,
    keeper: Mutex<Option<Child>>,
}

impl Private {
    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// Starts it and waits until it answers.
    pub(crate) fn start_again(&self) {
        let deadline = Instant::now() + Duration::from_secs(60);
        loop {
            self.launch();
            let ready = Instant::now() + Duration::from_secs(10);
            while Instant::now() < ready.min(deadline) && self.alive() {
                if self.answers() {
                    return;
                }
                pass(20);
            }
            assert!(Instant::now() < deadline, "PostgreSQL does not start: {}", self.log());
            pass(100);
        }
    }

    fn launch(&self) {
        self.let_go();
        let _old = std::fs::remove_file(self.folder.join("pid"));
        // The shell lives as long as its input is open, and takes the server with it.
        let script = "cd \"$1\" && shift && { \"$@\" </dev/null >>log 2>&1 & } && echo $! >pid.new && \
            mv pid.new pid && read -r _; kill -9 \"$(cat pid)\" 2>/dev/null";
        let mut command = self.command("sh");
        command.args(["-c", script, "sh"]).arg(&self.folder).arg(tool("postgres"));
        command.args(["-D", "data", "-p", &self.port.to_string(), "-h", "127.0.0.1", "-F"]);
        command.args(["-c", "unix_socket_directories=", "-c", "max_connections=200"]);
        let keeper = Some(command.stdin(Stdio::piped()).spawn().unwrap());
        *self.keeper.lock().unwrap() = keeper;
        let deadline = Instant::now() + Duration::from_secs(10);
        while !self.folder.join("pid").exists() {
            assert!(Instant::now() < deadline, "the shell that starts PostgreSQL does nothing");
            pass(5);
        }
    }

    /// Ends the shell, which must not outlive the server it looks after.
    fn let_go(&self) {
        if let Some(mut keeper) = self.keeper.lock().unwrap().take() {
            drop(keeper.stdin.take());
            let _ended = keeper.wait();
        }
    }

    fn answers(&self) -> bool {
        let mut ready = self.command(&tool("pg_isready"));
        ready.args(["-q", "-h", "127.0.0.1", "-p", &self.port.to_string()]);
        ready.status().is_ok_and(|s| s.success())
    }

    /// Kills it as a power cut would.
    pub(crate) fn kill9(&self) {
        signal("-KILL", &[self.pid()]);
        self.gone();
    }

    /// Stops it in good order, cutting its clients off.
    pub(crate) fn stop(&self) {
        signal("-INT", &[self.pid()]);
        self.gone();
    }

    /// Nothing of it moves until [`Private::resume`].
    pub(crate) fn pause(&self) {
        signal("-STOP", &self.family());
    }

    pub(crate) fn resume(&self) {
        signal("-CONT", &self.family());
    }

    fn gone(&self) {
        let deadline = Instant::now() + Duration::from_secs(30);
        while self.alive() || TcpStream::connect(("127.0.0.1", self.port)).is_ok() {
            assert!(Instant::now() < deadline, "PostgreSQL does not end");
            pass(10);
        }
    }

    fn pid(&self) -> u32 {
        std::fs::read_to_string(self.folder.join("pid")).unwrap().trim().parse().unwrap()
    }

    fn alive(&self) -> bool {
        // A killed child of the shell stays a zombie until the shell ends.
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.pid()));
        stat.is_ok_and(|s| !s.contains(") Z "))
    }

    /// The server and the processes it has started.
    fn family(&self) -> Vec<u32> {
        let parent = self.pid();
        let mut all = vec![parent];
        for entry in std::fs::read_dir("/proc").unwrap().flatten() {
            let Ok(pid) = entry.file_name().to_string_lossy().parse::<u32>() else { continue };
            let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            let of = stat.rsplit(") ").next().and_then(|s| s.split(' ').nth(1)?.parse().ok());
            all.extend((of == Some(parent)).then_some(pid));
        }
        all
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.folder.join("log")).unwrap_or_default()
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.current_dir("/");
        if let Some((uid, gid)) = self.user {
            command.uid(uid).gid(gid);
        }
        command
    }
}

impl Drop for Private {
    fn drop(&mut self) {
        signal("-KILL", &self.family());
        self.let_go();
        let _gone = std::fs::remove_dir_all(&self.folder);
    }
}

fn signal(which: &str, pids: &[u32]) {
    let pids = pids.iter().map(u32::to_string);
    let _gone = Command::new("kill").arg(which).args(pids).stderr(Stdio::null()).status().unwrap();
}

/// PostgreSQL does not run as root: the ids of its own user, if we are.
fn as_postgres() -> Option<(u32, u32)> {
    let id = |args: &[&str]| -> u32 {
        let out = Command::new("id").args(args).output().unwrap();
        String::from_utf8(out.stdout).unwrap().trim().parse().unwrap()
    };
    (id(&["-u"]) == 0).then(|| (id(&["-u", "postgres"]), id(&["-g", "postgres"])))
}

fn tool(name: &str) -> String {
    for version in (13..=18).rev() {
        let path = format!("/usr/lib/postgresql/{version}/bin/{name}");
        if std::path::Path::new(&path).exists() {
            return path;
        }
    }
    name.to_owned()
}

fn pass(ms: u64) {
    std::thread::park_timeout(Duration::from_millis(ms));
}
