//! What an edge must enforce: policy documents, group defaults, the heartbeat, and where they stand in etcd.
//!
//! Unknown fields are ignored everywhere, so that an older edge understands a newer policy.

use crate::decision::Id;
use crate::ids::{Level, Slot};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use xxhash_rust::xxh3::xxh3_64;

/// Version of the documents.
pub const SCHEMA: u32 = 1;
/// How long a heartbeat counts as fresh, in milliseconds (semantics §8).
pub const TTL_MS: u64 = 3_000;
/// How long an edge keeps what it was told without a heartbeat, in milliseconds (semantics §8).
pub const HOLD_MS: u64 = 300_000;

/// The policy of one room, or, without `room`, the default of a group.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Policy {
    /// Version of the document.
    pub schema: u32,
    /// The room; none in a group's default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub room: Option<String>,
    /// Its group.
    pub group: String,
    /// Term of the controller that wrote it.
    pub epoch: u64,
    /// Number of the document within the term; newer documents have a greater (epoch, seq).
    pub seq: u64,
    /// The slot whose close concluded it.
    pub slot: Slot,
    /// Whether it is to be enforced.
    #[serde(default)]
    pub mode: Mode,
    /// Degrade level.
    pub level: Level,
    /// What holds for ordinary users' messages, by class name; a class that is absent is admitted.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub classes: BTreeMap<String, Measure>,
    /// Messages per time that the room may have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limits: Option<Limits>,
    /// Where what is not admitted may wait.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shape: Option<Shape>,
    /// Users that are named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub users: Option<Users>,
    /// Features that are switched off.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub off: Vec<String>,
    /// How long it holds without news, in milliseconds (group defaults only).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hold_ms: Option<u64>,
    /// Why, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<Why>,
    /// The decision that it follows from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decision: Option<Id>,
}

/// Whether a policy is to be enforced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// Enforce it.
    #[default]
    Enforce,
    /// Keep it, do not act on it.
    Shadow,
    /// A mode of a later version: not acted on either.
    #[serde(other)]
    Unknown,
}

/// What holds for the messages of one class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Measure {
    /// Share admitted, 0 to 1; none: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub admit: Option<f64>,
    /// Delay of what is admitted, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay_ms: Option<u32>,
    /// Messages per second of the class's token bucket; none: no limit of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub qps: Option<u32>,
    /// Its size.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub burst: Option<u32>,
}

/// Messages per time that a room may have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// Messages per second of the token bucket.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub qps: Option<u32>,
    /// Its size.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub burst: Option<u32>,
    /// Most messages in any second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window_1s: Option<u32>,
    /// What one edge may let pass of `qps` while its share is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub safe_qps_per_edge: Option<u32>,
}

/// Queues before the room.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shape {
    /// Chat messages that may wait instead of being refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chat_buffer: Option<u32>,
    /// How long they may wait, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chat_ttl_ms: Option<u32>,
}

/// Users that a policy names.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Users {
    /// At level 3 only these pass.
    #[serde(default)]
    pub top: Vec<String>,
}

/// The comparison that led to a policy.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Why {
    /// The rule.
    pub rule: String,
    /// Its version.
    pub rule_version: u64,
    /// What was compared.
    pub code: String,
    /// The value observed.
    pub observed: f64,
    /// What it exceeded.
    pub threshold: f64,
    /// The baseline in events per second, where there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub baseline: Option<f64>,
    /// The present rate in events per second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub current: Option<f64>,
}

/// The sign of life of the controller, written in every publishing transaction and at least once a second.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Heartbeat {
    /// Term of the controller.
    pub epoch: u64,
    /// Number of the last document written.
    pub seq: u64,
    /// The last slot decided.
    pub slot: Slot,
    /// [`digest`] over all keys and values under the shard but this one, 16 hexadecimal digits.
    pub digest: String,
    /// How many keys that are.
    pub count: u64,
    /// The detector cannot see: keep everything as it is.
    #[serde(default)]
    pub frozen: bool,
    /// Hash of the rule set in force.
    #[serde(default)]
    pub rules_hash: String,
    /// How long this sign of life counts, in milliseconds.
    pub ttl_ms: u64,
}

