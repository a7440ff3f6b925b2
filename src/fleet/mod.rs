//! What is served now.

pub mod observation;
pub mod plan;

pub use observation::{FederationObservation, MemberObservation, Observations, ServerObservation, UpstreamState};
pub use plan::{FederationPlan, FleetPlan, MemberPlan, ObjectKey, PlanInput, ServerPlan};
