//! Questions heard and answered, without a connection.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::{sleep, timeout};

use super::*;

/// Keeps what it is asked.
#[derive(Debug, Default)]
struct Client(Mutex<Vec<Asked>>, Mutex<usize>);

impl Ear for Client {
    fn heard(&self, _notification: &[u8]) {
        *self.1.lock().unwrap() += 1;
    }

    fn asked(&self, asked: Asked) {
        self.0.lock().unwrap().push(asked);
    }
}

impl Client {
    fn take(&self) -> Asked {
        self.0.lock().unwrap().pop().expect("nothing was asked")
    }
}

fn of_principal() -> Owner {
    Owner::Principal("p".into())
}

fn of_session() -> Owner {
    Owner::Session("s".into())
}

fn questions(owner: &Owner) -> Arc<Questions> {
    let declared = Features {
        roots: true,
        forms: true,
        sampling: Some(Default::default()),
        ..Features::default()
    };
    Questions::of_lane(owner, declared)
}

fn begin(questions: &Arc<Questions>) -> (Arc<Client>, Begun) {
    let client = Arc::new(Client::default());
    let begun = questions.begin(&of_principal(), Some(Arc::clone(&client) as _));
    (client, begun)
}

fn hear(questions: &Arc<Questions>, call: Option<&Begun>, id: Value, method: &str, params: Value) -> Heard {
    let text = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string();
    let envelope = Envelope::parse(text.as_bytes(), usize::MAX).unwrap();
    questions.hear(call, envelope.id.and_then(Id::from_raw).unwrap(), &envelope)
}

fn reply(heard: Heard) -> Value {
    match heard {
        Heard::Reply(message) => serde_json::from_slice(&message).unwrap(),
        other => panic!("no reply at once: {other:?}"),
    }
}

fn pending(heard: Heard) -> Pending {
    match heard {
        Heard::Pending(pending) => pending,
        other => panic!("nobody was asked: {other:?}"),
    }
}

async fn answered(pending: Pending) -> Value {
    let (message, _) = pending.reply().await.expect("no answer");
    serde_json::from_slice(&message).unwrap()
}

#[tokio::test]
async fn a_question_is_answered_under_the_servers_own_id() {
    let questions = questions(&of_principal());
    let (client, begun) = begin(&questions);
    for id in [json!("q-1"), json!(7)] {
        let pending = pending(hear(&questions, Some(&begun), id.clone(), "roots/list", json!({})));
        client.take().answer(Said::Result(r#"{"roots":[]}"#.into()));
        let expected = json!({"jsonrpc": "2.0", "id": id, "result": {"roots": []}});
        assert_eq!(answered(pending).await, expected);
    }
}

#[tokio::test]
async fn ping_is_answered_and_what_was_not_declared_is_refused() {
    let questions = questions(&of_principal());
    let (_client, begun) = begin(&questions);
    let answer = |method, params| reply(hear(&questions, Some(&begun), json!("p"), method, params));
    assert_eq!(
        answer("ping", json!({})),
        json!({"jsonrpc": "2.0", "id": "p", "result": {}})
    );
    assert_eq!(answer("tasks/get", json!({}))["error"]["code"], -32601);
    let page = json!({"mode": "url", "url": "https://x", "message": "m"});
    assert_eq!(answer("elicitation/create", page)["error"]["code"], -32602);
    let nobody = Questions::of_lane(&Owner::Nobody, Features::default());
    let (_client, begun) = begin(&nobody);
    for method in ["roots/list", "sampling/createMessage", "elicitation/create"] {
        let refused = reply(hear(&nobody, Some(&begun), json!(1), method, json!({})));
        assert_eq!(refused["error"]["code"], -32601, "{method}");
    }
}

#[test]
fn an_answer_is_small_whatever_was_asked() {
    let questions = questions(&of_principal());
    let long = "é".repeat(100_000);
    let Heard::Reply(refusal) = hear(&questions, None, json!(1), &long, json!({})) else {
        panic!("not refused");
    };
    assert!(refusal.len() < 1024);
    assert!(matches!(
        hear(&questions, None, json!(long), "ping", json!({})),
        Heard::Nothing
    ));
}

#[test]
fn params_that_cannot_be_read_are_refused() {
    let questions = questions(&of_principal());
    let (_client, begun) = begin(&questions);
    let deep = format!("{}{}", "[".repeat(200), "]".repeat(200));
    for params in [r#"{"a":1,"a":2}"#.to_owned(), format!(r#"{{"a":{deep}}}"#)] {
        let text = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"roots/list","params":{params}}}"#);
        let envelope = Envelope::parse(text.as_bytes(), usize::MAX).unwrap();
        let heard = questions.hear(Some(&begun), Id::from_raw(envelope.id.unwrap()).unwrap(), &envelope);
        assert_eq!(reply(heard)["error"]["code"], -32602);
    }
}

