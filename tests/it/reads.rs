//! Resources that nobody lists: whoever may have them is asked, and none goes round in circles.

use std::sync::Arc;
use std::time::Duration;

use mcpfleet::fleet::PlanInput;
use mcpfleet::mcp::Revision;
use mcpfleet::upstream::Endpoint;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use crate::support::gateway::{TestGateway, plan_with};
use crate::support::shelf::Shelf;
use crate::support::upstream::{Answer, Upstream, refusing_address};

const HOP: &str = "x-mcp-resource-fanout-hop";
const BOTH: [Revision; 2] = [Revision::LATEST_LEGACY, Revision::LATEST];

fn missed_in(revision: Revision) -> i64 {
    if revision == Revision::LATEST { -32602 } else { -32002 }
}

async fn read(gateway: &TestGateway, revision: Revision, uri: &str) -> Value {
    gateway.ask(revision, "resources/read", json!({"uri": uri})).await
}

fn text(answer: &Value) -> &str {
    answer["result"]["contents"][0]["text"]
        .as_str()
        .unwrap_or_else(|| panic!("{answer}"))
}

/// A server that answers every read with this HTTP status.
async fn failing(status: u16) -> Upstream {
    let shelf = Shelf::empty();
    Upstream::start(move |seen| match seen.method() {
        "resources/read" => Answer::status(status),
        _ => shelf.answer_modern(seen),
    })
    .await
}

/// The hops that came with the reads of a server.
fn hops(server: &Upstream) -> Vec<String> {
    let reads = server.seen_of("resources/read").into_iter();
    reads
        .map(|seen| seen.header(HOP).unwrap_or("none").to_owned())
        .collect()
}

#[tokio::test]
async fn what_nobody_lists_is_read_from_whoever_has_it() {
    for missing in [-32602, -32002] {
        let empty = Shelf {
            missing,
            ..Shelf::empty()
        };
        let a = empty.legacy().await;
        let b = Shelf::empty().with("x://1", "of b").modern().await;
        let gateway = TestGateway::ready(&[("a", a.address), ("b", b.address)]).await;
        for revision in BOTH {
            assert_eq!(text(&read(&gateway, revision, "x://1").await), "of b");
        }
        assert_eq!(hops(&a), ["1", "1"]);
        assert_eq!(hops(&b), ["1", "1"]);
        assert_eq!(
            b.seen_of("resources/read")[0].header("mcp-name"),
            Some("x://1"),
            "a Modern server is told so in its headers"
        );
    }
}

#[tokio::test]
async fn who_has_it_answers_though_others_fail() {
    let a = failing(500).await;
    let b = Shelf::empty().with("x://1", "of b").legacy().await;
    let gateway = TestGateway::ready(&[("a", a.address), ("b", b.address)]).await;
    for revision in BOTH {
        assert_eq!(text(&read(&gateway, revision, "x://1").await), "of b");
    }
}

#[tokio::test]
async fn uris_of_skills_in_what_nobody_lists_are_told_as_anywhere() {
    let shelf = Shelf::empty();
    let a = Upstream::start(move |seen| match seen.method() {
        "resources/read" => seen.result(json!({
            "resultType": "complete", "contents": [{"uri": "skill://a/x", "text": "x"}], "ttlMs": 0, "cacheScope": "private",
        })),
        _ => shelf.answer_modern(seen),
    })
    .await;
    let gateway = TestGateway::ready(&[("m", a.address)]).await;
    for revision in BOTH {
        let answer = read(&gateway, revision, "x://1").await;
        assert_eq!(answer["result"]["contents"][0]["uri"], "skill://m/a/x", "{answer}");
    }
}

