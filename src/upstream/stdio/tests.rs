//! Real children, small and ill-behaved.

use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::{Instant, sleep, timeout};

use super::*;
use crate::metrics::Metrics;

mod grandchildren;
mod long_lines;

/// Reads requests and answers by hand; `say` writes a message, `requests` yields what comes in.
const PRELUDE: &str = r#"
import json, os, signal, subprocess, sys, time
def say(message):
    sys.stdout.write(json.dumps(message) + "\n"); sys.stdout.flush()
def answer(request, result):
    say({"jsonrpc": "2.0", "id": request["id"], "result": result})
def tell(**params):
    say({"jsonrpc": "2.0", "method": "told", "params": params})
requests = map(json.loads, sys.stdin)
"#;

fn python(script: &str) -> StdioCommand {
    StdioCommand {
        program: "python3".into(),
        args: vec!["-c".into(), format!("{PRELUDE}{script}")],
        env: Default::default(),
        cwd: None,
    }
}

fn metrics() -> ServerMetrics {
    Metrics::new().unwrap().server("test")
}

fn start(script: &str) -> StdioConnection {
    StdioConnection::spawn("test", &python(script), Questions::of_catalog(), metrics()).unwrap()
}

fn request(id: u64, method: &str) -> Bytes {
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": {}})
        .to_string()
        .into()
}

impl StdioConnection {
    async fn ask(&self, id: u64, method: &str) -> Result<Value, StdioError> {
        let answer = timeout(PATIENCE, self.request(id, request(id, method), None))
            .await
            .expect("no answer in time")?;
        Ok(serde_json::from_slice::<Value>(&answer).unwrap()["result"].take())
    }

    async fn told(&self) -> Value {
        let told = timeout(PATIENCE, self.notification())
            .await
            .expect("nothing told in time")
            .unwrap();
        serde_json::from_slice::<Value>(&told).unwrap()["params"].take()
    }

    async fn end(&self) -> ExitCause {
        timeout(PATIENCE, self.exited()).await.expect("still running")
    }
}

const PATIENCE: Duration = Duration::from_secs(20);

/// Whether a process of this number runs; a zombie does not.
fn runs(pid: &Value) -> bool {
    let stat = std::fs::read_to_string(Path::new("/proc").join(pid.to_string()).join("stat"));
    stat.is_ok_and(|stat| !stat.contains(") Z "))
}

