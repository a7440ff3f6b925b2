//! From an object to what the planner needs of it: the parts that a cluster and one machine share.

use std::collections::BTreeSet;

use http::{HeaderMap, HeaderName, HeaderValue, Uri};
use kube::core::ObjectMeta;

use super::access::Access;
use super::object_key::ObjectKey;
use super::plan::FederationInput;
use super::reference::{Reference, References};
use super::server_plan::ServerInput;
use super::skills::SkillsPlan;
use super::unresolved::Unresolved;
use super::waits;
use crate::api::condition::{Condition, ConditionStatus, RECONCILING};
use crate::api::server::{Cache, CatalogIdentity, OnInvalid, Protocol, ProtocolEra, is_forwarded};
use crate::api::source::{ContainerTransportType, Header, RemoteSource, RemoteTransportType};
use crate::api::{MCPFederation, MCPServer, REFRESH_AT};
use crate::mcp::{Era, Revision};
use crate::upstream::{Endpoint, Forwarding, Freshness, HttpEndpoint, HttpTransport, Pin, Terms, Timeouts};

/// The planner's view of `server`, which is reached at `endpoint`.
pub fn server_input(server: &MCPServer, endpoint: Result<Endpoint, Unresolved>) -> ServerInput {
    let metadata = &server.metadata;
    let policy = server.spec.federation.as_ref();
    let (forwards, wrong) = match forwarding(server) {
        Ok(forwards) => (forwards, None),
        Err(unresolved) => (None, Some(unresolved)),
    };
    ServerInput {
        key: ObjectKey::new(
            metadata.namespace.as_deref().unwrap_or_default(),
            metadata.name.as_deref().unwrap_or_default(),
        ),
        labels: metadata.labels.clone().unwrap_or_default(),
        allowed_namespaces: policy.map(|p| p.allowed_namespaces.clone()).unwrap_or_default(),
        disabled: server.spec.disabled,
        terms: Terms {
            timeouts: waits::timeouts(server.spec.timeouts.as_ref(), Timeouts::default()),
            pin: pin(server.spec.protocol.as_ref()),
            transport: transport(server),
            notifications: server.spec.notifications.as_ref().is_none_or(|own| own.enabled),
            freshness: freshness(server.spec.cache.as_ref()),
            withholds_whole: withholds_whole(server),
            lists: !forwards.as_ref().is_some_and(|own| own.own_lists),
            forwards,
        },
        refresh: refresh_marks(server),
        endpoint: endpoint.and_then(|endpoint| wrong.map_or(Ok(endpoint), Err)),
    }
}

/// What of callers' requests goes on to `server`, if anything does.
///
/// # Errors
/// Says which header cannot go on.
fn forwarding(server: &MCPServer) -> Result<Option<Forwarding>, Unresolved> {
    let Some(auth) = &server.spec.auth else { return Ok(None) };
    let name = |name: &String| {
        let parsed = HeaderName::from_bytes(name.as_bytes()).ok();
        parsed
            .filter(|name| is_forwarded(name.as_str()))
            .ok_or_else(|| Unresolved {
                reason: "InvalidHeader",
                message: format!("spec.auth.forward.headers: {name:?} cannot go on to a server; remove it"),
            })
    };
    let mut headers: Vec<HeaderName> = auth.forward.headers.iter().map(name).collect::<Result<_, _>>()?;
    headers.sort_by(|a, b| a.as_str().cmp(b.as_str()));
    headers.dedup();
    let identity = server.spec.cache.as_ref().and_then(|cache| cache.identity);
    Ok(Some(Forwarding {
        headers,
        own_lists: identity != Some(CatalogIdentity::Shared),
    }))
}

fn withholds_whole(server: &MCPServer) -> bool {
    let policy = server.spec.catalog.as_ref().and_then(|catalog| catalog.on_invalid);
    policy == Some(OnInvalid::WithholdServer)
}

/// The planner's view of `federation`. API keys and skills are taken from `references`.
pub fn federation_input(federation: &MCPFederation, references: &References) -> FederationInput {
    let metadata = &federation.metadata;
    let namespace = metadata.namespace.as_deref().unwrap_or_default();
    FederationInput {
        key: ObjectKey::new(namespace, metadata.name.as_deref().unwrap_or_default()),
        uid: metadata.uid.clone(),
        access: Access::resolve(&federation.spec, namespace, references),
        refresh: refresh_at(metadata),
        skills: SkillsPlan::resolve(&federation.spec, namespace, references),
        spec: federation.spec.clone(),
    }
}

