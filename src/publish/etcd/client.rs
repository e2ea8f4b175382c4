//! How to reach etcd, and what is read there: lists in pages, the leader, published levels.

use crate::publish::plan::Present;
use barrage_protocol::ids::Level;
use barrage_protocol::policy::{Heartbeat, Key, Keys, Policy, encode};
use etcd_client::{
    Certificate, Client, ConnectOptions, Error, GetOptions, Identity, SortOrder, SortTarget,
    TlsOptions,
};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

/// Longest wait for one answer.
pub(super) const PATIENCE: Duration = Duration::from_secs(2);
/// Keys in one page of a list: far below the client's 4 MiB.
const PAGE: i64 = 1_000;
/// Keys read at most.
const KEYS_MAX: usize = 1_000_000;

/// Where etcd is, and whose policies are written there. The password is never shown.
#[derive(Clone)]
pub struct Settings {
    /// URLs of its members.
    pub endpoints: Vec<String>,
    /// User; empty: none.
    pub user: String,
    /// The user's password.
    pub password: String,
    /// Certificates that etcd's must be signed by.
    pub ca_file: Option<PathBuf>,
    /// This client's certificate and its key.
    pub identity: Option<(PathBuf, PathBuf)>,
    /// Name of the cluster.
    pub cluster: String,
    /// Number of the shard.
    pub shard: u32,
    /// Name of this controller.
    pub instance: String,
    /// What the leader's key tells beside it.
    pub version: String,
    /// How long a leader that says nothing leads, in seconds.
    pub lease_s: i64,
}

impl std::fmt::Debug for Settings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Settings")
            .field("endpoints", &self.endpoints)
            .field("user", &self.user)
            .field("cluster", &self.cluster)
            .field("shard", &self.shard)
            .field("instance", &self.instance)
            .finish_non_exhaustive()
    }
}

impl Settings {
    /// One etcd without TLS or user, with a lease of 5 s.
    #[must_use]
    pub fn at(endpoint: &str, cluster: &str, instance: &str) -> Self {
        Self {
            endpoints: vec![endpoint.to_owned()],
            user: String::new(),
            password: String::new(),
            ca_file: None,
            identity: None,
            cluster: cluster.to_owned(),
            shard: 0,
            instance: instance.to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            lease_s: 5,
        }
    }

    /// Where its documents stand.
    #[must_use]
    pub fn keys(&self) -> Keys {
        Keys::new(&self.cluster, self.shard)
    }

    /// The key that the leader holds.
    #[must_use]
    pub fn leader_key(&self) -> String {
        format!("/barrage/v1/{}/leader/{}", encode(&self.cluster), self.shard)
    }

    /// A client; each call has an end.
    ///
    /// # Errors
    /// Files that cannot be read, an address that is none, a user who is refused.
    pub async fn connect(&self) -> Result<Client, String> {
        let mut options = ConnectOptions::new()
            .with_connect_timeout(PATIENCE)
            .with_timeout(PATIENCE)
            .with_keep_alive(Duration::from_secs(2), Duration::from_secs(1))
            .with_keep_alive_while_idle(true)
            .with_require_leader(true);
        if !self.user.is_empty() {
            options = options.with_user(&self.user, &self.password).with_auto_token_refresh(true);
        }
        let secure = self.endpoints.iter().any(|e| e.starts_with("https://"));
        if secure || self.ca_file.is_some() {
            let read = |path: &PathBuf| {
                std::fs::read(path).map_err(|e| format!("{}: {e}", path.display()))
            };
            let mut tls = TlsOptions::new();
            if let Some(file) = &self.ca_file {
                tls = tls.ca_certificate(Certificate::from_pem(read(file)?));
            }
            if let Some((certificate, key)) = &self.identity {
                tls = tls.identity(Identity::from_pem(read(certificate)?, read(key)?));
            }
            options = options.with_tls(tls);
        }
        let connected = Client::connect(&self.endpoints, Some(options)).await;
        connected.map_err(|e| format!("etcd at {}: {e}", self.endpoints.join(", ")))
    }
}

/// Everything below a prefix as of one revision, and that revision.
///
/// # Errors
/// When etcd does not answer.
pub(super) async fn tree(client: &mut Client, prefix: &str) -> Result<(Present, i64), Error> {
    let mut all = Present::new();
    let end = after_prefix(prefix);
    let mut from = prefix.as_bytes().to_vec();
    let mut revision = 0;
    loop {
        let mut options = GetOptions::new()
            .with_range(end.clone())
            .with_limit(PAGE)
            .with_sort(SortTarget::Key, SortOrder::Ascend);
        if revision > 0 {
            options = options.with_revision(revision);
        }
        let page = client.get(from.clone(), Some(options)).await?;
        if revision == 0 {
            revision = page.header().map_or(0, etcd_client::ResponseHeader::revision);
        }
        for kv in page.kvs() {
            all.insert(String::from_utf8_lossy(kv.key()).into_owned(), kv.value().to_vec());
        }
        match page.kvs().last() {
            Some(last) if page.more() && all.len() < KEYS_MAX => {
                from = last.key().to_vec();
                from.push(0);
            }
            _ => return Ok((all, revision)),
        }
    }
}

/// The first key after all that begin with a prefix.
fn after_prefix(prefix: &str) -> Vec<u8> {
    let mut end = prefix.as_bytes().to_vec();
    // The prefixes here end with `/`.
    if let Some(last) = end.last_mut() {
        *last = last.saturating_add(1);
    }
    end
}

/// All documents of the cluster's policies: keys and bytes.
///
/// # Errors
/// When etcd does not answer.
pub async fn list(settings: &Settings) -> Result<Present, String> {
    let mut client = settings.connect().await?;
    let (all, _) = tree(&mut client, settings.keys().tree()).await.map_err(|e| e.to_string())?;
    Ok(all)
}

/// Levels published at present, of rooms above normal; and the last heartbeat.
///
/// # Errors
/// When etcd does not answer.
pub async fn levels(
    settings: &Settings,
) -> Result<(BTreeMap<String, Level>, Option<Heartbeat>), String> {
    let (keys, mut levels, mut beat) = (settings.keys(), BTreeMap::new(), None);
    for (key, value) in list(settings).await? {
        match keys.read(&key) {
            Key::Room(room) => {
                let policy = serde_json::from_slice::<Policy>(&value);
                if let Some(level) = policy.ok().map(|p| p.level).filter(|l| *l > Level::NORMAL) {
                    levels.insert(room, level);
                }
            }
            Key::Heartbeat => beat = serde_json::from_slice(&value).ok(),
            _ => {}
        }
    }
    Ok((levels, beat))
}

/// What the leader's key says; none: nobody leads.
///
/// # Errors
/// When etcd does not answer.
pub async fn leader(settings: &Settings) -> Result<Option<serde_json::Value>, String> {
    let mut client = settings.connect().await?;
    let got = client.get(settings.leader_key(), None).await.map_err(|e| e.to_string())?;
    Ok(got.kvs().first().and_then(|kv| serde_json::from_slice(kv.value()).ok()))
}

/// The epoch of a new leader: above every epoch that the control log or etcd has seen.
#[must_use]
pub fn epoch(create_revision: u64, last_in_log: u64, last_published: u64) -> u64 {
    create_revision.max(last_in_log.saturating_add(1)).max(last_published.saturating_add(1))
}
