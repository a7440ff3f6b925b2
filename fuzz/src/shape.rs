//! Any result and any error of a server, for clients of every revision.

use mcpfleet::mcp::{Envelope, Era, Id, Kind, Members, Method, Revision, content, descriptor, shape};
use serde_json::Value;
use serde_json::value::RawValue;

use super::json;

const METHODS: [Method; 3] = [Method::ToolsCall, Method::PromptsGet, Method::ResourcesRead];
const ERAS: [Era; 2] = [Era::Legacy, Era::Modern];
const SERVER_INFO: &str = r#"{"name":"fuzz","version":"1"}"#;
const ID: &str = r#""\u0061 1""#;

pub fn check(data: &[u8]) {
    let Some(raw) = json::value(data) else {
        return;
    };
    for method in METHODS {
        for from in ERAS {
            for to in Revision::ALL {
                response(raw.get(), method, from, to);
            }
        }
        for to in ERAS {
            error(raw.get(), method, to);
        }
    }
    for from in ERAS {
        for to in Revision::ALL {
            tool(raw.get(), from, to);
        }
    }
}

fn response(raw: &str, method: Method, from: Era, to: Revision) {
    let id: &RawValue = serde_json::from_str(ID).expect("an id");
    let id = Id::from_raw(id).expect("an id");
    let Ok(response) = shape::response(id, method, raw, from, to, SERVER_INFO) else {
        return;
    };
    let envelope = Envelope::parse(&response, usize::MAX).expect("a response is a message");
    let Ok(Kind::Response { id: Some(echoed) }) = envelope.kind() else {
        panic!("a response is a response");
    };
    assert_eq!(echoed.as_json(), ID);
    let shaped = envelope.result.expect("a result").get();
    assert!(shaped.starts_with('{'));
    let same_era = from == Era::Legacy && to.era() == Era::Legacy;
    if same_era && content::for_client(raw, method, to) == raw {
        assert_eq!(shaped, raw, "nothing changes between equal eras");
        return;
    }
    let (before, after) = (Members::parse(raw), Members::parse(shaped));
    let (Some(before), Some(after)) = (before, after) else {
        // Only a result that is passed on unread may have a member twice.
        assert!(same_era);
        return;
    };
    let changes = |name: &str| {
        matches!(name, "content" | "structuredContent" | "messages" | "_meta")
            || (!same_era && matches!(name, "resultType" | "ttlMs" | "cacheScope"))
    };
    fn kept<'m>(members: &'m Members<'_>, changes: impl Fn(&str) -> bool) -> Vec<(&'m str, &'m str)> {
        let others = members.iter().filter(|(name, _)| !changes(name));
        others.map(|(name, value)| (name, value.get())).collect()
    }
    assert_eq!(
        kept(&before, changes),
        kept(&after, changes),
        "the rest stays as it was written, in its order"
    );
    if to.era() == Era::Modern {
        assert_eq!(after.string("resultType").as_deref(), Some("complete"));
        if method == Method::ResourcesRead {
            assert!(after.get("ttlMs").is_some() && after.get("cacheScope").is_some());
        }
    } else if !same_era {
        for name in ["resultType", "ttlMs", "cacheScope"] {
            assert!(after.get(name).is_none(), "{name} is not for Legacy clients");
        }
    }
    let structured = after.get("structuredContent").filter(|_| method == Method::ToolsCall);
    assert!(structured.is_none_or(|structured| content::takes_structured(to, structured)));
}

fn error(raw: &str, method: Method, to: Era) {
    let params = Members::parse(r#"{"uri":"a:b"}"#).expect("an object");
    let error = shape::error(raw, method, &params, to);
    let error: &RawValue = serde_json::from_slice(&error).expect("an error is JSON");
    // What a second reader cannot read has numbers out of its range, or is nested too deeply for it.
    let Ok(error) = serde_json::from_str::<Value>(error.get()) else {
        return;
    };
    let code = error["code"].as_i64().expect("an error has a code");
    assert!(error["message"].is_string(), "an error has a message: {error}");
    assert!(!(-32099..=-32020).contains(&code), "{code} speaks of one hop");
    if to == Era::Modern {
        assert_ne!(code, -32002);
    }
}

fn tool(raw: &str, from: Era, to: Revision) {
    let shaped = descriptor::tool(raw, from, to);
    let (Some(before), Some(after)) = (Members::parse(raw), Members::parse(&shaped)) else {
        assert_eq!(shaped, raw);
        return;
    };
    for (name, value) in before.iter() {
        let now = after.get(name).map(RawValue::get);
        let goes = matches!(name, "outputSchema" | "execution") && now.is_none();
        assert!(goes || now == Some(value.get()), "{name}");
    }
    assert!(after.iter().all(|(name, _)| before.get(name).is_some()));
    if to == Revision::LATEST && from == Era::Modern && before.get("execution").is_none() {
        assert_eq!(shaped, raw);
    }
}
