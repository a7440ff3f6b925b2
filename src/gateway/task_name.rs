//! The names by which clients know tasks: sealed, so that each leads to the server that has the task, for whoever was
//! given it and nobody else, and can be made by nobody but us. Nothing is kept of a task here. They are signed and not
//! encrypted: names of a server and a tool can be read in them, and how that server calls the task.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use super::session::FederationKeys;

/// Who has a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Keeper {
    /// The server that made it.
    Server,
    /// This gateway, in the process that began it.
    Gateway,
}

/// Where a task is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Route<'a> {
    /// Who has it.
    pub(super) keeper: Keeper,
    /// The name of the server, `namespace/name`.
    pub(super) server: &'a str,
    /// The tool whose call it is, as the server knows it.
    pub(super) tool: &'a str,
    /// What its keeper calls it.
    pub(super) task: &'a str,
}

/// A route that a client has named.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) keeper: Keeper,
    pub(super) server: String,
    pub(super) tool: String,
    pub(super) task: String,
}

/// The name of the task at `route` for `principal`; one that access has no name for knows it by this name alone. It is
/// the same whenever it is made, as long as the keys are.
pub(super) fn seal(route: Route<'_>, principal: Option<&str>, keys: &FederationKeys) -> String {
    let place = URL_SAFE_NO_PAD.encode([route.keeper.as_str(), route.server, route.tool, route.task].join("\0"));
    let signature = URL_SAFE_NO_PAD.encode(keys.sign_state(&signed(&place, principal)));
    format!("{place}.{signature}")
}

/// Where the task called `name` is, if `principal` was given that name.
pub(super) fn open(name: &str, principal: Option<&str>, keys: &FederationKeys) -> Option<Found> {
    let (place, signature) = name.split_once('.')?;
    let signature = URL_SAFE_NO_PAD.decode(signature).ok()?;
    if !keys.has_signed_state(&signed(place, principal), &signature) {
        return None;
    }
    let place = String::from_utf8(URL_SAFE_NO_PAD.decode(place).ok()?).ok()?;
    let (keeper, rest) = place.split_once('\0')?;
    let (server, rest) = rest.split_once('\0')?;
    let (tool, task) = rest.split_once('\0')?;
    Some(Found {
        keeper: Keeper::parse(keeper)?,
        server: server.to_owned(),
        tool: tool.to_owned(),
        task: task.to_owned(),
    })
}

impl Keeper {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Server => "s",
            Self::Gateway => "g",
        }
    }

    fn parse(name: &str) -> Option<Self> {
        [Self::Server, Self::Gateway]
            .into_iter()
            .find(|keeper| keeper.as_str() == name)
    }
}

/// What is signed. The state of a request begins otherwise, so that neither can be taken for the other, and a place has
/// no spaces, so that no principal can be taken for a part of one.
fn signed(place: &str, principal: Option<&str>) -> Vec<u8> {
    match principal {
        None => format!("task of anyone {place}").into_bytes(),
        Some(name) => format!("task of one {place} {name}").into_bytes(),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use proptest::prelude::*;

    use super::*;
    use crate::gateway::session::Keyring;

    const ROUTE: Route<'_> = Route {
        keeper: Keeper::Server,
        server: "ns/s",
        tool: "job",
        task: "t 1",
    };

    fn keys(root: u8, federation: &str) -> Arc<FederationKeys> {
        Keyring::new(&[root; 32], []).unwrap().of(federation).unwrap()
    }

    fn leads(name: &str, principal: Option<&str>) -> bool {
        open(name, principal, &keys(7, "ns/fed")).is_some()
    }

    #[test]
    fn a_name_leads_to_its_task_and_is_the_same_each_time() {
        let keys = keys(7, "ns/fed");
        for principal in [None, Some("ada")] {
            let name = seal(ROUTE, principal, &keys);
            assert_eq!(name, seal(ROUTE, principal, &keys));
            let found = open(&name, principal, &keys).unwrap();
            assert_eq!((&*found.server, &*found.tool, &*found.task), ("ns/s", "job", "t 1"));
            assert!(
                name.bytes().all(|byte| byte.is_ascii_graphic()),
                "it has to fit into a header"
            );
        }
    }

    #[test]
    fn it_leads_nowhere_for_others_in_other_federations_and_with_other_keys() {
        let of_ada = seal(ROUTE, Some("ada"), &keys(7, "ns/fed"));
        let of_anyone = seal(ROUTE, None, &keys(7, "ns/fed"));
        assert!(leads(&of_ada, Some("ada")) && leads(&of_anyone, None));
        for other in [None, Some("bob"), Some("")] {
            assert!(!leads(&of_ada, other), "{other:?}");
        }
        assert!(!leads(&of_anyone, Some("ada")));
        for keys in [keys(7, "ns/other"), keys(8, "ns/fed")] {
            assert_eq!(open(&of_ada, Some("ada"), &keys), None);
        }
    }

    #[test]
    fn a_servers_own_name_leads_nowhere() {
        for odd in ["", ".", "t 1", "ns/s", "bnMvcwB0.x"] {
            assert!(!leads(odd, None), "{odd}");
        }
    }

    proptest! {
        #[test]
        fn whatever_a_server_calls_its_task_comes_back(task in any::<String>(), principal in any::<Option<String>>()) {
            let keys = keys(7, "ns/fed");
            let name = seal(Route { task: &task, ..ROUTE }, principal.as_deref(), &keys);
            let found = open(&name, principal.as_deref(), &keys).unwrap();
            prop_assert_eq!((&*found.server, &*found.tool, &*found.task), ("ns/s", "job", task.as_str()));
        }

        #[test]
        fn no_other_text_is_a_name(at in 0usize..100, with in "[A-Za-z0-9_.=-]{0,3}") {
            let name = seal(ROUTE, None, &keys(7, "ns/fed"));
            let (head, tail) = name.split_at(at.min(name.len()));
            let changed = format!("{head}{with}{tail}");
            prop_assert_eq!(leads(&changed, None), changed == name);
        }
    }
}
