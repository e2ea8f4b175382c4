//! The program: all input and output, all tasks, all configuration. Decisions are made elsewhere.
//!
//! [`app`] is the one place that joins the folders; the folders do not know each other.

pub mod api;
pub mod app;
pub mod audit;
pub mod bench;
pub mod cli;
pub mod config;
pub mod control;
pub mod demo;
pub mod gateway;
pub mod ingest;
pub mod kafka;
pub mod ops;
pub mod publish;
pub mod replay;
pub mod rules;
pub mod scenes;
pub mod worker;
