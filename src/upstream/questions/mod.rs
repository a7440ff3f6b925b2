//! What a server asks on one connection: whose call it is about, and what it is told.
//!
//! On the stream of a call everything is about that call. Elsewhere nothing names one, and a question is put to a
//! client only where it cannot be another's.

mod in_flight;
mod pending;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use bytes::Bytes;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

use self::in_flight::InFlight;
use super::caller::Owner;
use super::ear::{Asked, Ear};
use super::news::Origin;
use crate::defaults;
use crate::mcp::asking::{Asking, Said, Unaskable};
use crate::mcp::{Envelope, Features, Id, Members, Revision, RpcError, message, sampling};

pub(crate) use self::in_flight::{Begun, Ended};
pub(crate) use self::pending::Pending;

/// The questions of a server on one connection, and the calls that they can be about.
#[derive(Debug)]
pub(crate) struct Questions {
    declared: Features,
    puts: Puts,
    origin: Origin,
    revision: OnceLock<Revision>,
    state: Mutex<State>,
    room: Arc<Semaphore>,
}

/// Whom a question is put to that comes where nothing names the call it is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Puts {
    /// The client of the call that began last: all of them are made for the same client.
    Latest,
    /// The client of the only call, if there is just one, and no other's was before it.
    Only,
    /// Nobody: what is declared on the connection is no client's.
    Nobody,
}

/// What to do about a request of a server.
#[derive(Debug)]
pub(crate) enum Heard {
    /// This whole message is the answer.
    Reply(Bytes),
    /// The client is asked.
    Pending(Pending),
    /// Nothing: it repeats a question that waits, or has no id that could be echoed.
    Nothing,
}

#[derive(Debug, Default)]
struct State {
    /// By number, which is their order.
    calls: BTreeMap<u64, Arc<InFlight>>,
    begun: u64,
    past: Past,
    open: Vec<Open>,
    asked: u64,
}

/// Whose calls are over. What the server says late may be about any of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
enum Past {
    /// There are none.
    #[default]
    None,
    /// All of them were of this owner.
    Of(Owner),
    /// Of several, or of those who cannot be told from each other.
    Several,
}

/// A question that waits for its answer. To drop it is to withdraw it.
#[derive(Debug)]
struct Open {
    number: u64,
    id: String,
    kind: Asking,
    call: Arc<InFlight>,
    _withdrawn: oneshot::Sender<()>,
}

impl Questions {
    /// For the connection that reads the catalog: everything is declared, so that everything is listed, and whatever is
    /// asked is refused.
    pub(crate) fn of_catalog() -> Arc<Self> {
        Self::new(Features::everything(), Puts::Nobody, Origin::Catalog)
    }

    /// For a lane of `owner` whose client declared these `features`; one for everybody is nobody's.
    pub(crate) fn of_lane(owner: &Owner, features: Features) -> Arc<Self> {
        let (puts, origin) = match owner {
            Owner::Session(_) => (Puts::Latest, Origin::Lane(owner.clone())),
            Owner::Nobody if !features.is_interactive() => (Puts::Only, Origin::Shared),
            Owner::Nobody | Owner::Principal(_) => (Puts::Only, Origin::Lane(owner.clone())),
        };
        Self::new(features, puts, origin)
    }

    fn new(declared: Features, puts: Puts, origin: Origin) -> Arc<Self> {
        Arc::new(Self {
            declared,
            puts,
            origin,
            revision: OnceLock::new(),
            state: Mutex::default(),
            room: Arc::new(Semaphore::new(defaults::LANE_QUESTIONS_MAX)),
        })
    }

    /// What is declared on the connection.
    pub(crate) fn declared(&self) -> &Features {
        &self.declared
    }

    /// Which connection it is.
    pub(crate) fn origin(&self) -> &Origin {
        &self.origin
    }

    /// The handshake told the server's revision, in which it is answered.
    pub(crate) fn negotiated(&self, revision: Revision) {
        self.revision.get_or_init(|| revision);
    }