/// How fresh a manifest wants lists to be, over the defaults.
fn freshness(spec: Option<&Cache>) -> Freshness {
    let (ttl, stale_for) = spec.map_or((None, None), |cache| (cache.ttl, cache.stale_for));
    waits::freshness(ttl, stale_for, Freshness::default())
}

/// What has the lists of `server` read again when it appears: another value of the annotation, and the end of a rollout,
/// after which other pods answer at the same address.
fn refresh_marks(server: &MCPServer) -> BTreeSet<String> {
    let asked = refresh_at(&server.metadata);
    let conditions = server.status.iter().flat_map(|status| &status.conditions);
    let is_rolling = |c: &Condition| c.type_ == RECONCILING && c.status == ConditionStatus::True;
    let rolled_out = server.spec.container.is_some() && !conditions.into_iter().any(is_rolling);
    asked
        .into_iter()
        .chain(rolled_out.then(|| "rolled out".to_owned()))
        .collect()
}

fn refresh_at(metadata: &ObjectMeta) -> Option<String> {
    metadata.annotations.as_ref()?.get(REFRESH_AT).cloned()
}

/// Which protocol a manifest pins a server to. What no rule lets through counts as not said.
fn pin(spec: Option<&Protocol>) -> Pin {
    let Some(spec) = spec else {
        return Pin::None;
    };
    match spec.era {
        ProtocolEra::Auto => Pin::None,
        ProtocolEra::Modern => {
            let name = spec.version.as_deref().unwrap_or(Revision::LATEST.as_str());
            Pin::Modern(name.to_owned())
        }
        ProtocolEra::Legacy => {
            let named = spec.version.as_deref().and_then(Revision::parse);
            let legacy = named.filter(|revision| revision.era() == Era::Legacy);
            Pin::Legacy(legacy.unwrap_or(Revision::LATEST_LEGACY))
        }
    }
}

/// How a server over HTTP is reached.
fn transport(server: &MCPServer) -> HttpTransport {
    let spec = &server.spec;
    if let Some(container) = &spec.container {
        return match container.transport.type_ {
            ContainerTransportType::StreamableHTTP => HttpTransport::StreamableHttp,
            ContainerTransportType::SSE => HttpTransport::OldSse,
        };
    }
    let said = spec.remote.as_ref().and_then(|remote| remote.transport);
    match said.unwrap_or_default().type_ {
        RemoteTransportType::Auto => HttpTransport::Auto,
        RemoteTransportType::StreamableHTTP => HttpTransport::StreamableHttp,
        RemoteTransportType::SSE => HttpTransport::OldSse,
    }
}

/// Where a remote server is reached. Header values that name a Secret or ConfigMap are taken from `references`.
///
/// # Errors
/// Says which part of the manifest cannot be used, or which value is missing.
pub fn remote_endpoint(
    remote: &RemoteSource,
    namespace: &str,
    references: &References,
) -> Result<Endpoint, Unresolved> {
    let mut headers = HeaderMap::with_capacity(remote.headers.len());
    for header in &remote.headers {
        let name = HeaderName::from_bytes(header.name.as_bytes()).map_err(|_| Unresolved {
            reason: "InvalidHeader",
            message: format!("spec.remote.headers: {:?} is not a valid header name", header.name),
        })?;
        if let Some(value) = header_value(header, namespace, references)? {
            headers.insert(name, value);
        }
    }
    Ok(Endpoint::Http(HttpEndpoint {
        url: remote_url(&remote.url)?,
        headers,
    }))
}

/// The Secrets and ConfigMaps that a remote server's headers name.
pub fn header_references<'a>(remote: &'a RemoteSource, namespace: &'a str) -> impl Iterator<Item = Reference> + 'a {
    let sources = remote.headers.iter().filter_map(|header| header.value_from.as_ref());
    sources.filter_map(move |source| Reference::of_value(namespace, source))
}

fn remote_url(url: &str) -> Result<Uri, Unresolved> {
    let invalid = |why: &str| Unresolved {
        reason: "InvalidURL",
        message: format!("spec.remote.url {why}"),
    };
    let uri: Uri = url.parse().map_err(|_| {
        invalid("is not a valid address; give an absolute one, for example https://mcp.example.com/mcp")
    })?;
    if !matches!(uri.scheme_str(), Some("http" | "https")) {
        return Err(invalid("must start with http:// or https://"));
    }
    match uri.authority() {
        Some(authority) if authority.as_str().contains('@') => Err(invalid(
            "must not carry a user name or password; send an Authorization header from a Secret (spec.remote.headers)",
        )),
        Some(_) => Ok(uri),
        None => Err(invalid("names no host")),
    }
}

