//! What objects say of each other.

use super::collection::{Collection, Sourced};
use super::metadata::{NAMESPACE_NAME_LABEL, namespace_labels};
use super::nearest::did_you_mean;
use super::path::Path;
use super::problem::Problem;
use crate::api::environment::{EnvFrom, ValueSource};
use crate::api::federation::Member;
use crate::api::server::NamespacesFrom;
use crate::api::{DEFAULT_NAMESPACE, MCPFederation, MCPServer, MCPServerSpec};

/// Adds a problem for each reference that leads nowhere, and a warning for each that does nothing.
///
/// Not where something could not be read: what is missing may stand there.
pub(super) fn check(collection: &mut Collection) {
    if collection.unread {
        return;
    }
    let mut told = Told::default();
    for federation in &collection.federations {
        for (index, member) in federation.object.spec.members.iter().enumerate() {
            let path = Path::of_fields("spec.members").index(index);
            check_member(collection, federation, member, &path, &mut told);
        }
        check_access(collection, federation, &mut told);
        check_skills(collection, federation, &mut told);
    }
    for server in collection.servers.iter().filter(|server| !server.object.spec.disabled) {
        check_values(collection, server, &mut told);
    }
    collection.problems.extend(told.problems);
    collection.warnings.extend(told.warnings);
}

#[derive(Default)]
struct Told {
    problems: Vec<Problem>,
    warnings: Vec<Problem>,
}

fn check_member(
    collection: &Collection,
    federation: &Sourced<MCPFederation>,
    member: &Member,
    path: &Path,
    told: &mut Told,
) {
    let home = federation
        .object
        .metadata
        .namespace
        .as_deref()
        .unwrap_or(DEFAULT_NAMESPACE);
    if let Some(reference) = &member.server {
        let namespace = reference.namespace.as_deref().unwrap_or(home);
        let path = path.field("server").field("name");
        if !collection.has("MCPServer", namespace, &reference.name) {
            let message = absent_server(collection, namespace, &reference.name);
            told.problems.push(federation.source.problem(&path, message));
        } else if namespace != home
            && let Some(message) = kept_out(collection, namespace, &reference.name, home)
        {
            told.warnings.push(federation.source.problem(&path, message));
        }
    } else if let Some(selector) = &member.selector {
        let mut servers = collection.servers.iter().map(|server| &server.object.metadata);
        let matches = servers.any(|server| {
            server.namespace.as_deref() == Some(home) && selector.matches(&server.labels.clone().unwrap_or_default())
        });
        if !matches {
            let message = format!("no server in namespace {home} has these labels");
            told.warnings
                .push(federation.source.problem(&path.field("selector"), message));
        }
    }
}

fn check_access(collection: &Collection, federation: &Sourced<MCPFederation>, told: &mut Told) {
    let metadata = &federation.object.metadata;
    let namespace = metadata.namespace.as_deref().unwrap_or(DEFAULT_NAMESPACE);
    let access = federation.object.spec.access.as_ref();
    let Some(api_keys) = access.and_then(|access| access.api_keys.as_ref()) else {
        return;
    };
    let name = &api_keys.secret_ref.name;
    if !collection.has("Secret", namespace, name) {
        let path = Path::of_fields("spec.access.apiKeys.secretRef.name");
        let message = absent_values(collection, "Secret", namespace, name);
        told.problems.push(federation.source.problem(&path, message));
    }
}