async fn gone(pid: &Value) {
    let deadline = Instant::now() + PATIENCE;
    while runs(pid) {
        assert!(Instant::now() < deadline, "process {pid} still runs");
        sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn answers_find_their_calls_in_any_order_and_untouched() {
    let child = start(
        r#"
first, second = next(requests), next(requests)
print('  {"jsonrpc" : "2.0", "id": %d, "result": {"n": 9007199254740993, "x": 1.0}}' % second["id"], flush=True)
answer(first, "first")
"#,
    );
    let (first, second) = tokio::join!(child.ask(1, "a"), child.request(2, request(2, "b"), None));
    assert_eq!(first.unwrap(), "first");
    assert_eq!(
        second.unwrap(),
        r#"  {"jsonrpc" : "2.0", "id": 2, "result": {"n": 9007199254740993, "x": 1.0}}"#
    );
}

#[tokio::test]
async fn many_requests_at_once_reach_the_child_whole() {
    let child = Arc::new(start(r#"for r in requests: answer(r, len(r["params"]["text"]))"#));
    let calls = (0..200_u64).map(|id| {
        let child = child.clone();
        tokio::spawn(async move {
            let length = usize::try_from(id).unwrap() * 1000;
            let message = json!({"jsonrpc": "2.0", "id": id, "method": "m", "params": {"text": "x".repeat(length)}});
            let answer = child.request(id, message.to_string().into(), None).await.unwrap();
            let answer: Value = serde_json::from_slice(&answer).unwrap();
            assert_eq!(answer["result"], length);
        })
    });
    for call in calls.collect::<Vec<_>>() {
        call.await.unwrap();
    }
}

#[tokio::test]
async fn line_ends_between_tokens_do_not_break_the_framing() {
    let child = start(r#"for r in requests: answer(r, r["params"])"#);
    let message = "{\"jsonrpc\":\"2.0\",\r\n\"id\":1,\"method\":\"m\",\n\"params\":{\"text\":\n\"a\\nb\"}}";
    let answer = child.request(1, message.into(), None).await.unwrap();
    assert_eq!(
        serde_json::from_slice::<Value>(&answer).unwrap()["result"],
        json!({"text": "a\nb"})
    );
}

#[tokio::test]
async fn a_dropped_call_is_cancelled_at_the_child_and_leaves_nothing_behind() {
    let child = start(
        r#"
for r in requests:
    if r["method"] == "hang": tell(id=r["id"])
    elif "id" in r: answer(r, None)
    else: tell(**r)
"#,
    );
    let hanging = child.request(7, request(7, "hang"), None);
    tokio::select! {
        _ = hanging => panic!("it answers"),
        told = child.told() => assert_eq!(told, json!({"id": 7})),
    }
    let cancelled = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 7}});
    assert_eq!(child.told().await, cancelled);
    assert!(!child.link.calls.answer(7, Bytes::new()));
    child.ask(8, "next").await.unwrap();
}

#[tokio::test]
async fn a_dropped_initialize_is_not_cancelled() {
    let child = start(
        r#"
for r in requests:
    if r["method"] == "initialize": tell()
    elif "id" in r: answer(r, seen)
    seen = r["method"]
"#,
    );
    tokio::select! {
        _ = child.request(1, request(1, "initialize"), None) => panic!("it answers"),
        _ = child.told() => {}
    }
    assert_eq!(child.ask(2, "next").await.unwrap(), "initialize");
}

#[tokio::test]
async fn death_fails_all_calls_at_once_with_its_cause_and_last_words() {
    let child = start(
        r#"
next(requests); next(requests)
for n in range(100): print("line %d" % n, file=sys.stderr)
print("\x1b[31mno token given\x1b[0m" + "x" * 100000, file=sys.stderr)
sys.exit(3)
"#,
    );
    let (first, second) = tokio::join!(child.ask(1, "a"), child.ask(2, "b"));
    let error = first.unwrap_err();
    assert_eq!(error, second.unwrap_err());
    assert_eq!(error.to_string(), "the process ended with exit code 3");
    assert_eq!(error.reason(), "ProcessExited");
    let cause = child.end().await;
    assert_eq!(error, StdioError::Ended(cause.clone()));
    assert_eq!(cause.last_words.len(), defaults::CHILD_LOG_LINES);
    assert_eq!(cause.last_words[18], "line 99");
    assert!(cause.last_words[19].starts_with("no token givenxxx"));
    assert!(cause.last_words[19].len() <= defaults::CHILD_LOG_LINE_MAX);
    assert_eq!(child.ask(3, "late").await.unwrap_err(), error);
    assert_eq!(child.notify(Bytes::from_static(b"{}")).await.unwrap_err(), error);
    assert_eq!(child.notification().await, None);
}

#[tokio::test]
async fn an_answer_printed_just_before_death_arrives() {
    let child = start(r#"answer(next(requests), "x" * 1000000); os._exit(0)"#);
    assert_eq!(child.ask(1, "a").await.unwrap().as_str().unwrap().len(), 1_000_000);
    assert_eq!(child.end().await.ending, Ending::Code(0));
}

#[tokio::test]
async fn death_by_a_signal_is_named() {
    let child = start("next(requests); os.kill(os.getpid(), signal.SIGSEGV)");
    assert_eq!(
        child.ask(1, "a").await.unwrap_err().to_string(),
        "the process was ended by signal 11"
    );
}

#[tokio::test]
async fn a_server_that_dies_of_an_unknown_request_can_be_started_again() {
    let script = r#"
for r in requests:
    if r["method"] != "initialize": sys.exit(1)
    answer(r, "hello")
"#;
    let child = start(script);
    assert_eq!(
        child.ask(1, "server/discover").await.unwrap_err().reason(),
        "ProcessExited"
    );
    assert_eq!(start(script).ask(1, "initialize").await.unwrap(), "hello");
}

#[tokio::test]
async fn junk_between_messages_is_skipped() {
    let child = start(
        r#"
out = sys.stdout.buffer
r = next(requests)
out.write(b"Server running on stdio\r\n\r\n\n   \n{\"level\":\"info\"}\n[1]\n\xff\xfe\n")
out.write(b'{"jsonrpc":"2.0","id":"1","result":"wrong"}\n{"jsonrpc":"2.0","id":9,"result":"late"}\n')
out.write(b'{"jsonrpc":"2.0","id":1,"result":"right"}\r\n')
out.flush()
for r in requests: answer(r, "next")
"#,
    );
    assert_eq!(child.ask(1, "a").await.unwrap(), "right");
    assert_eq!(child.ask(2, "b").await.unwrap(), "next");
}

#[tokio::test]
async fn a_flood_of_notifications_is_bounded_and_holds_nothing_up() {
    let child = start(
        r#"
r = next(requests)
for n in range(50000): sys.stdout.write('{"jsonrpc":"2.0","method":"told","params":{"n":%d}}\n' % n)
answer(r, "after")
for r in requests: answer(r, None)
"#,
    );
    assert_eq!(child.ask(1, "a").await.unwrap(), "after");
    let first = child.told().await["n"].as_u64().unwrap();
    assert_eq!(
        first,
        50_000 - u64::try_from(defaults::CHILD_NOTIFICATIONS_MAX).unwrap()
    );
    child.ask(2, "b").await.unwrap();
}

#[tokio::test]
async fn a_child_that_does_not_read_holds_up_only_its_own_callers() {
    let child = start("tell(); time.sleep(1000)");
    child.told().await;
    let message = |id: u64| {
        let text = "x".repeat(100_000);
        Bytes::from(json!({"jsonrpc": "2.0", "id": id, "method": "m", "params": {"text": text}}).to_string())
    };
    let wait = Duration::from_millis(500);
    let calls = (0..200).map(|id| timeout(wait, child.request(id, message(id), None)));
    assert!(futures::future::join_all(calls).await.iter().all(Result::is_err));
    assert!((0..200).all(|id| child.link.calls.take_message(id).is_none()));
    let notices = (0..200).map(|_| timeout(wait, child.notify(Bytes::from_static(b"{}"))));
    assert!(futures::future::join_all(notices).await.iter().any(Result::is_err));
    let other = start("for r in requests: answer(r, 1)");
    other.ask(1, "a").await.unwrap();
    let started = Instant::now();
    child.stop().await;
    assert!(started.elapsed() < defaults::CHILD_STOP_TIMEOUT);
}

#[tokio::test]
async fn requests_of_the_child_are_answered() {
    let child = start(
        r#"
r = next(requests)
say({"jsonrpc": "2.0", "id": "p", "method": "ping"})
pong = next(requests)
say({"jsonrpc": "2.0", "id": r["id"], "method": "roots/list"})
refusal = next(requests)
answer(r, [pong, refusal["id"], refusal["error"]["code"]])
"#,
    );
    let pong = json!({"jsonrpc": "2.0", "id": "p", "result": {}});
    assert_eq!(child.ask(5, "a").await.unwrap(), json!([pong, 5, -32601]));
}

#[tokio::test]
async fn a_child_that_asks_without_end_does_not_keep_calls_from_itself() {
    // It asks faster than it reads, so that there is always an answer to be written.
    let child = start(
        r#"
import threading
def flood():
    pings = b'{"jsonrpc":"2.0","id":"p","method":"ping"}\n' * 50
    while True: os.write(1, pings)
r = next(requests)
answer(r, None)
threading.Thread(target=flood, daemon=True).start()
for r in requests:
    if "method" in r: os.write(1, b'{"jsonrpc":"2.0","id":%d,"result":null}\n' % r["id"])
"#,
    );
    for id in 1..5 {
        child.ask(id, "a").await.unwrap();
    }
}

#[tokio::test]
async fn a_child_that_asks_without_end_and_never_reads_is_bounded() {
    let child = start(
        r#"
r = next(requests)
for n in range(100000): sys.stdout.write('{"jsonrpc":"2.0","id":"%s%d","method":"ping"}\n' % ("x" * 100, n))
answer(r, None)
time.sleep(1000)
"#,
    );
    child.ask(1, "a").await.unwrap();
}

#[tokio::test]
async fn a_child_that_closes_its_output_is_ended() {
    let child = start(r#"tell(pid=os.getpid()); next(requests); os.close(1); time.sleep(1000)"#);
    let pid = child.told().await["pid"].take();
    assert_eq!(
        child.ask(1, "a").await.unwrap_err().to_string(),
        "the process closed its standard output"
    );
    child.end().await;
    assert!(!runs(&pid));
}

#[tokio::test]
async fn a_child_that_ends_at_the_end_of_its_input_is_not_signalled() {
    let folder = tempfile::tempdir().unwrap();
    let mark = folder.path().join("mark");
    let script = format!("tell()\nfor r in requests: pass\ntime.sleep(0.3)\nopen({mark:?}, 'w').write('done')");
    let child = start(&script);
    child.told().await;
    child.stop().await;
    assert_eq!(std::fs::read_to_string(mark).unwrap(), "done");
    assert_eq!(child.end().await.ending, Ending::Stopped);
}

#[tokio::test]
async fn stop_ends_even_a_child_that_refuses() {
    let child = start(
        r#"
signal.signal(signal.SIGTERM, signal.SIG_IGN)
tell(pid=os.getpid())
while True: time.sleep(1000)
"#,
    );
    let pid = child.told().await["pid"].take();
    let started = Instant::now();
    child.stop().await;
    assert!(started.elapsed() < defaults::CHILD_STOP_TIMEOUT + Duration::from_secs(1));
    assert!(!runs(&pid));
    assert_eq!(
        child.ask(1, "late").await.unwrap_err().to_string(),
        "the process was stopped"
    );
}

#[tokio::test]
async fn the_environment_is_inherited_under_the_given_variables_and_not_shown() {
    let mut command = python(r#"answer(next(requests), [os.environ["TOKEN"], "PATH" in os.environ, os.getcwd()])"#);
    command.env = [("TOKEN".to_owned(), "secret".to_owned())].into();
    command.cwd = Some("/".into());
    assert!(!format!("{command:?}").contains("secret"));
    let child = StdioConnection::spawn("test", &command, Questions::of_catalog(), metrics()).unwrap();
    assert!(!format!("{child:?}").contains("secret"));
    assert_eq!(child.ask(1, "a").await.unwrap(), json!(["secret", true, "/"]));
}

#[tokio::test]
async fn a_command_that_cannot_start_says_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let plain = folder.path().join("plain");
    std::fs::write(&plain, "").unwrap();
    let error = |program: &str, cwd: Option<&str>| {
        let mut command = python("");
        command.program = program.into();
        command.cwd = cwd.map(Into::into);
        let error = StdioConnection::spawn("test", &command, Questions::of_catalog(), metrics()).unwrap_err();
        (error.reason(), error.to_string())
    };
    let missing = (
        "ProgramNotFound",
        "program \"no-such-program\" was not found; install it, or give its full path".into(),
    );
    assert_eq!(error("no-such-program", None), missing);
    assert_eq!(error(plain.to_str().unwrap(), None).0, "ProgramNotExecutable");
    let nowhere = "working directory /no/such/place does not exist; create it or correct cwd";
    assert_eq!(
        error("python3", Some("/no/such/place")),
        ("WorkingDirectoryMissing", nowhere.into())
    );
}
