//! Results that ask for input before the request can be carried out (2026-07-28, multi round-trip requests).

use super::asking::Asking;
use super::message::Id;
use super::meta;
use super::object::{self, Members, ObjectWriter};

/// What such a result asks for.
#[derive(Debug)]
pub struct InputRequired<'a> {
    /// The questions, by the names that the server gave them.
    pub questions: Vec<Question<'a>>,
    /// The state to send back, a JSON string as the server wrote it.
    pub state: Option<&'a str>,
    members: Members<'a>,
}

/// One question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question<'a> {
    /// Its name.
    pub key: String,
    /// What kind of question it is.
    pub kind: Asking,
    /// Its params, a JSON object.
    pub params: &'a str,
}

/// The value of `resultType`.
pub const TYPE: &str = "input_required";

impl<'a> InputRequired<'a> {
    /// Reads `result`. `None` if it is malformed, asks for nothing, or asks for what no client knows.
    pub fn read(result: &'a str) -> Option<Self> {
        let members = Members::parse(result)?;
        let state = match members.get("requestState") {
            None => None,
            Some(raw) => Some(object::string(raw).map(|_| raw.get())?),
        };
        let questions = match members.get("inputRequests") {
            None => Vec::new(),
            Some(raw) => read_questions(raw.get())?,
        };
        (state.is_some() || !questions.is_empty()).then_some(Self {
            questions,
            state,
            members,
        })
    }

    /// The whole response for a Modern client: the questions as the server wrote them, with `state` in the place of
    /// the server's own, and what the federation says of itself.
    pub fn response(&self, id: Id<'_>, state: Option<&str>, server_info: &str) -> Vec<u8> {
        let mut out = open_response(id);
        let mut result = ObjectWriter::open(&mut out);
        result.string("resultType", TYPE);
        for (name, value) in self.members.iter() {
            match name {
                "resultType" | "requestState" | "_meta" | "ttlMs" | "cacheScope" => {}
                _ => result.member(name, value.get()),
            }
        }
        if let Some(state) = state {
            result.string("requestState", state);
        }
        meta::write_for_client(&mut result, self.members.get("_meta"), Some(server_info));
        result.close();
        out.push(b'}');
        out
    }
}

/// The whole response for a Modern client that is asked `questions`, and sends `state` back with its answers.
pub fn response<'q>(
    id: Id<'_>,
    questions: impl IntoIterator<Item = (&'q str, Asking, &'q str)>,
    state: &str,
    server_info: &str,
) -> Vec<u8> {
    let mut out = open_response(id);
    let mut result = ObjectWriter::open(&mut out);
    result.string("resultType", TYPE);
    let mut asked = ObjectWriter::open(result.name("inputRequests"));
    for (key, kind, params) in questions {
        let mut question = ObjectWriter::open(asked.name(key));
        question.string("method", kind.method());
        question.member("params", params);
        question.close();
    }
    asked.close();
    result.string("requestState", state);
    let mut own = ObjectWriter::open(result.name("_meta"));
    own.member(meta::SERVER_INFO, server_info);
    own.close();
    result.close();
    out.push(b'}');
    out
}

fn open_response(id: Id<'_>) -> Vec<u8> {
    [br#"{"jsonrpc":"2.0","id":"#, id.as_json().as_bytes(), br#","result":"#].concat()
}

fn read_questions(requests: &str) -> Option<Vec<Question<'_>>> {
    Members::parse(requests)?
        .iter()
        .map(|(key, raw)| {
            let question = Members::parse(raw.get())?;
            let params = match question.get("params") {
                None => "{}",
                Some(raw) => raw.get().starts_with('{').then_some(raw.get())?,
            };
            Some(Question {
                key: key.to_owned(),
                kind: Asking::of_method(&question.string("method")?)?,
                params,
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::value::RawValue;

    use super::*;

    const ASKS: &str = r#"{"resultType":"input_required","inputRequests":{"who":{"method":"elicitation/create","params":{"message":"Name?"}},"where":{"method":"roots/list"}},"requestState":"a\u0062c","odd": 1.0,"ttlMs":5,"_meta":{"k":1}}"#;

    fn with_id<T>(take: impl FnOnce(Id<'_>) -> T) -> T {
        let id: &RawValue = serde_json::from_str("7").unwrap();
        take(Id::from_raw(id).unwrap())
    }

    #[test]
    fn questions_and_state_are_read() {
        let read = InputRequired::read(ASKS).unwrap();
        let told: Vec<_> = read
            .questions
            .iter()
            .map(|q| (q.key.as_str(), q.kind, q.params))
            .collect();
        assert_eq!(
            told,
            [
                ("who", Asking::Elicitation, r#"{"message":"Name?"}"#),
                ("where", Asking::Roots, "{}")
            ]
        );
        assert_eq!(read.state, Some(r#""a\u0062c""#));
    }

    #[test]
    fn what_asks_for_nothing_or_for_the_unknown_is_malformed() {
        for odd in [
            r#"{"resultType":"input_required"}"#,
            r#"{"inputRequests":{}}"#,
            r#"{"inputRequests":[]}"#,
            r#"{"inputRequests":{"a":{"method":"tools/call","params":{}}}}"#,
            r#"{"inputRequests":{"a":{"method":"roots/list","params":[]}}}"#,
            r#"{"requestState":1}"#,
        ] {
            assert!(InputRequired::read(odd).is_none(), "{odd}");
        }
        assert!(InputRequired::read(r#"{"requestState":""}"#).is_some());
    }

    #[test]
    fn a_relayed_result_changes_its_state_alone() {
        let read = InputRequired::read(ASKS).unwrap();
        let text = |state| String::from_utf8(with_id(|id| read.response(id, state, r#"{"name":"f"}"#))).unwrap();
        assert_eq!(
            text(Some("ours")),
            r#"{"jsonrpc":"2.0","id":7,"result":{"resultType":"input_required","inputRequests":{"who":{"method":"elicitation/create","params":{"message":"Name?"}},"where":{"method":"roots/list"}},"odd":1.0,"requestState":"ours","_meta":{"k":1,"io.modelcontextprotocol/serverInfo":{"name":"f"}}}}"#
        );
        assert!(!text(None).contains("requestState"));
    }

    #[test]
    fn a_result_of_ours_names_its_questions() {
        let questions = [("q1", Asking::Roots, "{}")];
        let text = with_id(|id| response(id, questions, "s", "{}"));
        assert_eq!(
            String::from_utf8(text).unwrap(),
            r#"{"jsonrpc":"2.0","id":7,"result":{"resultType":"input_required","inputRequests":{"q1":{"method":"roots/list","params":{}}},"requestState":"s","_meta":{"io.modelcontextprotocol/serverInfo":{}}}}"#
        );
    }
}
