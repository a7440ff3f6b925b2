//! The params that a server gets for a client's request, and the answer that comes back: rewriting without IO.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use http::HeaderMap;
use serde_json::value::RawValue;

use super::caller::Owner;
use super::ear::Ear;
use super::error::Error;
use super::state::Peer;
use crate::defaults;
use crate::mcp::LogLevel;
use crate::mcp::meta::Hop;
use crate::mcp::object::{Members, ObjectWriter};
use crate::mcp::{Envelope, Era, Features, Method, ParamHeaders, RpcError, headers, meta, task};

/// A client's request as it goes to the server that owns its target.
#[derive(Clone, Debug)]
pub struct Call<'a> {
    /// What is asked for.
    pub method: Method,
    /// The tool, prompt or resource, as the server knows it.
    pub target: &'a str,
    /// The client's params.
    pub params: &'a Members<'a>,
    /// The `_meta` in them, if it is an object.
    pub meta: Option<&'a Members<'a>>,
    /// Which arguments a Modern server over HTTP wants repeated as headers.
    pub param_headers: Option<&'a ParamHeaders>,
    /// Whose connection carries it.
    pub owner: Owner,
    /// What the client can do, and so what the server may ask of it.
    pub features: &'a Features,
    /// What the client answered to the result that asked for it, if this is the round after one.
    pub answers: Option<Answers<'a>>,
    /// Whether the tool is called for a task, in the way of 2025-11-25.
    pub task: TaskCall,
    /// From which level on the client wants to hear what the server logs; `None` if it wants to hear nothing.
    pub log_level: Option<LogLevel>,
    /// Who hears what the server says before its answer.
    pub ear: Option<Arc<dyn Ear>>,
    /// Whether it is a read of a resource that nobody lists.
    pub fanout: Fanout,
}

/// How a read came to this server. Gateways that are members of each other would ask each other for ever for a resource
/// that nobody lists, if they did not count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fanout {
    /// The server owns the resource, as far as is known.
    #[default]
    No,
    /// The same, and the client's read has so many forwards of this kind behind it.
    Passed(u64),
    /// It is one of several that are asked for what nobody lists: the forward of this number.
    Asked(u64),
}

/// Whether a tool is called for a task, of a server that makes some.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TaskCall {
    /// It is not.
    #[default]
    No,
    /// It is, in the way of 2025-11-25, and the answer is the task.
    Begin,
    /// It is, in the way of 2025-11-25, and the answer is what the task comes to.
    Finish,
    /// It is where a Modern server does not answer otherwise, and the answer is what the task comes to.
    IfNeeded,
}

/// What goes back to a Modern server that asked something in its result (2026-07-28, multi round-trip requests).
#[derive(Clone, Copy, Debug)]
pub struct Answers<'a> {
    /// The object of answers, by the names that the server gave to its questions.
    pub responses: Option<&'a str>,
    /// The state that the server gave, a JSON string as it wrote it.
    pub state: Option<&'a str>,
}

/// A server's answer.
#[derive(Clone, Debug)]
pub struct Reply {
    /// The era of the server, which tells how the result is shaped.
    pub era: Era,
    message: Bytes,
    part: Range<usize>,
    failed: bool,
}

