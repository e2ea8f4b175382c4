//! From decisions to what every edge must enforce: policy documents, kept in step with a store.
//!
//! * [`plan`]: which documents there should be, which there are, and what to write next; pure.
//! * [`memory`]: a store in memory with revisions, transactions and watches, as etcd has them.
//! * [`etcd`]: the writer on etcd, with election and fencing.
//! * [`writer`]: for the store in memory, writes the plan's next batch in one fenced transaction, not too often.

pub mod etcd;
pub mod memory;
pub mod plan;
pub mod writer;

#[cfg(test)]
mod tests;

pub use memory::Store;
pub use plan::Plan;
pub use writer::Writer;
