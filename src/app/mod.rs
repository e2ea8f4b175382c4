//! The composition root: who is built from what, and how records become decisions.

pub mod core;
pub mod demo;
mod follow;
mod lead;
mod line;
mod log;
pub mod replay;
pub mod rows;
mod stage;
mod tap;

pub use follow::Follow;
pub use lead::{Lead, Round};
pub use line::{Checkpoint, Observer, Settings};
pub use log::{Kept, Log};