/// What a server answered, as JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Body<'a> {
    /// The result.
    Result(&'a str),
    /// The error object.
    Error(&'a str),
}

impl Fanout {
    /// The number that the server is told.
    fn hops(self) -> Option<u64> {
        match self {
            Self::No => None,
            Self::Passed(hops) | Self::Asked(hops) => Some(hops),
        }
    }
}

impl Call<'_> {
    /// Whether the server must have changed if it does not know what is asked for.
    pub(crate) fn expects_to_be_known(&self) -> bool {
        !self.method.is_of_tasks() && !matches!(self.fanout, Fanout::Asked(_))
    }

    /// The params for `peer` in our request `id`: the target by its original name, `_meta` of our hop, the
    /// rest as written. Progress is asked for under the id, if the client wants it and somebody hears it.
    pub(crate) fn params(&self, peer: &Peer, id: u64) -> Vec<u8> {
        let era = peer.era();
        let size: usize = self
            .params
            .iter()
            .map(|(name, value)| name.len() + value.get().len() + 4)
            .sum();
        let mut out = Vec::with_capacity(size + 256);
        let mut params = ObjectWriter::open(&mut out);
        if let Some(name) = self.method.target().filter(|_| self.method.is_of_tasks()) {
            params.string(name, self.target);
        }
        for (name, value) in self.params.iter() {
            match name {
                // Of one hop: written anew below. Of features that are not carried further: left out.
                "_meta" | "task" | "inputResponses" | "requestState" => {}
                _ if self.method.target() == Some(name) && self.method.is_of_tasks() => {}
                _ if self.method.target() == Some(name) => params.string(name, self.target),
                "ref" if self.method == Method::Complete => self.write_reference(params.name(name), value.get()),
                _ => params.member(name, value.get()),
            }
        }
        if matches!(self.task, TaskCall::Begin | TaskCall::Finish) && peer.takes_task_calls() {
            params.member("task", "{}");
        }
        if let Some(answers) = self.answers {
            let parts = [("inputResponses", answers.responses), ("requestState", answers.state)];
            for (name, value) in parts.into_iter().filter_map(|(name, value)| Some((name, value?))) {
                params.member(name, value);
            }
        }
        let wants_progress = self.ear.is_some() && self.meta.and_then(meta::progress_token).is_some();
        let hop = Hop {
            era,
            revision: &peer.revision_name,
            capabilities: &self.features.to_json(era),
            progress_token: wants_progress.then_some(id),
            log_level: self.log_level,
        };
        meta::write_for_upstream(&mut params, self.meta, hop);
        params.close();
        out
    }

    /// Writes what arguments are completed of: a prompt by its original name, a resource by its original URI.
    fn write_reference(&self, out: &mut Vec<u8>, reference: &str) {
        let Some(members) = Members::parse(reference) else {
            out.extend_from_slice(reference.as_bytes());
            return;
        };
        let key = match members.string("type").as_deref() {
            Some("ref/prompt") => "name",
            _ => "uri",
        };
        if members.string(key).as_deref() == Some(self.target) {
            out.extend_from_slice(reference.as_bytes());
            return;
        }
        let mut object = ObjectWriter::open(out);
        for (name, value) in members.iter() {
            match name {
                _ if name == key => object.string(name, self.target),
                _ => object.member(name, value.get()),
            }
        }
        object.close();
    }

    /// Writes the headers that repeat arguments: what stands in `map` under their names, configured or not, gives way.
    pub(crate) fn write_param_headers(&self, map: &mut HeaderMap) -> Result<(), Error> {
        if let Some(annotated) = self.param_headers {
            annotated.write(self.params.get("arguments"), map)?;
        }
        Ok(())
    }
}

/// The headers of a connection, with those of `call`.
pub(crate) fn headers_of(call: Option<&Call<'_>>, of_connection: &HeaderMap) -> HeaderMap {
    let mut all = of_connection.clone();
    if let Some(hops) = call.and_then(|call| call.fanout.hops()) {
        all.insert(headers::FANOUT_HOP.clone(), hops.into());
    }
    all
}

/// The params of a list method. Lists are read for all clients.
pub(crate) fn list_params(peer: &Peer, cursor: Option<&str>) -> Vec<u8> {
    let mut out = Vec::new();
    let mut params = ObjectWriter::open(&mut out);
    if let Some(cursor) = cursor {
        params.string("cursor", cursor);
    }
    let everything = Features::everything().to_json(peer.era());
    let hop = Hop::declaring(peer.era(), &peer.revision_name, &everything);
    meta::write_for_upstream(&mut params, None, hop);
    params.close();
    out
}

impl Reply {
    /// Reads the answer to our request `id`. An error without id is an answer too: the server could not read ours.
    pub(crate) fn read(message: Bytes, id: u64, era: Era) -> Result<Self, Error> {
        let (part, failed) = {
            let protocol = |e: crate::mcp::MessageError| Error::Protocol(e.to_string());
            let envelope = Envelope::parse(&message, defaults::JSON_DEPTH_MAX).map_err(protocol)?;
            let answered = envelope.id.and_then(crate::mcp::Id::from_raw);
            if answered.is_some_and(|answered| !answered.is_number(id))
                || (answered.is_none() && envelope.error.is_none())
            {
                return Err(Error::Protocol("the answer is to another request".into()));
            }
            match (envelope.result, envelope.error) {
                (Some(result), None) => (range_in(&message, result), false),
                (None, Some(error)) => (range_in(&message, error), true),
                (Some(_), Some(_)) => return Err(Error::Protocol("the answer has both a result and an error".into())),
                (None, None) => return Err(Error::Protocol("the answer has neither result nor error".into())),
            }
        };
        Ok(Self {
            era,
            message,
            part,
            failed,
        })
    }

    /// An answer of the same server with this result, or this error.
    #[must_use]
    pub(crate) fn with(&self, body: Body<'_>) -> Self {
        let (text, failed) = match body {
            Body::Result(result) => (result, false),
            Body::Error(error) => (error, true),
        };
        Self {
            era: self.era,
            part: 0..text.len(),
            message: Bytes::copy_from_slice(text.as_bytes()),
            failed,
        }
    }

