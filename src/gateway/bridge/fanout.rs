//! Reads of resources that nobody lists: every member that may have one is asked.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures::future::BoxFuture;
use futures::{StreamExt, stream};

use super::forwarded::hops;
use super::hop::Hop;
use crate::defaults;
use crate::fleet::Federation;
use crate::gateway::answer::Answer;
use crate::gateway::relay::Relay;
use crate::gateway::request::Request;
use crate::index::Target;
use crate::mcp::shape::{self, ResultError};
use crate::mcp::{Era, Features, Members, RpcError};
use crate::metrics::Outcome;
use crate::upstream::{Asked, Body, Call, Ear, Error, Fanout, Offer, Owner, Reply};

/// A member that failed where it should have said whether it has the resource.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::gateway) struct Failure {
    /// Its name.
    pub(in crate::gateway) member: String,
    /// What happened, without words of others.
    pub(in crate::gateway) cause: String,
}

/// Asks the members in these places for the resource `uri`, several at a time. Of those that have it the first in order
/// answers, however fast the others are, and whoever failed before.
///
/// # Errors
/// None has it; tells which of them failed.
pub(in crate::gateway) async fn ask_all(
    federation: &Federation,
    request: Request<'_>,
    uri: &str,
    places: impl Iterator<Item = usize>,
) -> Result<Answer, Vec<Failure>> {
    let targets: Vec<Target> = places.map(|member| Target::resource(member, uri)).collect();
    let hops = targets.iter().filter_map(|target| {
        let member = federation.members.get(target.member)?;
        let upstream = member.upstream.as_ref()?;
        let has_none = upstream.revision().is_some() && upstream.capabilities().resources == Offer::None;
        (!has_none).then_some(Hop {
            federation,
            member,
            upstream,
            target,
            request,
        })
    });
    let hops: Vec<Hop<'_>> = hops.collect();
    let Some(guess) = hops.first().map(Guess::of) else {
        return Err(Vec::new());
    };
    let mut attempts: Vec<BoxFuture<'_, _>> = Vec::with_capacity(hops.len());
    for hop in hops {
        attempts.push(Box::pin(guess.attempt(hop)));
    }
    let mut attempts = stream::iter(attempts).buffered(defaults::FANOUT_AT_A_TIME);
    let mut failed = Vec::new();
    while let Some((hop, attempt)) = attempts.next().await {
        match attempt {
            Attempt::Answered(answer) => return Ok(answer),
            Attempt::Asked => {
                drop(attempts);
                return Ok(super::carry(federation, request, hop.target).await);
            }
            Attempt::Missed => {}
            Attempt::Failed(cause) => failed.push(Failure {
                member: hop.member.name.clone(),
                cause,
            }),
        }
    }
    Err(failed)
}

/// What all attempts of one read have in common.
struct Guess {
    features: Features,
    owner: Owner,
    relay: Option<Arc<Relay>>,
    fanout: Fanout,
}

/// What one member made of it.
enum Attempt {
    /// It has the resource.
    Answered(Answer),
    /// It wants something of the client first, which it asks for again where it is asked alone.
    Asked,
    /// It does not have it.
    Missed,
    /// It failed, for this cause.
    Failed(String),
}

impl Guess {
    /// The same connections carry it as carry all that the client asks, since a server may know a resource by them.
    fn of(hop: &Hop<'_>) -> Self {
        let request = hop.request;
        let declared = hop.declared();
        let can_be_asked = match request.revision.era() {
            Era::Legacy => request.session.is_some() && request.intermediate.is_some(),
            Era::Modern => true,
        };
        let features = if can_be_asked { declared } else { declared.silent() };
        let relay = request
            .intermediate
            .map(|out| Relay::of_several(request.meta, hop.logs(), out.clone()));
        Self {
            features: Features {
                tasks: false,
                ..features
            },
            owner: hop.owner(),
            relay: relay.filter(Relay::wants_any).map(Arc::new),
            fanout: Fanout::Asked(hops(request.headers).saturating_add(1)),
        }
    }

    async fn attempt<'a>(&self, hop: Hop<'a>) -> (Hop<'a>, Attempt) {
        let ear = Arc::new(GuessEar {
            relay: self.relay.clone(),
            was_asked: AtomicBool::new(false),
        });
        let call = hop.call(&self.features, self.owner.clone(), Some(Arc::clone(&ear) as _));
        let call = Call {
            fanout: self.fanout,
            ..call
        };
        let reply = hop.upstream.call(call).await;
        let attempt = if ear.was_asked.load(Ordering::Relaxed) {
            Attempt::Asked
        } else {
            Attempt::of(hop, &reply)
        };
        if let Attempt::Failed(cause) = &attempt {
            tracing::debug!(
                member = hop.member.name,
                cause,
                "a member failed to say whether it has a resource"
            );
        }
        (hop, attempt)
    }
}

impl Attempt {
    fn of(hop: Hop<'_>, reply: &Result<Reply, Error>) -> Self {
        let reply = match reply {
            Ok(reply) => reply,
            Err(error) => return Self::Failed(error.outline()),
        };
        let request = hop.request;
        match reply.body() {
            Body::Error(error) => match code_of(error) {
                Some(RpcError::INVALID_PARAMS | RpcError::RESOURCE_NOT_FOUND) => Self::Missed,
                Some(RpcError::URL_ELICITATION_REQUIRED | RpcError::MISSING_CLIENT_CAPABILITY) => Self::Asked,
                Some(code) => Self::Failed(format!("the server answered with error {code}")),
                None => Self::Failed("the server answered with a malformed error".to_owned()),
            },
            Body::Result(result) => {
                let info = &hop.federation.server_info;
                let renamed = match hop.for_client(result) {
                    Ok(renamed) => renamed,
                    Err(error) => return Self::Failed(error.to_string()),
                };
                match shape::response(request.id, request.method, &renamed, reply.era, request.revision, info) {
                    Ok(body) => Self::Answered(Answer::new(body, Outcome::Ok)),
                    Err(ResultError::InputRequired) => Self::Asked,
                    Err(error) => Self::Failed(error.to_string()),
                }
            }
        }
    }
}

/// Hears one of several servers that nobody will answer.
#[derive(Debug)]
struct GuessEar {
    relay: Option<Arc<Relay>>,
    was_asked: AtomicBool,
}

impl Ear for GuessEar {
    fn heard(&self, notification: &[u8]) {
        if let Some(relay) = &self.relay {
            relay.pass(notification);
        }
    }

    fn asked(&self, asked: Asked) {
        self.was_asked.store(true, Ordering::Relaxed);
        drop(asked);
    }
}

fn code_of(error: &str) -> Option<i64> {
    Members::parse(error)?.get("code")?.get().parse().ok()
}
