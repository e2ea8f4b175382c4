//! The seams to real services, and the whole line over them. A service that cannot be had is a failure.

#![allow(clippy::unwrap_used, reason = "in a test it is the failure")]

mod audit;
mod audit_cases;
mod audit_faults;
mod audit_fixture;
mod audit_restart;
mod audit_schema;
mod control_log;
mod controller;
mod edge;
mod etcd;
mod etcd_kit;
mod gateway;
mod golden;
mod kafka;
mod kafka_kit;
mod services;
mod standing;
mod takeover;
