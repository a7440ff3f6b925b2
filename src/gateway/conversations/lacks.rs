//! What a Legacy server would have asked of a client that did not declare it. It cannot tell what it lacks; from what it
//! asks, and fails without, it can be told.

use std::sync::atomic::{AtomicU8, Ordering};

use serde_json::{Map, Value, json};

use crate::gateway::relay::Relay;
use crate::mcp::asking::Asking;
use crate::upstream::{Asked, Body, Ear, Error, Reply};

/// The kinds of questions that were refused for lack of a capability during one call.
#[derive(Debug, Default)]
pub(in crate::gateway) struct Lacks(AtomicU8);

/// Hears a server for a client that cannot be asked.
#[derive(Debug, Default)]
pub(in crate::gateway) struct LackingEar {
    pub(in crate::gateway) relay: Option<Relay>,
    pub(in crate::gateway) lacks: Lacks,
}

impl Lacks {
    pub(in crate::gateway) fn note(&self, kind: Asking) {
        self.0.fetch_or(bit(kind), Ordering::Relaxed);
    }

    /// The capabilities that `reply` fails for, if it fails and something was asked for.
    pub(in crate::gateway) fn required(&self, reply: &Result<Reply, Error>) -> Option<Value> {
        let noted = self.0.load(Ordering::Relaxed);
        if noted == 0 || !has_failed(reply) {
            return None;
        }
        let lacking = KINDS.into_iter().filter(|(kind, _)| noted & bit(*kind) != 0);
        let required: Map<String, Value> = lacking.map(|(_, name)| (name.to_owned(), json!({}))).collect();
        Some(Value::Object(required))
    }
}

impl Ear for LackingEar {
    fn heard(&self, notification: &[u8]) {
        if let Some(relay) = &self.relay {
            relay.pass(notification);
        }
    }

    fn asked(&self, asked: Asked) {
        self.lacks.note(asked.kind);
    }

    fn begins_again(&self) {
        if let Some(relay) = &self.relay {
            relay.next_round();
        }
    }

    fn lacked(&self, kind: Asking) {
        self.lacks.note(kind);
    }
}

/// The capability that each kind of question needs.
const KINDS: [(Asking, &str); 3] = [
    (Asking::Elicitation, "elicitation"),
    (Asking::Sampling, "sampling"),
    (Asking::Roots, "roots"),
];

const fn bit(kind: Asking) -> u8 {
    match kind {
        Asking::Elicitation => 1,
        Asking::Sampling => 2,
        Asking::Roots => 4,
    }
}

/// Whether a server answered that it could not do it; of what happened on the way to it nobody knows.
fn has_failed(reply: &Result<Reply, Error>) -> bool {
    let Ok(reply) = reply else { return false };
    match reply.body() {
        Body::Error(_) => true,
        Body::Result(result) => crate::mcp::Members::parse(result)
            .and_then(|members| members.get("isError"))
            .is_some_and(|raw| raw.get() == "true"),
    }
}
