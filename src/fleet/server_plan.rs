//! A server: as the planner needs it, and as it is planned.

use std::collections::{BTreeMap, BTreeSet};

use super::object_key::ObjectKey;
use super::unresolved::Unresolved;
use crate::api::server::AllowedNamespaces;
use crate::upstream::{Endpoint, Terms};

/// One server as the planner needs it.
#[derive(Clone, Debug, PartialEq)]
pub struct ServerInput {
    /// Its namespace and name.
    pub key: ObjectKey,
    /// Its labels, for members that select.
    pub labels: BTreeMap<String, String>,
    /// Which namespaces' federations may use it.
    pub allowed_namespaces: AllowedNamespaces,
    /// True: in no federation.
    pub disabled: bool,
    /// How it is dealt with.
    pub terms: Terms,
    /// What has its lists read again when it appears here.
    pub refresh: BTreeSet<String>,
    /// Where it is reached, or why that is not known.
    pub endpoint: Result<Endpoint, Unresolved>,
}

/// One upstream to hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerPlan {
    /// Where it is reached.
    pub endpoint: Endpoint,
    /// How it is dealt with.
    pub terms: Terms,
    /// What has its lists read again when it appears here.
    pub refresh: BTreeSet<String>,
}
