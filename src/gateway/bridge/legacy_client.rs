//! Legacy clients: asked by requests on the stream of their call, whatever era the server is of.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use futures::future::join_all;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::hop::{Arrived, Hop};
use crate::defaults;
use crate::gateway::answer::Answer;
use crate::gateway::conversations::{Asks, questions};
use crate::gateway::line::Line;
use crate::gateway::relay::Relay;
use crate::gateway::session::SessionId;
use crate::mcp::asking::{Asking, Said};
use crate::mcp::input_required::{InputRequired, Question};
use crate::mcp::object::ObjectWriter;
use crate::mcp::shape::ResultError;
use crate::mcp::{Envelope, Features, Members, Revision, notice};
use crate::upstream::{Answers, Asked, Call, Ear};

/// Carries a Legacy client's request.
pub(super) async fn carry(hop: Hop<'_>) -> Answer {
    let request = hop.request;
    let features = hop.declared();
    let client = request.session.zip(request.intermediate).map(|(session, out)| Client {
        session: session.id,
        revision: request.revision,
        features: features.clone(),
        out: out.clone(),
        asks: Arc::clone(&request.conversations.asks),
        pages: Arc::default(),
    });
    let features = if client.is_some() { features } else { features.silent() };
    let owner = hop.owner();
    let ear = request.intermediate.and_then(|out| {
        let ear = StreamEar {
            relay: Relay::new(request.meta, hop.logs(), out.clone()),
            client: client.clone().filter(|client| client.features.is_interactive()),
        };
        (ear.client.is_some() || ear.relay.wants_any()).then(|| Arc::new(ear))
    });
    let call = hop.call(&features, owner, ear.clone().map(|ear| ear as _));
    let mut rounds = Rounds::default();
    loop {
        let answers = rounds.answers();
        let reply = hop
            .upstream
            .call(Call {
                answers,
                ..call.clone()
            })
            .await;
        let result = match hop.arrived(&reply) {
            Arrived::Answer(answer) => return answer,
            Arrived::InputRequired(result) => result,
            Arrived::Task(_) => return hop.failed(&ResultError::Task),
        };
        let Some(asked) = InputRequired::read(result) else {
            return hop.failed(&"its result asks for input in a way that is not known");
        };
        let client = client.as_ref();
        if client.is_none() && !asked.questions.is_empty() {
            return hop
                .given_up("The server asks for input, and this client cannot be asked: it takes no event stream");
        }
        if let Err(why) = rounds.next(client, &asked).await {
            return hop.given_up(&why);
        }
        if let Some(ear) = &ear {
            ear.relay.next_round();
        }
    }
}

/// A Legacy client as it can be asked.
#[derive(Clone, Debug)]
struct Client {
    session: SessionId,
    revision: Revision,
    features: Features,
    out: Line,
    asks: Arc<Asks>,
    pages: Arc<Pages>,
}

/// The pages that a client was asked to open during one call, by the server's id and by ours.
#[derive(Debug, Default)]
struct Pages(Mutex<Vec<(String, String)>>);

impl Client {
    /// Puts a question to the client. `None` if it gave no answer.
    async fn ask(&self, kind: Asking, params: &str, withdrawn: &CancellationToken) -> Option<Said> {
        let page = SessionId::random()?.to_string();
        if let Some(theirs) =
            Members::parse(params).and_then(|params| Some(params.string("elicitationId")?.into_owned()))
        {
            self.pages.add(theirs, page.clone());
        }
        let params = match questions::for_client(kind, params, &self.features, self.revision, &page) {
            Ok(params) => params,
            Err(error) => {
                tracing::debug!(reason = error.reason(), "a question is not put to its client: {error}");
                return None;
            }
        };
        let answer = self.asks.ask(self.session, &self.out, kind, &params, withdrawn).await;
        answer
            .inspect_err(|error| tracing::debug!(reason = error.reason(), "{error}"))
            .ok()
    }
}

impl Pages {
    fn add(&self, theirs: String, ours: String) {
        let mut pages = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if pages.len() < defaults::QUESTIONS_MAX {
            pages.push((theirs, ours));
        }
    }

    /// The notification that a page was visited, under the id that the client knows it by. A page that the server named
    /// in an error has its own id there.
    fn visited(&self, params: &Members<'_>) -> Option<Vec<u8>> {
        let theirs = params.string("elicitationId")?;
        let pages = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let known = pages.iter().find(|(of_server, _)| *of_server == *theirs);
        Some(notice::page_visited(known.map_or(&*theirs, |(_, ours)| ours)))
    }
}

