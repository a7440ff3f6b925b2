//! What is served now: planned from objects, held as upstreams, published as an immutable snapshot.

pub mod access;
pub mod caller;
pub mod changes;
pub mod discovery;
mod extensions;
mod held;
pub mod identity;
pub mod input;
pub mod observation;
pub mod own;
pub mod plan;
pub mod protocol;
pub mod reference;
pub mod runtime;
pub mod skills;
pub mod snapshot;
pub mod streams;
mod unresolved;
pub mod variation;
mod waits;

pub use access::{Access, ApiKeys, KeyDigest};
pub use caller::Caller;
pub use changes::{Changes, News, Place};
pub use discovery::DiscoveryPlan;
pub use identity::IdentityPlan;
pub use observation::{FederationObservation, MemberObservation, Observations, ServerObservation, UpstreamState};
pub use own::{Absent, OwnMember, Watching};
pub use plan::{FederationPlan, FleetPlan, MemberPlan, ObjectKey, PlanInput, ServerPlan, SessionPlan};
pub use protocol::ProtocolPlan;
pub use reference::{Content, Reference, ReferenceKind, References};
pub use runtime::{DefaultFederation, Runtime};
pub use skills::{SkillProblem, SkillsPlan};
pub use snapshot::{Federation, Fleet, Member, Offers};
pub use streams::StreamPlan;
pub use variation::{UpstreamKey, Variation};
