//! The table of settings: name, kind, range, meaning, and where the value goes.

use super::settings::{Begin, Config, LogFormat, OnExpired};
use std::net::SocketAddr;
use std::path::PathBuf;

/// What can be written behind a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A text.
    Text,
    /// A name: letters, digits, `_`, `-` and `.`; it becomes part of keys and topics.
    Name,
    /// Texts in a list.
    Texts,
    /// A path, absolute or from the directory that the program runs in.
    Path,
    /// `address:port`.
    Address,
    /// A whole number within bounds.
    Number(u64, u64),
    /// A time such as `"500ms"`, within bounds in milliseconds.
    Time(u64, u64),
    /// One of these words.
    Word(&'static [&'static str]),
}

/// A value read, of the kind that its key has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Value {
    Text(String),
    Texts(Vec<String>),
    Number(u64),
    Address(SocketAddr),
}

impl Value {
    fn text(self) -> String {
        if let Self::Text(text) = self { text } else { String::new() }
    }

    fn path(self) -> Option<PathBuf> {
        Some(self.text()).filter(|t| !t.is_empty()).map(PathBuf::from)
    }

    fn number(self) -> u64 {
        if let Self::Number(n) = self { n } else { 0 }
    }

    /// Within the bounds of its key, which fit.
    fn small(self) -> u32 {
        u32::try_from(self.number()).unwrap_or(u32::MAX)
    }

    fn ms(self) -> i64 {
        i64::try_from(self.number()).unwrap_or(i64::MAX)
    }
}

/// One setting.
#[derive(Clone, Copy, Debug)]
pub struct Key {
    /// Table and name, as in `kafka.brokers`.
    pub name: &'static str,
    /// What can be written.
    pub kind: Kind,
    /// What it means, in one sentence.
    pub what: &'static str,
    /// What holds where it is not written, as one would write it; an example in the form `(…)` where nothing does.
    pub default: &'static str,
    pub(super) set: fn(&mut Config, Value),
}

const fn key(
    name: &'static str,
    kind: Kind,
    default: &'static str,
    what: &'static str,
    set: fn(&mut Config, Value),
) -> Key {
    Key { name, kind, what, default, set }
}

/// A minute in milliseconds.
const MINUTE: u64 = 60_000;

