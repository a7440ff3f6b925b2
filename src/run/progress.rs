//! What `mcpfleet up` prints as servers come and go: lines made from one observation and the one before it.

use std::collections::BTreeMap;

use crate::api::DEFAULT_NAMESPACE;
use crate::api::federation::Clash;
use crate::fleet::{ObjectKey, Observations, UpstreamState};

/// The lines that tell what changed from `before` to `now`.
pub(crate) fn lines(before: &Observations, now: &Observations) -> Vec<String> {
    let servers = now.servers.iter().filter_map(|(key, server)| {
        let known = before.servers.get(key);
        if known.is_some_and(|k| k.state == server.state && k.catalog == server.catalog) {
            return None;
        }
        let key = shown(key);
        Some(match &server.state {
            UpstreamState::Connecting => format!("server {key} connecting"),
            UpstreamState::Failed { reason, message } => format!("server {key} failed: {reason}: {message}"),
            UpstreamState::Ready => {
                let catalog = server.catalog.clone().unwrap_or_default();
                let era = server
                    .server_info
                    .as_ref()
                    .map_or("", |info| info.protocol_version.as_str());
                let mut parts = vec![count(catalog.tools, "tool")];
                parts.extend(
                    [
                        (catalog.resources, "resource"),
                        (catalog.templates, "template"),
                        (catalog.prompts, "prompt"),
                        (catalog.skills, "skill"),
                    ]
                    .iter()
                    .filter(|(n, _)| *n > 0)
                    .map(|(n, what)| count(*n, what)),
                );
                let withheld = i64::try_from(catalog.withheld.len()).unwrap_or(i64::MAX);
                let withheld = withheld.saturating_add(catalog.truncated);
                if withheld > 0 {
                    parts.push(format!("{withheld} withheld"));
                }
                if !catalog.complete {
                    parts.push("not all that it has, since a list is cut or missing".to_owned());
                }
                format!("server {key} ready ({era}): {}", parts.join(", "))
            }
        })
    });
    let gone = before
        .servers
        .keys()
        .filter(|key| !now.servers.contains_key(key))
        .map(|key| format!("server {} removed", shown(key)));
    let problems = |observed: &Observations| -> BTreeMap<String, String> {
        let members = observed.federations.iter().flat_map(|(key, federation)| {
            federation.members.iter().filter_map(move |member| {
                let told = match (&member.problem, &member.note) {
                    (Some((reason, message)), _) => format!("contributes nothing: {reason}: {message}"),
                    (None, Some(note)) => format!("is not served as it says: {note}"),
                    (None, None) => return None,
                };
                Some((format!("member {} of {}", member.name, shown(key)), told))
            })
        });
        members.collect()
    };
    let known = problems(before);
    let told = problems(now)
        .into_iter()
        .filter(|(member, problem)| known.get(member) != Some(problem));
    let told: Vec<String> = told.map(|(member, problem)| format!("{member} {problem}")).collect();
    servers
        .chain(gone)
        .chain(told)
        .chain(skills_left_out(before, now))
        .chain(manifests_in_doubt(before, now))
        .collect()
}

/// What was found of federations now, and not before, that whoever wrote them hardly meant: names that several members
/// have, and names that nothing bears.
fn manifests_in_doubt<'o>(before: &'o Observations, now: &'o Observations) -> impl Iterator<Item = String> + 'o {
    now.federations.iter().flat_map(|(key, federation)| {
        let known = before.federations.get(key);
        let (clashes, unmatched) =
            known.map_or((&[][..], &[][..]), |known| (&*known.index.conflicts, &*known.unmatched));
        let clashes = federation
            .index
            .conflicts
            .iter()
            .filter(|clash| !clashes.contains(clash));
        let clashes = clashes.map(|Clash { list, name, members }| {
            format!("several members have {name:?} ({list}): {}", members.join(", "))
        });
        let unmatched = federation.unmatched.iter().filter(|said| !unmatched.contains(said));
        let mut new: Vec<_> = unmatched.cloned().chain(clashes).collect();
        let more = new.len().saturating_sub(DOUBTS_MAX);
        new.truncate(DOUBTS_MAX);
        if more > 0 {
            new.push(format!("{more} more names clash, or match nothing"));
        }
        new.into_iter()
            .map(move |told| format!("federation {}: {told}", shown(key)))
    })
}

/// Most such lines of one federation at a time.
const DOUBTS_MAX: usize = 20;

/// What is left out of federations' own skills now and was not before.
fn skills_left_out<'o>(before: &'o Observations, now: &'o Observations) -> impl Iterator<Item = String> + 'o {
    now.federations.iter().flat_map(|(key, federation)| {
        let known = before
            .federations
            .get(key)
            .map_or(&[][..], |known| &known.skill_problems);
        let new = federation
            .skill_problems
            .iter()
            .filter(|problem| !known.contains(problem));
        new.map(|(reason, message)| format!("skill of {} left out: {reason}: {message}", shown(key)))
    })
}