/// Hears a server for a Legacy client.
#[derive(Debug)]
struct StreamEar {
    relay: Relay,
    client: Option<Client>,
}

impl Ear for StreamEar {
    fn heard(&self, notification: &[u8]) {
        match (&self.client, Envelope::parse(notification, defaults::JSON_DEPTH_MAX)) {
            (Some(client), Ok(envelope))
                if envelope
                    .method
                    .as_ref()
                    .is_some_and(|m| m.as_str() == notice::PAGE_VISITED) =>
            {
                let params = envelope.params.and_then(|raw| Members::parse(raw.get()));
                // Pages came with the last Legacy revision.
                if client.features.pages
                    && let Some(visited) = params.and_then(|params| client.pages.visited(&params))
                {
                    client.out.send(Bytes::from(visited));
                }
            }
            _ => self.relay.pass(notification),
        }
    }

    fn begins_again(&self) {
        self.relay.next_round();
    }

    fn asked(&self, asked: Asked) {
        let Some(client) = self.client.clone() else { return };
        tokio::spawn(async move {
            let (kind, withdrawn) = (asked.kind, asked.withdrawn());
            if let Some(said) = client.ask(kind, &asked.params, &withdrawn).await {
                asked.answer(questions::for_server(kind, said));
            }
        });
    }
}

/// What is known between the rounds of a Modern server.
#[derive(Debug, Default)]
struct Rounds {
    done: usize,
    responses: Option<String>,
    state: Option<String>,
    /// Pages that the person agreed to open. To agree is not to be done there, so that the server may well ask again.
    pages: HashSet<String>,
    page_tries: u32,
}

impl Rounds {
    fn answers(&self) -> Option<Answers<'_>> {
        (self.done > 0).then_some(Answers {
            responses: self.responses.as_deref(),
            state: self.state.as_deref(),
        })
    }

    /// Puts what was asked to the client.
    ///
    /// # Errors
    /// The server asks too often, or the client did not answer what has no answer for that, or answered wrongly; in words
    /// for the model.
    async fn next(&mut self, client: Option<&Client>, asked: &InputRequired<'_>) -> Result<(), String> {
        let opened = |question: &Question<'_>| self.pages.contains(question.params);
        let only_pages = !asked.questions.is_empty() && asked.questions.iter().all(opened);
        if only_pages {
            self.page_tries += 1;
            if self.page_tries > defaults::PAGE_TRIES {
                return Err("The server waits for a page to be completed; call again when that is done".to_owned());
            }
            sleep(Duration::from_secs(1 << (self.page_tries - 1).min(3))).await;
        } else {
            self.done += 1;
            if self.done > defaults::ROUNDS_MAX {
                return Err("The server asks for input again and again; the call was given up".to_owned());
            }
        }
        if asked.questions.is_empty() {
            sleep(defaults::ROUND_PAUSE).await;
        }
        let never = CancellationToken::new();
        let said = join_all(asked.questions.iter().map(|question| async {
            if self.pages.contains(question.params) {
                return Some(Said::Result(ACCEPTED.to_owned()));
            }
            client?.ask(question.kind, question.params, &never).await
        }))
        .await;
        let mut responses = Vec::new();
        let mut object = ObjectWriter::open(&mut responses);
        for (question, said) in asked.questions.iter().zip(said) {
            let said = said.unwrap_or_else(|| question.kind.refusal());
            let result = questions::for_modern_server(question.kind, said).map_err(|error| error.to_string())?;
            if is_accepted_page(question, &result) {
                self.pages.insert(question.params.to_owned());
            }
            object.member(&question.key, &result);
        }
        object.close();
        self.responses = (!asked.questions.is_empty())
            .then(|| String::from_utf8(responses).ok())
            .flatten();
        self.state = asked.state.map(str::to_owned);
        Ok(())
    }
}

fn is_accepted_page(question: &Question<'_>, result: &str) -> bool {
    let member = |object: &str, name: &str| Members::parse(object).and_then(|m| m.string(name).map(|s| s.into_owned()));
    question.kind == Asking::Elicitation
        && member(question.params, "mode").as_deref() == Some("url")
        && member(result, "action").as_deref() == Some("accept")
}

const ACCEPTED: &str = r#"{"action":"accept"}"#;
