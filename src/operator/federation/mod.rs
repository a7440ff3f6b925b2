//! One `MCPFederation`: its status. (What it serves is the fleet's business.)

pub mod reconcile;
pub mod status;
