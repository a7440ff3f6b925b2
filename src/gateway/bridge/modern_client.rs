//! Modern clients: asked by results that they answer with the same request, whatever era the server is of.

use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;
use serde_json::Value;
use serde_json::value::RawValue;
use tokio::time::sleep;

use super::conversation::Conversation;
use super::lacks::{LackingEar, Lacks};
use super::state::{self, Continued, Opened, Subject};
use super::{Arrived, Hop, questions, tasks};
use crate::defaults;
use crate::gateway::answer::Answer;
use crate::gateway::legacy::now;
use crate::gateway::relay::Relay;
use crate::gateway::session::FederationKeys;
use crate::mcp::asking::Asking;
use crate::mcp::input_required::{self, InputRequired};
use crate::mcp::shape::ResultError;
use crate::mcp::{Era, Features, Members, Method, Revision, RpcError, message, meta, object};
use crate::metrics::Outcome;
use crate::upstream::{Answers, Body, Call, Ear, Error, Owner, Reply};

/// Carries a Modern client's request, or goes on with one.
pub(super) async fn carry(hop: Hop<'_>) -> Answer {
    let features = hop.declared();
    // Others are answered at once or not at all (2026-07-28, multi round-trip requests).
    let features = match hop.request.method {
        Method::ToolsCall | Method::PromptsGet | Method::ResourcesRead => features,
        _ => features.silent(),
    };
    let takes_tasks = features.tasks && hop.request.method == Method::ToolsCall && has_keys(hop);
    // Only what the server declares too is of use, and a task that cannot be named anew could not be asked for.
    let features = Features {
        tasks: takes_tasks && hop.upstream.capabilities().tasks,
        ..features
    };
    let asker = Asker {
        hop,
        features: &features,
        takes_tasks,
    };
    let params = hop.request.params;
    let responses = params.get("inputResponses").map(|raw| raw.get());
    if responses.is_some_and(|text| Members::parse(text).is_none()) {
        return asker.refused("params.inputResponses must be an object");
    }
    let Some(raw) = params.get("requestState") else {
        return asker.begin(responses).await;
    };
    let Some(opened) = object::string(raw).and_then(|text| asker.open(&text)) else {
        return asker.refused(OVER);
    };
    // A wrong answer is refused before it uses up the question.
    if let Continued::Parked(name) = &opened.continues
        && let Some(wrong) = hop.request.bridge.parked.wrong_answer(*name, responses)
    {
        return asker.refused(&wrong);
    }
    let server = &hop.member.server;
    match hop.request.bridge.used.take(opened, now()) {
        Some(Continued::Parked(name)) => match hop.request.bridge.parked.take(name) {
            Some(conversation) => Box::pin(conversation.resume(asker, responses)).await,
            None => asker.refused(WAITS_NO_MORE),
        },
        Some(Continued::Server { server: of, state }) if of == *server => {
            let answers = Answers {
                responses,
                state: Some(&state),
            };
            asker.call(Some(answers)).await
        }
        Some(Continued::Pages { server: of }) if of == *server => Box::pin(asker.after_pages(responses)).await,
        Some(Continued::Server { .. } | Continued::Pages { .. }) | None => asker.refused(OVER),
    }
}

/// A request of a Modern client, and what that client can do.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asker<'a> {
    pub(super) hop: Hop<'a>,
    pub(super) features: &'a Features,
    /// Whether it takes a task for the result.
    pub(super) takes_tasks: bool,
}

