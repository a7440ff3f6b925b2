//! Values that servers and federations take from Secrets and ConfigMaps, and files from directories: which objects are named, and what was read of them.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use super::unresolved::Unresolved;
use crate::api::environment::{EnvFrom, EnvVar, KeyRef, ObjectRef, ValueSource};

/// The kinds that hold values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ReferenceKind {
    /// `v1/Secret`.
    Secret,
    /// `v1/ConfigMap`.
    ConfigMap,
    /// A directory on this machine, by its path; its values are files, by their paths in it. Never in a cluster.
    Directory,
}

/// A Secret or a ConfigMap by name, or a directory.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Reference {
    /// Its kind.
    pub kind: ReferenceKind,
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

/// What was read of one object.
#[derive(Clone, PartialEq, Eq)]
pub enum Content {
    /// It exists and has these values.
    Found(BTreeMap<String, Vec<u8>>),
    /// It exists and has these values, and others that could not be read: a directory's alone.
    Partly {
        /// What was read.
        values: BTreeMap<String, Vec<u8>>,
        /// Why not, and what to do, by the keys that were not read.
        unread: BTreeMap<String, String>,
    },
    /// It does not exist.
    Missing,
    /// It may not be read; why, for a person.
    Unreadable(String),
}

/// What was read of all objects that servers and federations name; an object that is not in here was not read yet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct References(BTreeMap<Reference, Content>);

impl References {
    /// What was read of `reference`, if it was read.
    pub fn content(&self, reference: &Reference) -> Option<&Content> {
        self.0.get(reference)
    }

    /// The value that `source` names in `namespace`; `None` where it is missing and optional.
    ///
    /// # Errors
    /// Says what is missing or unreadable.
    pub fn value(&self, namespace: &str, source: &ValueSource) -> Result<Option<&[u8]>, Unresolved> {
        let Some((kind, key)) = named_key(source) else {
            return Ok(None);
        };
        let optional = key.optional.unwrap_or(false);
        let reference = Reference::new(kind, namespace, &key.name);
        let Some(values) = self.values(&reference, optional)? else {
            return Ok(None);
        };
        match values.get(&key.key) {
            Some(value) => Ok(Some(value)),
            None if optional => Ok(None),
            None => Err(Unresolved {
                reason: "RefNotFound",
                message: format!("{reference} has no key {:?}; add it or correct the reference", key.key),
            }),
        }
    }

    /// All values of `reference`; `None` where it is missing and `optional`.
    ///
    /// # Errors
    /// Says what is missing or unreadable.
    pub fn values(
        &self,
        reference: &Reference,
        optional: bool,
    ) -> Result<Option<&BTreeMap<String, Vec<u8>>>, Unresolved> {
        match self.0.get(reference) {
            Some(Content::Found(values) | Content::Partly { values, .. }) => Ok(Some(values)),
            Some(Content::Missing) if optional => Ok(None),
            Some(Content::Missing) => Err(Unresolved {
                reason: "RefNotFound",
                message: format!("{reference} does not exist; create it or correct the reference"),
            }),
            Some(Content::Unreadable(why)) => Err(Unresolved {
                reason: "RefUnreadable",
                message: format!("{reference} cannot be read: {why}"),
            }),
            None => Err(Unresolved {
                reason: "RefPending",
                message: format!("{reference} is not read yet"),
            }),
        }
    }

    /// The keys of `reference` that could not be read, each with why and what to do.
    pub fn unread(&self, reference: &Reference) -> impl Iterator<Item = (&str, &str)> {
        let unread = match self.0.get(reference) {
            Some(Content::Partly { unread, .. }) => Some(unread),
            _ => None,
        };
        let unread = unread.into_iter().flatten();
        unread.map(|(key, why)| (key.as_str(), why.as_str()))
    }

    /// The references whose content differs between `self` and `other`.
    pub fn changed<'a>(&'a self, other: &'a Self) -> BTreeSet<&'a Reference> {
        let all = self.0.keys().chain(other.0.keys());
        all.filter(|reference| self.0.get(reference) != other.0.get(reference))
            .collect()
    }
}

impl FromIterator<(Reference, Content)> for References {
    fn from_iter<I: IntoIterator<Item = (Reference, Content)>>(items: I) -> Self {
        Self(items.into_iter().collect())
    }
}

impl Reference {
    /// The object `name` of `kind` in `namespace`.
    pub fn new(kind: ReferenceKind, namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self {
            kind,
            namespace: namespace.into(),
            name: name.into(),
        }
    }

    /// The object that `source` names, if it names one.
    pub fn of_value(namespace: &str, source: &ValueSource) -> Option<Self> {
        named_key(source).map(|(kind, key)| Self::new(kind, namespace, &key.name))
    }

