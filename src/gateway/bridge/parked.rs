//! Calls to Legacy servers that wait while a Modern client makes up its mind.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use tokio::sync::mpsc;
use tokio::task::AbortHandle;
use tokio::time::{sleep, timeout};
use tokio_util::task::AbortOnDropHandle;

use super::lacks::Lacks;
use super::modern_client::Asker;
use super::questions;
use super::state::Continued;
use crate::defaults;
use crate::gateway::answer::Answer;
use crate::gateway::relay::Relay;
use crate::gateway::session::SessionId;
use crate::index::Target;
use crate::mcp::asking::{Asking, Said};
use crate::mcp::notice::LogLevel;
use crate::mcp::{Envelope, Features, Members, Method, Revision};
use crate::upstream::{Asked, Call, Ear, Error, Owner, Reply, TaskCall, Upstream};

/// Every call that waits for its client's next round.
#[derive(Debug, Default)]
pub(super) struct Parked(Mutex<HashMap<SessionId, (Conversation, AbortHandle)>>);

/// A call to a Legacy server, over as many rounds of its client as it takes.
#[derive(Debug)]
pub(super) struct Conversation {
    work: Work,
    questions: mpsc::Receiver<Asked>,
    ear: Arc<ParkingEar>,
    pending: Vec<Pending>,
    rounds: usize,
    asked: usize,
}

impl Parked {
    /// The call `name`, which waits no longer.
    pub(super) fn take(&self, name: SessionId) -> Option<Conversation> {
        let (conversation, expiry) = self.lock().remove(&name)?;
        expiry.abort();
        Some(conversation)
    }