impl Asker<'_> {
    async fn begin(&self, responses: Option<&str>) -> Answer {
        if self.takes_tasks && self.hop.target.needs_task && self.asks_while_it_works() {
            return Box::pin(tasks::begin(*self)).await;
        }
        if self.asks_while_it_works() && self.features.is_interactive() && self.keys().is_some() {
            return Conversation::begin(*self).go_on(*self).await;
        }
        let answers = responses.map(|text| Answers {
            responses: Some(text),
            state: None,
        });
        self.call(answers).await
    }

    async fn call(&self, answers: Option<Answers<'_>>) -> Answer {
        let ear = Arc::new(LackingEar {
            relay: self.relay(),
            ..LackingEar::default()
        });
        let hears = self.asks_while_it_works() || ear.relay.is_some();
        let heard = hears.then(|| Arc::clone(&ear) as Arc<dyn Ear>);
        let call = self.hop.call(self.features, self.owner(), heard);
        let reply = self.hop.upstream.call(Call { answers, ..call }).await;
        self.arrived(&reply, &ear.lacks)
    }

    /// Whether the server asks while it works, as far as that is known.
    fn asks_while_it_works(&self) -> bool {
        self.hop.upstream.revision().is_none_or(|it| it.era() == Era::Legacy)
    }

    /// Calls a Legacy server again that wanted pages to be visited first. It tells when they were, though not to this
    /// call; so it is asked again, with patience (2025-11-25, elicitation).
    async fn after_pages(&self, responses: Option<&str>) -> Answer {
        if !agrees_to_all(responses) {
            return self
                .hop
                .given_up("A page that the server needs to be visited was not opened");
        }
        for attempt in 0..defaults::PAGE_TRIES {
            if let Some(before) = attempt.checked_sub(1) {
                sleep(Duration::from_secs(1 << before.min(3))).await;
            }
            let mut conversation = Conversation::begin(*self);
            let Some(reply) = conversation.until_asked(*self).await else {
                return conversation.go_on(*self).await;
            };
            if pages(&reply).is_none() {
                return self.arrived(&reply, conversation.lacks());
            }
        }
        self.hop
            .given_up("The server waits for a page to be completed; call again when that is done")
    }

    /// What a server's answer is to the client, in whichever way it asks.
    pub(super) fn arrived(&self, reply: &Result<Reply, Error>, lacks: &Lacks) -> Answer {
        if let Some(required) = lacks.required(reply) {
            return self.needs(&required);
        }
        if let Some(answer) = self.lacking(reply) {
            return answer;
        }
        if self.features.pages
            && let Some(pages) = pages(reply)
        {
            return self.visit(&pages);
        }
        match self.hop.arrived(reply) {
            Arrived::Answer(answer) => answer,
            Arrived::InputRequired(result) => self.relayed(result),
            Arrived::Task(result) if self.features.tasks => tasks::relayed(*self, result),
            Arrived::Task(_) => self.hop.failed(&ResultError::Task),
        }
    }

    /// The answer to a client that lacks a capability which the server needs. Where the client declared it, it is this
    /// gateway that lacks it, and the error would be misread.
    fn lacking(&self, reply: &Result<Reply, Error>) -> Option<Answer> {
        let Ok(reply) = reply else { return None };
        let Body::Error(error) = reply.body() else { return None };
        let data = data_of(error, RpcError::MISSING_CLIENT_CAPABILITY)?;
        let required: Value = serde_json::from_str(data.get("requiredCapabilities")?.get()).ok()?;
        let declared = self.hop.request.meta?.get(meta::CLIENT_CAPABILITIES)?;
        let declared: Value = serde_json::from_str(declared.get()).ok()?;
        if contains(&declared, &required) {
            return None;
        }
        let id = Some(self.hop.request.id.as_json());
        let body = message::error_response(id, error.as_bytes());
        Some(Answer {
            status: StatusCode::BAD_REQUEST,
            ..Answer::new(body, Outcome::UpstreamError)
        })
    }

    /// The answer to a client that lacks these capabilities (2026-07-28, errors).
    fn needs(&self, required: &Value) -> Answer {
        let names: Vec<_> = required
            .as_object()
            .into_iter()
            .flat_map(|all| all.keys().cloned())
            .collect();
        let text = format!(
            "member {:?} needs a client with {}",
            self.hop.member.name,
            names.join(", ")
        );
        let error = RpcError::new(RpcError::MISSING_CLIENT_CAPABILITY, text);
        let error = error.with_data(serde_json::json!({"requiredCapabilities": required}));
        Answer {
            status: StatusCode::BAD_REQUEST,
            ..Answer::refused(self.hop.request, &error)
        }
    }

    /// A Modern server's questions for the client, their state sealed.
    fn relayed(&self, result: &str) -> Answer {
        let Some(asked) = InputRequired::read(result) else {
            return self.hop.failed(&"its result asks for input in a way that is not known");
        };
        if self.hop.request.method == Method::Complete {
            return self.hop.failed(&"its result asks for input, which no completion may");
        }
        for question in &asked.questions {
            let params = Members::parse(question.params).unwrap_or_default();
            if !self.features.can_be_asked(question.kind, &params) {
                let what = question.kind.method();
                let why = format!("it asks for {what}, which this client did not declare");
                return self.hop.failed(&why);
            }
        }
        let state = match asked.state {
            None => None,
            Some(state) => {
                let continued = Continued::Server {
                    server: self.hop.member.server.clone(),
                    state: state.to_owned(),
                };
                match self.seal(continued) {
                    Some(state) => Some(state),
                    None => return self.hop.failed(&NO_KEYS),
                }
            }
        };
        let (id, info) = (self.hop.request.id, &self.hop.federation.server_info);
        Answer::new(asked.response(id, state.as_deref(), info), Outcome::Ok)
    }

    /// The pages that a Legacy server wants to be visited, as questions.
    fn visit(&self, pages: &[String]) -> Answer {
        let asked: Vec<_> = pages
            .iter()
            .enumerate()
            .filter_map(|(place, page)| {
                let params = questions::for_client(Asking::Elicitation, page, self.features, Revision::LATEST, "");
                Some((format!("page-{}", place + 1), params.ok()?))
            })
            .collect();
        if asked.is_empty() {
            return self.hop.failed(&"it wants pages to be visited, and names none");
        }
        let continued = Continued::Pages {
            server: self.hop.member.server.clone(),
        };
        let asked = asked
            .iter()
            .map(|(key, params)| (key.as_str(), Asking::Elicitation, params.as_str()));
        self.ask(asked, continued)
    }

    /// A result that asks the client, and continues with `continued`.
    pub(super) fn ask<'q>(
        &self,
        asked: impl IntoIterator<Item = (&'q str, Asking, &'q str)>,
        continued: Continued,
    ) -> Answer {
        let Some(state) = self.seal(continued) else {
            return self.hop.failed(&NO_KEYS);
        };
        let (id, info) = (self.hop.request.id, &self.hop.federation.server_info);
        Answer::new(input_required::response(id, asked, &state, info), Outcome::Ok)
    }

    pub(super) fn refused(&self, text: &str) -> Answer {
        Answer::refused(self.hop.request, &RpcError::new(RpcError::INVALID_PARAMS, text))
    }

    /// Where notifications of the server go, if the client wants any.
    pub(super) fn relay(&self) -> Option<Relay> {
        let request = self.hop.request;
        let relay = Relay::new(request.meta, self.hop.logs(), request.intermediate?.clone());
        relay.wants_any().then_some(relay)
    }

    /// Whose connections carry its calls.
    pub(super) fn owner(&self) -> Owner {
        self.hop.owner()
    }

    fn subject(&self) -> Subject<'_> {
        Subject {
            federation: &self.hop.federation.name,
            principal: self.hop.request.principal.name(),
            method: self.hop.request.method,
            params: self.hop.request.params,
        }
    }

    fn keys(&self) -> Option<Arc<FederationKeys>> {
        self.hop.request.bridge.keys(&self.hop.federation.name)
    }

    fn seal(&self, continued: Continued) -> Option<String> {
        state::seal(continued, self.subject(), &*self.keys()?, now())
    }

    fn open(&self, text: &str) -> Option<Opened> {
        state::open(text, self.subject(), &*self.keys()?, now())
    }
}

