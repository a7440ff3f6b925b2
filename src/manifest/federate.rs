//! Servers without a federation form one.

use std::collections::BTreeSet;
use std::rc::Rc;

use super::collection::{Collection, Source, Sourced};
use super::problem::Problem;
use super::reading::Options;
use super::yaml::{Content, Node};
use crate::api::federation::{Access, Anonymous, Member, ServerRef};
use crate::api::{DEFAULT_NAMESPACE, MCPFederation, MCPFederationSpec};

/// Name of the federation that is formed.
const NAME: &str = "default";

/// Forms a federation of all servers where no file has one.
///
/// It is open to everyone, so it is formed on loopback only.
pub(super) fn form_default(collection: &mut Collection, options: &Options) {
    let none = collection.names("MCPFederation").next().is_none();
    let servers: BTreeSet<(String, String)> = collection
        .names("MCPServer")
        .map(|server| (server.namespace.clone(), server.name.clone()))
        .collect();
    if !none || servers.is_empty() || collection.unread {
        return;
    }
    if options.had_federation {
        let text = "the files hold no MCPFederation any more, and none is formed in place of one that was written down, \
                    since it would be open to everyone; write one down again, or start anew to serve all servers as one";
        let problem = Problem::of_file(first_file(collection), text);
        collection.problems.push(problem);
        return;
    }
    if !options.loopback {
        let problem = Problem::of_file(
            first_file(collection),
            format!(
                "no MCPFederation is in the files, and the one that is formed of all servers is open to whoever reaches \
                 it, so it is formed only where --listen is a loopback address, such as 127.0.0.1:8080; add an \
                 MCPFederation that says who may connect, for example spec: {}",
                example(&servers)
            ),
        );
        collection.problems.push(problem);
        return;
    }
    let object = federation(&servers);
    let node = Node {
        line: 1,
        content: Content::Map(Vec::new()),
    };
    let source = Rc::new(Source {
        file: "the federation that was formed".into(),
        node,
    });
    collection.federations.push(Sourced { object, source });
    collection.forms_federation = true;
}

fn first_file(collection: &Collection) -> &str {
    let files = collection.places.values().map(|place| place.file.as_str());
    files.min().unwrap_or_default()
}

/// A spec that names the first of `servers`, as a manifest has it.
fn example(servers: &BTreeSet<(String, String)>) -> String {
    let name = servers.first().map_or("NAME", |(_, name)| name.as_str());
    format!(
        "{{members: [{{name: {name}, server: {{name: {name}}}}}], access: {{apiKeys: {{secretRef: {{name: NAME}}}}}}}}"
    )
}

fn federation(servers: &BTreeSet<(String, String)>) -> MCPFederation {
    let namespaces: BTreeSet<&str> = servers.iter().map(|(namespace, _)| namespace.as_str()).collect();
    let namespace = match namespaces.first() {
        Some(only) if namespaces.len() == 1 => only,
        _ => DEFAULT_NAMESPACE,
    };
    let is_shared = |name: &str| servers.iter().filter(|(_, other)| other == name).count() > 1;
    let plain = servers.iter().map(|(_, name)| name).filter(|name| !is_shared(name));
    let mut taken: BTreeSet<String> = plain.cloned().collect();
    let members = servers.iter().map(|(home, name)| {
        let shared = is_shared(name);
        let own = if shared {
            free(&mut taken, &format!("{home}-{name}"))
        } else {
            name.clone()
        };
        Member {
            prefix: shared.then(|| own.clone()),
            name: own,
            server: Some(ServerRef {
                name: name.clone(),
                namespace: Some(home.clone()),
            }),
            ..Member::default()
        }
    });
    let spec = MCPFederationSpec {
        members: members.collect(),
        access: Some(Access {
            anonymous: Some(Anonymous {}),
            ..Access::default()
        }),
        ..MCPFederationSpec::default()
    };
    let mut federation = MCPFederation::new(NAME, spec);
    federation.metadata.namespace = Some(namespace.to_owned());
    federation
}

/// `wanted`, with a number behind it where others have it already; it is taken then.
fn free(taken: &mut BTreeSet<String>, wanted: &str) -> String {
    let mut name = wanted.to_owned();
    let mut number = 1_usize;
    while !taken.insert(name.clone()) {
        number += 1;
        name = format!("{wanted}-{number}");
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_of_the_same_name_never_coincide() {
        let servers = [("a", "b-c"), ("a-b", "c"), ("x", "b-c"), ("x", "c"), ("y", "x-c")];
        let servers = servers.map(|(namespace, name)| (namespace.to_owned(), name.to_owned()));
        let members = federation(&BTreeSet::from(servers)).spec.members;
        let names: Vec<&str> = members.iter().map(|member| member.name.as_str()).collect();
        assert_eq!(names, ["a-b-c", "a-b-c-2", "x-b-c", "x-c-2", "x-c"]);
    }
}
