//! What the tests of the audit share: databases, decisions, and questions to Postgres.

use crate::services;
use barrage::audit::{self, Envelope, Handle, Settings, Stats};
use barrage_engine::decision::{Canon, Identity, draft, int};
use barrage_protocol::decision::{Decision, Evidence, Kind, Scope, Value};
use barrage_protocol::ids::Slot;
use sqlx::{Connection as _, PgConnection, Row as _};
use std::collections::BTreeMap;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// 2023-11-14 22:13:20 UTC.
pub(crate) const START: u64 = 17_000_000_000;

pub(crate) const LONG: Duration = Duration::from_secs(60);

pub(crate) fn block<T>(what: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(what)
}

/// A folder that goes with its test.
pub(crate) struct Folder(pub(crate) PathBuf);

impl Folder {
    pub(crate) fn new() -> Self {
        let name = format!("barrage-audit-{:016x}", rand::random::<u64>());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir(&path).unwrap();
        Self(path)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _gone = std::fs::remove_dir_all(&self.0);
    }
}

/// A new database on a server; its address.
pub(crate) fn database_on(server: &str) -> String {
    let name = format!("audit_{:016x}", rand::random::<u64>());
    execute(server, &format!("CREATE DATABASE {name} TEMPLATE template0"));
    format!("{}/{name}", server.rsplit_once('/').unwrap().0)
}

/// A new database with the tables of the audit.
pub(crate) fn migrated() -> String {
    let url = database_on(services::postgres());
    block(audit::migrate(&url)).unwrap();
    url
}

pub(crate) fn execute(url: &str, sql: &str) {
    try_execute(url, sql).unwrap_or_else(|e| panic!("{sql}: {e}"));
}

pub(crate) fn try_execute(url: &str, sql: &str) -> Result<(), sqlx::Error> {
    block(async {
        let mut connection = PgConnection::connect(url).await?;
        sqlx::raw_sql(sqlx::AssertSqlSafe(sql.to_owned())).execute(&mut connection).await?;
        connection.close().await
    })
}

/// Rows of a question, each column as text.
pub(crate) fn ask(url: &str, sql: &str) -> Vec<Vec<String>> {
    block(async {
        let mut connection = PgConnection::connect(url).await.unwrap();
        let query = format!(
            "SELECT to_jsonb(array(SELECT coalesce(v, '') FROM jsonb_each_text(to_jsonb(q)) AS e(k, v)))::text FROM ({sql}) q"
        );
        let rows = sqlx::query(sqlx::AssertSqlSafe(query)).fetch_all(&mut connection).await;
        let rows = rows.unwrap_or_else(|e| panic!("{sql}: {e}"));
        rows.iter().map(|r| serde_json::from_str(&r.get::<String, _>(0)).unwrap()).collect()
    })
}

pub(crate) fn count(url: &str, sql: &str) -> u64 {
    ask(url, sql)[0][0].parse().unwrap()
}

/// (rows, distinct ids) of the decisions.
pub(crate) fn rows(url: &str) -> (u64, u64) {
    let all = count(url, "SELECT count(*) FROM decision");
    (all, count(url, "SELECT count(DISTINCT decision_id) FROM decision"))
}

/// A decision about a room: its level rises to `to`.
pub(crate) fn rise(slot: u64, room: &str, to: u8, ratio: i64) -> Decision {
    let identity = Identity {
        rules_hash: "5e7",
        rule: "burst",
        rule_version: 17,
        mode: "enforce",
        scope: Scope::Room,
        subject: room,
        class: None,
        slot: Slot(slot),
        kind: Kind::Level,
        from: "0",
        to: &to.to_string(),
    };
    let evidence: Evidence =
        [("count_60s".to_owned(), int(10_800)), ("burst_ratio".to_owned(), Value::milli(ratio))]
            .into_iter()
            .collect();
    draft(&identity, evidence)
}

/// Canonical lines of decisions of one slot.
pub(crate) fn lines(slot: u64, mut decisions: Vec<Decision>) -> Vec<String> {
    let offsets = BTreeMap::from([(0, 4_711), (3, slot)]);
    Canon::default().append(Slot(slot), &mut decisions, &offsets)
}

/// `n` decisions of a slot, about rooms of their own.
pub(crate) fn storm(slot: u64, n: usize) -> Vec<String> {
    lines(slot, (0..n).map(|i| rise(slot, &format!("r_{i}"), 2, 4_200)).collect())
}

pub(crate) fn envelope(epoch: u64) -> Envelope {
    Envelope { epoch, instance: "a-1".into(), revision: 812, recorded_ms: 1_700_000_000_500 }
}

/// Settings with short waits.
pub(crate) fn settings(folder: &Folder, url: &str) -> Settings {
    Settings {
        patience: Duration::from_secs(5),
        backoff: (Duration::from_millis(20), Duration::from_millis(200)),
        ..Settings::new(folder.path(), url)
    }
}

/// Lets some time pass before the next look.
pub(crate) fn pass(ms: u64) {
    std::thread::park_timeout(Duration::from_millis(ms));
}

/// Waits for something in the counters.
pub(crate) fn until(handle: &Handle, what: &str, done: impl Fn(&Stats) -> bool) -> Stats {
    let deadline = Instant::now() + LONG;
    loop {
        let stats = handle.stats();
        if done(&stats) {
            return stats;
        }
        assert!(Instant::now() < deadline, "not within {LONG:?}: {what}: {stats:?}");
        pass(5);
    }
}

/// Sends lines and ends: everything is in Postgres, or the test has failed. The counters of the end.
pub(crate) fn send_all(folder: &Folder, url: &str, slots: &[(u64, Vec<String>)]) -> Stats {
    let handle = audit::spawn(settings(folder, url)).unwrap();
    for (slot, lines) in slots {
        handle.append(Slot(*slot), lines.clone(), &envelope(7));
    }
    assert!(handle.stop(LONG), "not all was sent: {:?}", handle.stats());
    handle.stats()
}