fn check_skills(collection: &Collection, federation: &Sourced<MCPFederation>, told: &mut Told) {
    let metadata = &federation.object.metadata;
    let namespace = metadata.namespace.as_deref().unwrap_or(DEFAULT_NAMESPACE);
    for (index, source) in federation.object.spec.skills.iter().enumerate() {
        let Some(config_map) = &source.config_map_ref else {
            continue;
        };
        let path = Path::of_fields("spec.skills").index(index);
        let Some(keys) = keys(collection, "ConfigMap", namespace, &config_map.name) else {
            if !collection.has("ConfigMap", namespace, &config_map.name) {
                let message = absent_values(collection, "ConfigMap", namespace, &config_map.name);
                let path = path.field("configMapRef").field("name");
                told.problems.push(federation.source.problem(&path, message));
            }
            continue;
        };
        for (index, item) in source.items.iter().enumerate() {
            if !keys.contains(&item.key.as_str()) {
                let (key, name) = (&item.key, &config_map.name);
                let question = did_you_mean(key, keys.iter().copied());
                let message = format!("ConfigMap {namespace}/{name} has no key `{key}`{question}");
                let path = path.field("items").index(index).field("key");
                told.problems.push(federation.source.problem(&path, message));
            }
        }
    }
}

fn absent_server(collection: &Collection, namespace: &str, name: &str) -> String {
    let elsewhere = collection.names("MCPServer").find(|identity| identity.name == name);
    if let Some(elsewhere) = elsewhere {
        let namespace = &elsewhere.namespace;
        return format!(
            "there is no MCPServer of this name here, but one in namespace {namespace}; add `namespace: {namespace}`"
        );
    }
    let here = collection
        .names("MCPServer")
        .filter(|identity| identity.namespace == namespace);
    let question = did_you_mean(name, here.map(|identity| identity.name.as_str()));
    format!(
        "there is no MCPServer {namespace}/{name} in any file{question}{}",
        add("MCPServer", &question)
    )
}

/// Why the server `namespace`/`name` will not be in federations of the namespace `home`, and what to do, if so.
fn kept_out(collection: &Collection, namespace: &str, name: &str, home: &str) -> Option<String> {
    let mut servers = collection.servers.iter().map(|server| &server.object);
    let server = servers.find(|server| {
        server.metadata.namespace.as_deref() == Some(namespace) && server.metadata.name.as_deref() == Some(name)
    })?;
    let policy = server.spec.federation.as_ref().map(|policy| &policy.allowed_namespaces);
    let (from, selector) = policy.map_or((NamespacesFrom::Same, None), |p| (p.from, p.selector.as_ref()));
    let fix = format!(
        "set spec.federation.allowedNamespaces there to {{from: All}}, or to {}",
        by_name(home)
    );
    match from {
        NamespacesFrom::All => None,
        NamespacesFrom::Same => Some(format!(
            "{namespace}/{name} allows its own namespace only and will not be in this federation; {fix}"
        )),
        NamespacesFrom::Selector if selector.is_some_and(|s| s.matches(&namespace_labels(home))) => None,
        NamespacesFrom::Selector => Some(format!(
            "{namespace}/{name} allows namespaces by labels that {home} does not have and will not be in this federation: \
             without a cluster a namespace has no label but {NAMESPACE_NAME_LABEL}; {fix}"
        )),
    }
}

/// The policy that allows the namespace `home`, as a manifest has it.
fn by_name(home: &str) -> String {
    format!("{{from: Selector, selector: {{matchLabels: {{{NAMESPACE_NAME_LABEL}: {home}}}}}}}")
}

fn check_values(collection: &Collection, server: &Sourced<MCPServer>, told: &mut Told) {
    let namespace = server.object.metadata.namespace.as_deref().unwrap_or(DEFAULT_NAMESPACE);
    for reference in references(&server.object.spec) {
        let Reference { kind, name, key, .. } = reference;
        let (path, message) = match (keys(collection, kind, namespace, name), key) {
            (Some(keys), Some(key)) if !keys.contains(&key) => {
                let question = did_you_mean(key, keys);
                (
                    reference.path.field("key"),
                    format!("{kind} {namespace}/{name} has no key `{key}`{question}"),
                )
            }
            (None, _) if !collection.has(kind, namespace, name) => {
                let message = absent_values(collection, kind, namespace, name);
                (
                    reference.path.field("name"),
                    format!("{message}, or set optional: true"),
                )
            }
            _ => continue,
        };
        told.problems.push(server.source.problem(&path, message));
    }
}

