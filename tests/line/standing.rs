//! The services themselves: each starts, answers, keeps its data over kill and stop, and is not left behind.

use crate::services::{self, Private, listens, unique, within};
use etcd_client::{Client, ConnectOptions};
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::producer::{FutureProducer, FutureRecord};
use sqlx::{Connection, PgConnection};
use std::process::{Command, Stdio};
use std::time::Duration;

/// Longest wait for one answer of a service that is up.
const PATIENCE: Duration = Duration::from_secs(20);

async fn etcd_client(endpoint: &str) -> Client {
    let options = ConnectOptions::new().with_timeout(PATIENCE);
    Client::connect([endpoint], Some(options)).await.unwrap()
}

async fn value(etcd: &mut Client, key: &str) -> Option<String> {
    let answer = etcd.get(key, None).await.unwrap();
    answer.kvs().first().map(|kv| kv.value_str().unwrap().to_owned())
}

async fn make_topic(bootstrap: &str, topic: &str) {
    let admin: AdminClient<DefaultClientContext> =
        ClientConfig::new().set("bootstrap.servers", bootstrap).create().unwrap();
    let new = NewTopic::new(topic, 2, TopicReplication::Fixed(1));
    let options = AdminOptions::new().operation_timeout(Some(PATIENCE));
    let made = admin.create_topics(&[new], &options).await.unwrap();
    assert_eq!(made, [Ok(topic.to_owned())]);
}

/// Writes one record, acknowledged; its offset.
async fn write(bootstrap: &str, topic: &str, text: &str) -> i64 {
    let producer: FutureProducer = ClientConfig::new()
        .set("bootstrap.servers", bootstrap)
        .set("enable.idempotence", "true")
        .create()
        .unwrap();
    let record = FutureRecord::to(topic).partition(0).key("k").payload(text);
    producer.send(record, PATIENCE).await.unwrap().offset
}

/// First offset and the one after the last, of partition 0.
fn bounds(bootstrap: &str, topic: &str) -> (i64, i64) {
    let consumer: BaseConsumer =
        ClientConfig::new().set("bootstrap.servers", bootstrap).create().unwrap();
    consumer.fetch_watermarks(topic, 0, PATIENCE).unwrap()
}

#[tokio::test]
async fn both_etcds_answer_and_are_of_different_ages() {
    let mut versions = Vec::new();
    for endpoint in [services::etcd(), services::etcd_oldest()] {
        let mut etcd = etcd_client(endpoint).await;
        let key = unique("standing");
        etcd.put(key.as_str(), "here", None).await.unwrap();
        assert_eq!(value(&mut etcd, &key).await.as_deref(), Some("here"));
        versions.push(etcd.status().await.unwrap().version().to_owned());
    }
    println!("etcd {}", versions.join(" and "));
    if versions[0] == versions[1] {
        println!("not run: the seams on an etcd newer than {}", versions[1]);
        assert!(std::env::var("CI").as_deref() != Ok("true"), "CI requires both");
    }
}

#[tokio::test]
async fn postgres_answers_as_superuser() {
    let mut db = PgConnection::connect(services::postgres()).await.unwrap();
    let ask = "select rolsuper from pg_roles where rolname = current_user";
    let superuser: bool = sqlx::query_scalar(ask).fetch_one(&mut db).await.unwrap();
    assert!(superuser);
}

#[test]
fn prometheus_takes_a_configuration_of_ones_own() {
    let config = std::env::temp_dir().join(unique("prometheus"));
    std::fs::write(&config, "global: {scrape_interval: 7s}\n").unwrap();
    let (own, config_file) = (std::process::id().to_string(), config.to_str().unwrap());
    let config_file = format!("--config.file={config_file}");
    let started = services::start(&["prometheus", "--with", &own, "--", &config_file]);
    let asked = ureq::get(format!("{}/api/v1/status/config", started.address)).call().unwrap();
    let told = asked.into_body().read_to_string().unwrap();
    assert!(told.contains("scrape_interval: 7s"), "{told}");
    std::fs::remove_file(config).unwrap();
}

