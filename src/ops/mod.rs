//! What a controller shows to machines: probes and metrics, on a listener of their own.
//!
//! * [`meters`]: every metric, with its help; [`health`]: what the probes say; [`server`]: HTTP.

pub mod health;
pub mod meters;
pub mod server;
#[cfg(test)]
mod tests;

pub use health::Health;
pub use meters::Meters;