/// Which rooms belong to a group; the first entry of `_groups` that fits is the room's.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Matcher {
    /// Rooms whose id begins so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prefix: Option<String>,
    /// This room alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub room: Option<String>,
    /// The group.
    pub group: String,
}

impl Matcher {
    /// Whether a room fits; an entry that names neither fits every room.
    #[must_use]
    pub fn fits(&self, room: &str) -> bool {
        self.prefix.as_ref().is_none_or(|p| room.starts_with(p.as_str()))
            && self.room.as_ref().is_none_or(|r| room == r)
    }
}

/// Where documents stand: the keys of one cluster and shard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Keys {
    base: String,
    shard: String,
}

/// What a key of the policy tree names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Key {
    /// The heartbeat of the shard.
    Heartbeat,
    /// The policy of a room (its id, decoded).
    Room(String),
    /// The default of a group.
    Default(String),
    /// The list of matchers.
    Groups,
    /// A key of a later version, or of another shard.
    Other,
}

impl Keys {
    /// The keys of a cluster's shard.
    #[must_use]
    pub fn new(cluster: &str, shard: u32) -> Self {
        let base = format!("/barrage/v1/{}/policy/", encode(cluster));
        let shard = format!("{base}{shard}/");
        Self { base, shard }
    }

    /// What an edge watches: everything below.
    #[must_use]
    pub fn tree(&self) -> &str {
        &self.base
    }

    /// What the digest covers, but for the heartbeat.
    #[must_use]
    pub fn shard(&self) -> &str {
        &self.shard
    }

    /// The heartbeat.
    #[must_use]
    pub fn heartbeat(&self) -> String {
        format!("{}_hb", self.shard)
    }

    /// A room's policy.
    #[must_use]
    pub fn room(&self, room: &str) -> String {
        format!("{}room/{}", self.shard, encode(room))
    }

    /// A group's default.
    #[must_use]
    pub fn default(&self, group: &str) -> String {
        format!("{}default/{}", self.base, encode(group))
    }

    /// The list of matchers.
    #[must_use]
    pub fn groups(&self) -> String {
        format!("{}_groups", self.base)
    }

    /// What a key names.
    #[must_use]
    pub fn read(&self, key: &str) -> Key {
        if let Some(rest) = key.strip_prefix(self.shard.as_str()) {
            return match rest.strip_prefix("room/").and_then(decode) {
                Some(room) => Key::Room(room),
                None if rest == "_hb" => Key::Heartbeat,
                None => Key::Other,
            };
        }
        match key.strip_prefix(self.base.as_str()) {
            Some("_groups") => Key::Groups,
            Some(rest) => {
                rest.strip_prefix("default/").and_then(decode).map_or(Key::Other, Key::Default)
            }
            None => Key::Other,
        }
    }
}

/// Percent-encodes every byte but letters, digits and `-_.~` (RFC 3986, unreserved).
#[must_use]
pub fn encode(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'~') {
            out.push(byte as char);
        } else {
            out.push('%');
            for half in [byte >> 4, byte & 15] {
                out.push(char::from(b"0123456789ABCDEF"[usize::from(half)]));
            }
        }
    }
    out
}

/// The text that was percent-encoded; none if it is not such a text.
#[must_use]
pub fn decode(text: &str) -> Option<String> {
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        if byte == b'%' {
            let mut digit = || (bytes.next()? as char).to_digit(16);
            let (high, low) = (digit()?, digit()?);
            out.push((high << 4 | low) as u8);
        } else {
            out.push(byte);
        }
    }
    String::from_utf8(out).ok()
}

/// What one key and its value add to the digest: `xxh3_64(key · 0x00 · value)`.
#[must_use]
pub fn digest_of(key: &str, value: &[u8]) -> u64 {
    let mut bytes = Vec::with_capacity(key.len() + 1 + value.len());
    bytes.extend_from_slice(key.as_bytes());
    bytes.push(0);
    bytes.extend_from_slice(value);
    xxh3_64(&bytes)
}

/// The wrapping sum of [`digest_of`] over keys and values, in any order.
#[must_use]
pub fn digest<'a>(entries: impl IntoIterator<Item = (&'a str, &'a [u8])>) -> u64 {
    entries.into_iter().fold(0, |sum, (key, value)| sum.wrapping_add(digest_of(key, value)))
}