/// The object's name, with its namespace where that is not the one of objects that name none.
fn shown(key: &ObjectKey) -> String {
    if key.namespace == DEFAULT_NAMESPACE {
        key.name.clone()
    } else {
        key.to_string()
    }
}

fn count(number: i64, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::federation::IndexStatus;
    use crate::api::server::{CatalogStatus, WithheldTool};
    use crate::fleet::{FederationObservation, MemberObservation, ServerObservation};
    use crate::upstream::{Endpoint, HttpEndpoint};

    fn observed(state: UpstreamState, tools: i64) -> Observations {
        let server = ServerObservation {
            endpoint: Endpoint::Http(HttpEndpoint {
                url: "http://127.0.0.1/mcp".parse().unwrap(),
                headers: http::HeaderMap::new(),
            }),
            state,
            transport: None,
            server_info: None,
            catalog: Some(CatalogStatus {
                tools,
                prompts: 1,
                complete: true,
                ..CatalogStatus::default()
            }),
        };
        Observations {
            servers: [(ObjectKey::new("default", "a"), server)].into(),
            ..Observations::default()
        }
    }

    #[test]
    fn each_change_is_told_once() {
        let ready = observed(UpstreamState::Ready, 3);
        assert_eq!(
            lines(&Observations::default(), &ready),
            ["server a ready (): 3 tools, 1 prompt"]
        );
        assert!(lines(&ready, &ready).is_empty());
        let failed = observed(
            UpstreamState::Failed {
                reason: "Timeout",
                message: "no answer".into(),
            },
            3,
        );
        assert_eq!(lines(&ready, &failed), ["server a failed: Timeout: no answer"]);
        assert_eq!(lines(&failed, &Observations::default()), ["server a removed"]);
    }

    #[test]
    fn what_is_withheld_is_counted() {
        let mut now = observed(UpstreamState::Ready, 3);
        for server in now.servers.values_mut() {
            let catalog = server.catalog.as_mut().unwrap();
            catalog.withheld = vec![WithheldTool {
                name: "t".into(),
                reason: "r".into(),
            }];
            catalog.truncated = 1;
        }
        assert_eq!(
            lines(&Observations::default(), &now),
            ["server a ready (): 3 tools, 1 prompt, 2 withheld"]
        );
        for server in now.servers.values_mut() {
            server.catalog.as_mut().unwrap().complete = false;
        }
        assert_eq!(
            lines(&Observations::default(), &now),
            ["server a ready (): 3 tools, 1 prompt, 2 withheld, not all that it has, since a list is cut or missing"]
        );
    }

    #[test]
    fn members_that_contribute_nothing_and_skills_that_are_left_out_are_named() {
        let member = MemberObservation {
            name: "m".into(),
            server: ObjectKey::new("default", "x"),
            prefix: "m".into(),
            problem: Some(("NotFound", "no such MCPServer".into())),
            tools: 0,
            note: None,
        };
        let federation = FederationObservation {
            members: vec![member],
            index: IndexStatus::default(),
            skill_problems: vec![("NameMismatch", "directory \"s\": alpha: both must be the same".into())],
            unmatched: Vec::new(),
        };
        let now = Observations {
            federations: [(ObjectKey::new("default", "f"), federation)].into(),
            ..Observations::default()
        };
        assert_eq!(
            lines(&Observations::default(), &now),
            [
                "member m of f contributes nothing: NotFound: no such MCPServer",
                "skill of f left out: NameMismatch: directory \"s\": alpha: both must be the same",
            ]
        );
        assert!(lines(&now, &now).is_empty());
    }

    #[test]
    fn names_that_clash_or_match_nothing_are_told_when_they_are_found_and_not_too_many() {
        let with = |clashes: usize, unmatched: &[&str]| {
            let clash = |number: usize| Clash {
                list: "tools".into(),
                name: format!("t{number}"),
                members: vec!["a".into(), "b".into()],
            };
            let federation = FederationObservation {
                index: IndexStatus {
                    conflicts: (0..clashes).map(clash).collect(),
                    ..IndexStatus::default()
                },
                unmatched: unmatched.iter().map(|said| (*said).to_owned()).collect(),
                ..FederationObservation::default()
            };
            Observations {
                federations: [(ObjectKey::new("default", "f"), federation)].into(),
                ..Observations::default()
            }
        };
        let first = with(1, &["x"]);
        assert_eq!(
            lines(&Observations::default(), &first),
            [
                "federation f: x",
                "federation f: several members have \"t0\" (tools): a, b"
            ]
        );
        assert!(lines(&first, &first).is_empty());
        assert_eq!(lines(&first, &with(1, &["x", "y"])), ["federation f: y"]);
        let many = lines(&first, &with(31, &[]));
        assert_eq!(many.len(), DOUBTS_MAX + 1);
        assert_eq!(
            many.last().unwrap(),
            "federation f: 10 more names clash, or match nothing"
        );
    }
}
