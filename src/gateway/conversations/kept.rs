//! Tasks that this process keeps: calls of tools of 2025-11-25 that want to be called for a task, for clients that take
//! tasks and can be asked something. What the server asks comes on streams that somebody has to hold all the while, so
//! that the call goes on here, and is told as a task of the extension.

use std::collections::HashMap;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use jiff::Timestamp;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use super::conversation::{Conversation, Pending, wrong_answer};
use super::own_call::OwnCall;
use super::parked::Place;
use super::questions;
use crate::defaults;
use crate::gateway::session::SessionId;
use crate::mcp::asking::Said;
use crate::mcp::object::ObjectWriter;
use crate::mcp::task::{Kind, Status, Task};
use crate::mcp::{Features, Members, RpcError};
use crate::upstream::{Body, Ear, Error, Reply};

/// Every task that is kept, by its name.
#[derive(Debug, Default)]
pub(in crate::gateway) struct Kept(Mutex<HashMap<String, Entry>>);

/// All that there is to tell of a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::gateway) struct Told {
    /// The task in the words of 2025-11-25, as JSON.
    pub(in crate::gateway) task: String,
    /// What it waits for, or came to.
    pub(in crate::gateway) detail: Detail,
}

/// What a task waits for, or came to, as JSON.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::gateway) enum Detail {
    /// Nothing yet, or nothing any more.
    None,
    /// The object of its questions.
    Questions(String),
    /// The result of the tool.
    Result(String),
    /// A JSON-RPC error.
    Error(String),
}

impl Told {
    /// Whether it goes on, and nobody has to do anything about it.
    pub(in crate::gateway) fn is_at_work(&self) -> bool {
        self.detail == Detail::None && Task::read(&self.task, Kind::Core).is_some_and(|task| !task.status.is_final())
    }
}

#[derive(Debug)]
struct Entry {
    place: Place,
    state: Arc<Mutex<State>>,
    cancelled: CancellationToken,
    _keeper: AbortOnDropHandle<()>,
}

#[derive(Debug)]
struct State {
    created: Timestamp,
    updated: Timestamp,
    pending: Vec<Pending>,
    end: Option<End>,
    changed: watch::Sender<()>,
}

/// How a task ended.
#[derive(Debug)]
enum End {
    Answered(Reply),
    /// With this error, as JSON.
    Failed(String),
    Cancelled,
}

impl Kept {
    /// Begins a call in `place` as a task, to a member of the name `member` and for a client with these `features`, and
    /// gives its name. It ends when its server is `let_go_of`. `None` where too many are kept, or where the caller has
    /// its share of them.
    pub(in crate::gateway) fn begin(
        self: &Arc<Self>,
        place: Place,
        member: &str,
        features: &Features,
        let_go_of: impl Future<Output = ()> + Send + 'static,
        call: impl FnOnce(Arc<dyn Ear>) -> OwnCall,
    ) -> Option<String> {
        let name = SessionId::random()?.to_string();
        let state = Arc::new(Mutex::new(State::new()));
        let cancelled = CancellationToken::new();
        let mut tasks = self.lock();
        let places = tasks
            .values()
            .map(|entry| (&entry.place, !locked(&entry.state).is_over()));
        if tasks.len() >= defaults::KEPT_TASKS_MAX || !place.has_room_beside(places, defaults::KEPT_TASKS_MAX) {
            return None;
        }
        let keeper = Keeper {
            tasks: Arc::downgrade(self),
            name: name.clone(),
            state: Arc::clone(&state),
            cancelled: cancelled.clone(),
            member: member.to_owned(),
            features: features.clone(),
        };
        let keeper = tokio::spawn(keeper.keep(Conversation::begin(call), let_go_of));
        let entry = Entry {
            place,
            state,
            cancelled,
            _keeper: AbortOnDropHandle::new(keeper),
        };
        tasks.insert(name.clone(), entry);
        Some(name)
    }

    /// What there is to tell of the task `name`; `None` if there is none.
    pub(in crate::gateway) fn told(&self, name: &str) -> Option<Told> {
        let state = Arc::clone(&self.lock().get(name)?.state);
        let told = locked(&state).told(name);
        Some(told)
    }

    /// Tells whenever there may be something new to tell of the task `name`, until it is forgotten. `None` if there is none.
    pub(in crate::gateway) fn changes(&self, name: &str) -> Option<watch::Receiver<()>> {
        let state = Arc::clone(&self.lock().get(name)?.state);
        let changes = locked(&state).changed.subscribe();
        Some(changes)
    }

