//! The composition root: who is built from what, and how records become decisions.

pub mod ask;
pub mod core;
pub mod demo;
mod follow;
pub mod gateway;
pub mod init;
mod lead;
mod line;
mod log;
pub mod replay;
pub mod rows;
pub mod run;
mod stage;
mod tap;

pub use follow::Follow;
pub use lead::{Lead, Round};
pub use line::{Checkpoint, Observer, Settings};
pub use log::{Kept, Log};