/// The header's value, marked sensitive: literal values hold keys and tokens as well. `None` where it is optional and missing.
fn header_value(header: &Header, namespace: &str, references: &References) -> Result<Option<HeaderValue>, Unresolved> {
    let bytes = match (&header.value, &header.value_from) {
        (Some(value), _) => value.as_bytes(),
        (None, Some(source)) => match references.value(namespace, source)? {
            Some(value) => value,
            None => return Ok(None),
        },
        (None, None) => return Ok(None),
    };
    let mut value = HeaderValue::from_bytes(bytes).map_err(|_| Unresolved {
        reason: "InvalidHeader",
        message: format!(
            "the value of header {:?} has characters that a header cannot carry, for example a line break at its end; remove them",
            header.name
        ),
    })?;
    value.set_sensitive(true);
    Ok(Some(value))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::json;

    use super::*;
    use crate::api::server::NamespacesFrom;
    use crate::fleet::reference::{Content, ReferenceKind};

    fn server(spec: &serde_json::Value) -> MCPServer {
        let object = json!({
            "apiVersion": "mcpfleet.dev/v1alpha1", "kind": "MCPServer",
            "metadata": {"name": "web", "namespace": "team", "labels": {"tier": "one"}},
            "spec": spec,
        });
        serde_json::from_value(object).unwrap()
    }

    fn endpoint(spec: &serde_json::Value, references: &References) -> Result<Endpoint, Unresolved> {
        let server = server(&json!({ "remote": spec }));
        remote_endpoint(server.spec.remote.as_ref().unwrap(), "team", references)
    }

    fn secret(value: &[u8]) -> References {
        let reference = Reference::new(ReferenceKind::Secret, "team", "keys");
        let values = BTreeMap::from([("api".to_owned(), value.to_vec())]);
        [(reference, Content::Found(values))].into_iter().collect()
    }

    fn keyed() -> serde_json::Value {
        json!({
            "url": "https://example.com/mcp",
            "headers": [
                {"name": "X-Plain", "value": "plain"},
                {"name": "Authorization", "valueFrom": {"secretKeyRef": {"name": "keys", "key": "api"}}},
            ],
        })
    }

    #[test]
    fn defaults_hold_where_the_manifest_is_silent() {
        let server = server(&json!({"remote": {"url": "http://example.com/mcp"}}));
        let endpoint = Err(Unresolved {
            reason: "Test",
            message: String::new(),
        });
        let input = server_input(&server, endpoint);
        assert_eq!(input.key, ObjectKey::new("team", "web"));
        assert_eq!(input.labels, BTreeMap::from([("tier".into(), "one".into())]));
        assert_eq!(input.allowed_namespaces.from, NamespacesFrom::Same);
        assert_eq!(input.terms, Terms::default());
        assert!(!input.disabled);
    }

    #[test]
    fn lists_are_read_again_when_somebody_asks_and_when_a_rollout_is_over() {
        let marks = |container: bool, annotation: Option<&str>, reconciling: Option<&str>| {
            let source = if container {
                json!({"container": {"image": "x", "transport": {"type": "StreamableHTTP"}}})
            } else {
                json!({"remote": {"url": "http://example.com/mcp"}})
            };
            let mut server = server(&source);
            server.metadata.annotations = annotation.map(|value| [(REFRESH_AT.to_owned(), value.to_owned())].into());
            let condition = reconciling.map(|status| {
                json!({"type": "Reconciling", "status": status, "reason": "R", "message": "",
                       "lastTransitionTime": "2026-01-01T00:00:00Z"})
            });
            let conditions: Vec<_> = condition.into_iter().collect();
            server.status = Some(serde_json::from_value(json!({"conditions": conditions})).unwrap());
            refresh_marks(&server).into_iter().collect::<Vec<_>>()
        };
        assert!(marks(false, None, None).is_empty());
        assert_eq!(marks(false, Some("now"), None), ["now"]);
        assert!(marks(true, None, Some("True")).is_empty());
        for over in [None, Some("False")] {
            assert_eq!(marks(true, None, over).len(), 1);
        }
    }

    #[test]
    fn named_headers_go_on_and_no_others_can_be_named() {
        let of = |headers: serde_json::Value, identity: serde_json::Value| {
            let spec = json!({
                "remote": {"url": "http://example.com/mcp"}, "auth": {"forward": {"headers": headers}},
                "cache": {"identity": identity},
            });
            forwarding(&server(&spec)).map(Option::unwrap)
        };
        let own = of(json!(["X-User", "Authorization", "x-user"]), json!(null)).unwrap();
        assert_eq!(own.headers, ["authorization", "x-user"]);
        assert!(own.own_lists);
        assert!(!of(json!(["cookie"]), json!("Shared")).unwrap().own_lists);
        for wrong in [
            "",
            "a b",
            "Host",
            "Mcp-Session-Id",
            "mcp-param-x",
            "TE",
            "Connection",
            "X-MCP-Show-All",
        ] {
            let unresolved = of(json!(["X-User", wrong]), json!("User")).unwrap_err();
            assert_eq!(unresolved.reason, "InvalidHeader", "{wrong}");
        }
        let spec = json!({
            "remote": {"url": "http://example.com/mcp"}, "auth": {"forward": {"headers": ["host"]}},
        });
        let endpoint = endpoint(&spec["remote"], &References::default());
        assert!(server_input(&server(&spec), endpoint).endpoint.is_err());
        assert_eq!(
            forwarding(&server(&json!({"remote": {"url": "http://a.b/"}}))),
            Ok(None)
        );
    }

    #[test]
    fn lists_of_all_members_are_read_again_when_somebody_asks_it_of_the_federation() {
        let object = json!({
            "apiVersion": "mcpfleet.dev/v1alpha1", "kind": "MCPFederation",
            "metadata": {"name": "fed", "namespace": "team", "annotations": {"mcpfleet.dev/refresh-at": "now"}},
            "spec": {"access": {"anonymous": {}}},
        });
        let mut federation: MCPFederation = serde_json::from_value(object).unwrap();
        let marked = |federation: &MCPFederation| federation_input(federation, &References::default()).refresh;
        assert_eq!(marked(&federation).as_deref(), Some("now"));
        federation.metadata.annotations = Some([("other".to_owned(), "now".to_owned())].into());
        assert_eq!(marked(&federation), None);
    }

    #[test]
    fn a_protocol_is_pinned_by_its_era_and_the_version_defaults_to_the_newest() {
        let pinned = |protocol: serde_json::Value| {
            let spec = json!({"remote": {"url": "http://example.com/mcp"}, "protocol": protocol});
            pin(server(&spec).spec.protocol.as_ref())
        };
        assert_eq!(pinned(json!({})), Pin::None);
        assert_eq!(pinned(json!({"era": "Auto"})), Pin::None);
        assert_eq!(pinned(json!({"era": "Modern"})), Pin::Modern("2026-07-28".into()));
        assert_eq!(
            pinned(json!({"era": "Modern", "version": "2027-01-15"})),
            Pin::Modern("2027-01-15".into())
        );
        assert_eq!(pinned(json!({"era": "Legacy"})), Pin::Legacy(Revision::V2025_11_25));
        assert_eq!(
            pinned(json!({"era": "Legacy", "version": "2025-03-26"})),
            Pin::Legacy(Revision::V2025_03_26)
        );
    }

    #[test]
    fn headers_come_from_secrets_and_stay_out_of_debug_output() {
        let Endpoint::Http(http) = endpoint(&keyed(), &secret(b"Bearer hidden")).unwrap() else {
            panic!("a remote server is reached by HTTP");
        };
        assert_eq!(http.headers["authorization"], "Bearer hidden");
        assert_eq!(http.headers["x-plain"], "plain");
        assert!(!format!("{http:?}").contains("hidden"));
    }

    #[test]
    fn a_missing_secret_leaves_the_server_unresolved_and_is_named() {
        let unresolved = endpoint(&keyed(), &References::default()).unwrap_err();
        assert_eq!(unresolved.reason, "RefPending");
        let missing = Reference::new(ReferenceKind::Secret, "team", "keys");
        let references = [(missing, Content::Missing)].into_iter().collect();
        let unresolved = endpoint(&keyed(), &references).unwrap_err();
        assert_eq!(unresolved.reason, "RefNotFound");
        assert!(unresolved.message.contains("\"keys\""), "{}", unresolved.message);
    }

    #[test]
    fn a_line_break_in_a_secret_is_told_without_its_value() {
        let unresolved = endpoint(&keyed(), &secret(b"hidden\n")).unwrap_err();
        assert_eq!(unresolved.reason, "InvalidHeader");
        assert!(unresolved.message.contains("Authorization") && !unresolved.message.contains("hidden"));
    }

    #[test]
    fn addresses_that_cannot_be_used_are_refused() {
        for url in [
            "",
            "/mcp",
            "ftp://example.com",
            "https://me:pw@example.com/mcp",
            "https://exa mple.com",
        ] {
            let unresolved = endpoint(&json!({ "url": url }), &References::default()).unwrap_err();
            assert_eq!(unresolved.reason, "InvalidURL", "{url}");
            assert!(!unresolved.message.contains("pw"), "{}", unresolved.message);
        }
    }
}
