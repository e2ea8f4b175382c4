//! Steps and control records: the control log, the second of the two inputs that decide everything.

use crate::ids::{Level, Slot};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Version of the control log's records.
pub const SCHEMA: u32 = 1;

/// One record of the control log.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Entry {
    /// Slots became final.
    Step(Step),
    /// A new leader: what a lower epoch writes after this is dropped by every reader.
    Lead {
        /// Version of the record.
        schema: u32,
        /// Epoch of the new leader.
        epoch: u64,
        /// Number of the record within its epoch: 0. (A new leader writes this before it has read to the end of
        /// the log, so that it cannot know how many records there are.)
        seq: u64,
    },
}

/// "The records below `offsets` are read, then the slots up to `slot` are closed."
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Step {
    /// Version of the record.
    pub schema: u32,
    /// Epoch of the leader that wrote it.
    pub epoch: u64,
    /// Number of the record within its epoch, growing by one from the epoch's `lead` on; one seen before is
    /// dropped, a gap is an alarm.
    pub seq: u64,
    /// The last slot that this step closes.
    pub slot: Slot,
    /// Per partition, the first offset not read. The end of a file counts as one offset after its last record.
    #[serde(with = "by_partition")]
    pub offsets: BTreeMap<u32, u64>,
    /// What changes, each from the slot after the last one closed before it took effect (`from`).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub records: Vec<Record>,
    /// Running hash of the canonical decision log up to `slot`, hexadecimal.
    pub hash: String,
    /// Late events per partition, up to `offsets`.
    #[serde(with = "by_partition")]
    pub late: BTreeMap<u32, u64>,
    /// The last slot whose effects have left the process.
    pub done: Slot,
}

/// A control record with the first slot it holds for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// First slot decided under it.
    pub from: Slot,
    /// What changes.
    #[serde(flatten)]
    pub control: Control,
}

/// What a control record can say.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "control", rename_all = "snake_case")]
pub enum Control {
    /// Decisions begin (or begin anew, a counted break) at this record's slot and offsets.
    Start {
        /// Per partition, the first offset to read.
        #[serde(with = "by_partition")]
        offsets: BTreeMap<u32, u64>,
        /// Levels known from the policies in force, by room id.
        #[serde(default)]
        levels: BTreeMap<String, Level>,
    },
    /// A partition could not be read for too long; its rooms are unknown.
    Absent {
        /// The partition.
        partition: u32,
    },
    /// An absent partition answered again.
    Back {
        /// The partition.
        partition: u32,
    },
    /// The set of partitions changed; a new one starts idle.
    Partitions {
        /// Per partition added, the first offset to read.
        #[serde(with = "by_partition")]
        added: BTreeMap<u32, u64>,
    },
    /// A rule set comes into force.
    Rules {
        /// Full text (TOML).
        text: String,
        /// Its hash, hexadecimal.
        hash: String,
    },
    /// An operator declares the present rate of a room its new normal: the frozen baseline is let go.
    Rebase {
        /// The room's id.
        room: String,
        /// Who asked for it.
        actor: String,
    },
    /// Records of a partition are gone, and the operator's configuration says to go on after them.
    Skip {
        /// The partition.
        partition: u32,
        /// First offset skipped.
        from_offset: u64,
        /// First offset read again.
        to_offset: u64,
    },
    /// A control record of a later version: it cannot be obeyed, and is an alarm.
    #[serde(other)]
    Unknown,
}

/// Maps by partition inside tagged records: JSON's keys are text, which a tagged record would not turn back into
/// numbers by itself.
mod by_partition {
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};
    use std::collections::BTreeMap;

    pub(super) fn serialize<S: Serializer>(
        map: &BTreeMap<u32, u64>,
        s: S,
    ) -> Result<S::Ok, S::Error> {
        map.serialize(s)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        d: D,
    ) -> Result<BTreeMap<u32, u64>, D::Error> {
        let text = BTreeMap::<String, u64>::deserialize(d)?;
        text.into_iter()
            .map(|(partition, offset)| match partition.parse() {
                Ok(partition) => Ok((partition, offset)),
                Err(_) => Err(D::Error::custom(format!("`{partition}` is no partition"))),
            })
            .collect()
    }
}
