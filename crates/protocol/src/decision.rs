//! A decision: what was concluded about a subject in a slot, on what evidence, and under which identity.

use crate::ids::{Class, Slot};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Identity of a decision as a UUIDv8, written in the usual hyphenated form.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Id(pub [u8; 16]);

impl std::fmt::Display for Id {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (i, b) in self.0.iter().enumerate() {
            if matches!(i, 4 | 6 | 8 | 10) {
                f.write_str("-")?;
            }
            write!(f, "{b:02x}")?;
        }
        Ok(())
    }
}

impl std::str::FromStr for Id {
    type Err = String;

    fn from_str(s: &str) -> Result<Self, String> {
        let hex: Vec<u8> = s.bytes().filter(|b| *b != b'-').collect();
        let digit = |b: u8| (b as char).to_digit(16).map(|d| d as u8);
        let mut id = [0; 16];
        if s.len() != 36 || hex.len() != 32 {
            return Err(format!("`{s}` is not a decision id"));
        }
        for (out, pair) in id.iter_mut().zip(hex.chunks(2)) {
            match (digit(pair[0]), digit(pair[1])) {
                (Some(h), Some(l)) => *out = h << 4 | l,
                _ => return Err(format!("`{s}` is not a decision id")),
            }
        }
        Ok(Self(id))
    }
}

impl Serialize for Id {
    fn serialize<S: serde::Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Id {
    fn deserialize<D: serde::Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let s = std::borrow::Cow::<'de, str>::deserialize(d)?;
        s.parse().map_err(serde::de::Error::custom)
    }
}

/// What kind of thing was decided; the order is the canonical one (semantics §9).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// A room's degrade level moved.
    Level,
    /// A surge began or ended (the level stays).
    Surge,
    /// A micro-burst began or ended.
    Micro,
    /// The blast-radius cap took hold or was released.
    BlastCap,
    /// The flap guard began or ceased to hold a room up.
    FlapHold,
    /// A baseline has been frozen for longer than the alarm limit, or is no longer.
    FrozenLong,
}

/// What the subject of a decision is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// One room.
    Room,
    /// One downstream service.
    Service,
    /// The whole site.
    Site,
}

/// A value of the evidence: integers and exact decimals only, so that bytes compare.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Value {
    /// A count, a slot, a level.
    Int(i64),
    /// A number with at most three decimals (rounded half up from exact integers).
    Dec(f64),
    /// A name.
    Text(String),
}

impl Value {
    /// The decimal `thousandths / 1000`; IEEE division of two exact integers is the same on every machine.
    #[must_use]
    pub fn milli(thousandths: i64) -> Self {
        Self::Dec(thousandths as f64 / 1000.0)
    }
}

/// Everything that was compared, by name: values, thresholds, counts, window bounds, how the baseline was built.
pub type Evidence = BTreeMap<String, Value>;

/// One decision as the dataflow emits it. `offsets` is added where the control log is known.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Decision {
    /// Identity; independent of leader, time and retries.
    pub id: Id,
    /// The slot whose close concluded it.
    pub slot: Slot,
    /// What the subject is.
    pub scope: Scope,
    /// The subject's id: a room id, or `_site`.
    pub subject: String,
    /// The class ruled on, where a rule names one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub class: Option<Class>,
    /// What was decided.
    pub kind: Kind,
    /// Id of the rule that caused it (`ladder` for descents, `blast` and `flap` for the guards).
    pub rule: String,
    /// Version of that rule.
    pub rule_version: u64,
    /// Mode of that rule (`enforce`).
    pub mode: String,
    /// State before: a level, `off` or `on`.
    pub from: String,
    /// State after.
    pub to: String,
    /// `auto`, or the person who did it.
    pub actor: String,
    /// Hash of the rule set in force, hexadecimal.
    pub rules_hash: String,
    /// The previous decision of the same subject.
    pub prev: Option<Id>,
    /// What was compared.
    pub evidence: Evidence,
    /// Offset per partition: the first whose watermark had passed the slot's end.
    #[serde(default)]
    pub offsets: BTreeMap<u32, u64>,
}

impl Decision {
    /// Key of the canonical order: slot, scope, subject, class, kind, rule.
    #[must_use]
    pub fn order(&self) -> (Slot, Scope, &str, Option<Class>, Kind, &str) {
        (self.slot, self.scope, &self.subject, self.class, self.kind, &self.rule)
    }
}