    /// Lets `conversation` wait under `name`; gives it back where too many wait.
    fn put(self: &Arc<Self>, name: SessionId, conversation: Conversation) -> Result<(), Conversation> {
        let mut waiting = self.lock();
        if waiting.len() >= defaults::PARKED_MAX {
            return Err(conversation);
        }
        let parked = Arc::downgrade(self);
        let expiry = tokio::spawn(async move {
            sleep(defaults::ANSWER_TIMEOUT).await;
            let expired = parked.upgrade().and_then(|parked| parked.lock().remove(&name));
            if let Some((conversation, _)) = expired {
                conversation.end().await;
            }
        });
        waiting.insert(name, (conversation, expiry.abort_handle()));
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<SessionId, (Conversation, AbortHandle)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Conversation {
    /// Begins the call; nothing is sent before it is gone on with.
    pub(super) fn begin(asker: Asker<'_>) -> Self {
        let (sender, questions) = mpsc::channel(defaults::QUESTIONS_MAX);
        let ear = Arc::new(ParkingEar {
            questions: sender,
            relay: Mutex::default(),
            lacks: Lacks::default(),
        });
        let hop = asker.hop;
        let call = OwnCall {
            upstream: Arc::clone(hop.upstream),
            body: hop.request.body.clone(),
            method: hop.request.method,
            target: hop.target.clone(),
            features: asker.features.clone(),
            owner: asker.owner(),
            task: hop.task_call(),
            log_level: hop.log_level(),
            ear: Arc::clone(&ear),
        };
        Self {
            work: Work::Here(Box::pin(call.run())),
            questions,
            ear,
            pending: Vec::new(),
            rounds: 0,
            asked: 0,
        }
    }

    /// Goes on until the server answers, or asks what the client has to be asked.
    pub(super) async fn go_on(mut self, asker: Asker<'_>) -> Answer {
        if self.pending.is_empty()
            && let Some(reply) = self.until_asked(asker).await
        {
            return asker.arrived(&reply, self.lacks());
        }
        self.park(asker).await
    }

    /// Goes on until the server answers. `None`: it asked before, and the client has to be asked.
    pub(super) async fn until_asked(&mut self, asker: Asker<'_>) -> Option<Result<Reply, Error>> {
        self.ear.relay_to(asker.relay());
        loop {
            let first = tokio::select! {
                biased;
                reply = self.work.done() => return Some(reply),
                Some(first) = self.questions.recv() => first,
            };
            self.take_in(first, asker.features);
            // Servers ask several things at once; the client is then asked once.
            let window = sleep(defaults::QUESTIONS_WINDOW);
            tokio::pin!(window);
            loop {
                tokio::select! {
                    biased;
                    reply = self.work.done() => return Some(reply),
                    Some(further) = self.questions.recv() => self.take_in(further, asker.features),
                    () = &mut window => break,
                }
            }
            self.pending.retain(|pending| !pending.asked.withdrawn().is_cancelled());
            if !self.pending.is_empty() {
                return None;
            }
        }
    }

    /// What the server asked for in vain.
    pub(super) fn lacks(&self) -> &Lacks {
        &self.ear.lacks
    }

    /// Goes on with what the client answered, a JSON object.
    pub(super) async fn resume(mut self, asker: Asker<'_>, responses: Option<&str>) -> Answer {
        self.rounds += 1;
        let responses = responses.and_then(Members::parse).unwrap_or_default();
        for pending in std::mem::take(&mut self.pending) {
            match responses.get(&pending.key) {
                Some(raw) if raw.get().starts_with('{') => {
                    let said = Said::Result(raw.get().to_owned());
                    let said = questions::for_server(pending.asked.kind, said);
                    pending.asked.answer(said);
                }
                Some(_) => {
                    drop(pending);
                    tokio::spawn(self.end());
                    return asker.refused("each member of params.inputResponses must be an object");
                }
                None if pending.asked.withdrawn().is_cancelled() => {}
                None => self.pending.push(pending),
            }
        }
        self.go_on(asker).await
    }

    /// Ends the call: the server hears that nobody answers before it hears that nobody waits.
    async fn end(self) {
        let Self {
            mut work,
            questions,
            pending,
            ..
        } = self;
        drop((pending, questions));
        // Whatever it comes to by then is of use to nobody.
        drop(timeout(defaults::REFUSED_GRACE, work.done()).await);
    }

    fn take_in(&mut self, asked: Asked, features: &Features) {
        if self.rounds >= defaults::ROUNDS_MAX {
            return;
        }
        match questions::for_client(asked.kind, &asked.params, features, Revision::LATEST, "") {
            Ok(params) => {
                self.asked += 1;
                self.pending.push(Pending {
                    key: format!("{}-{}", name_of(asked.kind), self.asked),
                    params,
                    asked,
                });
            }
            Err(error) => tracing::debug!(reason = error.reason(), "a question is not put to its client: {error}"),
        }
    }

    /// Lets the call wait, and asks the client. Where too many wait, the questions are refused and it goes on.
    async fn park(mut self, asker: Asker<'_>) -> Answer {
        let Some(name) = SessionId::random() else {
            return asker.hop.failed(&"no random bytes");
        };
        self.ear.relay_to(None);
        self.work.leave();
        let questions: Vec<_> = self
            .pending
            .iter()
            .map(|pending| (pending.key.clone(), pending.asked.kind, pending.params.clone()))
            .collect();
        match asker.hop.request.bridge.parked.put(name, self) {
            Ok(()) => {
                let questions = questions
                    .iter()
                    .map(|(key, kind, params)| (key.as_str(), *kind, params.as_str()));
                asker.ask(questions, Continued::Parked(name))
            }
            Err(mut conversation) => {
                tracing::warn!(most = defaults::PARKED_MAX, "too many calls wait for their clients");
                conversation.pending.clear();
                conversation.rounds = defaults::ROUNDS_MAX;
                Box::pin(conversation.go_on(asker)).await
            }
        }
    }
}

/// A question that the client has to answer.
#[derive(Debug)]
struct Pending {
    key: String,
    params: String,
    asked: Asked,
}

/// Hears a server for a client that comes and goes.
#[derive(Debug)]
struct ParkingEar {
    questions: mpsc::Sender<Asked>,
    relay: Mutex<Option<Relay>>,
    lacks: Lacks,
}

impl ParkingEar {
    /// From now on notifications go to `relay`: the client of an earlier round hears nothing any more.
    fn relay_to(&self, relay: Option<Relay>) {
        *self.relay.lock().unwrap_or_else(PoisonError::into_inner) = relay;
    }
}

impl Ear for ParkingEar {
    fn heard(&self, notification: &[u8]) {
        if let Some(relay) = self.relay.lock().unwrap_or_else(PoisonError::into_inner).as_ref() {
            relay.pass(notification);
        }
    }

    fn asked(&self, asked: Asked) {
        drop(self.questions.try_send(asked));
    }

    fn lacked(&self, kind: Asking) {
        self.lacks.note(kind);
    }
}

/// A call that needs nothing of the request that began it.
struct OwnCall {
    upstream: Arc<Upstream>,
    body: Bytes,
    method: Method,
    target: Target,
    features: Features,
    owner: Owner,
    task: TaskCall,
    log_level: Option<LogLevel>,
    ear: Arc<ParkingEar>,
}

impl OwnCall {
    async fn run(self) -> Result<Reply, Error> {
        let malformed = || Error::Protocol("the request cannot be read again".to_owned());
        let envelope = Envelope::parse(&self.body, defaults::JSON_DEPTH_MAX).map_err(|_| malformed())?;
        let params = envelope
            .params
            .and_then(|raw| Members::parse(raw.get()))
            .unwrap_or_default();
        let meta = params.get("_meta").and_then(|raw| Members::parse(raw.get()));
        let call = Call {
            method: self.method,
            target: &self.target.original,
            params: &params,
            meta: meta.as_ref(),
            param_headers: self.target.param_headers.as_deref(),
            owner: self.owner,
            features: &self.features,
            answers: None,
            task: self.task,
            log_level: self.log_level,
            ear: Some(self.ear),
        };
        self.upstream.call(call).await
    }
}

/// The work of a call: done by the request that waits for it, or, while none does, by a task of its own. To drop it
/// is to cancel the call.
enum Work {
    Here(Pin<Box<dyn Future<Output = Result<Reply, Error>> + Send>>),
    Elsewhere(AbortOnDropHandle<Result<Reply, Error>>),
    Gone,
}

impl Work {
    async fn done(&mut self) -> Result<Reply, Error> {
        match self {
            Self::Here(work) => work.await,
            Self::Elsewhere(task) => match task.await {
                Ok(reply) => reply,
                Err(error) => Err(Error::Protocol(format!("the call ended badly: {error}"))),
            },
            Self::Gone => Err(Error::Protocol("the call is over".to_owned())),
        }
    }

    /// Lets a task go on with it.
    fn leave(&mut self) {
        *self = match std::mem::replace(self, Self::Gone) {
            Self::Here(work) => Self::Elsewhere(AbortOnDropHandle::new(tokio::spawn(work))),
            other => other,
        };
    }
}

impl std::fmt::Debug for Work {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Here(_) => "Here",
            Self::Elsewhere(_) => "Elsewhere",
            Self::Gone => "Gone",
        })
    }
}

/// What a question is called, with a number after it.
const fn name_of(kind: Asking) -> &'static str {
    match kind {
        Asking::Elicitation => "elicitation",
        Asking::Sampling => "sampling",
        Asking::Roots => "roots",
    }
}
