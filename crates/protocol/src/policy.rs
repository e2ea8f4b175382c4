//! What an edge must enforce: policy documents, group defaults, the heartbeat.
