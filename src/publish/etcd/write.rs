//! One fenced transaction, and what became of it.

use super::client::PATIENCE;
use crate::publish::plan::Batch;
use barrage_protocol::policy::Heartbeat;
use etcd_client::{Client, Compare, CompareOp, Error, Txn, TxnOp};
use tokio::time::timeout;

/// How a transaction ended.
#[derive(Debug)]
pub(super) enum Outcome {
    /// It was taken, at this revision.
    Taken(i64),
    /// It was refused: somebody else leads, or somebody else wrote the heartbeat.
    Refused,
    /// No answer: it may have been taken, or may still be.
    Unknown(String),
    /// It was not sent, or etcd said why it did not take it.
    Failed(String),
}

/// What a term holds on to.
#[derive(Clone, Debug)]
pub(super) struct Fence {
    pub(super) leader: String,
    pub(super) create_revision: i64,
    pub(super) heartbeat: String,
    /// Revision of the heartbeat as this leader last knew it; 0: there is none.
    pub(super) seen: i64,
}

impl Fence {
    fn compares(&self) -> Vec<Compare> {
        vec![
            Compare::create_revision(self.leader.as_str(), CompareOp::Equal, self.create_revision),
            Compare::mod_revision(self.heartbeat.as_str(), CompareOp::Equal, self.seen),
        ]
    }
}

/// Writes a batch with its heartbeat.
pub(super) async fn write(client: &mut Client, fence: &Fence, batch: &Batch) -> Outcome {
    let changes = batch.changes.iter().map(|(key, value)| match value {
        Some(value) => TxnOp::put(key.as_str(), value.clone(), None),
        None => TxnOp::delete(key.as_str(), None),
    });
    let beat = TxnOp::put(fence.heartbeat.as_str(), batch.heartbeat.clone(), None);
    let ops: Vec<TxnOp> = changes.chain(std::iter::once(beat)).collect();
    let txn = Txn::new().when(fence.compares()).and_then(ops);
    match timeout(PATIENCE * 2, client.txn(txn)).await {
        Err(_) => Outcome::Unknown("no answer".into()),
        Ok(Ok(answer)) if answer.succeeded() => {
            Outcome::Taken(answer.header().map_or(0, etcd_client::ResponseHeader::revision))
        }
        Ok(Ok(_)) => Outcome::Refused,
        Ok(Err(Error::GRpcStatus(status))) if is_certain(status.code() as i32) => {
            Outcome::Failed(status.message().to_owned())
        }
        Ok(Err(error)) => Outcome::Unknown(error.to_string()),
    }
}

/// Codes with which etcd says that it did nothing: invalid, not found, exhausted, denied, unauthenticated.
fn is_certain(code: i32) -> bool {
    [3, 5, 7, 16].contains(&code)
}

/// What stands at the heartbeat: its revision, and what it says.
pub(super) struct Standing {
    pub(super) revision: i64,
    pub(super) beat: Option<Heartbeat>,
    pub(super) bytes: Vec<u8>,
    /// Whether the leader's key is still this leader's.
    pub(super) leads: bool,
}

/// Reads leader's key and heartbeat as of one moment.
///
/// # Errors
/// No answer.
pub(super) async fn look(client: &mut Client, fence: &Fence) -> Result<Standing, String> {
    let txn = Txn::new().and_then([
        TxnOp::get(fence.leader.as_str(), None),
        TxnOp::get(fence.heartbeat.as_str(), None),
    ]);
    let answer = match timeout(PATIENCE * 2, client.txn(txn)).await {
        Err(_) => return Err("no answer".into()),
        Ok(answer) => answer.map_err(|e| e.to_string())?,
    };
    let mut gets = answer.op_responses().into_iter().filter_map(|op| match op {
        etcd_client::TxnOpResponse::Get(get) => Some(get),
        _ => None,
    });
    let leads = gets.next().is_some_and(|get| {
        get.kvs().first().is_some_and(|kv| kv.create_revision() == fence.create_revision)
    });
    let beat = gets.next();
    let kv = beat.as_ref().and_then(|get| get.kvs().first());
    Ok(Standing {
        revision: kv.map_or(0, etcd_client::KeyValue::mod_revision),
        beat: kv.and_then(|kv| serde_json::from_slice(kv.value()).ok()),
        bytes: kv.map_or_else(Vec::new, |kv| kv.value().to_vec()),
        leads,
    })
}
