//! From a configuration to what each part is told; what must be there before a controller starts.

use crate::audit;
use crate::config::{Begin, Config, LogFormat};
use crate::control::topics::{self, Standing, Wanted};
use crate::ingest::kafka as events;
use crate::publish::etcd;
use crate::{config, control, kafka};
use anyhow::Context as _;
use std::path::Path;
use tracing_subscriber::EnvFilter;

/// Two minutes: the windows of 70 s and what comes late.
const RECENT_MS: i64 = 120_000;
/// Largest configuration read.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// Reads a configuration; none: its faults were told on stderr.
///
/// # Errors
/// A file that cannot be read.
pub(crate) fn load(path: &Path) -> anyhow::Result<Option<Config>> {
    use std::io::Read as _;
    let file = std::fs::File::open(path).with_context(|| {
        format!("cannot read {}; hint: `barrage init` needs none, or write one after docs/configuration.md", path.display())
    })?;
    let mut text = String::new();
    file.take(FILE_BYTES_MAX + 1)
        .read_to_string(&mut text)
        .with_context(|| format!("cannot read {}", path.display()))?;
    match config::read(&text) {
        Ok(config) => Ok(Some(config)),
        Err(faults) => {
            for fault in &faults {
                eprintln!("{}:{fault}", path.display());
            }
            eprintln!("{} fault(s) in {}; nothing was started", faults.len(), path.display());
            Ok(None)
        }
    }
}

/// The program's own log, on stderr.
///
/// # Errors
/// A filter that is none.
pub(crate) fn log(config: &config::Log) -> anyhow::Result<()> {
    let filter = EnvFilter::try_new(&config.level).with_context(|| {
        format!("`log.level` = {:?} is no filter, as in \"info\"", config.level)
    })?;
    let base = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    let set = match config.format {
        LogFormat::Json => base.json().try_init(),
        LogFormat::Text => base.with_target(false).try_init(),
    };
    // A test may have set one already.
    drop(set);
    Ok(())
}

/// Everything with its passwords.
#[derive(Clone, Debug)]
pub(crate) struct Setup {
    pub(crate) config: Config,
    pub(crate) instance: String,
    pub(crate) kafka: kafka::Settings,
    pub(crate) etcd: etcd::Settings,
    /// Empty: none.
    pub(crate) postgres: Hidden,
}

/// A text that is never shown.
#[derive(Clone, Default)]
pub(crate) struct Hidden(pub(crate) String);

impl std::fmt::Debug for Hidden {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("…")
    }
}

impl Setup {
    /// # Errors
    /// A password that cannot be read.
    pub(crate) fn new(config: Config) -> anyhow::Result<Self> {
        let secret = |s: &config::Secret| {
            s.load().map(Option::unwrap_or_default).map_err(anyhow::Error::msg)
        };
        let instance = if config.instance.is_empty() {
            let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
            format!("{}-{}", host.trim(), std::process::id())
        } else {
            config.instance.clone()
        };
        let kafka = kafka::Settings {
            brokers: config.kafka.brokers.clone(),
            user: config.kafka.user.clone(),
            password: if config.kafka.user.is_empty() {
                String::new()
            } else {
                secret(&config.kafka.password)?
            },
            ca_file: config.kafka.ca_file.clone(),
        };
        let etcd = etcd::Settings {
            endpoints: config.etcd.endpoints.clone(),
            user: config.etcd.user.clone(),
            password: if config.etcd.user.is_empty() {
                String::new()
            } else {
                secret(&config.etcd.password)?
            },
            ca_file: config.etcd.ca_file.clone(),
            identity: config.etcd.cert_file.clone().zip(config.etcd.key_file.clone()),
            shard: config.shard,
            ..etcd::Settings::at("", &config.cluster, &instance)
        };
        let url = if config.postgres.url.is_empty() {
            String::new()
        } else {
            with_password(&config.postgres.url, secret(&config.postgres.password)?.as_str())
        };
        Ok(Self { config, instance, kafka, etcd, postgres: Hidden(url) })
    }

