//! What many calls and many clients cost a process: connections, sessions, open files and memory.

use std::net::SocketAddr;
use std::time::Duration;

use ::http::{Method, Request};
use futures::{StreamExt, stream};
use http_body_util::Full;
use mcpfleet::mcp::Revision;
use rustix::process::{Pid, Resource, Rlimit, prlimit};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::{Instant, sleep};

use crate::support::event_stream::EventStream;
use crate::support::http::{self, Http};
use crate::support::up::Up;
use crate::support::upstream::{self, Answer, Seen, Upstream};

/// Files that the process may have open.
const FILES: u64 = 256;

/// A Legacy server that gives each handshake a session of its own, and knows no other.
fn script(seen: &Seen) -> Answer {
    let tools = json!([{"name": "echo", "inputSchema": {"type": "object"}}]);
    match seen.http {
        Method::GET => Answer::status(405),
        _ => upstream::legacy(seen, &tools),
    }
}

/// A running `mcpfleet up` over this server, which may open few files.
async fn up(server: SocketAddr) -> (Up, String, TempDir) {
    let directory = TempDir::new().unwrap();
    let file = directory.path().join("mcp.json");
    let fleet = json!({"mcpServers": {"s": {"url": format!("http://{server}/mcp")}}});
    std::fs::write(&file, fleet.to_string()).unwrap();
    let up = Up::start(&[file], |_| ());
    let limit = Rlimit {
        current: Some(FILES),
        maximum: Some(FILES),
    };
    prlimit(Some(Pid::from_raw(up.id()).unwrap()), Resource::Nofile, limit).unwrap();
    let url = up.endpoint("default").await;
    up.ready("s").await;
    (up, url, directory)
}

fn open_files(up: &Up) -> usize {
    std::fs::read_dir(format!("/proc/{}/fd", up.id())).unwrap().count()
}

/// Resident memory, in KiB.
fn memory(up: &Up) -> usize {
    let status = std::fs::read_to_string(format!("/proc/{}/status", up.id())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.split_whitespace().next().unwrap().parse().unwrap()
}

async fn settles_at(what: &str, most: usize, measure: impl Fn() -> usize) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while measure() > most {
        assert!(Instant::now() < deadline, "{what}: {} and not {most}", measure());
        sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_of_many_at_a_time_reuse_sessions_and_connections() {
    const CALLS: usize = 2_000;
    const AT_A_TIME: usize = 16;
    let server = Upstream::start(script).await;
    let (up, url, _files) = up(server.address).await;
    let client = http::client();
    let session = http::open_session(&client, &url, Revision::LATEST_LEGACY, &[])
        .await
        .unwrap();
    let before = server.seen().len();
    let most = stream::iter(0..CALLS)
        .map(async |number| {
            let call = json!({
                "jsonrpc": "2.0", "id": number, "method": "tools/call", "params": {"name": "s__echo", "arguments": {}},
            });
            let reply = http::send(
                &client,
                http::legacy(&url, &call, [("mcp-session-id", session.as_str())]),
            )
            .await;
            assert_eq!(reply.status, 200, "{}", reply.text);
            assert_eq!(reply.json()["result"]["content"][0]["text"], "echo");
            if number % 100 == 0 { open_files(&up) } else { 0 }
        })
        .buffer_unordered(AT_A_TIME)
        .fold(0, async |most, files| most.max(files))
        .await;
    assert_eq!(server.seen_of("tools/call").len(), CALLS);
    let requests = server.seen().len() - before;
    // A handshake for the session of this client, and what reads the catalog again meanwhile.
    assert!(requests <= CALLS + CALLS / 100, "{requests} requests for {CALLS} calls");
    assert!(server.seen_of("initialize").len() <= 2);
    // A connection of each call's client and, as each core has its own, as many to the server from each; and what the process has
    // open anyway.
    let cores = std::thread::available_parallelism().unwrap().get();
    assert!(most <= (1 + cores) * AT_A_TIME + 32, "{most} files open");
}

/// A client that comes, and goes with a DELETE or without a word.
async fn visit(url: &str, number: usize) {
    let client = http::client();
    let session = http::open_session(&client, url, Revision::LATEST_LEGACY, &[])
        .await
        .unwrap();
    if number.is_multiple_of(10) {
        let request = Request::get(url)
            .header("accept", "text/event-stream")
            .header("mcp-session-id", &session)
            .header("mcp-protocol-version", Revision::LATEST_LEGACY.as_str());
        let mut stream = EventStream::open(&client, request.body(Full::default()).unwrap()).await;
        assert_eq!(stream.status, 200);
        stream.event().await;
    }
    if number.is_multiple_of(2) {
        let reply = leave(&client, url, &session).await;
        assert_eq!(reply, 200);
    }
}

async fn leave(client: &Http, url: &str, session: &str) -> u16 {
    let request = Request::delete(url).header("mcp-session-id", session);
    http::send(client, request.body(Full::default()).unwrap()).await.status
}

/// Asks for a list, and reads no more than that an answer has begun.
async fn list_unread(url: &str) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    // What the client's system takes in is none of the process's.
    socket.set_recv_buffer_size(4_096).unwrap();
    let (address, _) = url.strip_prefix("http://").unwrap().split_once('/').unwrap();
    let mut stream = socket.connect(address.parse().unwrap()).await.unwrap();
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {},
    });
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": meta}}).to_string();
    let path = url.rsplit_once(address).unwrap().1;
    let head = format!(
        "POST {path} HTTP/1.1\r\nHost: {address}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\
         Accept: application/json, text/event-stream\r\nMCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/list\r\n\r\n",
        body.len(),
    );
    stream.write_all(format!("{head}{body}").as_bytes()).await.unwrap();
    let mut begun = [0; 12];
    stream.read_exact(&mut begun).await.unwrap();
    assert_eq!(&begun, b"HTTP/1.1 200");
    stream
}

