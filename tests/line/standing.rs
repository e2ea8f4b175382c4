//! The services themselves: they answer, and a private one survives its death.

use super::services;
use etcd_client::Client;

#[tokio::test]
async fn both_versions_of_etcd_answer() {
    for (url, major) in [(services::etcd(), "3.7"), (services::etcd_oldest(), "3.")] {
        let mut client = Client::connect([url], None).await.expect("etcd");
        let version = client.status().await.expect("its status");
        assert!(version.version().starts_with(major), "{url} runs {}", version.version());
    }
}

#[tokio::test]
async fn a_killed_etcd_comes_back_with_its_data() {
    let mut etcd = services::private_etcd();
    let mut client = Client::connect([etcd.url()], None).await.expect("etcd");
    client.put("night", "match", None).await.expect("put");
    etcd.kill9();
    etcd.start_again();
    let mut client = Client::connect([etcd.url()], None).await.expect("etcd");
    let got = client.get("night", None).await.expect("get");
    assert_eq!(got.kvs().first().map(|kv| kv.value()), Some(&b"match"[..]));
}

#[tokio::test]
async fn postgres_answers_and_comes_back() {
    use sqlx::Connection as _;
    let url = services::postgres();
    let mut shared = sqlx::PgConnection::connect(url).await.expect("Postgres");
    sqlx::query("SELECT 1").execute(&mut shared).await.expect("a query");
    let mut own = services::private_postgres();
    let mut before = sqlx::PgConnection::connect(own.url()).await.expect("Postgres");
    sqlx::query("CREATE TABLE t (x int)").execute(&mut before).await.expect("a table");
    own.kill9();
    own.start_again();
    let mut after = sqlx::PgConnection::connect(own.url()).await.expect("Postgres");
    sqlx::query("SELECT x FROM t").execute(&mut after).await.expect("the table");
}

#[test]
fn kafka_answers() {
    use rdkafka::consumer::{BaseConsumer, Consumer as _};
    let mut config = rdkafka::ClientConfig::new();
    config.set("bootstrap.servers", services::kafka());
    let consumer: BaseConsumer = config.create().expect("a client");
    let metadata = consumer.fetch_metadata(None, std::time::Duration::from_secs(20));
    assert_eq!(metadata.expect("metadata").brokers().len(), 1);
}
