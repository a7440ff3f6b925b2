//! The Legacy era, up to 2025-11-25: a handshake, and sessions where they are asked for.

use std::sync::LazyLock;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use hyper::header::HeaderMap;
use mcpfleet_load::{LEGACY, MODERN};
use serde_json::json;

use crate::args::Eras;
use crate::content::{self, CAPABILITIES, Front};
use crate::message::{Answer, Era, Refusal, Request, header};
use crate::server::{Change, Server, lock};
use crate::stream::{Events, follow};

static FRONT: LazyLock<Front> = LazyLock::new(|| Front {
    every: String::new(),
    cached: String::new(),
});

/// Answers a Legacy request.
pub(crate) async fn answer(server: &'static Server, request: &Request<'_>) -> Result<Answer, Refusal> {
    if server.args.era == Eras::Modern {
        let refusal = Refusal::new(-32022, "Unsupported protocol version").with_status(400);
        return Err(refusal.with_data(json!({"supported": [MODERN]})));
    }
    if request.method == "initialize" {
        return Ok(initialize(server, request));
    }
    check_session(server, request)?;
    check_version(request)?;
    if let Some(answer) = content::answer(server, Era::Legacy, &FRONT, request).await {
        return answer;
    }
    match request.method {
        "ping" | "resources/subscribe" | "resources/unsubscribe" | "logging/setLevel" => {
            Ok(Answer::Result("{}".into()))
        }
        method => Err(Refusal::new(-32601, format!("Method not found: {method}"))),
    }
}

/// The stream that a client of a session opens with GET.
pub(crate) fn listen(server: &'static Server, headers: &HeaderMap) -> Result<Events, Refusal> {
    let session = header(headers, "mcp-session-id").unwrap_or_default();
    if !lock(&server.sessions).contains(session) {
        return Err(session_not_found());
    }
    let (feed, events) = Events::open(server);
    let mut changes = server.changes.subscribe();
    tokio::spawn(async move {
        let tell = |change| match change {
            Change::Tools => vec![r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#.into()],
            Change::Resource => Vec::new(),
        };
        follow(&feed, &mut changes, Duration::from_secs(server.args.keepalive_s), tell).await;
    });
    Ok(events)
}

fn initialize(server: &Server, request: &Request<'_>) -> Answer {
    let wanted = request.params["protocolVersion"].as_str().unwrap_or_default();
    let version = LEGACY.iter().find(|version| **version == wanted).unwrap_or(&LEGACY[0]);
    let info = json!({"name": server.args.name, "version": env!("CARGO_PKG_VERSION")});
    let result = format!(
        r#"{{"protocolVersion":"{version}","capabilities":{CAPABILITIES},"serverInfo":{info},"instructions":"echo upstream"}}"#
    );
    if !server.args.sessions {
        return Answer::Result(result);
    }
    let number = server.next_session.fetch_add(1, Relaxed);
    let session = format!("s{number:08x}-{:08x}", std::process::id());
    lock(&server.sessions).insert(session.clone());
    Answer::Opened { result, session }
}

fn check_session(server: &Server, request: &Request<'_>) -> Result<(), Refusal> {
    if !server.args.sessions {
        return Ok(());
    }
    match request.header("mcp-session-id") {
        None => Err(Refusal::new(-32000, "Bad Request: Mcp-Session-Id header is required").with_status(400)),
        Some(session) if !lock(&server.sessions).contains(session) => Err(session_not_found()),
        Some(_) => Ok(()),
    }
}

fn check_version(request: &Request<'_>) -> Result<(), Refusal> {
    match request.header("mcp-protocol-version") {
        Some(version) if !LEGACY.contains(&version) => {
            let supported = LEGACY.join(", ");
            let message = format!("Bad Request: Unsupported protocol version (supported versions: {supported})");
            Err(Refusal::new(-32000, message).with_status(400))
        }
        _ => Ok(()),
    }
}

fn session_not_found() -> Refusal {
    Refusal::new(-32001, "Session not found").with_status(404)
}