    /// What the server answered.
    pub fn body(&self) -> Body<'_> {
        let bytes = self.message.get(self.part.clone()).unwrap_or_default();
        let text = std::str::from_utf8(bytes).unwrap_or("null");
        if self.failed {
            Body::Error(text)
        } else {
            Body::Result(text)
        }
    }

    /// Whether it is an error that names no request, as servers of another era give it.
    pub(crate) fn is_of_no_request(&self) -> bool {
        let id = |envelope: Envelope<'_>| envelope.id.and_then(crate::mcp::Id::from_raw).is_some();
        self.failed && Envelope::parse(&self.message, defaults::JSON_DEPTH_MAX).is_ok_and(|envelope| !id(envelope))
    }

    /// Whether the server says that it knows nothing of this name, or of the method: the codes for it are used for other
    /// faults too.
    pub(crate) fn names_the_unknown(&self) -> bool {
        let Body::Error(error) = self.body() else { return false };
        matches!(
            error_code(error),
            Some(RpcError::INVALID_PARAMS | RpcError::METHOD_NOT_FOUND)
        )
    }

    /// Whether the server answers only clients that take tasks (2026-07-28, errors; tasks extension).
    pub(crate) fn wants_tasks(&self) -> bool {
        let Body::Error(error) = self.body() else { return false };
        let wants = || {
            let data = Members::parse(error)?.get("data")?.get();
            let required = Members::parse(data)?.get("requiredCapabilities")?.get();
            let extensions = Members::parse(required)?.get("extensions")?.get();
            Members::parse(extensions)?.get(task::EXTENSION)
        };
        error_code(error) == Some(RpcError::MISSING_CLIENT_CAPABILITY) && wants().is_some()
    }

    /// Whether the server refused the request for its headers, before it did anything.
    pub(crate) fn refuses_headers(&self) -> bool {
        matches!(self.body(), Body::Error(error) if error_code(error) == Some(RpcError::HEADER_MISMATCH))
    }
}

/// The code of an error object.
pub(crate) fn error_code(error: &str) -> Option<i64> {
    #[derive(serde::Deserialize)]
    struct Code {
        code: i64,
    }
    serde_json::from_str::<Code>(error).ok().map(|error| error.code)
}