#[tokio::test]
async fn where_no_call_is_named_only_one_that_is_alone_or_the_same_clients_latest_is_meant() {
    let ask = |questions: &Arc<Questions>, id: u64| hear(questions, None, json!(id), "elicitation/create", json!({}));
    let only = questions(&of_principal());
    assert_eq!(
        reply(ask(&only, 1))["result"],
        json!({"action": "cancel"}),
        "no call is in flight"
    );
    let (first_client, first) = begin(&only);
    drop(pending(ask(&only, 2)));
    first_client.take();
    let (_, second) = begin(&only);
    assert_eq!(
        reply(ask(&only, 3))["result"],
        json!({"action": "cancel"}),
        "it could be either"
    );
    drop(second);
    drop(pending(ask(&only, 4)));
    first_client.take();
    drop(first);
    assert_eq!(
        reply(ask(&only, 5))["result"],
        json!({"action": "cancel"}),
        "the call is over"
    );

    let latest = questions(&of_session());
    let (first_client, _first) = begin(&latest);
    let (second_client, second) = begin(&latest);
    drop(pending(ask(&latest, 1)));
    second_client.take();
    drop(second);
    drop(pending(ask(&latest, 2)));
    first_client.take();
}

#[tokio::test]
async fn a_client_that_hears_nothing_or_lets_go_of_the_question_refuses_it() {
    let questions = questions(&of_principal());
    let deaf = questions.begin(&of_principal(), None);
    let refused = reply(hear(
        &questions,
        Some(&deaf),
        json!(1),
        "sampling/createMessage",
        json!({}),
    ));
    assert_eq!(refused["error"]["code"], -1);
    let (client, begun) = begin(&questions);
    let pending = pending(hear(
        &questions,
        Some(&begun),
        json!(2),
        "sampling/createMessage",
        json!({}),
    ));
    drop(client.take());
    assert_eq!(answered(pending).await["error"]["code"], -1);
}

#[tokio::test]
async fn a_flood_of_questions_is_refused_beyond_its_bound() {
    let questions = questions(&of_principal());
    let (client, begun) = begin(&questions);
    let ask = |id: usize| hear(&questions, Some(&begun), json!(id), "roots/list", json!({}));
    let waiting: Vec<Pending> = (0..defaults::LANE_QUESTIONS_MAX).map(|id| pending(ask(id))).collect();
    assert_eq!(reply(ask(99))["error"]["code"], -32601);
    assert!(matches!(ask(3), Heard::Nothing), "the same question again");
    assert_eq!(client.0.lock().unwrap().len(), defaults::LANE_QUESTIONS_MAX);
    client.take().answer(Said::Result("{}".into()));
    answered(waiting.into_iter().next_back().unwrap()).await;
    pending(ask(99));
}

#[tokio::test]
async fn the_end_of_a_call_and_the_servers_word_withdraw_questions() {
    let questions = questions(&of_principal());
    let (client, begun) = begin(&questions);
    let ask = |id: Value| pending(hear(&questions, Some(&begun), id, "elicitation/create", json!({})));
    let first = ask(json!("a"));
    let asked = client.take();
    let text = r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"a"}}"#;
    questions.withdraw(&Envelope::parse(text.as_bytes(), 9).unwrap());
    assert!(first.reply().await.is_none());
    assert!(asked.withdrawn().is_cancelled());
    asked.answer(Said::Result("{}".into()));

    let second = ask(json!("b"));
    let asked = client.take();
    let refusals = begun.refuse_questions();
    let expected = json!({"jsonrpc": "2.0", "id": "b", "result": {"action": "cancel"}});
    assert_eq!(refusals.len(), 1);
    assert_eq!(serde_json::from_slice::<Value>(&refusals[0]).unwrap(), expected);
    asked.answer(Said::Result("{}".into()));
    assert!(second.reply().await.is_none(), "it is answered once");

    let third = ask(json!("c"));
    let asked = client.take();
    drop(begun);
    assert!(third.reply().await.is_none());
    assert!(asked.withdrawn().is_cancelled());
}

#[tokio::test]
async fn time_stands_still_while_a_client_is_asked_and_begins_anew_with_its_answer() {
    let questions = questions(&of_principal());
    let (client, begun) = begin(&questions);
    let limit = Duration::from_millis(200);
    let silent = begun.wait_for(Some(limit), std::future::pending::<()>()).await;
    assert_eq!(silent, Err(Ended::TimedOut));

    let pending = pending(hear(&questions, Some(&begun), json!(1), "roots/list", json!({})));
    let answering = async {
        sleep(limit * 3).await;
        client.take().answer(Said::Result("{}".into()));
        answered(pending).await;
        sleep(limit / 2).await;
    };
    assert_eq!(begun.wait_for(Some(limit), answering).await, Ok(()));
    let waited = timeout(limit * 5, begun.wait_for(Some(limit), std::future::pending::<()>())).await;
    assert_eq!(waited.expect("it never ended"), Err(Ended::TimedOut));
}

