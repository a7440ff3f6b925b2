//! What clients of a federation see: the rules of both eras on one endpoint, and values that arrive as they were sent.

mod eras;
mod http;
mod refusals;
mod values;

use serde_json::{Value, json};

use crate::support::gateway::TestGateway;
use crate::support::upstream::{self, Upstream};

fn tools() -> Value {
    json!([{"name": "echo", "inputSchema": {"type": "object"}}])
}

/// A gateway over one Legacy and one Modern server, each with a tool `echo`.
async fn mixed() -> (TestGateway, Upstream, Upstream) {
    let old = Upstream::start(|seen| upstream::legacy(seen, &tools())).await;
    let new = Upstream::start(|seen| upstream::modern(seen, &tools())).await;
    let gateway = TestGateway::ready(&[("old", old.address), ("new", new.address)]).await;
    (gateway, old, new)
}