#[tokio::test]
async fn the_first_in_order_answers_though_it_is_slower() {
    let slow = Shelf::empty().with("x://1", "of a");
    let a = Upstream::start(move |seen| match seen.method() {
        "resources/read" => {
            let message = json!({"jsonrpc": "2.0", "id": seen.body["id"], "result": {
                "resultType": "complete", "contents": [{"uri": "x://1", "text": "of a"}], "ttlMs": 0, "cacheScope": "private",
            }});
            Answer::Stream(vec![(Duration::from_millis(300), message)])
        }
        _ => slow.answer_modern(seen),
    })
    .await;
    let b = Shelf::empty().with("x://1", "of b").modern().await;
    let gateway = TestGateway::ready(&[("a", a.address), ("b", b.address)]).await;
    for revision in BOTH {
        assert_eq!(text(&read(&gateway, revision, "x://1").await), "of a");
    }
    assert_eq!(hops(&b).len(), 2, "nobody waits for an earlier one to be asked");
}

#[tokio::test]
async fn a_miss_names_who_failed_and_how_and_no_address() {
    let (a, b) = (failing(500).await, Shelf::empty().modern().await);
    let odd = Upstream::start(|seen| match seen.method() {
        "resources/read" => seen.error(200, -32603, "dial tcp https://hunter2@inner.example failed"),
        _ => Shelf::empty().answer_legacy(seen),
    })
    .await;
    let servers = [("alpha", a.address), ("beta", b.address), ("odd", odd.address)];
    let gateway = TestGateway::ready(&servers).await;
    for revision in BOTH {
        let answer = read(&gateway, revision, "x://1").await;
        let error = &answer["error"];
        assert_eq!(error["code"], missed_in(revision), "{answer}");
        assert_eq!(error["data"]["uri"], "x://1");
        let details = error["data"]["details"].as_str().unwrap();
        assert!(details.starts_with("2 members"), "{details}");
        assert!(details.contains("alpha: ") && details.contains("500"), "{details}");
        assert!(details.contains("odd: ") && details.contains("-32603"), "{details}");
        assert!(!details.contains("beta"), "{details}");
        for secret in ["hunter2", "inner", "127.0.0.1", "http:", "https:"] {
            assert!(!answer.to_string().contains(secret), "{answer}");
        }
    }
}

#[tokio::test]
async fn a_member_that_is_not_there_is_named_and_one_that_has_no_resources_is_not_asked() {
    let nobody = refusing_address().await;
    let tools_only = Upstream::start(|seen| match seen.method() {
        "initialize" => seen.result(json!({
            "protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
            "serverInfo": {"name": "legacy", "version": "1"},
        })),
        _ => Shelf::empty().with("x://1", "hidden").answer_legacy(seen),
    })
    .await;
    let plan = plan_with(&[("gone", nobody), ("tools", tools_only.address)], json!({}));
    let mut gateway = TestGateway::start(plan).await;
    gateway
        .until(|seen| seen.servers.values().filter(|server| server.catalog.is_some()).count() == 1)
        .await;
    let answer = read(&gateway, Revision::LATEST, "x://1").await;
    let details = answer["error"]["data"]["details"].as_str().unwrap();
    assert!(details.contains("gone: "), "{details}");
    assert!(!details.contains("tools"), "{details}");
    assert_eq!(hops(&tools_only), [""; 0]);
}

#[tokio::test]
async fn a_clean_miss_says_no_more_than_what_is_missing() {
    let (a, b) = (Shelf::empty().legacy().await, Shelf::empty().modern().await);
    let gateway = TestGateway::ready(&[("a", a.address), ("b", b.address)]).await;
    for revision in BOTH {
        let answer = read(&gateway, revision, "x://1").await;
        assert_eq!(answer["error"]["code"], missed_in(revision));
        assert_eq!(answer["error"]["data"], json!({"uri": "x://1"}));
    }
}

#[tokio::test]
async fn a_server_that_hangs_is_given_up_and_named() {
    let hanging = Upstream::start(|seen| match seen.method() {
        "resources/read" => Answer::Hang,
        _ => Shelf::empty().answer_modern(seen),
    })
    .await;
    let b = Shelf::empty().modern().await;
    let mut plan = plan_with(&[("a", hanging.address), ("b", b.address)], json!({}));
    plan.servers[0].terms.timeouts.resource = Duration::from_millis(300);
    let mut gateway = TestGateway::start(plan).await;
    gateway
        .until(|seen| seen.servers.values().all(|server| server.catalog.is_some()))
        .await;
    let started = Instant::now();
    let answer = read(&gateway, Revision::LATEST, "x://1").await;
    assert!(started.elapsed() < Duration::from_secs(5));
    let details = answer["error"]["data"]["details"].as_str().unwrap();
    assert!(details.contains("a: no answer to resources/read"), "{details}");
}