/// A digest as it is written in the heartbeat.
#[must_use]
pub fn digest_text(digest: u64) -> String {
    format!("{digest:016x}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_document_of_the_contract_is_read_and_unknown_fields_are_ignored() {
        let text = r#"{"schema":1,"room":"r_789a","group":"chat","epoch":42,"seq":5512,
            "slot":17000000001,"mode":"enforce","level":2,
            "breaker":{"state":"half_open","epoch":7},"limits":{"qps":200},
            "classes":{"system":{"admit":1.0},"command":{"admit":0.9,"qps":50},
                       "chat":{"admit":0.4,"qps":10,"delay_ms":100}},
            "shape":{"capacity":8000,"chat_buffer":5000,"chat_ttl_ms":30000},
            "users":{"qps":10,"burst":20,"top":["u_1","u_2"]},"off":["like_count"],
            "why":{"rule":"burst","rule_version":17,"code":"burst_ratio","observed":4.2,
                   "threshold":4.0,"baseline":120.0,"current":624.0},"new":[1,{"x":null}]}"#;
        let policy: Policy = serde_json::from_str(text).unwrap();
        assert_eq!((policy.level, policy.epoch, policy.seq), (Level(2), 42, 5512));
        assert_eq!(
            policy.classes["chat"],
            Measure { admit: Some(0.4), delay_ms: Some(100), qps: Some(10), burst: None }
        );
        assert_eq!(policy.limits.and_then(|l| l.qps), Some(200));
        assert_eq!(policy.shape.unwrap().chat_buffer, Some(5000));
        assert_eq!(policy.users.clone().unwrap().top, ["u_1", "u_2"]);
        let again: Policy = serde_json::from_slice(&serde_json::to_vec(&policy).unwrap()).unwrap();
        assert_eq!(again, policy);
    }

    #[test]
    fn a_mode_of_a_later_version_is_not_enforced_blindly() {
        let mode: Mode = serde_json::from_str("\"canary\"").unwrap();
        assert_eq!(mode, Mode::Unknown);
    }

    #[test]
    fn keys_name_what_they_were_made_for() {
        let keys = Keys::new("eu west/1", 0);
        for room in ["r_789a", "a/b", "_hb", "弹幕", "100 %", "..", "room/x\u{7f}"] {
            let key = keys.room(room);
            assert_eq!(keys.read(&key), Key::Room(room.into()), "{key}");
            assert_eq!(key.matches('/').count(), 7, "{key}");
        }
        assert_eq!(keys.read(&keys.heartbeat()), Key::Heartbeat);
        assert_eq!(keys.read(&keys.default("chat")), Key::Default("chat".into()));
        assert_eq!(keys.read(&keys.groups()), Key::Groups);
        for other in
            ["", "/", "/barrage/v1/eu/policy/0/room/x", "/barrage/v1/eu%20west%2F1/policy/1/_hb"]
        {
            assert_eq!(keys.read(other), Key::Other, "{other}");
        }
        assert_eq!(keys.read(&format!("{}room/%f", keys.shard())), Key::Other);
    }

    #[test]
    fn the_digest_does_not_depend_on_order_but_on_every_byte() {
        let one = [("a", &b"1"[..]), ("b", &b"2"[..])];
        let other = [one[1], one[0]];
        assert_eq!(digest(one), digest(other));
        assert_ne!(digest(one), digest([("a", &b"2"[..]), ("b", &b"1"[..])]));
        assert_ne!(digest_of("ab", b"c"), digest_of("a", b"bc"));
        assert_eq!(digest_text(10), "000000000000000a");
    }

    #[test]
    fn matchers_fit_by_prefix_by_name_or_always() {
        let of = |prefix: Option<&str>, room: Option<&str>| Matcher {
            prefix: prefix.map(Into::into),
            room: room.map(Into::into),
            group: "g".into(),
        };
        assert!(of(Some("c_"), None).fits("c_1") && !of(Some("c_"), None).fits("r_1"));
        assert!(of(None, Some("x")).fits("x") && !of(None, Some("x")).fits("xy"));
        assert!(of(None, None).fits("anything"));
    }
}
