//! One event as it stands in a record, and its total parsing: every byte string yields an event or a reason.