    /// A call of `owner` begins whose client is behind `ear`.
    pub(crate) fn begin(self: &Arc<Self>, owner: &Owner, ear: Option<Arc<dyn Ear>>) -> Begun {
        let mut state = self.lock();
        state.begun += 1;
        let call = Arc::new(InFlight::new(state.begun, owner.clone(), ear));
        state.calls.insert(call.number, Arc::clone(&call));
        drop(state);
        Begun::new(Arc::clone(self), call)
    }

    /// Takes the request `id` of the server, from the stream of `call` or from one that names none.
    pub(crate) fn hear(self: &Arc<Self>, call: Option<&Begun>, id: Id<'_>, request: &Envelope<'_>) -> Heard {
        let method = request.method.as_ref().map_or("", |method| method.as_str());
        if id.as_json().len() > ID_MAX {
            return Heard::Nothing;
        }
        let Some(kind) = Asking::of_method(method) else {
            return Heard::Reply(match method {
                "ping" => Bytes::from(message::response(id.as_json(), b"{}")),
                _ => refused(id, &unknown(method)),
            });
        };
        let params = request.params.map_or("{}", |params| params.get());
        let members =
            Members::parse(params).filter(|_| message::depth_within(params.as_bytes(), defaults::JSON_DEPTH_MAX));
        match members {
            _ if !declares(&self.declared, kind) => {
                self.tell_lack(call, kind);
                Heard::Reply(refused(id, &unknown(method)))
            }
            _ if self.puts == Puts::Nobody => {
                self.tell_lack(call, kind);
                Heard::Reply(Bytes::from(response(id.as_json(), kind.refusal())))
            }
            Some(members) if self.declared.can_be_asked(kind, &members) => self.ask(call, id, kind, params),
            Some(_) => {
                self.tell_lack(call, kind);
                let text = format!("The client did not declare this way of {method}");
                Heard::Reply(refused(id, &RpcError::new(RpcError::INVALID_PARAMS, text)))
            }
            None => {
                let error = RpcError::new(
                    RpcError::INVALID_PARAMS,
                    "params must be an object, not too deep, that names nothing twice",
                );
                Heard::Reply(refused(id, &error))
            }
        }
    }

    /// Tells the client's side of `call`, or of the one that is meant where none is named, what the server asked in vain.
    fn tell_lack(&self, call: Option<&Begun>, kind: Asking) {
        let ear = match call {
            Some(begun) => begun.ear().cloned(),
            None => self.lock().unnamed(self.puts).and_then(|call| call.ear.clone()),
        };
        if let Some(ear) = ear {
            ear.lacked(kind);
        }
    }

    /// Takes `notifications/cancelled` of the server, by which it withdraws what it asked.
    pub(crate) fn withdraw(&self, notification: &Envelope<'_>) {
        let params = notification.params.and_then(|raw| Members::parse(raw.get()));
        if let Some(id) = params.as_ref().and_then(|params| params.get("requestId")) {
            self.close(|open| open.id == id.get());
        }
    }

    /// Takes a notification for the client of a call from where nothing names one; if it could be another's, it is
    /// dropped.
    pub(crate) fn hear_notification(&self, notification: &[u8]) {
        let ear = self.lock().unnamed(self.puts).and_then(|call| call.ear.clone());
        if let Some(ear) = ear {
            ear.heard(notification);
        }
    }

