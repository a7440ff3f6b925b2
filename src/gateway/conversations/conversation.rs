//! A call to a Legacy server for a Modern client, which comes back with each answer.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};

use super::lacks::Lacks;
use super::own_call::{OwnCall, Work};
use super::questions;
use crate::defaults;
use crate::gateway::relay::Relay;
use crate::mcp::asking::{Asking, Said};
use crate::mcp::{Features, Members, Revision, client_answer};
use crate::upstream::{Asked, Ear, Error, Reply};

/// A call to a Legacy server, over as many rounds of its client as it takes.
#[derive(Debug)]
pub(in crate::gateway) struct Conversation {
    work: Work,
    questions: mpsc::Receiver<Asked>,
    ear: Arc<ParkingEar>,
    pending: Vec<Pending>,
    rounds: usize,
    asked: usize,
}

impl Conversation {
    /// Begins the call that is given for who hears it; nothing is sent before it is gone on with.
    pub(in crate::gateway) fn begin(call: impl FnOnce(Arc<dyn Ear>) -> OwnCall) -> Self {
        let (sender, questions) = mpsc::channel(defaults::QUESTIONS_MAX);
        let ear = Arc::new(ParkingEar {
            questions: sender,
            relay: Mutex::default(),
            lacks: Lacks::default(),
        });
        let call = call(Arc::clone(&ear) as _);
        Self {
            work: Work::new(call.run()),
            questions,
            ear,
            pending: Vec::new(),
            rounds: 0,
            asked: 0,
        }
    }

    /// From now on what the server says before its answer goes to `relay`, if anywhere: the client of an earlier round
    /// hears nothing any more.
    pub(in crate::gateway) fn relay_to(&self, relay: Option<Relay>) {
        self.ear.relay_to(relay);
    }

    /// Goes on until the server answers. `None`: it asked before what its client, with these `features`, has to be asked.
    pub(in crate::gateway) async fn until_questions(&mut self, features: &Features) -> Option<Result<Reply, Error>> {
        loop {
            let first = tokio::select! {
                biased;
                reply = self.work.done() => return Some(reply),
                Some(first) = self.questions.recv() => first,
            };
            self.take_in(first, features);
            // Servers ask several things at once; the client is then asked once.
            let window = sleep(defaults::QUESTIONS_WINDOW);
            tokio::pin!(window);
            loop {
                tokio::select! {
                    biased;
                    reply = self.work.done() => return Some(reply),
                    Some(further) = self.questions.recv() => self.take_in(further, features),
                    () = &mut window => break,
                }
            }
            self.pending.retain(|pending| !pending.asked.withdrawn().is_cancelled());
            if !self.pending.is_empty() {
                return None;
            }
        }
    }

    /// What the client has to be asked, by whoever answers it from now on.
    pub(in crate::gateway) fn take_questions(&mut self) -> Vec<Pending> {
        std::mem::take(&mut self.pending)
    }

    /// What the server asked for in vain.
    pub(in crate::gateway) fn lacks(&self) -> &Lacks {
        &self.ear.lacks
    }

    /// What is wrong with these answers to what the client was asked.
    pub(in crate::gateway) fn wrong_answer(&self, responses: &Members<'_>) -> Option<String> {
        wrong_answer(&self.pending, responses)
    }

    /// Whether the client has to be asked something.
    pub(in crate::gateway) fn is_asking(&self) -> bool {
        !self.pending.is_empty()
    }

    /// What the client has to be asked: for each question what it is known by, its kind and its params.
    pub(in crate::gateway) fn questions(&self) -> Vec<(String, Asking, String)> {
        let questions = self.pending.iter();
        questions
            .map(|pending| (pending.key.clone(), pending.asked.kind, pending.params.clone()))
            .collect()
    }

    /// Takes what the client answered, a JSON object. What it left out is still open, unless the server took it back.
    pub(in crate::gateway) fn take_answers(&mut self, responses: Option<&str>) {
        self.rounds += 1;
        let responses = responses.and_then(Members::parse).unwrap_or_default();
        pass_on(&mut self.pending, &responses);
        self.pending.retain(|pending| !pending.asked.withdrawn().is_cancelled());
    }

    /// Lets the call go on while its client is away.
    pub(in crate::gateway) fn leave(&mut self) {
        self.ear.relay_to(None);
        self.work.leave();
    }

