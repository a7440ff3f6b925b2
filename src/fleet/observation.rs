//! What the running fleet shows of itself, as plain data: the gateway side writes it, status and metrics read it.

use std::collections::BTreeMap;

use super::access::Access;
use super::object_key::ObjectKey;
use super::plan::FederationPlan;
use super::server_plan::ServerPlan;
use super::snapshot::Federation;
use crate::api::federation::IndexStatus;
use crate::api::server::{CatalogStatus, ServerInfo, WithheldTool};
use crate::index::{Catalog, List};
use crate::upstream::{Endpoint, Health, Peer, State};

/// Everything observed, at one moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Observations {
    /// Each upstream that is held.
    pub servers: BTreeMap<ObjectKey, ServerObservation>,
    /// Each federation that is served.
    pub federations: BTreeMap<ObjectKey, FederationObservation>,
}

/// One upstream.
#[derive(Clone, Debug, PartialEq)]
pub struct ServerObservation {
    /// What was tried, so that nothing is claimed for an address or key that changed since.
    pub endpoint: Endpoint,
    /// Whether it can be called.
    pub state: UpstreamState,
    /// The transport in use, once it was reached: StreamableHTTP, SSE or Stdio.
    pub transport: Option<&'static str>,
    /// What the server said of itself, once it was reached.
    pub server_info: Option<ServerInfo>,
    /// What it offers, once its lists were read.
    pub catalog: Option<CatalogStatus>,
}

/// Whether an upstream can be called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UpstreamState {
    /// No handshake has succeeded or failed yet.
    Connecting,
    /// Handshake done, catalog read.
    Ready,
    /// The last try failed; the next one is under way or planned.
    Failed {
        /// One CamelCase word: ConnectFailed, Timeout, AuthFailed, BadStatus, ProtocolError, ProcessExited …
        reason: &'static str,
        /// For a person, stable while the cause stays the same.
        message: String,
    },
}

/// One federation.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FederationObservation {
    /// Its members in order.
    pub members: Vec<MemberObservation>,
    /// What clients see, in numbers.
    pub index: IndexStatus,
    /// What of the skills that it should serve itself is left out, as reason and message.
    pub skill_problems: Vec<(&'static str, String)>,
    /// What filters, overrides and rules name and nothing bears, in words.
    pub unmatched: Vec<String>,
}

/// One member of a federation.
#[derive(Clone, Debug, PartialEq)]
pub struct MemberObservation {
    /// Name of the member.
    pub name: String,
    /// The server behind it.
    pub server: ObjectKey,
    /// The prefix in use.
    pub prefix: String,
    /// Why it contributes nothing by plan, as reason and message, if so.
    pub problem: Option<(&'static str, String)>,
    /// Tools it contributes.
    pub tools: usize,
    /// What of it is left out by plan, and why.
    pub note: Option<String>,
}

impl ServerObservation {
    /// What is seen of a server that is held so and in this state.
    pub(super) fn of(plan: &ServerPlan, state: &State) -> Self {
        Self {
            endpoint: plan.endpoint.clone(),
            state: match &state.health {
                Health::Connecting => UpstreamState::Connecting,
                Health::Ready => UpstreamState::Ready,
                // It is there, and wants to know who asks, which callers tell it.
                Health::Failed(error) if error.wants_credentials() && !plan.terms.lists => UpstreamState::Ready,
                Health::Failed(error) => UpstreamState::Failed {
                    reason: error.reason(),
                    message: error.to_string(),
                },
            },
            transport: state.peer.as_ref().map(|peer| peer.transport.as_str()),
            server_info: state.peer.as_deref().map(server_info),
            catalog: state
                .catalog
                .as_deref()
                .filter(|_| plan.terms.lists)
                .map(catalog_status),
        }
    }
}

impl FederationObservation {
    /// What is seen of a federation that is served so.
    pub(super) fn of(plan: &FederationPlan, federation: &Federation) -> Self {
        let index = &federation.index;
        let members = plan.members.iter().enumerate();
        Self {
            members: members
                .map(|(place, member)| MemberObservation {
                    name: member.name.clone(),
                    server: member.server.clone(),
                    prefix: member.prefix.clone(),
                    problem: member
                        .problem
                        .as_ref()
                        .map(|problem| (problem.reason(), problem.to_string())),
                    tools: index.tools_of(place),
                    note: member.note(),
                })
                .collect(),
            index: index.status(),
            skill_problems: plan
                .skill_problems
                .iter()
                .map(|problem| (problem.why.reason, problem.to_string()))
                .collect(),
            unmatched: unmatched(federation),
        }
    }
}

/// What a server said of itself, as status tells it.
fn server_info(peer: &Peer) -> ServerInfo {
    ServerInfo {
        name: peer.name.clone(),
        version: peer.version.clone(),
        protocol_version: peer.revision_name.to_string(),
        era: peer.era().to_string(),
    }
}

/// A catalog in numbers.
fn catalog_status(catalog: &Catalog) -> CatalogStatus {
    let number = |number| i64::try_from(number).unwrap_or(i64::MAX);
    let count = |list| number(catalog.list(list).len());
    let withheld = catalog.withheld.iter().map(|tool| WithheldTool {
        name: tool.name.clone(),
        reason: tool.cause.to_string(),
    });
    CatalogStatus {
        tools: count(List::Tools),
        resources: count(List::Resources),
        templates: count(List::Templates),
        prompts: count(List::Prompts),
        skills: count(List::Skills),
        complete: catalog.complete,
        digest: catalog.digest().to_owned(),
        withheld: withheld.collect(),
        truncated: number(catalog.withheld_more),
    }
}

/// What filters, overrides and rules of a federation name and nothing bears.
fn unmatched(federation: &Federation) -> Vec<String> {
    let mut all = federation.index.unmatched();
    if let Access::ApiKeys(keys) = &federation.access {
        let names: Vec<_> = keys.names().collect();
        let nobody = federation.index.rules().for_nobody(&names);
        let said = nobody.map(|(place, who)| format!("access.rules[{place}] says principals {who:?}, which is no key"));
        all.extend(said);
    }
    all
}
