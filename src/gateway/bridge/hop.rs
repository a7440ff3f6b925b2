//! One request on its way to one member, and what comes back.

use std::borrow::Cow;
use std::sync::Arc;

use super::forwarded;
use crate::api::federation::Encoding;
use crate::fleet::{Federation, Member};
use crate::gateway::answer::Answer;
use crate::gateway::conversations::own_call::OwnCall;
use crate::gateway::conversations::parked::Place;
use crate::gateway::relay::Logs;
use crate::gateway::request::Request;
use crate::gateway::session_lanes;
use crate::index::Target;
use crate::index::skills::{self, EntryError, rewrite};
use crate::mcp::LogLevel;
use crate::mcp::{Era, Features, Members, Method, RpcError, message, meta, shape, task, toon};
use crate::metrics::Outcome;
use crate::upstream::{Body, Call, Ear, Error, Fanout, Owner, Reply, Skills, TaskCall, Upstream};

/// One request on its way to one member.
#[derive(Clone, Copy, Debug)]
pub(super) struct Hop<'a> {
    pub(super) federation: &'a Federation,
    pub(super) member: &'a Member,
    pub(super) upstream: &'a Arc<Upstream>,
    pub(super) target: &'a Target,
    pub(super) request: Request<'a>,
}

/// What a server's answer is to the client.
pub(super) enum Arrived<'r> {
    /// The end of the request.
    Answer(Answer),
    /// A result that asks for input.
    InputRequired(&'r str),
    /// A task of the extension.
    Task(&'r str),
}

impl<'a> Hop<'a> {
    /// The call, without anything that answers an earlier round.
    pub(super) fn call(&self, features: &'a Features, owner: Owner, ear: Option<Arc<dyn Ear>>) -> Call<'a> {
        Call {
            method: self.request.method,
            target: &self.target.original,
            params: self.request.params,
            meta: self.request.meta,
            param_headers: self.target.param_headers.as_deref(),
            owner,
            features,
            answers: None,
            task: self.task_call(),
            log_level: self.log_level(),
            ear,
            fanout: self.fanout(),
        }
    }

    /// The same as a call that outlives the request, for a client with these `features`; `ear` hears it.
    pub(super) fn own_call(&self, features: &Features, ear: Arc<dyn Ear>) -> OwnCall {
        OwnCall {
            upstream: Arc::clone(self.upstream),
            body: self.request.body.clone(),
            method: self.request.method,
            target: self.target.clone(),
            features: features.clone(),
            owner: self.owner(),
            task: self.task_call(),
            log_level: self.log_level(),
            ear,
            fanout: self.fanout(),
        }
    }

    /// Where it waits, if it has to.
    pub(super) fn place(&self) -> Place {
        let principal = self.request.principal.name();
        Place {
            caller: principal.map(|principal| (self.federation.name.clone(), principal.to_owned())),
            server: self.member.server.clone(),
            lanes: self.upstream.lanes_max(),
        }
    }

    /// Whoever owns a resource may be a gateway, which counts on.
    pub(super) fn fanout(&self) -> Fanout {
        match self.request.method {
            Method::ResourcesRead => forwarded::passed(self.request.headers),
            _ => Fanout::No,
        }
    }

    /// What the client says that it can do: in its session or, if it is a Modern one, with the request.
    pub(super) fn declared(&self) -> Features {
        let request = self.request;
        let declared = match request.revision.era() {
            Era::Legacy => request.session.and_then(|session| session.capabilities.as_deref()),
            Era::Modern => request.meta.and_then(|own| own.get(meta::CLIENT_CAPABILITIES)),
        };
        let mut features =
            declared.map_or_else(Features::default, |raw| Features::declared(raw.get(), request.revision));
        // To servers without skills it makes no difference, and so is no reason for a connection of its own.
        if features.extensions.contains_key(skills::EXTENSION) && self.upstream.capabilities().skills == Skills::None {
            features.extensions.remove(skills::EXTENSION);
        }
        features
    }

    /// Whose connections carry the request: those of the session or, without one, of whom access names. A client
    /// without a name shares nothing that could be told apart.
    pub(super) fn owner(&self) -> Owner {
        match self.request.session {
            Some(session) => session_lanes::owner(session.id),
            None => session_lanes::owner_without_session(self.request.principal),
        }
    }

    /// What is waited for is the tool's result, whether the server makes a task of it or not. A Legacy client has no
    /// other way to use a tool of a Modern server that wants to make one.
    pub(super) fn task_call(&self) -> TaskCall {
        match (self.request.method, self.request.revision.era()) {
            (Method::ToolsCall, _) if self.target.needs_task => TaskCall::Finish,
            (Method::ToolsCall, Era::Legacy) => TaskCall::IfNeeded,
            _ => TaskCall::No,
        }
    }

    /// From which level on the client wants to hear what the server logs.
    pub(super) fn log_level(&self) -> Option<LogLevel> {
        self.logs().level()
    }

    /// Which log messages the client wants: of a Legacy one its session tells, of a Modern one the request.
    pub(super) fn logs(&self) -> Logs {
        match (self.request.revision.era(), self.request.session) {
            (Era::Modern, _) => Logs::of_request(self.request.meta),
            (Era::Legacy, None) => Logs::Silent,
            (Era::Legacy, Some(session)) => {
                let level = self.request.conversations.wishes.level(session.id);
                level.map_or(Logs::Silent, Logs::From)
            }
        }
    }

    /// What the server's answer is to the client.
    pub(super) fn arrived<'r>(&self, reply: &'r Result<Reply, Error>) -> Arrived<'r> {
        let request = self.request;
        let reply = match reply {
            Ok(reply) => reply,
            Err(Error::Arguments(error)) => {
                let error = RpcError::new(RpcError::INVALID_PARAMS, error.to_string());
                return Arrived::Answer(Answer::refused(request, &error));
            }
            Err(error) => return Arrived::Answer(self.not_answered(error)),
        };
        Arrived::Answer(match reply.body() {
            Body::Result(result) if self.is_unasked_task(reply.era, result) => self.failed(&shape::ResultError::Task),
            Body::Result(result) => {
                let info = &self.federation.server_info;
                let renamed = match self.for_client(result) {
                    Ok(renamed) => renamed,
                    Err(error) => return Arrived::Answer(self.failed(&error)),
                };
                let encoded = match self.federation.encoding {
                    Encoding::TOON if request.method == Method::ToolsCall => toon::in_tool_result(&renamed),
                    Encoding::TOON | Encoding::JSON => Cow::Borrowed(&*renamed),
                };
                match shape::response(request.id, request.method, &encoded, reply.era, request.revision, info) {
                    Ok(body) => Answer::new(body, outcome(request.method, result)),
                    Err(shape::ResultError::InputRequired) => return Arrived::InputRequired(result),
                    Err(shape::ResultError::Task) => return Arrived::Task(result),
                    Err(error) => self.failed(&error),
                }
            }
            // Servers of the first revision cannot say that they complete nothing.
            Body::Error(error) if request.method == Method::Complete && is_unknown_method(error) => {
                Answer::result(request, NO_COMPLETIONS, &self.federation.server_info)
            }
            Body::Error(error) => {
                let error = shape::error(error, request.method, request.params, request.revision.era());
                let body = message::error_response(Some(request.id.as_json()), &error);
                Answer::new(body, Outcome::UpstreamError)
            }
        })
    }

    /// Whether a result is a task of 2025-11-25. It was not asked for: those that are end up elsewhere.
    fn is_unasked_task(&self, era: Era, result: &str) -> bool {
        era == Era::Legacy && self.request.method == Method::ToolsCall && task::created(result).is_some()
    }

    /// A result with the URIs of skills that clients know them by. Only entries of skills must be such as hosts can use.
    pub(super) fn for_client<'r>(&self, result: &'r str) -> Result<Cow<'r, str>, EntryError> {
        match (self.request.method, &self.member.skills) {
            (Method::SkillsGet, prefix) => rewrite::entry(result, prefix.as_ref()),
            (Method::ToolsCall | Method::PromptsGet, Some(prefix)) => Ok(rewrite::links(result, prefix)),
            (Method::ResourcesRead, Some(prefix)) => Ok(rewrite::contents(result, prefix)),
            (Method::DirectoryRead, Some(prefix)) => Ok(rewrite::directory(result, prefix)),
            _ => Ok(Cow::Borrowed(result)),
        }
    }

    /// The answer where the member gave none; with what to do where it wants credentials, which is for whoever asks alone.
    fn not_answered(&self, error: &Error) -> Answer {
        match self.request.viewer.on_refusal.filter(|_| error.wants_credentials()) {
            Some(on_refusal) => self.failed(&format_args!("{error}; {on_refusal}")),
            None => self.failed(error),
        }
    }

    /// The answer where the member failed.
    pub(super) fn failed(&self, why: &dyn std::fmt::Display) -> Answer {
        Answer::failed(self.request, &self.federation.of_member(&self.member.name, why))
    }

    /// The answer where the client did not do its part.
    pub(super) fn given_up(&self, why: &str) -> Answer {
        Answer::given_up(self.request, why, &self.federation.server_info)
    }
}

/// How a result is counted: that a tool failed stands in it.
fn outcome(method: Method, result: &str) -> Outcome {
    let says_so = || {
        let members = Members::parse(result)?;
        Some(members.get("isError")?.get() == "true")
    };
    // Most results have no such member, and are not read for it.
    if method == Method::ToolsCall && result.contains("\"isError\"") && says_so() == Some(true) {
        Outcome::ToolError
    } else {
        Outcome::Ok
    }
}

fn is_unknown_method(error: &str) -> bool {
    let code = Members::parse(error).and_then(|error| error.get("code"));
    code.is_some_and(|code| code.get().parse() == Ok(RpcError::METHOD_NOT_FOUND))
}

/// The result where nobody completes anything.
pub(in crate::gateway) const NO_COMPLETIONS: &str = r#"{"completion":{"values":[],"total":0,"hasMore":false}}"#;
