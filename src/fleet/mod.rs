//! What is served now.

pub mod input;
pub mod observation;
pub mod plan;
pub mod reference;

pub use observation::{FederationObservation, MemberObservation, Observations, ServerObservation, UpstreamState};
pub use plan::{FederationPlan, FleetPlan, MemberPlan, ObjectKey, PlanInput, ServerPlan};
pub use reference::{Content, Reference, ReferenceKind, References};