#[tokio::test]
async fn what_is_listed_or_fits_a_template_is_read_from_its_owner_alone() {
    let mut owner = Shelf::empty();
    owner.resources = vec![json!({"uri": "x://listed", "name": "listed"})];
    owner.templates = vec![json!({"uriTemplate": "t://{id}", "name": "t"})];
    let a = owner.legacy().await;
    let b = Shelf::empty()
        .with("x://listed", "of b")
        .with("t://1", "of b")
        .legacy()
        .await;
    let gateway = TestGateway::ready(&[("a", a.address), ("b", b.address)]).await;
    for uri in ["x://listed", "t://1"] {
        let answer = read(&gateway, Revision::LATEST, uri).await;
        assert_eq!(answer["error"]["code"], -32602, "{answer}");
    }
    assert_eq!(hops(&a), ["none", "none"], "it is no guess");
    assert_eq!(hops(&b), [""; 0]);
}

/// A read with these hops behind it.
async fn read_after(gateway: &TestGateway, revision: Revision, hops: &str, uri: &str) -> Value {
    if revision == Revision::LATEST {
        let mut request = gateway.modern_request(json!(1), "resources/read", json!({"uri": uri}), json!({}));
        request.headers_mut().insert(HOP, hops.parse().unwrap());
        return gateway.send(request).await.json();
    }
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "resources/read", "params": {"uri": uri}});
    let headers = [("mcp-protocol-version", revision.as_str()), (HOP, hops)];
    gateway.post(body, &headers).await.json()
}

#[tokio::test]
async fn hops_are_counted_and_end_at_the_limit() {
    let mut shelf = Shelf::empty().with("x://1", "found");
    shelf.resources = vec![json!({"uri": "x://listed", "name": "listed"})];
    let a = shelf.with("x://listed", "listed").legacy().await;
    let gateway = TestGateway::ready(&[("a", a.address)]).await;
    for (number, revision) in BOTH.into_iter().enumerate() {
        for (sent, forwarded) in [
            ("1", Some("2")),
            ("2", Some("3")),
            ("odd", Some("1")),
            ("-4", Some("1")),
        ] {
            let answer = read_after(&gateway, revision, sent, "x://1").await;
            assert_eq!(text(&answer), "found", "{sent}");
            assert_eq!(hops(&a).last().map(String::as_str), forwarded, "{sent}");
        }
        let before = hops(&a).len();
        for sent in ["3", "4", "18446744073709551616"] {
            let answer = read_after(&gateway, revision, sent, "x://1").await;
            assert_eq!(answer["error"]["code"], missed_in(revision), "{sent} {answer}");
        }
        assert_eq!(hops(&a).len(), before, "nobody was asked");
        assert_eq!(text(&read_after(&gateway, revision, "3", "x://listed").await), "listed");
        assert_eq!(hops(&a).last().unwrap(), "3", "an owner may be a gateway, {number}");
    }
}

#[tokio::test]
async fn the_limit_is_the_federations() {
    let a = Shelf::empty().with("x://1", "found").legacy().await;
    for (limit, sent, found) in [(1, "0", true), (1, "1", false), (0, "0", false), (5, "4", true)] {
        let spec = json!({"limits": {"fanoutHops": limit}});
        let gateway = TestGateway::ready_with(&[("a", a.address)], spec).await;
        let answer = read_after(&gateway, Revision::LATEST, sent, "x://1").await;
        assert_eq!(answer.get("result").is_some(), found, "{limit} {sent}");
    }
}

/// The plan for a gateway over another one, and a server.
fn beside(gateway: &TestGateway, witness: &Upstream) -> PlanInput {
    let mut plan = plan_with(&[("other", gateway.address), ("witness", witness.address)], json!({}));
    if let Ok(Endpoint::Http(endpoint)) = &mut plan.servers[0].endpoint {
        endpoint.url = gateway.url().parse().unwrap();
    }
    plan
}