/// Where `part`, borrowed from `whole`, stands in it.
fn range_in(whole: &[u8], part: &RawValue) -> Range<usize> {
    let start = (part.get().as_ptr() as usize).saturating_sub(whole.as_ptr() as usize);
    start..start + part.get().len()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mcp::Revision;

    fn params(era: Era, client: &str) -> String {
        call_params(era, client, &Features::default(), None)
    }

    fn call_params(era: Era, client: &str, features: &Features, answers: Option<Answers<'_>>) -> String {
        let params = Members::parse(client).unwrap();
        let meta = params.get("_meta").and_then(|raw| Members::parse(raw.get()));
        let call = Call {
            method: Method::ToolsCall,
            target: "add",
            params: &params,
            meta: meta.as_ref(),
            param_headers: None,
            owner: Owner::Nobody,
            features,
            answers,
            task: TaskCall::No,
            log_level: None,
            ear: None,
            fanout: Fanout::No,
        };
        let peer = Peer {
            revision: match era {
                Era::Legacy => Revision::LATEST_LEGACY,
                Era::Modern => Revision::LATEST,
            },
            ..Peer::taken_for("2026-07-28")
        };
        String::from_utf8(call.params(&peer, 7)).unwrap()
    }

    #[test]
    fn the_target_gets_its_original_name_and_arguments_stay_as_written() {
        let client =
            r#"{ "name":"calc__add", "arguments": {"name" : "x", "big": 12345678901234567890123}, "future":[ ] }"#;
        assert_eq!(
            params(Era::Legacy, client),
            r#"{"name":"add","arguments":{"name" : "x", "big": 12345678901234567890123},"future":[ ]}"#
        );
    }

    #[test]
    fn a_modern_server_gets_an_envelope_of_our_hop() {
        let client = r#"{"name":"x","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"sampling":{}},"k":1},"requestState":"s"}"#;
        let text = params(Era::Modern, client);
        assert!(text.starts_with(r#"{"name":"add","_meta":{"k":1,"#), "{text}");
        assert!(
            text.contains(r#""io.modelcontextprotocol/clientCapabilities":{}"#),
            "{text}"
        );
        assert!(!text.contains("requestState"));
    }

    #[test]
    fn a_modern_server_hears_what_its_client_can_do_and_what_it_answered() {
        let client = r#"{"name":"x","requestState":"ours","inputResponses":{"ours":1}}"#;
        let features = Features {
            forms: true,
            ..Features::default()
        };
        let answers = Answers {
            responses: Some(r#"{"a":{}}"#),
            state: Some("\"theirs\""),
        };
        let text = call_params(Era::Modern, client, &features, Some(answers));
        assert!(
            text.starts_with(r#"{"name":"add","inputResponses":{"a":{}},"requestState":"theirs","_meta":{"#),
            "{text}"
        );
        assert!(
            text.contains(r#""io.modelcontextprotocol/clientCapabilities":{"elicitation":{"form":{}}}"#),
            "{text}"
        );
        let text = call_params(Era::Legacy, client, &features, None);
        assert_eq!(text, r#"{"name":"add"}"#);
    }

    #[test]
    fn a_task_is_asked_for_of_servers_that_make_some_in_this_way_alone() {
        let client = r#"{"name":"x","task":{"ttl":1}}"#;
        let members = Members::parse(client).unwrap();
        let params = |revision, tasks, task| {
            let call = Call {
                method: Method::ToolsCall,
                target: "add",
                params: &members,
                meta: None,
                param_headers: None,
                owner: Owner::Nobody,
                features: &Features::default(),
                answers: None,
                task,
                log_level: None,
                ear: None,
                fanout: Fanout::No,
            };
            let mut peer = Peer {
                revision,
                ..Peer::taken_for("")
            };
            peer.capabilities.tasks = tasks;
            String::from_utf8(call.params(&peer, 7)).unwrap()
        };
        let (legacy, begin) = (Revision::V2025_11_25, TaskCall::Begin);
        assert_eq!(params(legacy, true, begin), r#"{"name":"add","task":{}}"#);
        assert_eq!(params(legacy, true, TaskCall::Finish), r#"{"name":"add","task":{}}"#);
        for not in [TaskCall::No, TaskCall::IfNeeded] {
            assert_eq!(params(legacy, true, not), r#"{"name":"add"}"#);
        }
        assert_eq!(params(legacy, false, begin), r#"{"name":"add"}"#);
        assert!(!params(Revision::LATEST, true, begin).contains(r#""task""#));
    }

    #[test]
    fn a_task_is_named_as_its_server_knows_it() {
        let members = Members::parse(r#"{"inputResponses":{"ours":1},"taskId":"ours","k":1}"#).unwrap();
        let call = |params| Call {
            method: Method::TasksUpdate,
            target: "theirs",
            params,
            meta: None,
            param_headers: None,
            owner: Owner::Nobody,
            features: &NOTHING,
            answers: Some(Answers {
                responses: Some(r#"{"a":{}}"#),
                state: None,
            }),
            task: TaskCall::No,
            log_level: None,
            ear: None,
            fanout: Fanout::No,
        };
        let peer = Peer {
            revision: Revision::LATEST_LEGACY,
            ..Peer::taken_for("")
        };
        let params = |members| String::from_utf8(call(members).params(&peer, 7)).unwrap();
        assert_eq!(
            params(&members),
            r#"{"taskId":"theirs","k":1,"inputResponses":{"a":{}}}"#
        );
        let none = Members::default();
        assert_eq!(params(&none), r#"{"taskId":"theirs","inputResponses":{"a":{}}}"#);
    }

    static NOTHING: std::sync::LazyLock<Features> = std::sync::LazyLock::new(Features::default);

    #[test]
    fn an_answer_is_taken_only_for_its_own_request() {
        let read = |text: &str| Reply::read(Bytes::copy_from_slice(text.as_bytes()), 7, Era::Legacy);
        let reply = read(r#" {"jsonrpc":"2.0","id":7,"result": {"a":1} } "#).unwrap();
        assert_eq!(reply.body(), Body::Result(r#"{"a":1}"#));
        let reply = read(r#"{"jsonrpc":"2.0","id":null,"error":{"code":1}}"#).unwrap();
        assert_eq!(reply.body(), Body::Error(r#"{"code":1}"#));
        for wrong in [
            r#"{"jsonrpc":"2.0","id":8,"result":{}}"#,
            r#"{"jsonrpc":"2.0","id":"7","result":{}}"#,
            r#"{"jsonrpc":"2.0","result":{}}"#,
            r#"{"jsonrpc":"2.0","id":7}"#,
            "nonsense",
        ] {
            assert_eq!(read(wrong).unwrap_err().reason(), "ProtocolError", "{wrong}");
        }
    }
}