/// Every setting.
pub const KEYS: &[Key] = &[
    key(
        "cluster",
        Kind::Name,
        "\"live\"",
        "Name of the cluster, in keys of etcd and names of topics.",
        |c, v| c.cluster = v.text(),
    ),
    key(
        "shard",
        Kind::Number(0, 9_999),
        "0",
        "Number of the shard: a group of partitions with a leader of its own.",
        |c, v| c.shard = v.small(),
    ),
    key(
        "instance",
        Kind::Name,
        "host name and process id",
        "Name of this controller among those of its shard.",
        |c, v| c.instance = v.text(),
    ),
    key(
        "state",
        Kind::Path,
        "\"barrage-state\"",
        "State directory: checkpoints, and decisions on their way to Postgres. One for each controller.",
        |c, v| {
            if let Some(path) = v.path() {
                c.state = path;
            }
        },
    ),
    key("workers", Kind::Number(1, 64), "1", "Worker threads of the dataflow.", |c, v| {
        c.workers = v.small() as usize
    }),
    key(
        "rules",
        Kind::Path,
        "the shipped set",
        "Rule set that this controller proposes when it leads.",
        |c, v| c.rules = v.path(),
    ),
    key(
        "kafka.brokers",
        Kind::Text,
        "\"127.0.0.1:9092\"",
        "Brokers to begin with, `host:port`, comma separated.",
        |c, v| c.kafka.brokers = v.text(),
    ),
    key("kafka.events", Kind::Name, "\"room.events\"", "Topic of the rooms' events.", |c, v| {
        c.kafka.events = v.text()
    }),
    key("kafka.reports", Kind::Name, "\"edge.reports\"", "Topic of the edges' reports.", |c, v| {
        c.kafka.reports = v.text()
    }),
    key(
        "kafka.dead_letters",
        Kind::Name,
        "\"barrage.dlq\"",
        "Topic for records that are no events.",
        |c, v| c.kafka.dead_letters = v.text(),
    ),
    key(
        "kafka.partitions",
        Kind::Number(1, 1_024),
        "8",
        "Partitions of the events' topic, where `init` makes it.",
        |c, v| c.kafka.partitions = v.small(),
    ),
    key(
        "kafka.replication",
        Kind::Number(1, 9),
        "1",
        "Replicas of the topics that `init` makes.",
        |c, v| c.kafka.replication = v.small(),
    ),
    key(
        "kafka.retention",
        Kind::Time(10 * MINUTE, 366 * 24 * 60 * MINUTE),
        "\"24h\"",
        "How long topics that `init` makes keep their records.",
        |c, v| c.kafka.retention_ms = v.number(),
    ),
    key(
        "kafka.begin",
        Kind::Word(&["recent", "earliest", "latest"]),
        "\"recent\"",
        "Where a cluster without a checkpoint begins: with the last two minutes, the first record there is, or what comes.",
        |c, v| {
            c.kafka.begin = match v.text().as_str() {
                "earliest" => Begin::Earliest,
                "latest" => Begin::Latest,
                _ => Begin::Recent,
            };
        },
    ),
    key(
        "kafka.on_expired",
        Kind::Word(&["stop", "skip"]),
        "\"stop\"",
        "Where records still wanted are gone: `stop` ends with what is missing, `skip` goes on after them and records it.",
        |c, v| {
            c.kafka.on_expired = if v.text() == "skip" { OnExpired::Skip } else { OnExpired::Stop };
        },
    ),
    key("kafka.user", Kind::Text, "none", "User for SASL/SCRAM-SHA-512.", |c, v| {
        c.kafka.user = v.text()
    }),
    key(
        "kafka.password_file",
        Kind::Path,
        "the variable BARRAGE_KAFKA_PASSWORD",
        "File with the user's password in its first line.",
        |c, v| c.kafka.password.file = v.path(),
    ),
    key(
        "kafka.ca_file",
        Kind::Path,
        "none",
        "Certificates that the brokers' must be signed by; given, connections use TLS.",
        |c, v| c.kafka.ca_file = v.path(),
    ),
    key(
        "etcd.endpoints",
        Kind::Texts,
        "[\"http://127.0.0.1:2379\"]",
        "Members of etcd, `http://` or `https://`.",
        |c, v| {
            if let Value::Texts(list) = v {
                c.etcd.endpoints = list;
            }
        },
    ),
    key("etcd.user", Kind::Text, "none", "User of etcd.", |c, v| c.etcd.user = v.text()),
    key(
        "etcd.password_file",
        Kind::Path,
        "the variable BARRAGE_ETCD_PASSWORD",
        "File with the user's password in its first line.",
        |c, v| c.etcd.password.file = v.path(),
    ),
    key(
        "etcd.ca_file",
        Kind::Path,
        "none",
        "Certificates that etcd's must be signed by.",
        |c, v| c.etcd.ca_file = v.path(),
    ),
    key("etcd.cert_file", Kind::Path, "none", "This client's certificate.", |c, v| {
        c.etcd.cert_file = v.path()
    }),
    key("etcd.key_file", Kind::Path, "none", "Key of this client's certificate.", |c, v| {
        c.etcd.key_file = v.path()
    }),
    key(
        "postgres.url",
        Kind::Text,
        "none: decisions stay in the spool",
        "Database of the audit log, `postgres://user@host:port/database`.",
        |c, v| c.postgres.url = v.text(),
    ),
    key(
        "postgres.password_file",
        Kind::Path,
        "the variable BARRAGE_POSTGRES_PASSWORD",
        "File with the user's password in its first line.",
        |c, v| c.postgres.password.file = v.path(),
    ),
    key(
        "postgres.spool_max_mb",
        Kind::Number(16, 1_000_000),
        "1024",
        "Most megabytes that wait on disk for Postgres.",
        |c, v| c.postgres.spool_max_bytes = v.number() << 20,
    ),
    key(
        "postgres.retention_days",
        Kind::Number(0, 36_500),
        "0",
        "Days that decisions are kept in Postgres; 0: for ever.",
        |c, v| c.postgres.retention_days = v.small(),
    ),
    key(
        "http.ops",
        Kind::Address,
        "\"127.0.0.1:9464\"",
        "Listener of `/livez`, `/readyz`, `/startupz` and `/metrics`.",
        |c, v| {
            if let Value::Address(at) = v {
                c.http.ops = at;
            }
        },
    ),
    key(
        "http.api",
        Kind::Address,
        "\"127.0.0.1:8462\"",
        "Listener of `/v1`; on this machine only.",
        |c, v| {
            if let Value::Address(at) = v {
                c.http.api = at;
            }
        },
    ),
    key(
        "log.format",
        Kind::Word(&["text", "json"]),
        "\"text\"",
        "Form of the program's own log, on stderr.",
        |c, v| {
            c.log.format = if v.text() == "json" { LogFormat::Json } else { LogFormat::Text };
        },
    ),
    key(
        "log.level",
        Kind::Text,
        "\"info\"",
        "What is logged, as in `info` or `info,barrage::publish=debug`.",
        |c, v| c.log.level = v.text(),
    ),
    key(
        "time.out_of_order",
        Kind::Time(0, 10 * MINUTE),
        "\"500ms\"",
        "How much out of order events may come; every decision waits so long.",
        |c, v| c.time.out_of_order_ms = v.ms(),
    ),
    key(
        "time.late_max",
        Kind::Time(0, 60 * MINUTE),
        "\"10s\"",
        "Events further behind the broker's clock are rejected.",
        |c, v| c.time.late_max_ms = v.ms(),
    ),
    key(
        "time.skew_max",
        Kind::Time(0, 60 * MINUTE),
        "\"1s\"",
        "Events further ahead of the broker's clock are rejected.",
        |c, v| c.time.skew_max_ms = v.ms(),
    ),
    key(
        "time.idle_after",
        Kind::Time(100, 10 * MINUTE),
        "\"1s\"",
        "A partition at its end that brings nothing for so long is not waited for.",
        |c, v| c.time.idle_after_ms = v.ms(),
    ),
    key(
        "time.absent_after",
        Kind::Time(1_000, 60 * MINUTE),
        "\"30s\"",
        "A partition that cannot be read for so long is not waited for; its rooms are unknown.",
        |c, v| c.time.absent_after_ms = v.ms(),
    ),
    key(
        "time.break_after",
        Kind::Time(1_000, 60 * MINUTE),
        "\"30s\"",
        "A new leader that cannot reach its predecessor's last step for so long breaks with it.",
        |c, v| c.time.break_after_ms = v.ms(),
    ),
    key(
        "time.step_every",
        Kind::Time(100, 10_000),
        "\"1s\"",
        "Longest time between two steps of the control log.",
        |c, v| c.time.step_every_ms = v.ms(),
    ),
];

impl Key {
    /// The table it stands in; empty at the top.
    #[must_use]
    pub fn table(&self) -> &'static str {
        self.name.split_once('.').map_or("", |(table, _)| table)
    }

    /// Its name within the table.
    #[must_use]
    pub fn short(&self) -> &'static str {
        self.name.split_once('.').map_or(self.name, |(_, short)| short)
    }
}
