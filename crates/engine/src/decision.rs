//! Identity, canonical form and running hash of decisions (semantics §9).

use barrage_protocol::decision::{Decision, Evidence, Id, Kind, Scope, Value};
use barrage_protocol::ids::{Class, Slot};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What a decision's identity is made of, and nothing else: no leader, no time of day, no evidence.
#[derive(Clone, Copy, Debug)]
pub struct Identity<'a> {
    /// Hash of the rule set, hexadecimal.
    pub rules_hash: &'a str,
    /// Id of the rule.
    pub rule: &'a str,
    /// Its version.
    pub rule_version: u64,
    /// Its mode.
    pub mode: &'a str,
    /// What the subject is.
    pub scope: Scope,
    /// The subject.
    pub subject: &'a str,
    /// The class ruled on.
    pub class: Option<Class>,
    /// The slot concluded.
    pub slot: Slot,
    /// What was decided.
    pub kind: Kind,
    /// State before.
    pub from: &'a str,
    /// State after.
    pub to: &'a str,
}

/// Name of a scope as it stands in JSON and in identities.
#[must_use]
pub fn scope_name(scope: Scope) -> &'static str {
    match scope {
        Scope::Room => "room",
        Scope::Service => "service",
        Scope::Site => "site",
    }
}

/// Name of a kind as it stands in JSON and in identities.
#[must_use]
pub fn kind_name(kind: Kind) -> &'static str {
    match kind {
        Kind::Level => "level",
        Kind::Surge => "surge",
        Kind::Micro => "micro",
        Kind::BlastCap => "blast_cap",
        Kind::FlapHold => "flap_hold",
        Kind::FrozenLong => "frozen_long",
    }
}

/// The id of a decision: blake3 over its identity, each field after its length (u64, little endian), so that no two
/// different identities have one encoding; the first 16 bytes with the bits of a UUIDv8 (RFC 9562) set.
#[must_use]
pub fn id(of: &Identity) -> Id {
    let mut hasher = blake3::Hasher::new();
    let mut field = |bytes: &[u8]| {
        hasher.update(&(bytes.len() as u64).to_le_bytes());
        hasher.update(bytes);
    };
    field(of.rules_hash.as_bytes());
    field(of.rule.as_bytes());
    field(&of.rule_version.to_le_bytes());
    field(of.mode.as_bytes());
    field(scope_name(of.scope).as_bytes());
    field(of.subject.as_bytes());
    field(of.class.map_or("", Class::name).as_bytes());
    field(&of.slot.0.to_le_bytes());
    field(kind_name(of.kind).as_bytes());
    field(of.from.as_bytes());
    field(of.to.as_bytes());
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&hasher.finalize().as_bytes()[..16]);
    bytes[6] = 0x80 | (bytes[6] & 0x0f);
    bytes[8] = 0x80 | (bytes[8] & 0x3f);
    Id(bytes)
}

/// A decision of automation with its id; `prev` and `offsets` are filled in later, when they are known.
#[must_use]
pub fn draft(of: &Identity, evidence: Evidence) -> Decision {
    Decision {
        id: id(of),
        slot: of.slot,
        scope: of.scope,
        subject: of.subject.to_owned(),
        class: of.class,
        kind: of.kind,
        rule: of.rule.to_owned(),
        rule_version: of.rule_version,
        mode: of.mode.to_owned(),
        from: of.from.to_owned(),
        to: of.to.to_owned(),
        actor: "auto".to_owned(),
        rules_hash: of.rules_hash.to_owned(),
        prev: None,
        evidence,
        offsets: BTreeMap::new(),
    }
}

/// Puts decisions into canonical order: slot, scope, subject, class, kind, rule.
pub fn sort(decisions: &mut [Decision]) {
    // The id settles what the order leaves open, so that no order of arrival shows through.
    decisions.sort_by(|a, b| a.order().cmp(&b.order()).then_with(|| a.id.cmp(&b.id)));
}

