//! Requests that reach a server, and what the server asks of the client before it answers.
//!
//! Legacy servers ask by requests of their own while they work; Modern ones by a result that asks for input, and are
//! called again with it. Clients are asked in the way of their own era. So there are four ways:
//!
//! | client | server | where |
//! |---|---|---|
//! | Legacy | Legacy | [`legacy_client`]: each question becomes a request on the stream of the client's call |
//! | Legacy | Modern | [`legacy_client`]: the same, and the server is called again with the answers |
//! | Modern | Modern | [`modern_client`]: the result goes to the client, its state sealed |
//! | Modern | Legacy | [`modern_client`], [`parked`]: the call waits while the client is given a result that asks |

mod asks;
mod conversation;
mod fanout;
mod kept;
mod lacks;
mod legacy_client;
mod modern_client;
mod own_call;
mod parked;
mod questions;
pub(super) mod remote_search;
pub(super) mod session_lanes;
mod state;
mod tasks;

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;

pub(super) use self::fanout::{Failure, ask_all, hops};
pub(super) use self::kept::{Detail as KeptDetail, Kept, Told as KeptTold};

use self::asks::Asks;
use self::parked::Parked;
use self::state::Used;
use super::answer::Answer;
use super::completion;
use super::dispatch::Request;
use super::relay::Logs;
use super::session::{FederationKeys, SessionId, Sessions};
use super::wishes::Wishes;
use crate::api::federation::Encoding;
use crate::fleet::{Federation, Member};
use crate::index::Target;
use crate::index::skills::{self, EntryError, rewrite};
use crate::mcp::notice::LogLevel;
use crate::mcp::{Era, Features, Id, Members, Method, RpcError, message, meta, shape, task, toon};
use crate::metrics::Outcome;
use crate::upstream::{Body, Call, Ear, Error, Fanout, Owner, Reply, Skills, TaskCall, Upstream};

/// What requests share that take more than one message of their client.
#[derive(Debug)]
pub struct Bridge {
    sessions: Arc<Sessions>,
    asks: Arc<Asks>,
    parked: Arc<Parked>,
    /// Tasks that are kept here.
    pub(super) kept: Arc<Kept>,
    used: Used,
    /// What sessions asked for.
    pub(super) wishes: Arc<Wishes>,
}

impl Bridge {
    /// A bridge for clients with `sessions`, which have these `wishes`.
    pub fn new(sessions: Arc<Sessions>, wishes: Arc<Wishes>) -> Self {
        Self {
            sessions,
            asks: Arc::default(),
            parked: Arc::default(),
            kept: Arc::default(),
            used: Used::default(),
            wishes,
        }
    }

    /// What a federation signs with; `None` while the root key is not here.
    pub(super) fn keys(&self, federation: &str) -> Option<Arc<FederationKeys>> {
        self.sessions.keys_of(federation)
    }

    /// Takes a Legacy client's response to what it was asked in its session. False if nobody waits for it.
    pub(super) fn answered(&self, session: SessionId, id: Id<'_>, response: &Bytes) -> bool {
        self.asks.answered(session, id, response)
    }
}

/// Lets the member that owns `target` answer.
pub(super) async fn carry(federation: &Federation, request: Request<'_>, target: &Target) -> Answer {
    let Some(member) = federation.members.get(target.member) else {
        return Answer::failed(request, "the member is gone");
    };
    let Some(upstream) = &member.upstream else {
        return Answer::failed(request, &format!("member {:?} is not connected", member.name));
    };
    let hop = Hop {
        federation,
        member,
        upstream,
        target,
        request,
    };
    match request.revision.era() {
        Era::Legacy => legacy_client::carry(hop).await,
        Era::Modern => modern_client::carry(hop).await,
    }
}

/// One request on its way to one member.
#[derive(Clone, Copy, Debug)]
struct Hop<'a> {
    federation: &'a Federation,
    member: &'a Member,
    upstream: &'a Arc<Upstream>,
    target: &'a Target,
    request: Request<'a>,
}

/// What a server's answer is to the client.
enum Arrived<'r> {
    /// The end of the request.
    Answer(Answer),
    /// A result that asks for input.
    InputRequired(&'r str),
    /// A task of the extension.
    Task(&'r str),
}

impl<'a> Hop<'a> {
    /// The call, without anything that answers an earlier round.
    fn call(&self, features: &'a Features, owner: Owner, ear: Option<Arc<dyn Ear>>) -> Call<'a> {
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

    /// Whoever owns a resource may be a gateway, which counts on.
    fn fanout(&self) -> Fanout {
        match self.request.method {
            Method::ResourcesRead => fanout::passed(self.request.headers),
            _ => Fanout::No,
        }
    }

    /// What the client says that it can do: in its session or, if it is a Modern one, with the request.
    fn declared(&self) -> Features {
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
    fn owner(&self) -> Owner {
        match self.request.session {
            Some(session) => session_lanes::owner(session.id),
            None => session_lanes::owner_without_session(self.request.principal),
        }
    }

    /// What is waited for is the tool's result, whether the server makes a task of it or not. A Legacy client has no
    /// other way to use a tool of a Modern server that wants to make one.
    fn task_call(&self) -> TaskCall {
        match (self.request.method, self.request.revision.era()) {
            (Method::ToolsCall, _) if self.target.needs_task => TaskCall::Finish,
            (Method::ToolsCall, Era::Legacy) => TaskCall::IfNeeded,
            _ => TaskCall::No,
        }
    }

    /// From which level on the client wants to hear what the server logs.
    fn log_level(&self) -> Option<LogLevel> {
        self.logs().level()
    }

    /// Which log messages the client wants: of a Legacy one its session tells, of a Modern one the request.
    fn logs(&self) -> Logs {
        match (self.request.revision.era(), self.request.session) {
            (Era::Modern, _) => Logs::of_request(self.request.meta),
            (Era::Legacy, None) => Logs::Silent,
            (Era::Legacy, Some(session)) => {
                let level = self.request.bridge.wishes.level(session.id);
                level.map_or(Logs::Silent, Logs::From)
            }
        }
    }

    fn arrived<'r>(&self, reply: &'r Result<Reply, Error>) -> Arrived<'r> {
        let request = self.request;
        let reply = match reply {
            Ok(reply) => reply,
            Err(Error::Arguments(error)) => {
                let error = RpcError::new(RpcError::INVALID_PARAMS, error.to_string());
                return Arrived::Answer(Answer::refused(request, &error));
            }
            Err(error) => return Arrived::Answer(self.failed(error)),
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
                Answer::result(request, completion::EMPTY, &self.federation.server_info)
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
    fn for_client<'r>(&self, result: &'r str) -> Result<Cow<'r, str>, EntryError> {
        match (self.request.method, &self.member.skills) {
            (Method::SkillsGet, prefix) => rewrite::entry(result, prefix.as_ref()),
            (Method::ToolsCall | Method::PromptsGet, Some(prefix)) => Ok(rewrite::links(result, prefix)),
            (Method::ResourcesRead, Some(prefix)) => Ok(rewrite::contents(result, prefix)),
            (Method::DirectoryRead, Some(prefix)) => Ok(rewrite::directory(result, prefix)),
            _ => Ok(Cow::Borrowed(result)),
        }
    }

    /// The answer where the member failed.
    fn failed(&self, why: &dyn std::fmt::Display) -> Answer {
        Answer::failed(self.request, &format!("member {:?}: {why}", self.member.name))
    }

    /// The answer where the client did not do its part.
    fn given_up(&self, why: &str) -> Answer {
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