    /// The control log.
    pub(crate) fn control(&self) -> control::Settings {
        let topic = format!("barrage.{}.{}.control", self.config.cluster, self.config.shard);
        control::Settings { kafka: self.kafka.clone(), topic }
    }

    /// The topic of events.
    pub(crate) fn events(&self) -> events::Settings {
        let begin = match self.config.kafka.begin {
            Begin::Recent => events::Begin::Recent(RECENT_MS),
            Begin::Earliest => events::Begin::Earliest,
            Begin::Latest => events::Begin::Latest,
        };
        events::Settings {
            kafka: self.kafka.clone(),
            topic: self.config.kafka.events.clone(),
            dead_letters: self.config.kafka.dead_letters.clone(),
            begin,
        }
    }

    /// The topics there must be.
    pub(crate) fn topics(&self) -> Vec<Wanted> {
        let kafka = &self.config.kafka;
        let open = |name: &str, partitions| {
            Wanted::events(name, partitions, kafka.replication, kafka.retention_ms)
        };
        vec![
            open(&kafka.events, kafka.partitions),
            open(&kafka.reports, kafka.partitions),
            open(&kafka.dead_letters, 1),
            Wanted::control(
                &self.control().topic,
                kafka.replication,
                kafka.retention_ms.saturating_mul(2),
            ),
        ]
    }

    pub(crate) fn audit(&self) -> audit::Settings {
        audit::Settings {
            shard: self.config.shard,
            spool_bytes_max: self.config.postgres.spool_max_bytes,
            ..audit::Settings::new(self.config.state.join("spool"), self.postgres.0.clone())
        }
    }

    /// What is missing or wrong; nothing: all is there.
    ///
    /// # Errors
    /// Kafka or etcd that do not answer.
    pub(crate) async fn missing(&self) -> Result<Vec<String>, String> {
        let wanted = self.topics();
        let mut missing = Vec::new();
        for (topic, standing) in wanted.iter().zip(topics::describe(&self.kafka, &wanted).await?) {
            match standing {
                Standing::Good(_) => {}
                Standing::Missing => missing.push(format!("the topic {} is missing", topic.name)),
                Standing::Wrong(what) => missing.push(what),
            }
        }
        etcd::leader(&self.etcd)
            .await
            .map_err(|e| format!("{e}; is etcd at {} up?", self.etcd.endpoints.join(", ")))?;
        if !self.postgres.0.is_empty() {
            match audit::check(&self.postgres.0).await {
                Ok(()) => {}
                // Nothing waits for Postgres: a controller starts without it.
                Err(audit::Error::Unreachable(what)) => {
                    eprintln!(
                        "note: Postgres does not answer ({what}); decisions wait in the spool"
                    );
                }
                Err(error) => missing.push(error.to_string()),
            }
        }
        Ok(missing)
    }
}

/// A URL with the password put in, where it has a user and no password.
fn with_password(url: &str, password: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else { return url.to_owned() };
    match rest.split_once('@') {
        Some((user, host)) if !password.is_empty() && !user.contains(':') => {
            format!("{scheme}://{user}:{}@{host}", barrage_protocol::policy::encode(password))
        }
        _ => url.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_put_into_the_url_and_never_shown() {
        let whole = with_password("postgres://barrage@db:5432/audit", "a/b@c");
        assert_eq!(whole, "postgres://barrage:a%2Fb%40c@db:5432/audit");
        assert_eq!(with_password("postgres://a:b@db/x", "c"), "postgres://a:b@db/x");
        let setup = Setup::new(Config::default()).expect("a setup");
        let setup = Setup { postgres: Hidden("hunter2".into()), ..setup };
        assert!(!format!("{setup:?}").contains("hunter2"));
    }
}
