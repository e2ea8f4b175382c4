//! Controllers as an operator runs them: the built program with a configuration, on real services.

use super::kafka_kit::producer;
use super::services::{self, eventually, unique};
use barrage::control::topics::{self, Wanted};
use barrage::{control, kafka};
use barrage_protocol::control::Entry;
use barrage_protocol::ids::Slot;
use rdkafka::producer::{BaseProducer, BaseRecord, Producer as _};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

/// A cluster of its own on services, its files gone with it.
pub(crate) struct Cluster {
    pub(crate) name: String,
    pub(crate) events: String,
    pub(crate) kafka: String,
    pub(crate) etcd: String,
    pub(crate) postgres: String,
    dir: PathBuf,
    producer: BaseProducer,
    partitions: u32,
    more: String,
}

impl Cluster {
    /// On the shared services; `more` are further lines of the configuration.
    pub(crate) async fn new(partitions: u32, more: &str) -> Self {
        let (kafka, etcd) = (services::kafka(), services::etcd());
        Self::at(kafka, etcd, services::postgres(), partitions, more).await
    }

    /// On these services. Times are the producers': recorded events can be appended as fast as they can be sent.
    pub(crate) async fn at(
        kafka: &str,
        etcd: &str,
        postgres: &str,
        partitions: u32,
        more: &str,
    ) -> Self {
        let name = unique("line");
        let dir = std::env::temp_dir().join(format!("barrage-{name}"));
        std::fs::create_dir_all(&dir).expect("a directory");
        let events = format!("{name}.events");
        let mut wanted = Wanted::events(&events, partitions, 1, 3_600_000);
        wanted.settings.insert("message.timestamp.type".into(), "CreateTime".into());
        // Recorded times are long ago.
        wanted.settings.insert("retention.ms".into(), "-1".into());
        let settings = kafka::Settings::plain(kafka);
        topics::ensure(&settings, &[wanted]).await.expect("a topic");
        let database = database(postgres, &name).await;
        Self {
            events,
            kafka: kafka.to_owned(),
            etcd: etcd.to_owned(),
            postgres: database,
            dir,
            producer: producer(kafka),
            partitions,
            more: more.to_owned(),
            name,
        }
    }

    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    /// Appends events, each to the partition of its room, with the time that it bears.
    pub(crate) fn append<'a>(&self, events: impl IntoIterator<Item = (&'a str, i64)>) {
        for (room, ts) in events {
            let partition = room.bytes().map(u32::from).sum::<u32>() % self.partitions;
            self.append_to(partition, room, ts);
        }
        self.producer.flush(Duration::from_secs(60)).expect("records are taken");
    }

    fn append_to(&self, partition: u32, room: &str, ts: i64) {
        let value = super::kafka_kit::event(room, ts);
        let mut record = BaseRecord::to(&self.events)
            .partition(partition as i32)
            .key(room)
            .payload(&value)
            .timestamp(ts);
        while let Err((_, again)) = self.producer.send(record) {
            self.producer.poll(Duration::from_millis(10));
            record = again;
        }
    }

    /// The configuration of a controller, on ports of its own.
    pub(crate) fn config(&self, instance: &str) -> PathBuf {
        let [ops, api] = [free(), free()];
        let Self { name, events, kafka, etcd, postgres, dir, more, .. } = self;
        let state = dir.join(instance);
        let text = format!(
            "cluster = \"{name}\"\ninstance = \"{instance}\"\nstate = {state:?}\n\
             [kafka]\nbrokers = \"{kafka}\"\nevents = \"{events}\"\nreports = \"{name}.reports\"\n\
             dead_letters = \"{name}.dlq\"\nbegin = \"earliest\"\n\
             [etcd]\nendpoints = [\"{etcd}\"]\n[postgres]\nurl = \"{postgres}\"\n\
             [http]\nops = \"127.0.0.1:{ops}\"\napi = \"127.0.0.1:{api}\"\n{more}\n"
        );
        let path = dir.join(format!("{instance}.toml"));
        std::fs::write(&path, text).expect("a configuration");
        path
    }

    /// Makes what is missing, and starts a controller.
    pub(crate) fn start(&self, instance: &str) -> Controller {
        let config = self.config(instance);
        let made = barrage(&["init", "-c", config.to_str().expect("a path")]);
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        Controller::start(&config, &self.dir.join(format!("{instance}.log")))
    }

    /// All decisions in Postgres, in canonical order, as canonical lines.
    pub(crate) fn audited(&self, config: &Path) -> Vec<String> {
        let args = [
            "audit",
            "tail",
            "-c",
            config.to_str().expect("a path"),
            "--limit",
            "10000",
            "-o",
            "json",
        ];
        let output = barrage(&args);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect()
    }

    /// The control log so far.
    pub(crate) fn control(&self) -> Vec<Entry> {
        let settings = control::Settings {
            kafka: kafka::Settings::plain(&self.kafka),
            topic: format!("barrage.{}.0.control", self.name),
        };
        let mut log = control::open(&settings, None).expect("the control log");
        let mut all = Vec::new();
        eventually("the control log is read", || {
            while let Some((_, entry)) = log.read().expect("an entry") {
                all.push(entry);
            }
            log.is_at_end()
        });
        all
    }

    /// The last slot that the control log says is out.
    pub(crate) fn done(&self) -> Slot {
        let steps = self.control().into_iter().rev().find_map(|e| match e {
            Entry::Step(step) => Some(step.done),
            Entry::Lead { .. } => None,
        });
        steps.unwrap_or(Slot(0))
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if std::thread::panicking() {
            for file in std::fs::read_dir(&self.dir).into_iter().flatten().flatten() {
                let path = file.path();
                if path.extension().is_some_and(|e| e == "log") {
                    let text = std::fs::read_to_string(&path).unwrap_or_default();
                    let lines: Vec<&str> = text.lines().collect();
                    println!(
                        "{}:\n{}",
                        path.display(),
                        lines[lines.len().saturating_sub(40)..].join("\n")
                    );
                }
            }
        }
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

async fn database(postgres: &str, name: &str) -> String {
    use sqlx::Connection as _;
    let mut admin = sqlx::PgConnection::connect(postgres).await.expect("Postgres");
    let make = format!("CREATE DATABASE {name}");
    sqlx::query(sqlx::AssertSqlSafe(make)).execute(&mut admin).await.expect("a database");
    let (base, _) = postgres.rsplit_once('/').expect("a URL with a database");
    format!("{base}/{name}")
}

fn free() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.local_addr().expect("its address").port()
}

