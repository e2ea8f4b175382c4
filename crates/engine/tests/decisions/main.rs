//! Rules, ladder and arbiter against the specification: golden cases, tables of moves, slow oracles, reported faults.
//!
//! Rooms are fed through [`twin`], which recounts every window from per-slot counts.

mod blast;
mod cases;
mod fixture;
mod golden;
mod identity;
mod ladder;
mod moves;
mod oracle;
mod pages;
mod surge;
mod twin;
