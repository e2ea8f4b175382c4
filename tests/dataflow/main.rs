//! The dataflow as a whole, through its only door: golden cases, oracles, restart, sizes, silence, faults.

mod blast;
mod golden;
mod host;
mod oracle;
mod random;
mod restart;
mod rows;
mod rules;
mod sizes;
mod stream;
mod view;
