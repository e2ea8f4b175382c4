//! The loop closed: events of an example edge through Kafka, decisions, etcd, and back to the edge, which refuses.

use super::controller::Cluster;
use super::services::{eventually, within};
use std::io::Read as _;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// (refused, state, epoch) of each status line.
fn told(text: &str) -> Vec<(u64, String, u64)> {
    let line = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let at = words.iter().position(|w| *w == "refused")?;
        let epoch = words.get(at + 3)?.split('/').next()?.parse().ok()?;
        Some((words.get(at + 1)?.parse().ok()?, (*words.get(at + 2)?).to_owned(), epoch))
    };
    text.lines().filter_map(line).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_edge_refuses_what_it_is_told_and_goes_on_when_the_leader_dies() {
    let cluster = Cluster::new(4, "").await;
    let a = cluster.start("a");
    eventually("it leads", || a.leads());
    let b = cluster.start("b");
    let err = cluster.dir().join("gateway.txt");
    let gateway = Command::new(env!("CARGO_BIN_EXE_barrage"))
        .args(["gateway", "--scene", "storm", "--for", "5min", "-c"])
        .arg(&a.config)
        .stdout(Stdio::piped())
        .stderr(std::fs::File::create(&err).unwrap())
        .spawn()
        .unwrap();
    let lines = || told(&std::fs::read_to_string(&err).unwrap_or_default());
    within(Duration::from_secs(90), "the first refusal", || lines().iter().any(|l| l.0 > 0));
    let first = lines().iter().position(|l| l.0 > 0).unwrap();
    println!("the first refusal in second {first}");
    let edges = a.get("api", "/v1/edges").unwrap();
    assert!(
        edges.contains("\"edge\":\"gw-1\"") && edges.contains("\"state\":\"fresh\""),
        "{edges}"
    );
    let (epoch, at) = (lines().last().unwrap().2, lines().len());
    a.kill9();
    within(Duration::from_secs(30), "the other leads", || b.leads());
    within(Duration::from_secs(30), "the edge hears it", || {
        lines().last().is_some_and(|l| l.2 > epoch && l.1 == "fresh")
    });
    let between: Vec<_> = lines().into_iter().skip(at).collect();
    assert!(between.len() >= 3 && between.iter().all(|l| l.0 > 0), "refusals go on: {between:?}");
    let output = ended(gateway);
    assert!(output.contains("the first refusal after"), "{output}");
}

/// Tells it to end; what it said on its way out.
fn ended(mut gateway: Child) -> String {
    let told = Command::new("kill").arg(gateway.id().to_string()).status();
    assert!(told.unwrap().success());
    let mut text = String::new();
    gateway.stdout.take().unwrap().read_to_string(&mut text).unwrap();
    assert!(gateway.wait().unwrap().success());
    text
}
