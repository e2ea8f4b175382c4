//! The seams of the line, against the services that stand behind them: each module is one of them.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod audit;
mod audit_cases;
mod audit_faults;
mod audit_fixture;
mod audit_restart;
mod audit_schema;
mod services;