/// Runs the program to its end.
pub(crate) fn barrage(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_barrage")).args(args).output().expect("the program runs")
}

/// A running controller, killed when it is dropped.
pub(crate) struct Controller {
    child: Child,
    pub(crate) config: PathBuf,
}

impl Controller {
    pub(crate) fn start(config: &Path, log: &Path) -> Self {
        let err = std::fs::OpenOptions::new().create(true).append(true).open(log).expect("a log");
        let child = Command::new(env!("CARGO_BIN_EXE_barrage"))
            .args(["run", "-c", config.to_str().expect("a path")])
            .env("NO_COLOR", "1")
            .stdout(Stdio::null())
            .stderr(err)
            .spawn()
            .expect("the program runs");
        Self { child, config: config.to_owned() }
    }

    pub(crate) fn signal(&self, signal: &str) {
        let status =
            Command::new("kill").args(["-s", signal, &self.child.id().to_string()]).status();
        assert!(status.expect("kill runs").success());
    }

    /// Ends it at once.
    pub(crate) fn kill9(mut self) {
        self.child.kill().expect("it is killed");
        self.child.wait().expect("it is gone");
    }

    /// Starts it again where it was killed.
    pub(crate) fn again(config: &Path) -> Self {
        Self::start(config, &config.with_extension("log"))
    }

    /// Ends it in order.
    pub(crate) fn stop(mut self) {
        self.signal("TERM");
        let status = self.child.wait().expect("it ends");
        assert!(status.success(), "{status}");
    }

    /// Waits until it ends by itself; its exit code.
    pub(crate) fn ended(&mut self) -> Option<i32> {
        let mut code = None;
        eventually("it ends by itself", || {
            code = self.child.try_wait().expect("it is ours").map(|status| status.code());
            code.is_some()
        });
        code.flatten()
    }

    fn listener(&self, name: &str) -> String {
        let text = std::fs::read_to_string(&self.config).expect("its configuration");
        let line = text.lines().find_map(|l| l.strip_prefix(&format!("{name} = \"")));
        line.and_then(|l| l.strip_suffix('"')).expect("a listener").to_owned()
    }

    /// What it answers to a GET; none: it does not.
    pub(crate) fn get(&self, listener: &str, path: &str) -> Option<String> {
        let url = format!("http://{}{path}", self.listener(listener));
        let config = ureq::Agent::config_builder().timeout_global(Some(Duration::from_secs(5)));
        let mut answer = config.build().new_agent().get(url).call().ok()?;
        answer.body_mut().read_to_string().ok()
    }

    /// Whether it leads.
    pub(crate) fn leads(&self) -> bool {
        self.get("ops", "/metrics").is_some_and(|m| m.contains("\nbarrage_leader 1\n"))
    }

    pub(crate) fn metric(&self, name: &str) -> Option<f64> {
        let text = self.get("ops", "/metrics")?;
        let line = text.lines().find_map(|l| l.strip_prefix(name)?.strip_prefix(' '))?;
        line.trim().parse().ok()
    }
}

impl Drop for Controller {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