#[tokio::test]
async fn gateways_that_are_members_of_each_other_come_to_an_end() {
    let (of_p, of_q) = (Shelf::empty().legacy().await, Shelf::empty().modern().await);
    let mut p = TestGateway::start(plan_with(&[], json!({}))).await;
    let mut q = TestGateway::start(plan_with(&[], json!({}))).await;
    let (over_q, over_p) = (beside(&q, &of_p), beside(&p, &of_q));
    p.input.send_replace(Arc::new(over_q));
    q.input.send_replace(Arc::new(over_p));
    for gateway in [&mut p, &mut q] {
        gateway
            .until(|seen| seen.servers.values().filter(|server| server.catalog.is_some()).count() == 2)
            .await;
    }
    let answer = read(&p, Revision::LATEST, "x://nowhere").await;
    assert_eq!(answer["error"]["code"], -32602);
    assert_eq!(answer["error"]["data"], json!({"uri": "x://nowhere"}));
    let told = |server| {
        let mut hops = hops(server);
        hops.sort();
        hops
    };
    assert_eq!(told(&of_p), ["1", "3"], "so P was asked by a client, and with 2");
    assert_eq!(told(&of_q), ["2"], "so Q was asked with 1, and with 3 for nothing");
}

#[tokio::test]
async fn rules_say_who_is_asked_for_whom() {
    let a = Shelf::empty()
        .with("x://secret", "of a")
        .with("x://open", "of a")
        .legacy()
        .await;
    let b = Shelf::empty().with("x://open", "of b").legacy().await;
    let rules = json!([{"members": ["a"], "names": ["x://o*"]}, {"members": ["b"]}]);
    let spec = json!({"access": {"anonymous": {}, "rules": rules}});
    let gateway = TestGateway::ready_with(&[("a", a.address), ("b", b.address)], spec).await;
    assert_eq!(text(&read(&gateway, Revision::LATEST, "x://open").await), "of a");
    let answer = read(&gateway, Revision::LATEST, "x://secret").await;
    assert_eq!(answer["error"]["data"], json!({"uri": "x://secret"}));
    let asked = |server: &Upstream| {
        let reads = server.seen_of("resources/read").into_iter();
        reads.map(|seen| seen.body["params"]["uri"].clone()).collect::<Vec<_>>()
    };
    assert_eq!(asked(&a), ["x://open"]);
    assert_eq!(asked(&b).last().unwrap(), "x://secret");
}

#[tokio::test]
async fn skills_are_not_asked_for_everywhere() {
    let a = Shelf::empty().with("skill://x/SKILL.md", "of a").legacy().await;
    let gateway = TestGateway::ready(&[("a", a.address)]).await;
    let answer = read(&gateway, Revision::LATEST, "skill://x/SKILL.md").await;
    assert_eq!(answer["error"]["data"], json!({"uri": "skill://x/SKILL.md"}));
    assert_eq!(hops(&a), [""; 0]);
}

