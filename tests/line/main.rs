//! The seams against real services: Kafka in, etcd out, Postgres beside it; each module tests one of them.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod services;
mod standing;
