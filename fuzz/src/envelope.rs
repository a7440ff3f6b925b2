//! Any bytes as a JSON-RPC message: it is read without a loss, or refused in words.

use mcpfleet::mcp::{Envelope, Id, Kind, message};
use serde_json::Value;

use super::json;

/// Deep enough for everything interesting, and within what other readers of JSON take.
const DEPTH: usize = 64;

pub fn check(data: &[u8]) {
    let envelope = match Envelope::parse(data, DEPTH) {
        Ok(envelope) => envelope,
        Err(error) => return assert_error(&error.to_rpc_error().to_json()),
    };
    assert!(
        serde_json::from_slice::<serde::de::IgnoredAny>(data).is_ok(),
        "what is read is JSON"
    );
    for raw in [envelope.id, envelope.params, envelope.result, envelope.error]
        .into_iter()
        .flatten()
    {
        json::range(data, raw.get());
    }
    let kind = match envelope.kind() {
        Ok(kind) => kind,
        Err(error) => return assert_error(&error.to_rpc_error().to_json()),
    };
    // A second reader, which fails on numbers out of its range.
    let again: Option<Value> = serde_json::from_slice(data).ok();
    if let Some(again) = &again {
        assert_eq!(again["jsonrpc"], "2.0");
    }
    match kind {
        Kind::Request { id, method } => {
            if let Some(again) = again {
                assert_eq!(again["method"], method);
                assert!(again["id"].is_string() || again["id"].is_number());
            }
            echo(id);
        }
        Kind::Notification { method } => {
            if let Some(again) = again {
                assert_eq!(again["method"], method);
                assert_eq!(again.get("id"), None);
            }
        }
        Kind::Response { id } => {
            assert!(envelope.result.is_some() != envelope.error.is_some());
            if let Some(id) = id {
                echo(id);
            }
        }
    }
}

/// What is answered under `id` carries it as it was written.
fn echo(id: Id<'_>) {
    let error = br#"{"code":-1,"message":""}"#;
    for answer in [
        message::response(id.as_json(), b"{}"),
        message::error_response(Some(id.as_json()), error),
    ] {
        let answer = Envelope::parse(&answer, DEPTH).expect("an answer is a message");
        let Ok(Kind::Response { id: Some(echoed) }) = answer.kind() else {
            panic!("an answer is a response");
        };
        assert_eq!(echoed.as_json(), id.as_json());
    }
    for number in [0, 1, u64::MAX] {
        assert_eq!(id.is_number(number), id.as_json() == number.to_string());
    }
}

fn assert_error(error: &[u8]) {
    let error: Value = serde_json::from_slice(error).expect("an error is JSON");
    assert!(error["code"].is_i64() && error["message"].is_string(), "{error}");
}
