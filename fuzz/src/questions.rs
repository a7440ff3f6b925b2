//! Any params of a server's question, and any answer of a client, in every revision.

use mcpfleet::mcp::features::Features;
use mcpfleet::mcp::input_required::InputRequired;
use mcpfleet::mcp::{Envelope, Era, Id, Members, Revision, elicitation, sampling};
use serde_json::value::RawValue;

use super::json;

const ID: &str = "1f0c";

pub fn check(data: &[u8]) {
    let Some(text) = json::object(data) else {
        return;
    };
    if let Some(asked) = InputRequired::read(text) {
        input_required(text, &asked);
    }
    for to in Revision::ALL {
        if let Ok(params) = elicitation::params(text, to, ID) {
            let params = read(&params);
            if to.era() == Era::Modern {
                assert!(params.get("elicitationId").is_none(), "Modern clients know none");
            } else if params.string("mode").as_deref() == Some("url") {
                assert!(to >= Revision::V2025_11_25);
                assert_eq!(params.string("elicitationId").as_deref(), Some(ID));
            }
            assert!(params.get("task").is_none());
            assert!(to >= Revision::V2025_06_18, "earlier revisions show no forms");
        }
        if let Ok(params) = sampling::params(text, to) {
            let params = read(&params);
            assert!(params.get("task").is_none());
            if to < Revision::V2025_11_25 {
                assert!(params.get("tools").is_none() && params.get("toolChoice").is_none());
            }
        }
        if let Ok(result) = sampling::result(text, to) {
            read(&result);
        }
        let features = Features::declared(text, to);
        assert!(!features.silent().is_interactive());
        for era in [Era::Legacy, Era::Modern] {
            // What is declared further is understood there as it was understood here; that a client tells when its
            // roots change is an affair of Legacy.
            let told = features.to_json(era);
            read(&told);
            let (revision, changes) = match era {
                Era::Modern => (Revision::LATEST, false),
                Era::Legacy => (Revision::LATEST_LEGACY, features.roots_change),
            };
            let expected = Features {
                roots_change: changes,
                ..features.clone()
            };
            assert_eq!(Features::declared(&told, revision), expected);
        }
    }
}

/// A result that asks is passed on with its questions as they were written, and with our state instead of the server's.
fn input_required(text: &str, asked: &InputRequired<'_>) {
    let before = read(text);
    for question in &asked.questions {
        assert!(question.params.starts_with('{'), "{question:?}");
    }
    let id: &RawValue = serde_json::from_str("7").expect("an id");
    let id = Id::from_raw(id).expect("an id");
    for state in [None, Some("ours \"")] {
        let response = asked.response(id, state, r#"{"name":"fuzz"}"#);
        let envelope = Envelope::parse(&response, usize::MAX).expect("a response is a message");
        let after = read(envelope.result.expect("a result").get());
        assert_eq!(after.string("resultType").as_deref(), Some("input_required"));
        assert_eq!(after.string("requestState").as_deref(), state);
        let questions = |members: &Members<'_>| members.get("inputRequests").map(|raw| raw.get().to_owned());
        assert_eq!(questions(&after), questions(&before));
    }
}

fn read(text: &str) -> Members<'_> {
    Members::parse(text).expect("an object without a member twice")
}