#[tokio::test]
async fn kafka_makes_topics_on_purpose_only() {
    let (topic, other) = (unique("standing"), unique("never_made"));
    make_topic(services::kafka(), &topic).await;
    assert_eq!(write(services::kafka(), &topic, "one").await, 0);
    assert_eq!(write(services::kafka(), &topic, "two").await, 1);
    assert_eq!(bounds(services::kafka(), &topic), (0, 2));
    let consumer: BaseConsumer =
        ClientConfig::new().set("bootstrap.servers", services::kafka()).create().unwrap();
    let found = consumer.fetch_metadata(Some(&other), PATIENCE).unwrap();
    assert!(found.topics()[0].error().is_some(), "{other} was made by asking for it");
}

#[tokio::test]
async fn a_private_etcd_keeps_its_data_when_killed_and_waits_when_paused() {
    let service = services::private_etcd();
    etcd_client(service.url()).await.put("k", "v", None).await.unwrap();
    service.kill9();
    assert!(!listens(service.url()));
    service.start_again();
    let mut etcd = etcd_client(service.url()).await;
    assert_eq!(value(&mut etcd, "k").await.as_deref(), Some("v"));
    service.pause();
    let asked = tokio::time::timeout(Duration::from_millis(300), etcd.get("k", None)).await;
    assert!(asked.is_err(), "it answered while it was paused");
    service.resume();
    assert_eq!(value(&mut etcd, "k").await.as_deref(), Some("v"));
}

#[tokio::test]
async fn a_private_postgres_keeps_what_was_committed() {
    let service = services::private_postgres();
    for (n, end) in [Private::kill9, Private::stop].into_iter().enumerate() {
        let mut db = PgConnection::connect(service.url()).await.unwrap();
        sqlx::query("create table if not exists t (n int)").execute(&mut db).await.unwrap();
        let n = i32::try_from(n).unwrap();
        sqlx::query("insert into t values ($1)").bind(n).execute(&mut db).await.unwrap();
        end(&service);
        assert!(!listens(service.url()));
        service.start_again();
    }
    let mut db = PgConnection::connect(service.url()).await.unwrap();
    let kept: Vec<i32> =
        sqlx::query_scalar("select n from t order by n").fetch_all(&mut db).await.unwrap();
    assert_eq!(kept, [0, 1]);
}

#[tokio::test]
async fn a_private_kafka_keeps_its_records() {
    let service = services::private_kafka();
    make_topic(service.url(), "kept").await;
    assert_eq!(write(service.url(), "kept", "one").await, 0);
    service.kill9();
    assert!(!listens(service.url()));
    service.start_again();
    assert_eq!(bounds(service.url(), "kept"), (0, 1));
    assert_eq!(write(service.url(), "kept", "two").await, 1);
}

#[test]
fn a_private_service_ends_with_its_test_also_when_that_panics() {
    let (address, dir) = std::thread::spawn(|| {
        let service = services::private_etcd();
        let told = (service.url().to_owned(), service.dir().to_owned());
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let _held = service;
            std::panic::resume_unwind(Box::new("on purpose")); // says nothing
        }))
        .unwrap_err();
        told
    })
    .join()
    .unwrap();
    assert!(!listens(&address));
    assert!(!dir.exists());
}

#[test]
fn a_service_ends_with_the_process_it_was_started_for() {
    let mut owner =
        Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    let started = services::start(&["etcd", "--with", &owner.id().to_string()]);
    assert!(listens(&started.address));
    // Killed, as a test process may be: it stops nothing by itself.
    owner.kill().unwrap();
    owner.wait().unwrap();
    within(Duration::from_secs(20), "the service ends", || !listens(&started.address));
    within(Duration::from_secs(20), "its directory goes", || !started.dir.exists());
    let process = std::path::PathBuf::from(format!("/proc/{}", started.pid));
    within(Duration::from_secs(20), "its process goes", || !process.exists());
}
