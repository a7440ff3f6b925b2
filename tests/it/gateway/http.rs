//! Requests and connections as HTTP knows them, before anything of MCP is looked at.

use std::time::Duration;

use serde_json::json;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

use super::{mixed, tools};
use crate::support::gateway::TestGateway;
use crate::support::upstream::{self, Upstream};

#[tokio::test]
async fn who_misses_an_endpoint_is_told_which_may_be_meant() {
    let (gateway, _old, _new) = mixed().await;
    for (path, meant) in [
        ("/default/fed/mcp/", Some("/default/fed/mcp")),
        ("/default/fed", Some("/default/fed/mcp")),
        ("/Default//fed/MCP", Some("/default/fed/mcp")),
        ("/default/fed/sse/", Some("/default/fed/sse")),
        ("/default/other/mcp", None),
    ] {
        let request = ::http::Request::post(format!("http://{}{path}", gateway.address));
        let reply = crate::support::http::send(&gateway.client, request.body(Default::default()).unwrap()).await;
        assert_eq!(reply.status, 404);
        let told = meant.map(|meant| format!("did you mean {meant}?"));
        assert_eq!(
            reply.text.contains("did you mean"),
            told.is_some(),
            "{path}: {}",
            reply.text
        );
        assert!(reply.text.contains(&told.unwrap_or_default()), "{path}: {}", reply.text);
    }
}

#[tokio::test]
async fn the_http_side_is_guarded() {
    let (gateway, ..) = mixed().await;
    let url = gateway.url();
    let session = gateway.session(None).await.unwrap();
    let ping = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
    let send = async |request: ::http::request::Builder, body: &str| {
        gateway
            .send(
                request
                    .body(http_body_util::Full::new(bytes::Bytes::copy_from_slice(
                        body.as_bytes(),
                    )))
                    .unwrap(),
            )
            .await
    };
    let json = |request: ::http::request::Builder| {
        let request = request.header("content-type", "application/json");
        request.header("mcp-session-id", &session)
    };
    let reply = send(
        json(::http::Request::post(&url)).header("content-type", "application/json; charset=utf-8"),
        ping,
    )
    .await;
    assert_eq!(reply.status, 200);
    assert_eq!(
        send(::http::Request::post(&url).header("content-type", "text/plain"), ping)
            .await
            .status,
        415
    );
    assert_eq!(
        send(json(::http::Request::post(&url)).header("accept", "text/html"), ping)
            .await
            .status,
        406
    );
    for coding in ["gzip", "identity, gzip", "br", "x\u{ff}"] {
        let coding = ::http::HeaderValue::from_bytes(coding.as_bytes()).unwrap();
        let reply = send(
            json(::http::Request::post(&url)).header("content-encoding", coding),
            ping,
        )
        .await;
        assert_eq!((reply.status, reply.header("accept-encoding")), (415, Some("identity")));
        assert!(reply.text.contains("send the body as it is"), "{}", reply.text);
    }
    let plain = send(
        json(::http::Request::post(&url)).header("content-encoding", "Identity"),
        ping,
    )
    .await;
    assert_eq!(plain.status, 200);
    let get = send(::http::Request::get(&url).header("accept", "application/json"), "").await;
    assert_eq!(
        (get.status, get.headers["allow"].to_str().unwrap()),
        (405, "POST, GET, DELETE, OPTIONS")
    );
    let unknown = format!("http://{}/default/other/mcp", gateway.address);
    assert_eq!(send(json(::http::Request::post(unknown)), ping).await.status, 404);
    let bare = format!("http://{}/mcp", gateway.address);
    assert_eq!(
        send(json(::http::Request::post(bare)), ping).await.status,
        200,
        "a single federation is served at /mcp too"
    );
    assert_eq!(
        send(
            json(::http::Request::post(&url)).header("origin", "https://evil.example"),
            ping
        )
        .await
        .status,
        403
    );
    assert_eq!(
        send(json(::http::Request::post(&url)).header("host", "evil.example"), ping)
            .await
            .status,
        403
    );
    let page = send(
        json(::http::Request::post(&url)).header("origin", "http://localhost:5173"),
        ping,
    )
    .await;
    assert_eq!(page.headers["access-control-allow-origin"], "http://localhost:5173");
    let exposed = page.headers["access-control-expose-headers"].to_str().unwrap();
    assert!(exposed.contains("Mcp-Session-Id"), "pages can read their session");
    let preflight = ::http::Request::options(&url).header("origin", "http://localhost:5173");
    let preflight = send(preflight.header("access-control-request-headers", "mcp-name, x-y"), "").await;
    assert_eq!(
        (
            preflight.status,
            preflight.headers["access-control-allow-headers"].to_str().unwrap()
        ),
        (200, "mcp-name, x-y")
    );
    let large = format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"ping","params":{{"x":"{}"}}}}"#,
        "a".repeat(5 << 20)
    );
    assert_eq!(send(json(::http::Request::post(&url)), &large).await.status, 413);
}

#[tokio::test]
async fn a_stopping_gateway_lets_running_requests_finish() {
    let server = Upstream::start(|seen| match seen.method() {
        "tools/call" => {
            std::thread::sleep(Duration::from_millis(400));
            upstream::legacy(seen, &tools())
        }
        _ => upstream::legacy(seen, &tools()),
    })
    .await;
    let gateway = TestGateway::ready(&[("s", server.address)]).await;
    let (answer, ()) = tokio::join!(gateway.legacy("tools/call", json!({"name": "s__echo"})), async {
        tokio::time::sleep(Duration::from_millis(100)).await;
        gateway.stop_serving();
    });
    assert_eq!(answer["result"]["content"][0]["text"], "echo");
    gateway.stop().await;
    assert!(
        server.seen().iter().any(|seen| seen.http == ::http::Method::DELETE),
        "the session was ended"
    );
}

/// Clients that send all before they read anything.
#[tokio::test]
async fn whoever_sends_too_much_is_told_so_when_it_listens_at_last() {
    let gateway = TestGateway::ready(&[]).await;
    let head = |more: &str| {
        format!(
            "POST /default/fed/mcp HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\naccept: application/json\r\n{more}\r\n\r\n"
        )
    };
    let size = 10 << 20;
    let sent = "a".repeat(size);
    let declared = head(&format!("content-length: {size}")) + &sent;
    let chunked = head("transfer-encoding: chunked") + &format!("{size:x}\r\n{sent}\r\n0\r\n\r\n");
    for message in [declared, chunked] {
        let mut stream = TcpStream::connect(gateway.address).await.unwrap();
        stream.write_all(message.as_bytes()).await.unwrap();
        assert!(first_line(&mut stream).await.starts_with("HTTP/1.1 413 "));
    }
    let mut waiting = TcpStream::connect(gateway.address).await.unwrap();
    let asking = head(&format!("content-length: {size}\r\nexpect: 100-continue"));
    waiting.write_all(asking.as_bytes()).await.unwrap();
    assert!(
        first_line(&mut waiting).await.starts_with("HTTP/1.1 413 "),
        "it is not asked for what is not wanted"
    );
}

async fn first_line(stream: &mut TcpStream) -> String {
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line).await.unwrap();
    line
}
