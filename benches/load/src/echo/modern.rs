//! The Modern era, 2026-07-28: every request says all there is to know, in its `_meta` and its headers.

use std::sync::OnceLock;
use std::time::Duration;

use mcpfleet_load::{CAPABILITIES_KEY, MODERN, VERSION_KEY};
use serde_json::{Map, Value, json};

use crate::args::Eras;
use crate::content::{self, CAPABILITIES, Front};
use crate::message::{Answer, Era, Refusal, Request, mismatch};
use crate::server::{Change, Server};
use crate::stream::{Events, event, follow};

const SUBSCRIPTION_KEY: &str = "io.modelcontextprotocol/subscriptionId";
const INFO_KEY: &str = "io.modelcontextprotocol/serverInfo";

static FRONT: OnceLock<Front> = OnceLock::new();

/// Answers a Modern request.
pub(crate) async fn answer(server: &'static Server, request: &Request<'_>) -> Result<Answer, Refusal> {
    check_version(server, request)?;
    check_headers(request)?;
    let front = FRONT.get_or_init(|| front(server));
    if let Some(answer) = content::answer(server, Era::Modern, front, request).await {
        return answer;
    }
    match request.method {
        "server/discover" => Ok(Answer::Result(format!(
            r#"{{{}"supportedVersions":{},"capabilities":{CAPABILITIES},"instructions":"echo upstream"}}"#,
            front.cached,
            supported(server)
        ))),
        "subscriptions/listen" => Ok(Answer::Stream(listen(server, request))),
        method => Err(Refusal::new(-32601, format!("Method not found: {method}")).with_status(404)),
    }
}

fn front(server: &Server) -> Front {
    let info = json!({"name": server.args.name, "version": env!("CARGO_PKG_VERSION")});
    let every = format!(r#""resultType":"complete","_meta":{{"{INFO_KEY}":{info}}},"#);
    let cached = format!(r#"{every}"ttlMs":5000,"cacheScope":"public","#);
    Front { every, cached }
}

/// Modern revisions only, as `server/discover` lists them.
fn supported(server: &Server) -> Value {
    if server.args.era == Eras::Legacy {
        json!([])
    } else {
        json!([MODERN])
    }
}

fn check_version(server: &Server, request: &Request<'_>) -> Result<(), Refusal> {
    let meta = &request.params["_meta"];
    let invalid = |what| Refusal::new(-32602, format!("Invalid params: {what}")).with_status(400);
    let Some(version) = meta[VERSION_KEY].as_str() else {
        return Err(invalid("missing _meta protocolVersion"));
    };
    match request.header("mcp-protocol-version") {
        None => return Err(mismatch("required header MCP-Protocol-Version is missing")),
        Some(given) if given != version => {
            let why = format!("MCP-Protocol-Version header value '{given}' does not match body value '{version}'");
            return Err(mismatch(why));
        }
        Some(_) => {}
    }
    if server.args.era == Eras::Legacy {
        // As servers answer that know nothing of later revisions.
        return Err(Refusal::new(-32000, "Bad Request: Server not initialized").with_status(400));
    }
    if version != MODERN {
        let refusal = Refusal::new(-32022, "Unsupported protocol version").with_status(400);
        return Err(refusal.with_data(json!({"supported": supported(server), "requested": version})));
    }
    if !meta[CAPABILITIES_KEY].is_object() {
        return Err(invalid("_meta clientCapabilities is required"));
    }
    Ok(())
}

fn check_headers(request: &Request<'_>) -> Result<(), Refusal> {
    must_match("Mcp-Method", request.header("mcp-method"), request.method)?;
    let target = match request.method {
        "tools/call" | "prompts/get" => request.params["name"].as_str(),
        "resources/read" => request.params["uri"].as_str(),
        _ => None,
    };
    match target {
        Some(target) => must_match("Mcp-Name", request.encoded_header("mcp-name").as_deref(), target),
        None => Ok(()),
    }
}

fn must_match(header: &str, given: Option<&str>, wanted: &str) -> Result<(), Refusal> {
    match given {
        Some(value) if value == wanted => Ok(()),
        Some(value) => Err(mismatch(format!(
            "{header} header value '{value}' does not match body value '{wanted}'"
        ))),
        None => Err(mismatch(format!("required header {header} is missing"))),
    }
}

fn listen(server: &'static Server, request: &Request<'_>) -> Events {
    let filter = &request.params["notifications"];
    let tools = filter["toolsListChanged"] == true;
    let uris: Vec<Value> = filter["resourceSubscriptions"].as_array().cloned().unwrap_or_default();
    let mut honored: Map<String, Value> = ["toolsListChanged", "promptsListChanged", "resourcesListChanged"]
        .into_iter()
        .filter(|kind| filter[kind] == true)
        .map(|kind| (kind.into(), true.into()))
        .collect();
    if !uris.is_empty() {
        honored.insert("resourceSubscriptions".into(), uris.clone().into());
    }
    let meta = format!(r#""_meta":{{"{SUBSCRIPTION_KEY}":{}}}"#, request.id);
    let notification =
        move |method: &str, rest: &str| format!(r#"{{"jsonrpc":"2.0","method":"{method}","params":{{{meta}{rest}}}}}"#);
    let honored = format!(r#","notifications":{}"#, Value::Object(honored));
    let first = event(&notification("notifications/subscriptions/acknowledged", &honored));
    let tell = move |change| match change {
        Change::Tools if tools => vec![notification("notifications/tools/list_changed", "")],
        Change::Tools => Vec::new(),
        Change::Resource => {
            let updated = |uri| notification("notifications/resources/updated", &format!(r#","uri":{uri}"#));
            uris.iter().map(updated).collect()
        }
    };
    let (feed, events) = Events::open(server);
    let mut changes = server.changes.subscribe();
    tokio::spawn(async move {
        if feed.send(first).await.is_ok() {
            follow(&feed, &mut changes, Duration::from_secs(server.args.keepalive_s), tell).await;
        }
    });
    events
}
