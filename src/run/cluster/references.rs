//! Reads the Secrets and ConfigMaps that servers name, and no others, again when their versions change.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use futures::{StreamExt, stream};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::{Api, Client};
use tokio::time::{Instant, timeout};
use tracing::warn;

use super::watches::Versions;
use crate::fleet::{Content, Reference, ReferenceKind, References};

/// Most reads under way at a time.
const CONCURRENCY: usize = 8;
/// A read that takes longer is tried again later.
const READ_TIMEOUT: Duration = Duration::from_secs(10);
/// What could not be read is read again after this long.
const READ_AGAIN: Duration = Duration::from_secs(2);
/// What this install may not read is asked for again after this long: nothing of the object tells when it may.
const ASK_AGAIN: Duration = Duration::from_secs(30);

/// What was read, and of which version.
#[derive(Default)]
pub(super) struct ReferenceCache(BTreeMap<Reference, Entry>);

struct Entry {
    /// The version that was announced when it was read, and the version that was read.
    versions: [Option<String>; 2],
    content: Content,
    /// When it is asked for again in any case.
    again: Option<Instant>,
}

/// What came of reading one object.
enum Read {
    Content(Content, Option<String>),
    /// It could not be asked for; what was known stays.
    Failed,
}

impl ReferenceCache {
    /// Reads what of `wanted` is new or changed and forgets the rest. What could not be read is to be tried again after the
    /// time that is given, if there is any.
    pub(super) async fn update(
        &mut self,
        client: &Client,
        wanted: &BTreeSet<Reference>,
        versions: &Versions,
    ) -> Option<Duration> {
        self.0.retain(|reference, _| wanted.contains(reference));
        let now = Instant::now();
        let mut stale = Vec::new();
        for reference in wanted {
            match versions.of(reference) {
                // Nobody knows yet whether it is there.
                None => {}
                Some(None) => self.put(reference.clone(), None, None, Content::Missing),
                Some(Some(version)) if self.is_current(reference, &version, now) => {}
                Some(Some(version)) => stale.push((reference.clone(), version)),
            }
        }
        let mut has_failed = false;
        let mut reads = stream::iter(stale)
            .map(|(reference, version)| async move {
                let read = timeout(READ_TIMEOUT, read(client, &reference)).await.unwrap_or_else(|_| {
                    warn!(%reference, namespace = reference.namespace, "the API server does not answer; trying again");
                    Read::Failed
                });
                (reference, version, read)
            })
            .buffer_unordered(CONCURRENCY);
        while let Some((reference, announced, read)) = reads.next().await {
            match read {
                Read::Content(content, version) => self.put(reference, Some(announced), version, content),
                Read::Failed => has_failed = true,
            }
        }
        if has_failed {
            return Some(READ_AGAIN);
        }
        let again = self.0.values().filter_map(|entry| entry.again).min()?;
        Some(again.saturating_duration_since(Instant::now()))
    }

    /// What is known.
    pub(super) fn snapshot(&self) -> References {
        self.0
            .iter()
            .map(|(reference, entry)| (reference.clone(), entry.content.clone()))
            .collect()
    }

    fn is_current(&self, reference: &Reference, version: &str, now: Instant) -> bool {
        self.0.get(reference).is_some_and(|entry| {
            let is_due = entry.again.is_some_and(|again| again <= now);
            !is_due && entry.versions.iter().flatten().any(|known| known == version)
        })
    }

    fn put(&mut self, reference: Reference, announced: Option<String>, read: Option<String>, content: Content) {
        let is_refused = matches!(content, Content::Unreadable(_));
        let entry = Entry {
            versions: [announced, read],
            content,
            again: is_refused.then(|| Instant::now() + ASK_AGAIN),
        };
        self.0.insert(reference, entry);
    }
}

async fn read(client: &Client, reference: &Reference) -> Read {
    let Reference { kind, namespace, name } = reference;
    let values = match kind {
        ReferenceKind::Secret => {
            let api: Api<Secret> = Api::namespaced(client.clone(), namespace);
            api.get_opt(name)
                .await
                .map(|secret| secret.map(|s| (secret_values(s.data), s.metadata.resource_version)))
        }
        ReferenceKind::Directory => return Read::Content(Content::Missing, None),
        ReferenceKind::ConfigMap => {
            let api: Api<ConfigMap> = Api::namespaced(client.clone(), namespace);
            let found = api.get_opt(name).await;
            found.map(|map| map.map(|m| (config_map_values(m.data, m.binary_data), m.metadata.resource_version)))
        }
    };
    match values {
        Ok(Some((values, version))) => Read::Content(Content::Found(values), version),
        Ok(None) => Read::Content(Content::Missing, None),
        Err(kube::Error::Api(status)) if status.is_forbidden() => {
            let why = "this install's role does not allow it".to_owned();
            Read::Content(Content::Unreadable(why), None)
        }
        Err(error) => {
            warn!(%reference, namespace, %error, "cannot be read; trying again");
            Read::Failed
        }
    }
}

fn secret_values(data: Option<BTreeMap<String, ByteString>>) -> BTreeMap<String, Vec<u8>> {
    let data = data.unwrap_or_default().into_iter();
    data.map(|(key, ByteString(value))| (key, value)).collect()
}

fn config_map_values(
    data: Option<BTreeMap<String, String>>,
    binary: Option<BTreeMap<String, ByteString>>,
) -> BTreeMap<String, Vec<u8>> {
    let text = data
        .unwrap_or_default()
        .into_iter()
        .map(|(key, value)| (key, value.into_bytes()));
    text.chain(secret_values(binary)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_not_be_read_is_asked_for_again_though_it_does_not_change() {
        let reference = |name: &str| Reference {
            kind: ReferenceKind::Secret,
            namespace: "a".to_owned(),
            name: name.to_owned(),
        };
        let mut cache = ReferenceCache::default();
        let version = || Some("7".to_owned());
        cache.put(reference("read"), version(), version(), Content::Found(BTreeMap::new()));
        cache.put(
            reference("refused"),
            version(),
            None,
            Content::Unreadable("no".to_owned()),
        );
        let later = Instant::now() + ASK_AGAIN;
        for (name, at, is_current) in [
            ("read", later, true),
            ("refused", Instant::now(), true),
            ("refused", later, false),
        ] {
            assert_eq!(cache.is_current(&reference(name), "7", at), is_current, "{name}");
            assert!(!cache.is_current(&reference(name), "8", at), "{name}");
        }
    }
}
