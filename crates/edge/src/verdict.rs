//! The answer to "may this message pass?", and the names of its reasons.

use barrage_protocol::ids::Class;
use serde::{Deserialize, Serialize};

/// What to do with one message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "verdict", rename_all = "snake_case")]
pub enum Verdict {
    /// Let it pass at once.
    Admit,
    /// Let it pass after a while.
    Delay {
        /// How long to hold it, in milliseconds.
        ms: u32,
    },
    /// Do not let it pass.
    Refuse {
        /// Why.
        reason: Reason,
        /// When it is worth trying again, in milliseconds.
        retry_after_ms: u32,
    },
}

/// Why a message was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// The share that its class may pass is used up; a gateway with a queue may keep it there.
    OverShare,
    /// Its class does not pass at the room's level.
    ClassOff,
    /// The room has more messages than it may.
    RoomBusy,
    /// Its class has more messages in this room than it may.
    ClassBusy,
    /// At level 3 only the users pass that the policy names.
    Survive,
}

impl Reason {
    /// Name as in reports and answers.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::OverShare => "over_share",
            Self::ClassOff => "class_off",
            Self::RoomBusy => "room_busy",
            Self::ClassBusy => "class_busy",
            Self::Survive => "survive",
        }
    }
}

/// The class of a message by the name it bears; an unknown name is the lowest class.
#[must_use]
pub fn class_of(name: &str) -> Class {
    Class::from_name(name).unwrap_or(Class::Heartbeat)
}