    /// Passes on what the client answered, as far as it was asked. `None` if there is no such task.
    ///
    /// # Errors
    /// Says which answer is none; then none is passed on.
    pub(in crate::gateway) fn update(&self, name: &str, responses: &Members<'_>) -> Option<Result<(), String>> {
        let state = Arc::clone(&self.lock().get(name)?.state);
        let answered = locked(&state).answer(responses);
        Some(answered)
    }

    /// Cancels the task, if it is not over. `None` if there is no such task.
    pub(in crate::gateway) fn cancel(&self, name: &str) -> Option<()> {
        let (state, cancelled) = {
            let tasks = self.lock();
            let entry = tasks.get(name)?;
            (Arc::clone(&entry.state), entry.cancelled.clone())
        };
        locked(&state).end(End::Cancelled);
        cancelled.cancel();
        Some(())
    }

    /// Whether there is room for a result of so many bytes.
    fn has_room(&self, bytes: usize) -> bool {
        let states: Vec<_> = self.lock().values().map(|entry| Arc::clone(&entry.state)).collect();
        let kept: usize = states.iter().map(|state| locked(state).bytes()).sum();
        kept + bytes <= defaults::KEPT_TASK_BYTES_MAX
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Entry>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Goes on with the call of one task.
struct Keeper {
    tasks: Weak<Kept>,
    name: String,
    state: Arc<Mutex<State>>,
    cancelled: CancellationToken,
    /// The member's name, for errors.
    member: String,
    features: Features,
}

impl Keeper {
    /// Keeps the task until it is forgotten, over or not.
    async fn keep(self, conversation: Conversation, let_go_of: impl Future<Output = ()>) {
        let expiry = Instant::now() + defaults::KEPT_TASK_TTL;
        let reply = tokio::select! {
            () = self.cancelled.cancelled() => None,
            () = sleep_until(expiry) => None,
            reply = self.carry_on(conversation, let_go_of) => Some(reply),
        };
        if let Some(reply) = reply {
            let end = self.end_of(reply);
            locked(&self.state).end(end);
        }
        sleep_until(expiry).await;
        if let Some(tasks) = self.tasks.upgrade() {
            drop(tasks.lock().remove(&self.name));
        }
    }

    /// Waits for the server's answer; what it asks before stands in the state. Nobody has to answer a server that is let
    /// go of.
    async fn carry_on(
        &self,
        mut conversation: Conversation,
        let_go_of: impl Future<Output = ()>,
    ) -> Result<Reply, Error> {
        let mut let_go_of = pin!(let_go_of);
        let mut is_let_go_of = false;
        loop {
            if is_let_go_of && locked(&self.state).is_asked() {
                return Err(Error::NotConnected("it is let go of".to_owned()));
            }
            tokio::select! {
                asked = conversation.until_questions(&self.features) => match asked {
                    Some(reply) => return reply,
                    None => locked(&self.state).ask(conversation.take_questions()),
                },
                () = &mut let_go_of, if !is_let_go_of => {
                    is_let_go_of = true;
                    locked(&self.state).ask(conversation.take_questions());
                }
            }
        }
    }

    fn end_of(&self, reply: Result<Reply, Error>) -> End {
        let failed = |why: &str| {
            let error = RpcError::new(RpcError::INTERNAL, format!("member {:?}: {why}", self.member));
            End::Failed(String::from_utf8_lossy(&error.to_json()).into_owned())
        };
        match reply {
            Err(error) => failed(&error.to_string()),
            Ok(reply) if !self.tasks.upgrade().is_some_and(|tasks| tasks.has_room(length(&reply))) => {
                failed("too many results of tasks wait to be fetched; try again later")
            }
            Ok(reply) => End::Answered(reply),
        }
    }
}

impl State {
    fn new() -> Self {
        let now = Timestamp::now();
        Self {
            created: now,
            updated: now,
            pending: Vec::new(),
            end: None,
            changed: watch::Sender::new(()),
        }
    }

    fn has_changed(&mut self) {
        self.updated = Timestamp::now();
        self.changed.send_replace(());
    }

    fn ask(&mut self, questions: Vec<Pending>) {
        self.pending.extend(questions);
        self.has_changed();
    }

    fn answer(&mut self, responses: &Members<'_>) -> Result<(), String> {
        if let Some(wrong) = wrong_answer(&self.pending, responses) {
            return Err(wrong);
        }
        for pending in std::mem::take(&mut self.pending) {
            match responses.get(&pending.key) {
                Some(raw) => {
                    let said = Said::Result(raw.get().to_owned());
                    let said = questions::for_server(pending.asked.kind, said);
                    pending.asked.answer(said);
                }
                None => self.pending.push(pending),
            }
        }
        self.has_changed();
        Ok(())
    }

    /// Ends it, once.
    fn end(&mut self, end: End) {
        if !self.is_over() {
            self.end = Some(end);
            self.pending.clear();
            self.has_changed();
        }
    }

    /// Whether it waits with a question.
    fn is_asked(&self) -> bool {
        self.pending
            .iter()
            .any(|pending| !pending.asked.withdrawn().is_cancelled())
    }

    fn is_over(&self) -> bool {
        self.end.is_some()
    }

    fn bytes(&self) -> usize {
        match &self.end {
            Some(End::Answered(reply)) => length(reply),
            Some(End::Failed(_) | End::Cancelled) | None => 0,
        }
    }

    fn told(&mut self, name: &str) -> Told {
        self.pending.retain(|pending| !pending.asked.withdrawn().is_cancelled());
        let (status, detail) = match &self.end {
            None if self.pending.is_empty() => (Status::Working, Detail::None),
            None => (Status::InputRequired, Detail::Questions(asked(&self.pending))),
            Some(End::Cancelled) => (Status::Cancelled, Detail::None),
            Some(End::Failed(error)) => (Status::Failed, Detail::Error(error.clone())),
            Some(End::Answered(reply)) => match reply.body() {
                Body::Result(result) => (Status::Completed, Detail::Result(result.to_owned())),
                Body::Error(error) => (Status::Failed, Detail::Error(error.to_owned())),
            },
        };
        let task = serde_json::json!({
            "taskId": name, "status": status.as_str(), "createdAt": self.created.to_string(),
            "lastUpdatedAt": self.updated.to_string(), "ttl": defaults::KEPT_TASK_TTL.as_secs() * 1_000,
            "pollInterval": defaults::TASK_POLL.as_secs() * 1_000,
        });
        Told {
            task: task.to_string(),
            detail,
        }
    }
}

/// The questions as an object, by their names.
fn asked(pending: &[Pending]) -> String {
    let mut out = Vec::new();
    let mut object = ObjectWriter::open(&mut out);
    for pending in pending {
        let mut question = ObjectWriter::open(object.name(&pending.key));
        question.string("method", pending.asked.kind.method());
        question.member("params", &pending.params);
        question.close();
    }
    object.close();
    String::from_utf8_lossy(&out).into_owned()
}

fn length(reply: &Reply) -> usize {
    match reply.body() {
        Body::Result(text) | Body::Error(text) => text.len(),
    }
}

fn locked(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mcp::asking::Asking;
    use crate::upstream::Asked;

    #[tokio::test]
    async fn a_task_waits_with_its_questions_until_each_is_answered_or_taken_back() {
        let mut state = State::new();
        let question = |key: &str| {
            let (asked, asker) = Asked::new(Asking::Roots, "{}".to_owned());
            let pending = Pending {
                key: key.to_owned(),
                params: "{}".to_owned(),
                asked,
            };
            (pending, asker)
        };
        let ((first, mut of_first), (second, of_second)) = (question("roots-1"), question("roots-2"));
        state.ask(vec![first, second]);
        let both = r#"{"roots-1":{"method":"roots/list","params":{}},"roots-2":{"method":"roots/list","params":{}}}"#;
        assert_eq!(state.told("t").detail, Detail::Questions(both.to_owned()));
        let wrong = r#"{"roots-1":{"roots":[]},"roots-2":{"roots":7}}"#;
        let wrong = state.answer(&Members::parse(wrong).unwrap()).unwrap_err();
        assert!(wrong.contains("roots-2"), "{wrong}");
        assert_eq!(
            state.told("t").detail,
            Detail::Questions(both.to_owned()),
            "nothing is lost"
        );
        let answers = r#"{"roots-1":{"roots":[]},"other":{}}"#;
        state.answer(&Members::parse(answers).unwrap()).unwrap();
        let answer = of_first.answer(Asking::Roots).await;
        assert_eq!(answer, Said::Result(r#"{"roots":[]}"#.to_owned()));
        let told = state.told("t");
        assert!(told.task.contains(r#""status":"input_required""#) && matches!(told.detail, Detail::Questions(_)));
        drop(of_second);
        let told = state.told("t");
        assert!(told.task.contains(r#""status":"working""#), "{told:?}");
        assert_eq!(told.detail, Detail::None);
    }

    #[test]
    fn a_task_ends_once() {
        let mut state = State::new();
        state.end(End::Cancelled);
        state.end(End::Failed("{}".to_owned()));
        let told = state.told("t");
        assert!(told.task.contains(r#""status":"cancelled""#), "{told:?}");
        assert_eq!(told.detail, Detail::None);
    }
}
