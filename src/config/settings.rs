//! What is configured: plain data with the defaults. Meaning, unit and range of each setting stand in the table of keys.

use barrage_engine::control;
use std::net::SocketAddr;
use std::path::PathBuf;

/// Everything a controller is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Name of the cluster in keys and topics.
    pub cluster: String,
    /// Number of the shard.
    pub shard: u32,
    /// Name of this controller among those of the shard; empty: host name and process id.
    pub instance: String,
    /// State directory: checkpoints and the audit's spool.
    pub state: PathBuf,
    /// Worker threads of the dataflow.
    pub workers: usize,
    /// Rule set; none: the shipped one.
    pub rules: Option<PathBuf>,
    /// Kafka.
    pub kafka: Kafka,
    /// etcd.
    pub etcd: Etcd,
    /// Postgres; none: nothing is kept beyond the spool.
    pub postgres: Postgres,
    /// Listeners.
    pub http: Http,
    /// The program's own log.
    pub log: Log,
    /// Clocks and steps (semantics §1).
    pub time: control::Config,
}

/// Kafka, with the topics.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kafka {
    /// `host:port`, comma separated.
    pub brokers: String,
    /// Topic of the events.
    pub events: String,
    /// Topic of the edges' reports.
    pub reports: String,
    /// Topic of records that are no events.
    pub dead_letters: String,
    /// Partitions of the events' topic, where `init` makes it.
    pub partitions: u32,
    /// Replicas of every topic that `init` makes.
    pub replication: u32,
    /// How long topics that `init` makes keep their records, in milliseconds.
    pub retention_ms: u64,
    /// Where a cluster without a checkpoint begins.
    pub begin: Begin,
    /// What to do where records asked for are gone.
    pub on_expired: OnExpired,
    /// User for SASL/SCRAM; empty: none.
    pub user: String,
    /// The user's password.
    pub password: Secret,
    /// Certificates of who may sign for the brokers; given: TLS.
    pub ca_file: Option<PathBuf>,
}

/// Where a cluster without a checkpoint begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Begin {
    /// With the records of the last two minutes.
    Recent,
    /// With the first record there is.
    Earliest,
    /// With what comes from now on.
    Latest,
}

/// What to do where records asked for are gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnExpired {
    /// End, and name what is missing.
    Stop,
    /// Go on after them, which the control log records.
    Skip,
}

/// etcd.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Etcd {
    /// URLs.
    pub endpoints: Vec<String>,
    /// User; empty: none.
    pub user: String,
    /// The user's password.
    pub password: Secret,
    /// Certificates of who may sign for the servers; given, or with `https` endpoints: TLS.
    pub ca_file: Option<PathBuf>,
    /// This client's certificate.
    pub cert_file: Option<PathBuf>,
    /// Its key.
    pub key_file: Option<PathBuf>,
}

/// Postgres.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Postgres {
    /// `postgres://user@host:port/database`; empty: none.
    pub url: String,
    /// The user's password, if it does not stand in the URL.
    pub password: Secret,
    /// Most bytes of the spool on disk.
    pub spool_max_bytes: u64,
    /// Days that decisions are kept; 0: for ever.
    pub retention_days: u32,
}

/// Listeners.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Http {
    /// Probes and metrics.
    pub ops: SocketAddr,
    /// `/v1`; this machine only.
    pub api: SocketAddr,
}

/// The program's own log, on stderr.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Log {
    /// Form of a line.
    pub format: LogFormat,
    /// Filter, as in `info` or `info,barrage::publish=debug`.
    pub level: String,
}

/// Form of a line of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// For a person.
    Text,
    /// One JSON document a line.
    Json,
}

/// A password: where it is, never what it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Secret {
    /// File that holds it, first line.
    pub file: Option<PathBuf>,
    /// Environment variable that holds it, where there is no file.
    pub variable: &'static str,
}

/// Longest password file read.
const SECRET_BYTES_MAX: u64 = 4_096;

impl Secret {
    fn in_variable(variable: &'static str) -> Self {
        Self { file: None, variable }
    }

    /// The password, if there is one.
    ///
    /// # Errors
    /// A file that cannot be read, is empty or far too long.
    pub fn load(&self) -> Result<Option<String>, String> {
        use std::io::Read as _;
        let Some(path) = &self.file else {
            return Ok(std::env::var(self.variable).ok().filter(|p| !p.is_empty()));
        };
        let told = |what: String| format!("the password file {}: {what}", path.display());
        let file = std::fs::File::open(path).map_err(|e| told(e.to_string()))?;
        let mut text = String::new();
        let read = file.take(SECRET_BYTES_MAX + 1).read_to_string(&mut text);
        read.map_err(|e| told(e.to_string()))?;
        let line = text.lines().next().unwrap_or("");
        if line.is_empty() || text.len() as u64 > SECRET_BYTES_MAX {
            return Err(told(
                "it must hold the password in its first line, and little else".into(),
            ));
        }
        Ok(Some(line.to_owned()))
    }
}

impl Default for Config {
    fn default() -> Self {
        let (ops, api) =
            (SocketAddr::from(([127, 0, 0, 1], 9464)), SocketAddr::from(([127, 0, 0, 1], 8462)));
        Self {
            cluster: "live".into(),
            shard: 0,
            instance: String::new(),
            state: "barrage-state".into(),
            workers: 1,
            rules: None,
            kafka: Kafka {
                brokers: "127.0.0.1:9092".into(),
                events: "room.events".into(),
                reports: "edge.reports".into(),
                dead_letters: "barrage.dlq".into(),
                partitions: 8,
                replication: 1,
                retention_ms: 24 * 3_600_000,
                begin: Begin::Recent,
                on_expired: OnExpired::Stop,
                user: String::new(),
                password: Secret::in_variable("BARRAGE_KAFKA_PASSWORD"),
                ca_file: None,
            },
            etcd: Etcd {
                endpoints: vec!["http://127.0.0.1:2379".into()],
                user: String::new(),
                password: Secret::in_variable("BARRAGE_ETCD_PASSWORD"),
                ca_file: None,
                cert_file: None,
                key_file: None,
            },
            postgres: Postgres {
                url: String::new(),
                password: Secret::in_variable("BARRAGE_POSTGRES_PASSWORD"),
                spool_max_bytes: 1 << 30,
                retention_days: 0,
            },
            http: Http { ops, api },
            log: Log { format: LogFormat::Text, level: "info".into() },
            time: control::Config::default(),
        }
    }
}