fn has_keys(hop: Hop<'_>) -> bool {
    hop.request.bridge.keys(&hop.federation.name).is_some()
}

/// Whether every answer of a client is that the person opens the page.
fn agrees_to_all(responses: Option<&str>) -> bool {
    let responses = responses.and_then(Members::parse).unwrap_or_default();
    let agrees =
        |raw: &str| Members::parse(raw).is_some_and(|answer| answer.string("action").as_deref() == Some("accept"));
    responses.iter().next().is_some() && responses.iter().all(|(_, raw)| agrees(raw.get()))
}

/// Whether `declared` has all members of `required`, and theirs.
fn contains(declared: &Value, required: &Value) -> bool {
    let Some(required) = required.as_object() else {
        return true;
    };
    required
        .iter()
        .all(|(name, more)| declared.get(name).is_some_and(|declared| contains(declared, more)))
}

/// The pages that a Legacy server wants to be visited before it takes the call, each as params of an elicitation.
fn pages(reply: &Result<Reply, Error>) -> Option<Vec<String>> {
    let Ok(reply) = reply else { return None };
    let Body::Error(error) = reply.body() else { return None };
    let data = data_of(error, RpcError::URL_ELICITATION_REQUIRED)?;
    let pages: Vec<&RawValue> = serde_json::from_str(data.get("elicitations")?.get()).ok()?;
    let pages = pages.into_iter().take(defaults::QUESTIONS_MAX);
    Some(pages.map(|page| page.get().to_owned()).collect())
}

/// The data of `error`, if it has this code.
fn data_of(error: &str, code: i64) -> Option<Members<'_>> {
    let error = Members::parse(error)?;
    let is_meant = error.get("code")?.get().parse() == Ok(code);
    Members::parse(error.get("data").filter(|_| is_meant)?.get())
}

const OVER: &str = "params.requestState does not continue this request (any more); send the request again without it";
const WAITS_NO_MORE: &str = "the call that params.requestState continues does not wait any more: it was answered, was not gone \
                             on with in time, or gave way to later calls of the same client; send the request again \
                             without it";
const NO_KEYS: &str = "the keys of this install are not here yet; try again";
