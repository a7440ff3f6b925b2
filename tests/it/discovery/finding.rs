//! Searches in what a federation lists and does not list.

use serde_json::{Value, json};

use super::{ERAS, call, names, ready, search, server, text};

#[tokio::test]
async fn a_search_is_answered_in_one_text_also_where_it_is_not_listed() {
    let pods = server(&["logs", "stop"]).await;
    let gateway = ready(&[("pods", pods.address, json!({"keywords": ["ops"]}))], json!({})).await;
    for revision in ERAS {
        let answer = call(&gateway, revision, "tool_search", json!({"query": "LOGS"})).await;
        let rows: Value = serde_json::from_str(text(&answer)).unwrap();
        assert_eq!(
            rows,
            json!([{
                "name": "pods__logs", "description": "The tool logs.", "score": 0.92,
                "inputSchema": {"type": "object"}, "keywords": ["pods", "remote", "ops"],
            }])
        );
        assert_eq!(answer["result"]["isError"], Value::Null);
        let nothing = call(&gateway, revision, "tool_search", json!({"query": "zzz"})).await;
        assert!(serde_json::from_str::<Value>(text(&nothing)).is_err());
        assert_eq!(nothing["result"]["isError"], Value::Null);
        for wrong in [json!({"query": 7}), json!({"max_results": "many"})] {
            let answer = call(&gateway, revision, "tool_search", wrong.clone()).await;
            assert_eq!(answer["result"]["isError"], true, "{wrong} {answer}");
        }
    }
    let both = json!(["pods__logs", "pods__stop"]);
    for all in [
        json!({}),
        json!({"query": null}),
        json!({"query": "  ", "max_results": null}),
    ] {
        assert_eq!(json!(names(&search(&gateway, all).await)), both);
    }
    assert!(pods.seen_of("tools/call").is_empty());
}

#[tokio::test]
async fn as_many_are_found_as_are_asked_for_within_bounds() {
    let names: &[&str] = &["x1", "x2", "x3", "x4", "x5", "x6", "x7", "x8", "x9", "xa", "xb", "xc"];
    let many = server(names).await;
    let servers = [("m", many.address, json!({"prefix": ""}))];
    let gateway = ready(&servers, json!({})).await;
    for (asked, expected) in [
        (json!({"query": "x"}), 5),
        (json!({"query": "x", "max_results": 0}), 5),
        (json!({"query": "x", "max_results": -4}), 5),
        (json!({"query": "x", "max_results": 7.0}), 7),
        (json!({"query": "x", "max_results": 1000}), 12),
    ] {
        assert_eq!(search(&gateway, asked.clone()).await.len(), expected, "{asked}");
    }
    let bounded = ready(
        &servers,
        json!({"discovery": {"defaultMaxResults": 2, "maxResultsCap": 3}}),
    )
    .await;
    assert_eq!(search(&bounded, json!({})).await.len(), 2);
    assert_eq!(search(&bounded, json!({"max_results": 9})).await.len(), 3);
}
