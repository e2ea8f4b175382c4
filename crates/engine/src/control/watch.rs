//! Which partitions a leader waits for: active, idle, absent, ended. The leader's affair, and never recorded as such.

/// How a partition stands with the leader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// Waited for.
    Active,
    /// Answered at its end and silent: not waited for.
    Idle,
    /// Could not be read for too long: not waited for, and its rooms are unknown.
    Absent,
    /// A file that is read to its end.
    Ended,
}

/// One partition as the leader sees it; times are monotonic milliseconds.
#[derive(Clone, Debug)]
pub(super) struct Watch {
    pub(super) status: Status,
    /// When it last brought something new (as seen at the answer).
    pub(super) active_at: i64,
    /// When it last answered.
    pub(super) answered_at: i64,
    /// It has brought something since its last answer.
    pub(super) stirred: bool,
}

impl Watch {
    pub(super) fn new(status: Status, now_ms: i64) -> Self {
        Self { status, active_at: now_ms, answered_at: now_ms, stirred: false }
    }
}
