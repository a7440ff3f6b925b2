//! Lanes to real processes, few of them.

use std::path::Path;

use tokio::time::{Instant, timeout};

use super::*;
use crate::mcp::{Features, Members, Method};
use crate::metrics::Metrics;
use crate::upstream::endpoint::StdioCommand;
use crate::upstream::known::Known;
use crate::upstream::questions::Questions;
use crate::upstream::request::{Body, Fanout, TaskCall};

/// A Legacy server whose tool `plain` answers with the number of its process, and whose others never answer.
const SERVER: &str = r#"
import json, os, sys
def answer(m, result): print(json.dumps({"jsonrpc": "2.0", "id": m["id"], "result": result}), flush=True)
for line in sys.stdin:
    m = json.loads(line)
    if m["method"] == "initialize":
        declared = m["params"]["capabilities"]
        if "roots" in declared and "sampling" not in declared and os.environ.get("REFUSE"): sys.exit(7)
        answer(m, {"protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": {"name": "s", "version": "1"}})
    elif m["method"] == "tools/call" and m["params"]["name"] == "plain":
        answer(m, {"content": [{"type": "text", "text": str(os.getpid())}]})
    elif m["method"] == "server/discover":
        print(json.dumps({"jsonrpc": "2.0", "id": m["id"], "error": {"code": -32601, "message": "unknown"}}), flush=True)
"#;

const PATIENCE: Duration = Duration::from_secs(20);

struct Fixture {
    lanes: Arc<Lanes>,
    shared: Arc<Connection>,
    stop: CancellationToken,
}

impl Fixture {
    async fn start(most: usize, env: &[(&str, &str)]) -> Self {
        let endpoint = Endpoint::Stdio(StdioCommand {
            program: "python3".into(),
            args: vec!["-c".into(), SERVER.into()],
            env: env
                .iter()
                .map(|(name, value)| ((*name).into(), (*value).into()))
                .collect(),
            cwd: None,
        });
        let timeouts = Timeouts {
            connect: PATIENCE,
            ..Timeouts::default()
        };
        let stop = CancellationToken::new();
        let bounds = Bounds {
            most,
            idle: Duration::from_millis(100),
        };
        let metrics = Metrics::new().unwrap().server("default/s");
        let opened = Connection::open(
            "s",
            &endpoint,
            timeouts,
            &Questions::of_catalog(),
            &Arc::new(Known::default()),
        )
        .await;
        Self {
            shared: Arc::new(opened.unwrap()),
            lanes: Lanes::within(bounds, "s".into(), endpoint, timeouts, metrics, stop.clone()),
            stop,
        }
    }

    async fn call(&self, owner: &str, tool: &str) -> Result<String, Error> {
        let text = format!(r#"{{"name":"{tool}"}}"#);
        let params = Members::parse(&text).unwrap();
        let features = Features {
            roots: true,
            ..Features::default()
        };
        let call = Call {
            method: Method::ToolsCall,
            target: tool,
            params: &params,
            meta: None,
            param_headers: None,
            owner: Owner::Session(owner.into()),
            features: &features,
            answers: None,
            task: TaskCall::No,
            log_level: None,
            ear: None,
            fanout: Fanout::No,
        };
        let carried = self.lanes.call(&self.shared, Sharing::Together, &call, None);
        let reply = timeout(PATIENCE, carried).await.expect("no answer")?;
        let Body::Result(result) = reply.body() else {
            panic!("{reply:?}");
        };
        let result: serde_json::Value = serde_json::from_str(result).unwrap();
        Ok(result["content"][0]["text"].as_str().unwrap().to_owned())
    }
}

async fn gone(process: &str) {
    let deadline = Instant::now() + PATIENCE;
    while Path::new("/proc").join(process).exists() {
        assert!(Instant::now() < deadline, "process {process} still runs");
        sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn at_the_bound_an_idle_lane_gives_way_and_a_busy_one_does_not() {
    let fixture = Fixture::start(1, &[]).await;
    let first = fixture.call("a", "plain").await.unwrap();
    let second = fixture.call("b", "plain").await.unwrap();
    assert_ne!(first, second);
    gone(&first).await;
    let busy = fixture.call("b", "never answered");
    let refused = async {
        sleep(Duration::from_millis(100)).await;
        fixture.call("a", "plain").await
    };
    tokio::select! {
        _ = busy => panic!("it answers"),
        refused = refused => assert_eq!(refused, Err(Error::NoLane(1))),
    }
    fixture.call("a", "plain").await.unwrap();
}

#[tokio::test]
async fn lanes_that_nobody_uses_are_closed_and_opened_again_when_needed() {
    let fixture = Fixture::start(9, &[]).await;
    let first = fixture.call("a", "plain").await.unwrap();
    fixture.lanes.close_idle();
    assert_eq!(fixture.call("a", "plain").await.unwrap(), first, "it was just used");
    sleep(fixture.lanes.bounds.idle).await;
    fixture.lanes.close_idle();
    gone(&first).await;
    assert_ne!(fixture.call("a", "plain").await.unwrap(), first);
}

#[tokio::test]
async fn a_process_that_died_unused_takes_no_room_and_is_replaced_when_needed() {
    let fixture = Fixture::start(9, &[]).await;
    let first = fixture.call("a", "plain").await.unwrap();
    let killed = std::process::Command::new("kill")
        .args(["-9", &first])
        .status()
        .unwrap();
    assert!(killed.success());
    let deadline = Instant::now() + PATIENCE;
    while fixture.lanes.pool.len() > 0 {
        assert!(Instant::now() < deadline, "its end is not noticed");
        sleep(Duration::from_millis(10)).await;
    }
    assert_ne!(fixture.call("a", "plain").await.unwrap(), first);
}

#[tokio::test]
async fn a_lane_that_cannot_be_opened_fails_all_who_wait_for_it_and_takes_no_room() {
    let fixture = Fixture::start(1, &[("REFUSE", "1")]).await;
    let (first, second) = tokio::join!(fixture.call("a", "plain"), fixture.call("a", "plain"));
    assert_eq!(first.unwrap_err().to_string(), "the process ended with exit code 7");
    assert_eq!(second.unwrap_err().reason(), "ProcessExited");
    assert_eq!(fixture.call("b", "plain").await.unwrap_err().reason(), "ProcessExited");
}

#[tokio::test]
async fn all_lanes_close_at_once_when_the_server_is_let_go_of() {
    let fixture = Fixture::start(9, &[]).await;
    let mut processes = Vec::new();
    for owner in ["a", "b", "c"] {
        processes.push(fixture.call(owner, "plain").await.unwrap());
    }
    fixture.stop.cancel();
    let started = Instant::now();
    fixture.lanes.tend().await;
    assert!(started.elapsed() < defaults::CHILD_STOP_TIMEOUT);
    for process in &processes {
        gone(process).await;
    }
    assert_eq!(fixture.call("a", "plain").await.unwrap_err().reason(), "NotConnected");
}