#[tokio::test]
async fn a_call_whose_answers_the_server_does_not_take_is_over() {
    let questions = questions(&of_principal());
    let (client, begun) = begin(&questions);
    let pending = pending(hear(&questions, Some(&begun), json!(1), "roots/list", json!({})));
    client.take().answer(Said::Result("{}".into()));
    let undelivered = pending.reply().await.unwrap().1;
    undelivered.end_call();
    let ended = begun.wait_for(None, std::future::pending::<()>()).await;
    assert_eq!(ended, Err(Ended::Lost));
}

#[tokio::test]
async fn an_answer_of_a_model_is_given_in_the_servers_revision() {
    let questions = questions(&of_principal());
    questions.negotiated(Revision::V2025_06_18);
    let (client, begun) = begin(&questions);
    let pending = pending(hear(
        &questions,
        Some(&begun),
        json!(1),
        "sampling/createMessage",
        json!({}),
    ));
    let several =
        r#"{"role":"assistant","model":"m","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}"#;
    client.take().answer(Said::Result(several.into()));
    let answer = answered(pending).await;
    assert_eq!(answer["result"]["content"]["type"], "text", "{answer}");
}

#[tokio::test]
async fn what_is_no_answer_of_a_model_is_the_servers_to_judge_and_what_it_has_no_words_for_is_an_error() {
    let questions = questions(&of_principal());
    questions.negotiated(Revision::V2025_06_18);
    let (client, begun) = begin(&questions);
    let picture = json!({"type": "image", "data": "AA==", "mimeType": "image/png"});
    for (number, content, is_passed_on) in [(1, json!(7), true), (2, json!([picture, picture]), false)] {
        let method = "sampling/createMessage";
        let pending = pending(hear(&questions, Some(&begun), json!(number), method, json!({})));
        let said = json!({"role": "assistant", "content": content});
        client.take().answer(Said::Result(said.to_string()));
        let answer = answered(pending).await;
        match is_passed_on {
            true => assert_eq!(answer["result"], said),
            false => assert_eq!(answer["error"]["code"], -32603, "{answer}"),
        }
    }
}

#[tokio::test]
async fn what_comes_late_is_never_taken_for_another_owners() {
    let owners = ["p", "q"].map(|name| Owner::Principal(name.into()));
    let [p, q] = &owners;
    let nobody = &Owner::Nobody;
    for (before, now, is_heard) in [
        (vec![], p, true),
        (vec![], nobody, true),
        (vec![p], p, true),
        (vec![p, p], p, true),
        (vec![p], q, false),
        (vec![p, q], q, false),
        (vec![nobody], nobody, false),
        (vec![nobody], p, false),
        (vec![p, nobody], p, false),
    ] {
        for questions in [Questions::of_lane(nobody, Features::default()), Questions::of_catalog()] {
            for owner in &before {
                drop(questions.begin(owner, Some(Arc::new(Client::default()))));
            }
            let client = Arc::new(Client::default());
            let _begun = questions.begin(now, Some(Arc::clone(&client) as _));
            questions.hear_notification(b"{}");
            assert_eq!(*client.1.lock().unwrap(), usize::from(is_heard), "{before:?} {now:?}");
        }
    }
}

#[tokio::test]
async fn where_the_catalog_is_read_everything_is_declared_and_every_question_refused() {
    let questions = Questions::of_catalog();
    assert_eq!(*questions.declared(), Features::everything());
    let (client, _begun) = begin(&questions);
    let answer = |method, params| reply(hear(&questions, None, json!("p"), method, params));
    let form = json!({"message": "m", "requestedSchema": {"type": "object", "properties": {}}});
    assert_eq!(
        answer("elicitation/create", form)["result"],
        json!({"action": "cancel"})
    );
    let page = json!({"mode": "url", "url": "https://x", "message": "m", "elicitationId": "e"});
    assert_eq!(
        answer("elicitation/create", page)["result"],
        json!({"action": "cancel"})
    );
    assert_eq!(answer("sampling/createMessage", json!({}))["error"]["code"], -1);
    assert_eq!(answer("roots/list", json!({}))["error"]["code"], -32601);
    assert_eq!(answer("ping", json!({}))["result"], json!({}));
    assert!(client.0.lock().unwrap().is_empty());
}