/// Chains decisions of one subject that are in canonical order: each names the one before it, the first names `last`.
/// Returns the last one's id.
pub fn chain(decisions: &mut [Decision], last: Option<Id>) -> Option<Id> {
    let mut prev = last;
    for decision in decisions {
        decision.prev = prev;
        prev = Some(decision.id);
    }
    prev
}

/// Canonical JSON of a decision: keys sorted, no white space, one line.
///
/// # Errors
/// When the evidence holds a number JSON cannot express; the engine makes none.
pub fn canonical(decision: &Decision) -> Result<String, serde_json::Error> {
    let value = serde_json::to_value(decision)?;
    let mut out = String::with_capacity(1024);
    write_sorted(&value, &mut out);
    Ok(out)
}

/// Writes JSON with sorted keys. Written out here because the order of a `serde_json` map depends on a feature that
/// any crate of a build can switch on.
fn write_sorted(value: &serde_json::Value, out: &mut String) {
    match value {
        serde_json::Value::Object(map) => {
            let mut entries: Vec<_> = map.iter().collect();
            entries.sort_by(|a, b| a.0.cmp(b.0));
            out.push('{');
            for (i, (key, value)) in entries.into_iter().enumerate() {
                if i > 0 {
                    out.push(',');
                }
                out.push_str(&serde_json::Value::String(key.clone()).to_string());
                out.push(':');
                write_sorted(value, out);
            }
            out.push('}');
        }
        serde_json::Value::Array(items) => {
            out.push('[');
            for (i, item) in items.iter().enumerate() {
                if i > 0 {
                    out.push(',');
                }
                write_sorted(item, out);
            }
            out.push(']');
        }
        other => out.push_str(&other.to_string()),
    }
}

/// The canonical decision log as a running hash: `h' = blake3(h ‖ length of the line ‖ line)` per decision, so that
/// 32 bytes in a checkpoint are enough to go on from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Canon {
    hash: [u8; 32],
    decisions: u64,
}

impl Default for Canon {
    fn default() -> Self {
        Self { hash: *blake3::hash(b"barrage decision log 1").as_bytes(), decisions: 0 }
    }
}

impl Canon {
    /// Takes in all decisions of one slot: sorts them, gives each the offsets at which the slot closed, and returns
    /// their canonical lines (without line ends), in order.
    pub fn append(
        &mut self,
        slot: Slot,
        decisions: &mut [Decision],
        offsets: &BTreeMap<u32, u64>,
    ) -> Vec<String> {
        sort(decisions);
        let mut lines = Vec::with_capacity(decisions.len());
        for decision in decisions {
            debug_assert_eq!(decision.slot, slot);
            decision.offsets.clone_from(offsets);
            // Every number of an evidence is finite by construction; a line that says so beats a panic.
            let line = canonical(decision)
                .unwrap_or_else(|e| format!("{{\"id\":\"{}\",\"error\":\"{e}\"}}", decision.id));
            let mut hasher = blake3::Hasher::new();
            hasher.update(&self.hash);
            hasher.update(&(line.len() as u64).to_le_bytes());
            hasher.update(line.as_bytes());
            self.hash = *hasher.finalize().as_bytes();
            self.decisions += 1;
            lines.push(line);
        }
        lines
    }

    /// The running hash, hexadecimal.
    #[must_use]
    pub fn hash(&self) -> String {
        blake3::Hash::from_bytes(self.hash).to_hex().to_string()
    }

    /// Decisions taken in so far.
    #[must_use]
    pub fn decisions(&self) -> u64 {
        self.decisions
    }
}

/// A whole number for the evidence; what does not fit is the largest that does.
#[must_use]
pub fn int(n: impl TryInto<i64>) -> Value {
    Value::Int(n.try_into().unwrap_or(i64::MAX))
}

/// A name for the evidence.
#[must_use]
pub fn text(s: &str) -> Value {
    Value::Text(s.to_owned())
}