#[tokio::test(flavor = "multi_thread")]
async fn large_lists_that_nobody_reads_are_held_once() {
    const CLIENTS: usize = 60;
    let long = "x".repeat(100_000);
    let tools = (0..40)
        .map(|number| json!({"name": format!("t{number}"), "description": long, "inputSchema": {"type": "object"}}));
    let tools = json!(tools.collect::<Vec<_>>());
    let list = tools.to_string().len() / 1_024;
    let server = Upstream::start(move |seen| match seen.http {
        Method::GET => Answer::status(405),
        _ => upstream::legacy(seen, &tools),
    })
    .await;
    let (up, url, _files) = up(server.address).await;
    drop(list_unread(&url).await);
    let before = memory(&up);
    let mut all = Vec::new();
    for _ in 0..CLIENTS {
        all.push(list_unread(&url).await);
    }
    let grown = memory(&up).saturating_sub(before);
    assert!(
        grown < CLIENTS / 6 * list,
        "{grown} KiB for {CLIENTS} lists of {list} KiB"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_that_come_and_go_leave_neither_files_nor_memory() {
    const CLIENTS: usize = 1_500;
    let server = Upstream::start(script).await;
    let (up, url, _files) = up(server.address).await;
    let visits = async |from: usize| {
        let all = stream::iter(from..from + CLIENTS).map(|number| visit(&url, number));
        all.buffer_unordered(16).for_each(async |()| ()).await;
    };
    let files = open_files(&up);
    visits(0).await;
    settles_at("open files", files + 4, || open_files(&up)).await;
    let warm = memory(&up);
    visits(CLIENTS).await;
    settles_at("open files", files + 4, || open_files(&up)).await;
    let after = memory(&up);
    assert!(after <= warm + warm / 20, "{warm} KiB became {after} KiB");
    let denied = http::get(&format!("{}/metrics", up.admin().await)).await.text;
    assert!(
        denied.contains(&format!("mcpfleet_sessions_denied {CLIENTS}\n")),
        "those that left with a word"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn more_connections_than_files_end_nobody_who_is_served() {
    let server = Upstream::start(script).await;
    let (up, url, _files) = up(server.address).await;
    let client = http::client();
    let session = http::open_session(&client, &url, Revision::LATEST_LEGACY, &[])
        .await
        .unwrap();
    let address = url
        .strip_prefix("http://")
        .and_then(|rest| rest.split('/').next())
        .unwrap()
        .to_owned();
    // The process has some files open anyway; few enough connections wait that the kernel takes them all.
    let flood = stream::iter(0..FILES).map(|_| TcpStream::connect(&address));
    let flood: Vec<_> = flood.buffered(16).collect().await;
    let call: Value = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"});
    let headers = || [("mcp-session-id", session.as_str())];
    let reply = http::send(&client, http::legacy(&url, &call, headers())).await;
    assert_eq!(reply.status, 200, "on the connection that it has");
    drop(flood);
    let reply = http::send(&http::client(), http::legacy(&url, &call, headers())).await;
    assert_eq!(reply.status, 200, "and on new ones when there is room");
    settles_at("open files", 64, || open_files(&up)).await;
}
