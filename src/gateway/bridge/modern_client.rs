//! Modern clients: asked by results that they answer with the same request, whatever era the server is of.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;

use super::asker::{Asker, pages};
use super::hop::Hop;
use super::{rounds, tasks};
use crate::defaults;
use crate::gateway::answer::Answer;
use crate::gateway::conversations::lacks::LackingEar;
use crate::gateway::conversations::state::Continued;
use crate::gateway::legacy::now;
use crate::mcp::{Era, Features, Members, Method, object};
use crate::upstream::{Answers, Call, Ear};

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
        && let Some(wrong) = hop.request.conversations.parked.wrong_answer(*name, responses)
    {
        return asker.refused(&wrong);
    }
    match hop.request.conversations.used.take(opened, now()) {
        Some(Continued::Parked(name)) => match hop.request.conversations.parked.take(name) {
            Some(conversation) => Box::pin(rounds::resume(conversation, asker, responses)).await,
            None => asker.refused(WAITS_NO_MORE),
        },
        Some(Continued::Server { state }) => {
            let answers = Answers {
                responses,
                state: Some(&state),
            };
            asker.call(Some(answers)).await
        }
        Some(Continued::Pages) => Box::pin(asker.after_pages(responses)).await,
        None => asker.refused(OVER),
    }
}

impl Asker<'_> {
    async fn begin(&self, responses: Option<&str>) -> Answer {
        if self.takes_tasks && self.hop.target.needs_task && self.asks_while_it_works() {
            return Box::pin(tasks::begin(*self)).await;
        }
        if self.asks_while_it_works() && self.features.is_interactive() && self.keys().is_some() {
            return rounds::go_on(rounds::begin(*self), *self).await;
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
            let mut conversation = rounds::begin(*self);
            let Some(reply) = rounds::until_asked(&mut conversation, *self).await else {
                return rounds::go_on(conversation, *self).await;
            };
            if pages(&reply).is_none() {
                return self.arrived(&reply, conversation.lacks());
            }
        }
        self.hop
            .given_up("The server waits for a page to be completed; call again when that is done")
    }
}

fn has_keys(hop: Hop<'_>) -> bool {
    hop.request.conversations.keys(&hop.federation.name).is_some()
}

/// Whether every answer of a client is that the person opens the page.
fn agrees_to_all(responses: Option<&str>) -> bool {
    let responses = responses.and_then(Members::parse).unwrap_or_default();
    let agrees =
        |raw: &str| Members::parse(raw).is_some_and(|answer| answer.string("action").as_deref() == Some("accept"));
    responses.iter().next().is_some() && responses.iter().all(|(_, raw)| agrees(raw.get()))
}

const OVER: &str = "params.requestState does not continue this request (any more); send the request again without it";
const WAITS_NO_MORE: &str = "the call that params.requestState continues does not wait any more: it was answered, was not gone \
                             on with in time, or gave way to later calls of the same client; send the request again \
                             without it";
