//! A Modern client as it is asked, and what a server's answer is to it.

use std::sync::Arc;

use http::StatusCode;
use serde_json::Value;
use serde_json::value::RawValue;

use super::hop::{Arrived, Hop};
use super::named_tasks;
use crate::defaults;
use crate::gateway::answer::Answer;
use crate::gateway::conversations::lacks::Lacks;
use crate::gateway::conversations::questions;
use crate::gateway::conversations::state::{self, Continued, Opened, Subject};
use crate::gateway::legacy::now;
use crate::gateway::relay::Relay;
use crate::gateway::session::FederationKeys;
use crate::mcp::asking::Asking;
use crate::mcp::input_required::{self, InputRequired};
use crate::mcp::shape::ResultError;
use crate::mcp::{Features, Members, Method, Revision, RpcError, message, meta};
use crate::metrics::Outcome;
use crate::upstream::{Body, Error, Owner, Reply};

/// A request of a Modern client, and what that client can do.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asker<'a> {
    pub(super) hop: Hop<'a>,
    pub(super) features: &'a Features,
    /// Whether it takes a task for the result.
    pub(super) takes_tasks: bool,
}

impl Asker<'_> {
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
            Arrived::Task(result) if self.features.tasks => named_tasks::relayed(self.hop, result),
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
            "{} needs a client with {}",
            self.hop.federation.called(&self.hop.member.name),
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
        let asked = asked
            .iter()
            .map(|(key, params)| (key.as_str(), Asking::Elicitation, params.as_str()));
        self.ask(asked, Continued::Pages)
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
            server: &self.hop.member.server,
            target: &self.hop.target.original,
            params: self.hop.request.params,
        }
    }

    pub(super) fn keys(&self) -> Option<Arc<FederationKeys>> {
        self.hop.request.conversations.keys(&self.hop.federation.name)
    }

    pub(super) fn seal(&self, continued: Continued) -> Option<String> {
        state::seal(continued, self.subject(), &*self.keys()?, now())
    }

    pub(super) fn open(&self, text: &str) -> Option<Opened> {
        state::open(text, self.subject(), &*self.keys()?, now())
    }
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
pub(super) fn pages(reply: &Result<Reply, Error>) -> Option<Vec<String>> {
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

const NO_KEYS: &str = "the keys of this install are not here yet; try again";
