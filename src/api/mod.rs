//! What people see: a read model of the present, HTTP on loopback, the live page.
//!
//! * [`board`]: the read model; fed from outside, asked by the server.
//! * [`server`]: routes, server-sent events, errors as problem documents.
//! * [`words`]: decisions told with their arithmetic.
//! * [`problem`]: the form of errors; [`page`]: the files of the live page.

pub mod board;
pub mod page;
mod patience;
pub mod problem;
pub mod server;
mod stream;
#[cfg(test)]
mod tests;
pub mod words;

pub use board::Board;