    /// Refuses what the server asked, and all that it will ask.
    pub(in crate::gateway) fn refuse_all(&mut self) {
        self.pending.clear();
        self.rounds = defaults::ROUNDS_MAX;
    }

    /// Gives the call up, since its server is let go of, or the right to it was taken away: whoever goes on with it is told so. Gives what is to be dropped.
    pub(in crate::gateway) fn give_up(&mut self) -> Work {
        self.work.give_up(Error::LetGo)
    }

    /// Ends the call: the server hears that nobody answers before it hears that nobody waits.
    pub(in crate::gateway) async fn end(self) {
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
}

/// A question that the client has to answer.
#[derive(Debug)]
pub(in crate::gateway) struct Pending {
    /// What the client knows it by.
    pub(in crate::gateway) key: String,
    /// Its params, in the words of the client's revision.
    pub(in crate::gateway) params: String,
    pub(in crate::gateway) asked: Asked,
}

/// Passes on what these answers answer of `pending`, and leaves the rest of it.
pub(in crate::gateway) fn pass_on(pending: &mut Vec<Pending>, responses: &Members<'_>) {
    for question in std::mem::take(pending) {
        match responses.get(&question.key) {
            Some(raw) => {
                let said = Said::Result(raw.get().to_owned());
                let said = questions::for_server(question.asked.kind, said);
                question.asked.answer(said);
            }
            None => pending.push(question),
        }
    }
}

/// What is wrong with these answers to what the client was asked.
pub(in crate::gateway) fn wrong_answer(pending: &[Pending], responses: &Members<'_>) -> Option<String> {
    pending.iter().find_map(|Pending { key, asked, .. }| {
        let wrong = client_answer::wrong(asked.kind, responses.get(key)?.get())?;
        Some(format!(
            "params.inputResponses[{key:?}] {wrong}; the question is still open, answer it with the same requestState"
        ))
    })
}

/// Hears a server for a client that comes and goes.
#[derive(Debug)]
struct ParkingEar {
    questions: mpsc::Sender<Asked>,
    relay: Mutex<Option<Relay>>,
    lacks: Lacks,
}

impl ParkingEar {
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

/// What a question is called, with a number after it.
const fn name_of(kind: Asking) -> &'static str {
    match kind {
        Asking::Elicitation => "elicitation",
        Asking::Sampling => "sampling",
        Asking::Roots => "roots",
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::future::pending;

    use super::*;

    /// The server's side of a call that waits.
    pub(in crate::gateway::conversations) struct Watched(mpsc::UnboundedReceiver<&'static str>);

    impl Watched {
        /// What became of it, up to its end.
        pub(in crate::gateway::conversations) async fn end(&mut self) -> Vec<&'static str> {
            let mut seen = Vec::new();
            while let Some(next) = self.0.recv().await {
                seen.push(next);
            }
            seen
        }
    }

    /// Tells when it is dropped.
    struct Told(mpsc::UnboundedSender<&'static str>);

    impl Drop for Told {
        fn drop(&mut self) {
            self.0.send("cancelled").ok();
        }
    }

    /// A call whose server has asked one thing, and never answers.
    pub(in crate::gateway::conversations) fn watched() -> (Conversation, Watched) {
        let (sender, seen) = mpsc::unbounded_channel();
        let (asked, mut asker) = Asked::new(Asking::Elicitation, "{}".into());
        let told = Told(sender.clone());
        let mut work = Work::new(async move {
            let said = asker.answer(Asking::Elicitation).await;
            let what = if said == Asking::Elicitation.refusal() {
                "refused"
            } else {
                "answered"
            };
            sender.send(what).ok();
            let _told = told;
            drop(sender);
            pending().await
        });
        work.leave();
        let (questions_in, questions) = mpsc::channel(1);
        let ear = Arc::new(ParkingEar {
            questions: questions_in,
            relay: Mutex::default(),
            lacks: Lacks::default(),
        });
        let pending = Pending {
            key: "elicitation-1".into(),
            params: "{}".into(),
            asked,
        };
        let conversation = Conversation {
            work,
            questions,
            ear,
            pending: vec![pending],
            rounds: 0,
            asked: 1,
        };
        (conversation, Watched(seen))
    }
}