fn absent_values(collection: &Collection, kind: &str, namespace: &str, name: &str) -> String {
    let known = collection
        .names(kind)
        .filter(|identity| identity.namespace == namespace);
    let question = did_you_mean(name, known.map(|identity| identity.name.as_str()));
    format!(
        "there is no {kind} {namespace}/{name} in any file{question}{}",
        add(kind, &question)
    )
}

/// Something that a server needs from a Secret or a ConfigMap.
struct Reference<'a> {
    path: Path,
    kind: &'static str,
    name: &'a str,
    key: Option<&'a str>,
}

/// All that a server cannot do without.
fn references(spec: &MCPServerSpec) -> Vec<Reference<'_>> {
    let mut references = Vec::new();
    let container = spec
        .container
        .as_ref()
        .map(|source| ("container", &source.env, &source.env_from));
    let package = spec
        .package
        .as_ref()
        .map(|source| ("package", &source.env, &source.env_from));
    for (field, env, env_from) in container.into_iter().chain(package) {
        let path = Path::of_fields("spec").field(field);
        for (index, variable) in env.iter().enumerate() {
            let from = variable.value_from.iter();
            references.extend(from.flat_map(|from| of_value(from, path.field("env").index(index).field("valueFrom"))));
        }
        for (index, from) in env_from.iter().enumerate() {
            references.extend(of_all(from, path.field("envFrom").index(index)));
        }
    }
    let path = Path::of_fields("spec.remote.headers");
    for (index, header) in spec.remote.iter().flat_map(|remote| &remote.headers).enumerate() {
        references.extend(
            header
                .value_from
                .iter()
                .flat_map(|from| of_value(from, path.index(index).field("valueFrom"))),
        );
    }
    references
}

fn of_value(from: &ValueSource, path: Path) -> impl Iterator<Item = Reference<'_>> {
    let kinds = [
        ("Secret", "secretKeyRef", &from.secret_key_ref),
        ("ConfigMap", "configMapKeyRef", &from.config_map_key_ref),
    ];
    kinds.into_iter().filter_map(move |(kind, field, reference)| {
        let reference = reference
            .as_ref()
            .filter(|reference| reference.optional != Some(true))?;
        Some(Reference {
            path: path.field(field),
            kind,
            name: &reference.name,
            key: Some(&reference.key),
        })
    })
}

fn of_all(from: &EnvFrom, path: Path) -> impl Iterator<Item = Reference<'_>> {
    let kinds = [
        ("Secret", "secretRef", &from.secret_ref),
        ("ConfigMap", "configMapRef", &from.config_map_ref),
    ];
    kinds.into_iter().filter_map(move |(kind, field, reference)| {
        let reference = reference
            .as_ref()
            .filter(|reference| reference.optional != Some(true))?;
        Some(Reference {
            path: path.field(field),
            kind,
            name: &reference.name,
            key: None,
        })
    })
}

/// The keys of a Secret or ConfigMap that was read.
fn keys<'a>(collection: &'a Collection, kind: &str, namespace: &str, name: &str) -> Option<Vec<&'a str>> {
    let data = match kind {
        "Secret" => {
            let mut secrets = collection.secrets.iter();
            &secrets
                .find(|secret| secret.namespace == namespace && secret.name == name)?
                .data
        }
        _ => {
            let mut config_maps = collection.config_maps.iter();
            &config_maps
                .find(|config_map| config_map.namespace == namespace && config_map.name == name)?
                .data
        }
    };
    Some(data.keys().map(String::as_str).collect())
}

/// What to do about an object that is nowhere, unless a name near to it is.
fn add(kind: &str, question: &str) -> String {
    if question.is_empty() {
        format!("; add the file that has the {kind}")
    } else {
        String::new()
    }
}

#[cfg(test)]
mod tests;