/// A Modern server that tells of its progress with a read, and then has it or not.
async fn telling(progress: &'static [u64], has_it: bool) -> Upstream {
    Upstream::start(move |seen| {
        if seen.method() != "resources/read" {
            return Shelf::empty().answer_modern(seen);
        }
        let token = seen.body["params"]["_meta"]["progressToken"].clone();
        let pause = Duration::from_millis(30);
        let told = progress.iter().map(|progress| {
            let params = json!({"progressToken": token, "progress": progress});
            (pause, json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": params}))
        });
        let answer = if has_it {
            json!({"jsonrpc": "2.0", "id": seen.body["id"], "result": {
                "resultType": "complete", "contents": [{"uri": "x://1", "text": "found"}], "ttlMs": 0, "cacheScope": "private",
            }})
        } else {
            json!({"jsonrpc": "2.0", "id": seen.body["id"], "error": {"code": -32602, "message": "no"}})
        };
        Answer::Stream(told.chain([(pause, answer)]).collect())
    })
    .await
}

#[tokio::test]
async fn progress_of_all_who_are_asked_grows_for_the_client() {
    let (a, b) = (telling(&[1, 5], false).await, telling(&[2, 3, 6], true).await);
    let gateway = TestGateway::ready(&[("a", a.address), ("b", b.address)]).await;
    let params = json!({"uri": "x://1", "_meta": {"progressToken": "mine"}});
    let mut stream = gateway.modern_events(json!(1), "resources/read", params).await;
    let messages = stream.rest().await;
    let (answer, told) = messages.split_last().unwrap();
    assert_eq!(text(answer), "found");
    let told: Vec<u64> = told
        .iter()
        .map(|message| {
            assert_eq!(message["params"]["progressToken"], "mine");
            message["params"]["progress"].as_u64().unwrap()
        })
        .collect();
    assert!(told.windows(2).all(|two| two[0] < two[1]), "{told:?}");
    assert!(told.contains(&5) && told.contains(&6), "{told:?}");
}

#[tokio::test]
async fn whoever_does_not_want_it_any_more_has_it_cancelled_everywhere() {
    let hanging = |shelf: Shelf| {
        Upstream::start(move |seen| match seen.method() {
            "resources/read" => Answer::Hang,
            _ => shelf.answer_legacy(seen),
        })
    };
    let (a, b) = (hanging(Shelf::empty()).await, hanging(Shelf::empty()).await);
    let gateway = TestGateway::ready(&[("a", a.address), ("b", b.address)]).await;
    let session = gateway.open_session(Revision::LATEST_LEGACY).await;
    let read = json!({"jsonrpc": "2.0", "id": 7, "method": "resources/read", "params": {"uri": "x://1"}});
    let asked = gateway.post_events(&session, Revision::LATEST_LEGACY, &read);
    let cancelled = async {
        for server in [&a, &b] {
            until(|| !server.seen_of("resources/read").is_empty()).await;
        }
        let params = json!({"requestId": 7});
        let message = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params});
        let headers = [
            ("mcp-session-id", session.as_str()),
            ("mcp-protocol-version", "2025-11-25"),
        ];
        gateway.post(message, &headers).await;
        for server in [&a, &b] {
            until(|| !server.seen_of("notifications/cancelled").is_empty()).await;
        }
    };
    tokio::join!(asked, cancelled);
}

async fn until(holds: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(10);
    while !holds() {
        assert!(Instant::now() < deadline, "it never came to that");
        sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn a_server_that_asks_something_first_is_asked_alone() {
    let form = json!({"mode": "form", "message": "Who?", "requestedSchema": {"type": "object", "properties": {}}});
    let a = Shelf::empty().modern().await;
    let b = Upstream::start(move |seen| match seen.method() {
        "resources/read" if seen.body["params"].get("inputResponses").is_none() => seen.result(json!({
            "resultType": "input_required", "requestState": "theirs",
            "inputRequests": {"who": {"method": "elicitation/create", "params": form}},
        })),
        "resources/read" => seen.result(json!({
            "resultType": "complete", "contents": [{"uri": "x://1", "text": seen.body["params"]["requestState"]}],
            "ttlMs": 0, "cacheScope": "private",
        })),
        _ => Shelf::empty().answer_modern(seen),
    })
    .await;
    let gateway = TestGateway::ready(&[("a", a.address), ("b", b.address)]).await;
    let capabilities = json!({"elicitation": {"form": {}}});
    let read = |more: Value| {
        let mut params = json!({"uri": "x://1"});
        for (name, value) in more.as_object().unwrap() {
            params[name] = value.clone();
        }
        gateway.modern_declaring(capabilities.clone(), "resources/read", params)
    };
    let asked = read(json!({})).await.pop().unwrap();
    assert_eq!(asked["result"]["resultType"], "input_required", "{asked}");
    let state = &asked["result"]["requestState"];
    let answers = json!({"who": {"action": "accept", "content": {}}});
    let answered = read(json!({"requestState": state, "inputResponses": answers}))
        .await
        .pop()
        .unwrap();
    assert_eq!(text(&answered), "theirs", "{answered}");
}
