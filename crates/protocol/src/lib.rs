//! The data that crosses a process boundary, and nothing else: no clocks, no tasks, no input or output.
//!
//! * [`ids`]: slots, room keys, classes, outcomes, levels.
//! * [`event`]: one event as it stands in a record; total parsing.
//! * [`control`]: steps and control records of the control log.
//! * [`decision`]: what the engine concluded, its identity and canonical form.
//! * [`policy`]: what an edge must enforce.

pub mod control;
pub mod decision;
pub mod event;
pub mod ids;
pub mod policy;
