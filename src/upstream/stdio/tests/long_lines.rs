//! Lines that are longer than is taken.

use super::*;

/// Answers `long` with more than is taken, with the id before or behind the result, and everything else as it should be.
const LONG: &str = r#"
def long(r):
    result = "x" * (17 << 20)
    if r["method"] == "long_id_first": return {"jsonrpc": "2.0", "id": r["id"], "result": result}
    if r["method"] == "long_id_last": return {"result": result, "jsonrpc": "2.0", "id": r["id"]}
    if r["method"] == "long_error": return {"jsonrpc": "2.0", "id": r["id"], "error": {"code": 1, "message": result}}
    return {"jsonrpc": "2.0", "method": "notifications/message", "params": {"data": result, "id": r["id"]}}
for r in requests:
    if "id" not in r: continue
    if r["method"].startswith("long"): say(long(r))
    else: answer(r, os.getpid())
"#;

#[tokio::test]
async fn a_line_that_is_too_long_fails_its_own_call_and_no_other() {
    let (metrics, all) = counted();
    let child = StdioConnection::spawn("test", &python(LONG), Questions::of_catalog(), metrics).unwrap();
    let process = child.ask(1, "plain").await.unwrap();
    let pending = ["long_id_first", "long_id_last", "long_error"].into_iter().zip(2..);
    for (method, id) in pending {
        let error = child.ask(id, method).await.unwrap_err();
        assert_eq!(error, StdioError::TooLarge(defaults::EVENT_MAX), "{method}");
        assert_eq!(child.ask(id + 10, "plain").await.unwrap(), process);
    }
    // Which call it is about, if any, is not told: that call goes on waiting.
    let limit = Duration::from_millis(1500);
    assert!(
        timeout(limit, child.request(9, request(9, "long_notice"), None))
            .await
            .is_err()
    );
    assert_eq!(child.ask(20, "plain").await.unwrap(), process);
    let page = String::from_utf8(all.page().unwrap().0).unwrap();
    assert!(
        page.contains("mcpfleet_upstream_messages_skipped_total{server=\"test\"} 4"),
        "{page}"
    );
}

#[tokio::test]
async fn a_line_without_an_end_is_not_kept_and_holds_up_nobody() {
    let child = start(
        r#"
next(requests)
for _ in range(64 * 1024): sys.stdout.write("x" * 1024)
sys.stdout.write("\n"); sys.stdout.flush()
for r in requests: answer(r, "still here")
"#,
    );
    let silent = child.request(1, request(1, "a"), None);
    let (silent, other) = tokio::join!(timeout(Duration::from_secs(3), silent), async {
        sleep(Duration::from_millis(100)).await;
        child.ask(2, "b").await
    });
    assert!(silent.is_err());
    assert_eq!(other.unwrap(), "still here");
}

fn counted() -> (ServerMetrics, Metrics) {
    let all = Metrics::new().unwrap();
    (all.server("test"), all)
}