    /// The object that `source` names, if it names one, and whether it may be missing.
    pub fn of_all(namespace: &str, source: &EnvFrom) -> Option<(Self, bool)> {
        let named = |kind, object: &ObjectRef| {
            let optional = object.optional.unwrap_or(false);
            (Self::new(kind, namespace, &object.name), optional)
        };
        let secret = source.secret_ref.as_ref().map(|o| named(ReferenceKind::Secret, o));
        secret.or_else(|| {
            let config_map = source.config_map_ref.as_ref();
            config_map.map(|o| named(ReferenceKind::ConfigMap, o))
        })
    }

    /// The objects that an environment names.
    pub fn of_environment<'a>(
        namespace: &'a str,
        env: &'a [EnvVar],
        env_from: &'a [EnvFrom],
    ) -> impl Iterator<Item = Self> + 'a {
        let sources = env.iter().filter_map(|variable| variable.value_from.as_ref());
        sources
            .filter_map(move |source| Self::of_value(namespace, source))
            .chain(
                env_from
                    .iter()
                    .filter_map(move |source| Self::of_all(namespace, source).map(|(r, _)| r)),
            )
    }
}

impl fmt::Display for Reference {
    /// Without the namespace, which is always that of the object that names it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.kind {
            ReferenceKind::Secret => "Secret",
            ReferenceKind::ConfigMap => "ConfigMap",
            ReferenceKind::Directory => "directory",
        };
        write!(f, "{kind} {:?}", self.name)
    }
}

impl fmt::Debug for Content {
    /// Values may be secret and are left out.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Found(values) => f
                .debug_tuple("Found")
                .field(&values.keys().collect::<Vec<_>>())
                .finish(),
            Self::Partly { values, unread } => f
                .debug_struct("Partly")
                .field("values", &values.keys().collect::<Vec<_>>())
                .field("unread", unread)
                .finish(),
            Self::Missing => f.write_str("Missing"),
            Self::Unreadable(why) => f.debug_tuple("Unreadable").field(why).finish(),
        }
    }
}

fn named_key(source: &ValueSource) -> Option<(ReferenceKind, &KeyRef)> {
    let secret = source.secret_key_ref.as_ref().map(|key| (ReferenceKind::Secret, key));
    secret.or_else(|| {
        source
            .config_map_key_ref
            .as_ref()
            .map(|key| (ReferenceKind::ConfigMap, key))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secret(name: &str) -> Reference {
        Reference::new(ReferenceKind::Secret, "ns", name)
    }

    fn source(name: &str, key: &str, optional: bool) -> ValueSource {
        ValueSource {
            secret_key_ref: Some(KeyRef {
                name: name.into(),
                key: key.into(),
                optional: Some(optional),
            }),
            config_map_key_ref: None,
        }
    }

    fn references() -> References {
        let values = BTreeMap::from([("token".to_owned(), b"hidden".to_vec())]);
        [
            (secret("there"), Content::Found(values)),
            (secret("gone"), Content::Missing),
            (secret("shut"), Content::Unreadable("forbidden".into())),
        ]
        .into_iter()
        .collect()
    }

    #[test]
    fn a_key_that_exists_gives_its_value() {
        let references = references();
        assert_eq!(
            references.value("ns", &source("there", "token", false)),
            Ok(Some(b"hidden".as_slice()))
        );
    }

    #[test]
    fn what_is_missing_is_named_unless_it_is_optional() {
        let references = references();
        let message = |name, key| references.value("ns", &source(name, key, false)).unwrap_err();
        assert_eq!(message("there", "tokn").reason, "RefNotFound");
        assert!(
            message("there", "tokn")
                .message
                .starts_with("Secret \"there\" has no key \"tokn\"")
        );
        assert!(
            message("gone", "token")
                .message
                .starts_with("Secret \"gone\" does not exist")
        );
        assert_eq!(references.value("ns", &source("gone", "token", true)), Ok(None));
        assert_eq!(references.value("ns", &source("there", "tokn", true)), Ok(None));
    }

    #[test]
    fn what_was_not_read_is_not_called_missing_even_if_optional() {
        let references = references();
        let reason = |name| references.value("ns", &source(name, "token", true)).unwrap_err().reason;
        assert_eq!(reason("unseen"), "RefPending");
        assert_eq!(reason("shut"), "RefUnreadable");
    }

    #[test]
    fn values_do_not_show_in_debug_output() {
        let shown = format!("{:?}", references());
        assert!(shown.contains("token") && !shown.contains("hidden"), "{shown}");
    }

    #[test]
    fn changed_names_what_differs_on_either_side() {
        let old = references();
        let new: References = [(secret("there"), Content::Missing), (secret("gone"), Content::Missing)]
            .into_iter()
            .collect();
        assert_eq!(old.changed(&new), BTreeSet::from([&secret("there"), &secret("shut")]));
    }
}
