//! The topics of a cluster: made if missing, compared with what they must be.

use crate::kafka;
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, ResourceSpecifier, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::error::RDKafkaErrorCode;
use std::collections::BTreeMap;
use std::time::Duration;

/// Longest wait for an answer.
const PATIENCE: Duration = Duration::from_secs(15);

/// A topic as it should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// Name.
    pub name: String,
    /// Partitions, where it is made; of one that is there only the control log's number matters.
    pub partitions: i32,
    /// Replicas, where it is made.
    pub replication: i32,
    /// Settings, where it is made.
    pub settings: BTreeMap<String, String>,
    /// Settings that must be so, or decisions cannot be trusted.
    pub required: BTreeMap<String, String>,
    /// Whether another number of partitions is wrong.
    pub exact: bool,
}

impl Wanted {
    /// A topic of events: the broker's clock beside the producers'.
    #[must_use]
    pub fn events(name: &str, partitions: u32, replication: u32, retention_ms: u64) -> Self {
        let settings = [
            ("message.timestamp.type", "LogAppendTime".to_owned()),
            ("retention.ms", retention_ms.to_string()),
        ];
        Self::of(name, partitions, replication, settings)
    }

    /// A control log: one partition, read back by everybody, kept whole as long as events are.
    #[must_use]
    pub fn control(name: &str, replication: u32, retention_ms: u64) -> Self {
        let settings = [
            ("cleanup.policy", "delete".to_owned()),
            ("retention.ms", retention_ms.to_string()),
            ("max.message.bytes", "8388608".to_owned()),
        ];
        let mut wanted = Self::of(name, 1, replication, settings);
        wanted.required.insert("cleanup.policy".into(), "delete".into());
        wanted.exact = true;
        wanted
    }

    fn of<const N: usize>(
        name: &str,
        partitions: u32,
        replication: u32,
        settings: [(&str, String); N],
    ) -> Self {
        Self {
            name: name.to_owned(),
            partitions: i32::try_from(partitions).unwrap_or(i32::MAX),
            replication: i32::try_from(replication).unwrap_or(i32::MAX),
            settings: settings.into_iter().map(|(k, v)| (k.to_owned(), v)).collect(),
            required: BTreeMap::new(),
            exact: false,
        }
    }
}

/// How a topic stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    /// As it should be, with so many partitions.
    Good(usize),
    /// Not there.
    Missing,
    /// There, and wrong: what, and what to do.
    Wrong(String),
}

/// How the topics stand, in their order.
///
/// # Errors
/// Brokers that do not answer.
pub async fn describe(kafka: &kafka::Settings, wanted: &[Wanted]) -> Result<Vec<Standing>, String> {
    let admin = admin(kafka)?;
    let metadata = admin.inner().fetch_metadata(None, PATIENCE);
    let metadata = metadata.map_err(|e| format!("Kafka at {}: {e}", kafka.brokers))?;
    let mut standing = Vec::new();
    for topic in wanted {
        let found = metadata.topics().iter().find(|t| t.name() == topic.name);
        standing.push(match found.map(|t| t.partitions().len()) {
            None | Some(0) => Standing::Missing,
            Some(n) if topic.exact && n != topic.partitions as usize => Standing::Wrong(format!(
                "the topic {} has {n} partitions and must have {}: delete it, and `barrage init` makes it",
                topic.name, topic.partitions
            )),
            Some(n) => match differing(&admin, topic).await? {
                Some(what) => Standing::Wrong(what),
                None => Standing::Good(n),
            },
        });
    }
    Ok(standing)
}

async fn differing(
    admin: &AdminClient<DefaultClientContext>,
    topic: &Wanted,
) -> Result<Option<String>, String> {
    if topic.required.is_empty() {
        return Ok(None);
    }
    let resource = ResourceSpecifier::Topic(&topic.name);
    let answer = admin.describe_configs([&resource], &options()).await;
    let told = |e: &dyn std::fmt::Display| format!("the settings of the topic {}: {e}", topic.name);
    let configs = answer.map_err(|e| told(&e))?;
    for config in configs {
        let config = config.map_err(|e| told(&e))?;
        for (name, value) in &topic.required {
            let is = config.get(name).and_then(|entry| entry.value.as_deref());
            if is.is_some_and(|is| is != value) {
                return Ok(Some(format!(
                    "the topic {} has {name} = {}; it must be {value}",
                    topic.name,
                    is.unwrap_or("")
                )));
            }
        }
    }
    Ok(None)
}

/// Makes the topics that are missing. Returns the names of those it made.
///
/// # Errors
/// Brokers that do not answer or refuse.
pub async fn ensure(kafka: &kafka::Settings, wanted: &[Wanted]) -> Result<Vec<String>, String> {
    let admin = admin(kafka)?;
    let topics: Vec<NewTopic<'_>> = wanted
        .iter()
        .map(|t| {
            let new = NewTopic::new(&t.name, t.partitions, TopicReplication::Fixed(t.replication));
            t.settings.iter().fold(new, |new, (name, value)| new.set(name, value))
        })
        .collect();
    let made = admin.create_topics(&topics, &options()).await;
    let made = made.map_err(|e| format!("Kafka at {}: {e}", kafka.brokers))?;
    let mut names = Vec::new();
    for result in made {
        match result {
            Ok(name) => names.push(name),
            Err((_, RDKafkaErrorCode::TopicAlreadyExists)) => {}
            Err((name, error)) => return Err(format!("the topic {name} cannot be made: {error}")),
        }
    }
    Ok(names)
}

fn admin(kafka: &kafka::Settings) -> Result<AdminClient<DefaultClientContext>, String> {
    kafka.check()?;
    kafka.client("admin").create().map_err(|e| format!("a client of Kafka: {e}"))
}

fn options() -> AdminOptions {
    AdminOptions::new().request_timeout(Some(PATIENCE)).operation_timeout(Some(PATIENCE))
}
