//! What the control plane is given, and what the reconciles of one term of leadership share.

use std::sync::{Arc, Mutex, PoisonError};

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Pod, Service};
use kube::Client;
use kube::runtime::reflector::Store;
use tokio::sync::watch;

use super::events::Events;
use super::mandate::Mandate;
use super::server::apply::Applier;
use super::server::digest::DigestKey;
use super::watch::Watched;
use crate::api::{MCPFederation, MCPServer};
use crate::fleet::{FleetPlan, Observations, PlanInput, References, plan};
use crate::metrics::Metrics;

/// What is fixed for one install.
#[derive(Clone, Debug)]
pub struct Install {
    /// The class of the objects that it owns; `None` owns those that name no class.
    pub class: Option<String>,
    /// The namespace that it runs in.
    pub namespace: String,
    /// Whether it watches all namespaces.
    pub cluster_wide: bool,
    /// How clients reach the gateway.
    pub links: Links,
    /// Who says what events tell: the name of this replica's pod.
    pub instance: Option<String>,
}

/// How clients reach the gateway.
#[derive(Clone, Debug, Default)]
pub struct Links {
    /// The address that all federations are under, without a slash at its end; `None` where it is not known.
    pub base: Option<String>,
}

/// One part of the cluster: a namespace, or all of them.
#[derive(Clone, Debug)]
pub struct Scope {
    /// The namespace; `None` for all.
    pub namespace: Option<String>,
    /// Its servers.
    pub servers: Watched<MCPServer>,
    /// Its federations.
    pub federations: Watched<MCPFederation>,
}

/// What is told from elsewhere, as it changes.
#[derive(Clone, Debug)]
pub struct State {
    /// What the fleet is planned from.
    pub input: watch::Receiver<Arc<PlanInput>>,
    /// What was read of referenced Secrets and ConfigMaps.
    pub references: watch::Receiver<Arc<References>>,
    /// What the gateway sees.
    pub observations: watch::Receiver<Arc<Observations>>,
}

/// What the reconciles of one term share.
pub(super) struct Term {
    pub(super) client: Client,
    pub(super) install: Install,
    pub(super) mandate: Mandate,
    pub(super) applier: Applier,
    pub(super) key: DigestKey,
    pub(super) events: Events,
    pub(super) state: State,
    pub(super) metrics: Arc<Metrics>,
    pub(super) plans: Plans,
}

/// What the reconciles of one term share in one part of the cluster.
pub(super) struct Context {
    pub(super) term: Arc<Term>,
    pub(super) children: Children,
}

/// What servers own, as last seen.
pub(super) struct Children {
    pub(super) deployments: Store<Deployment>,
    pub(super) services: Store<Service>,
    pub(super) pods: Store<Pod>,
}

impl Children {
    /// Waits until all of them were seen once.
    pub(super) async fn seen(&self) {
        // An error means that the watch ended, and with it the term.
        let (_deployments, _services, _pods) = futures::join!(
            self.deployments.wait_until_ready(),
            self.services.wait_until_ready(),
            self.pods.wait_until_ready(),
        );
    }
}

impl Install {
    /// Whether an object of this class belongs to this install. An empty class is none.
    pub fn owns(&self, class: Option<&str>) -> bool {
        class.filter(|class| !class.is_empty()) == self.class.as_deref().filter(|class| !class.is_empty())
    }

    /// `name`, told apart from that of other installs in the same namespace.
    pub fn named(&self, name: &str) -> String {
        match self.class.as_deref().filter(|class| !class.is_empty()) {
            Some(class) => format!("{name}-{class}"),
            None => name.to_owned(),
        }
    }
}

impl Links {
    /// Where clients connect to a federation.
    pub fn federation(&self, namespace: &str, name: &str) -> Option<String> {
        let base = self.base.as_deref()?;
        Some(format!("{}/{namespace}/{name}/mcp", base.trim_end_matches('/')))
    }
}

/// The plan of the fleet, made once for each input.
#[derive(Default)]
pub(super) struct Plans(Mutex<Option<(Arc<PlanInput>, Arc<FleetPlan>)>>);

impl Plans {
    /// The plan of `input`.
    pub(super) fn of(&self, input: &Arc<PlanInput>) -> Arc<FleetPlan> {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match &*last {
            Some((of, planned)) if Arc::ptr_eq(of, input) => planned.clone(),
            _ => {
                let planned = Arc::new(plan::plan(input));
                *last = Some((input.clone(), planned.clone()));
                planned
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn install(class: Option<&str>) -> Install {
        Install {
            class: class.map(str::to_owned),
            namespace: "mcpfleet".into(),
            cluster_wide: true,
            links: Links::default(),
            instance: None,
        }
    }

    #[test]
    fn each_install_owns_its_own_class_and_no_other() {
        assert!(install(None).owns(None) && install(None).owns(Some("")));
        assert!(!install(None).owns(Some("blue")));
        assert!(install(Some("blue")).owns(Some("blue")));
        assert!(!install(Some("blue")).owns(None) && !install(Some("blue")).owns(Some("green")));
        assert_eq!(install(Some("blue")).named("mcpfleet"), "mcpfleet-blue");
    }

    #[test]
    fn links_join_without_double_slashes() {
        let links = Links {
            base: Some("https://mcp.example.com/".into()),
        };
        let url = links.federation("team", "all");
        assert_eq!(url.as_deref(), Some("https://mcp.example.com/team/all/mcp"));
    }
}