    /// Waits until few enough answers are on their way to the server: one that asks faster than it takes them is not
    /// read on.
    pub(crate) async fn room(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.room).acquire_owned().await.ok()
    }

    fn ask(self: &Arc<Self>, call: Option<&Begun>, id: Id<'_>, kind: Asking, params: &str) -> Heard {
        let refusal = || Heard::Reply(Bytes::from(response(id.as_json(), kind.refusal())));
        let mut state = self.lock();
        let call = call.map(Begun::in_flight).or_else(|| state.unnamed(self.puts)).cloned();
        let Some((call, ear)) = call.and_then(|call| Some((Arc::clone(&call), call.ear.clone()?))) else {
            return refusal();
        };
        let is_repeated = |open: &Open| open.id == id.as_json() && Arc::ptr_eq(&open.call, &call);
        if state.open.iter().any(is_repeated) {
            return Heard::Nothing;
        }
        if state.open.len() >= defaults::LANE_QUESTIONS_MAX {
            return refusal();
        }
        let (asked, asker) = Asked::new(kind, params.to_owned());
        let (sender, withdrawn) = oneshot::channel();
        state.asked += 1;
        let number = state.asked;
        call.question_opened();
        state.open.push(Open {
            number,
            id: id.as_json().to_owned(),
            kind,
            call: Arc::clone(&call),
            _withdrawn: sender,
        });
        drop(state);
        ear.asked(asked);
        Heard::Pending(Pending {
            questions: Arc::clone(self),
            number,
            id: id.as_json().to_owned(),
            kind,
            call,
            asker,
            withdrawn,
        })
    }

    /// The whole message that answers question `id` with `said`, in the server's revision.
    fn answer(&self, id: &str, kind: Asking, said: Said) -> Bytes {
        let revision = self.revision.get().copied().unwrap_or(Revision::LATEST_LEGACY);
        let said = match said {
            Said::Result(result) if kind == Asking::Sampling => match sampling::result(&result, revision) {
                Ok(result) => Said::Result(result.into_owned()),
                // In no revision's words, so that there is nothing to put into this one's.
                Err(Unaskable::Malformed(_)) => Said::Result(result),
                Err(error) => {
                    let error = RpcError::new(RpcError::INTERNAL, error.to_string()).to_json();
                    Said::Error(String::from_utf8_lossy(&error).into_owned())
                }
            },
            said => said,
        };
        Bytes::from(response(id, said))
    }

    /// Closes the questions that `which` names, and gives their ids and kinds.
    fn close(&self, which: impl Fn(&Open) -> bool) -> Vec<(String, Asking)> {
        let mut state = self.lock();
        if !state.open.iter().any(&which) {
            return Vec::new();
        }
        let (closed, open) = std::mem::take(&mut state.open).into_iter().partition(which);
        state.open = open;
        drop(state);
        let closed: Vec<Open> = closed;
        let settled = closed.into_iter().map(|question| {
            question.call.question_closed();
            (question.id, question.kind)
        });
        settled.collect()
    }

    fn end(&self, call: &Arc<InFlight>) {
        let mut state = self.lock();
        state.calls.remove(&call.number);
        state.past = std::mem::take(&mut state.past).and(&call.owner);
        drop(state);
        self.close(|open| Arc::ptr_eq(&open.call, call));
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// The call that is meant by what names none; none, if it could be another owner's.
    fn unnamed(&self, puts: Puts) -> Option<&Arc<InFlight>> {
        let latest = self.calls.values().next_back()?;
        let is_told = match puts {
            Puts::Latest => true,
            Puts::Only | Puts::Nobody => self.calls.len() == 1 && self.past.is_only_of(&latest.owner),
        };
        is_told.then_some(latest)
    }
}

impl Past {
    /// One more call is over.
    fn and(self, owner: &Owner) -> Self {
        match self {
            _ if *owner == Owner::Nobody => Self::Several,
            Self::None => Self::Of(owner.clone()),
            Self::Of(other) if other != *owner => Self::Several,
            other => other,
        }
    }

    /// Whether no call was another owner's.
    fn is_only_of(&self, owner: &Owner) -> bool {
        match self {
            Self::None => true,
            Self::Of(own) => own == owner,
            Self::Several => false,
        }
    }
}

fn declares(features: &Features, kind: Asking) -> bool {
    match kind {
        Asking::Elicitation => features.forms || features.pages,
        Asking::Sampling => features.sampling.is_some(),
        Asking::Roots => features.roots,
    }
}

fn unknown(method: &str) -> RpcError {
    let method: String = method.chars().take(METHOD_MAX).collect();
    RpcError::method_not_found(&method)
}

fn refused(id: Id<'_>, error: &RpcError) -> Bytes {
    Bytes::from(message::error_response(Some(id.as_json()), &error.to_json()))
}

fn response(id: &str, said: Said) -> Vec<u8> {
    match said {
        Said::Result(result) => message::response(id, result.as_bytes()),
        Said::Error(error) => message::error_response(Some(id), error.as_bytes()),
    }
}

/// Longest id of a server's request that is answered.
const ID_MAX: usize = 256;
/// Longest method name that is repeated in an answer.
const METHOD_MAX: usize = 64;

#[cfg(test)]
mod tests;
