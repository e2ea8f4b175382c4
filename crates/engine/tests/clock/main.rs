//! Clocks of partitions against a slow oracle, and what a leader makes of silence, falsehood and garbage.

#![allow(clippy::unwrap_used, reason = "a test")]

mod cases;
mod fate;
mod leading;
mod oracle;
mod parts;
mod restart;
mod stream;
