//! What `mcpfleet up` prints as endpoints come and go: lines made from what is served and what was served before.

use std::net::SocketAddr;

use crate::fleet::{DefaultFederation, ObjectKey, Observations};

/// Where clients connect.
#[derive(Clone, Debug)]
pub(crate) struct Endpoints {
    /// The address that is listened on.
    pub(crate) address: SocketAddr,
    /// Which federation is served at `/mcp`.
    pub(crate) default: DefaultFederation,
}

/// What is served at `/mcp`.
#[derive(PartialEq, Eq)]
enum Bare<'a> {
    /// This federation.
    Federation(&'a ObjectKey),
    /// Nothing, for it is not known which of several.
    Undecided,
    /// Nothing, since this one is not there.
    Missing(&'a ObjectKey),
    /// Nothing, and nobody asked for it.
    Nothing,
}

impl Endpoints {
    /// The lines that tell what changed from `before` to `now`; what is in `now` is served already.
    pub(crate) fn lines(&self, before: &Observations, now: &Observations) -> Vec<String> {
        let address = self.address;
        let (old, new) = (&before.federations, &now.federations);
        let gone = old.keys().filter(|key| !new.contains_key(key));
        let gone = gone.map(|key| format!("endpoint http://{address}/{key}/mcp removed: its MCPFederation is gone"));
        let come = new.keys().filter(|key| !old.contains_key(key));
        let come = come.map(|key| format!("endpoint http://{address}/{key}/mcp"));
        gone.chain(come).chain(self.bare_line(before, now)).collect()
    }

    fn bare_line(&self, before: &Observations, now: &Observations) -> Option<String> {
        let (was, is) = (self.bare(before), self.bare(now));
        if was == is {
            return None;
        }
        let url = format!("http://{}/mcp", self.address);
        let why = match is {
            Bare::Federation(key) => return Some(format!("endpoint {url} (the same as /{key}/mcp)")),
            Bare::Undecided => {
                "there are several federations; to have one of them there, start with --default-federation NAME"
                    .to_owned()
            }
            Bare::Missing(key) => {
                format!("--default-federation names {key}, and no MCPFederation of that name is in the files any more")
            }
            Bare::Nothing => "there is no federation".to_owned(),
        };
        Some(match was {
            Bare::Federation(_) => format!("endpoint {url} removed: {why}"),
            _ => format!("endpoint {url} not served: {why}"),
        })
    }

    fn bare<'a>(&'a self, observed: &'a Observations) -> Bare<'a> {
        let mut served = observed.federations.keys();
        match (&self.default, served.next(), served.next()) {
            (DefaultFederation::Named(key), Some(_), _) if !observed.federations.contains_key(key) => {
                Bare::Missing(key)
            }
            (DefaultFederation::Named(key), Some(_), _) => Bare::Federation(key),
            (DefaultFederation::Single, Some(only), None) => Bare::Federation(only),
            (DefaultFederation::Single, Some(_), Some(_)) => Bare::Undecided,
            (DefaultFederation::None, ..) | (_, None, _) => Bare::Nothing,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The lines of each step, from nothing to the last of `steps`, each the names of the federations that are served.
    fn told(default: DefaultFederation, steps: &[&[&str]]) -> Vec<Vec<String>> {
        let address = "127.0.0.1:1".parse().unwrap();
        let endpoints = Endpoints { address, default };
        let mut before = Observations::default();
        let mut told = Vec::new();
        for names in steps {
            let keys = names
                .iter()
                .map(|name| (ObjectKey::new("default", *name), Default::default()));
            let now = Observations {
                federations: keys.collect(),
                ..Observations::default()
            };
            told.push(endpoints.lines(&before, &now));
            before = now;
        }
        told
    }

    #[test]
    fn the_only_federation_is_at_the_bare_path_for_as_long_as_it_is_the_only_one() {
        let told = told(
            DefaultFederation::Single,
            &[&["a"], &["a"], &["a", "b"], &["a", "b", "c"], &["b"], &["d"]],
        );
        assert_eq!(
            told[0],
            [
                "endpoint http://127.0.0.1:1/default/a/mcp",
                "endpoint http://127.0.0.1:1/mcp (the same as /default/a/mcp)"
            ]
        );
        assert!(told[1].is_empty());
        assert_eq!(told[2][0], "endpoint http://127.0.0.1:1/default/b/mcp");
        assert!(
            told[2][1].starts_with("endpoint http://127.0.0.1:1/mcp removed: there are several federations"),
            "{told:?}"
        );
        assert_eq!(told[3], ["endpoint http://127.0.0.1:1/default/c/mcp"], "said once");
        assert_eq!(
            told[4],
            [
                "endpoint http://127.0.0.1:1/default/a/mcp removed: its MCPFederation is gone",
                "endpoint http://127.0.0.1:1/default/c/mcp removed: its MCPFederation is gone",
                "endpoint http://127.0.0.1:1/mcp (the same as /default/b/mcp)"
            ]
        );
        assert_eq!(
            told[5][2],
            "endpoint http://127.0.0.1:1/mcp (the same as /default/d/mcp)"
        );
    }

    #[test]
    fn of_several_from_the_start_it_is_told_that_none_is_at_the_bare_path() {
        let told = told(DefaultFederation::Single, &[&["a", "b"]]);
        assert!(
            told[0][2].starts_with("endpoint http://127.0.0.1:1/mcp not served: there are several federations"),
            "{told:?}"
        );
    }

    #[test]
    fn a_named_federation_that_goes_is_missed_and_welcomed_back() {
        let named = DefaultFederation::Named(ObjectKey::new("default", "b"));
        let told = told(named, &[&["a", "b"], &["a"], &["a", "c"], &["b", "c"]]);
        assert_eq!(
            told[0][2],
            "endpoint http://127.0.0.1:1/mcp (the same as /default/b/mcp)"
        );
        assert_eq!(
            told[1][1],
            "endpoint http://127.0.0.1:1/mcp removed: --default-federation names default/b, and no MCPFederation of \
             that name is in the files any more"
        );
        assert_eq!(told[2].len(), 1, "said once: {told:?}");
        assert_eq!(told[3][2], told[0][2]);
    }

    #[test]
    fn where_no_default_is_wanted_nothing_is_said_of_it() {
        assert_eq!(told(DefaultFederation::None, &[&["a"], &[]])[0].len(), 1);
    }
}
