//! The install's root key: one Secret, made once, from which other keys are derived. Losing it ends the sessions of
//! Legacy clients and rolls, once, the pods of servers that use Secrets or ConfigMaps; and nothing else.

use std::collections::BTreeMap;
use std::fmt;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{ObjectMeta, PostParams};
use kube::{Api, Client};

use super::mandate::Mandate;
use super::names::{FIELD_MANAGER, MANAGED_BY_LABEL};
use crate::defaults;

/// Name of the Secret, before the install's class.
pub const ROOT_KEY: &str = "mcpfleet-root-key";
/// The key in the Secret.
const DATA_KEY: &str = "key";
/// The key in use before, which a person may leave in the Secret while what was signed with it shall be accepted.
const PREVIOUS_KEY: &str = "previous-key";
const LENGTH: usize = defaults::ROOT_KEY_BYTES;

/// What the Secret holds.
#[derive(Clone, PartialEq, Eq)]
pub struct RootKey {
    /// The key from which others are derived.
    pub key: Vec<u8>,
    /// The key in use before, if it is still accepted.
    pub previous: Option<Vec<u8>>,
}

/// Why there is no root key.
#[derive(Debug, thiserror::Error)]
pub enum RootKeyError {
    /// The API server refused or did not answer.
    #[error("the API server: {0}")]
    Api(#[source] Box<kube::Error>),
    /// The Secret is there and unusable.
    #[error(
        "Secret {secret:?} has no key {key:?} of at least {LENGTH} bytes; restore it from a backup, or delete the Secret to have it made anew"
    )]
    Unusable {
        /// Its name.
        secret: String,
        /// The key that is wrong in it.
        key: &'static str,
    },
    /// The system gives no random bytes.
    #[error("no random bytes")]
    Random,
    /// Another replica may lead by now, so nothing was written.
    #[error("this replica leads no longer")]
    NotLeading,
}

/// Reads the Secret `name`, if it is there.
///
/// # Errors
/// It cannot be read, or what is there is not a key.
pub async fn read(client: Client, namespace: &str, name: &str) -> Result<Option<RootKey>, RootKeyError> {
    let secrets: Api<Secret> = Api::namespaced(client, namespace);
    let secret = secrets.get_opt(name).await?;
    secret.map(|secret| root_key(secret, name)).transpose()
}

/// Reads the Secret `name`, which is made where it is absent.
///
/// # Errors
/// It cannot be read or made, or what is there is not a key.
pub async fn read_or_create(
    client: Client,
    namespace: &str,
    name: &str,
    mandate: &Mandate,
) -> Result<RootKey, RootKeyError> {
    if let Some(key) = read(client.clone(), namespace, name).await? {
        return Ok(key);
    }
    let secrets: Api<Secret> = Api::namespaced(client, namespace);
    if !mandate.holds() {
        return Err(RootKeyError::NotLeading);
    }
    let mut key = vec![0; LENGTH];
    aws_lc_rs::rand::fill(&mut key).map_err(|_| RootKeyError::Random)?;
    let secret = Secret {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            labels: Some(BTreeMap::from([(
                MANAGED_BY_LABEL.to_owned(),
                FIELD_MANAGER.to_owned(),
            )])),
            ..ObjectMeta::default()
        },
        data: Some(BTreeMap::from([(DATA_KEY.to_owned(), ByteString(key))])),
        ..Secret::default()
    };
    let parameters = PostParams {
        field_manager: Some(FIELD_MANAGER.to_owned()),
        ..PostParams::default()
    };
    match secrets.create(&parameters, &secret).await {
        Ok(created) => root_key(created, name),
        // Somebody else was faster: theirs is the one.
        Err(kube::Error::Api(status)) if status.is_already_exists() => root_key(secrets.get(name).await?, name),
        Err(error) => Err(error.into()),
    }
}

impl From<kube::Error> for RootKeyError {
    fn from(error: kube::Error) -> Self {
        Self::Api(Box::new(error))
    }
}

impl fmt::Debug for RootKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RootKey")
    }
}

fn root_key(secret: Secret, name: &str) -> Result<RootKey, RootKeyError> {
    let mut data = secret.data.unwrap_or_default();
    let mut take = |key: &'static str| match data.remove(key) {
        Some(ByteString(value)) if value.len() < LENGTH => Err(unusable(name, key)),
        value => Ok(value.map(|ByteString(value)| value)),
    };
    Ok(RootKey {
        key: take(DATA_KEY)?.ok_or_else(|| unusable(name, DATA_KEY))?,
        previous: take(PREVIOUS_KEY)?,
    })
}

fn unusable(name: &str, key: &'static str) -> RootKeyError {
    RootKeyError::Unusable {
        secret: name.to_owned(),
        key,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_of(data: &[(&str, usize)]) -> Result<(usize, Option<usize>), String> {
        let data = data
            .iter()
            .map(|(key, length)| ((*key).to_owned(), ByteString(vec![7; *length])));
        let secret = Secret {
            data: Some(data.collect()),
            ..Secret::default()
        };
        root_key(secret, "root")
            .map(|root| (root.key.len(), root.previous.map(|key| key.len())))
            .map_err(|error| error.to_string())
    }

    #[test]
    fn the_previous_key_may_be_there_beside_the_key() {
        assert_eq!(read_of(&[("key", 32), ("other", 1)]), Ok((32, None)));
        assert_eq!(read_of(&[("key", 64), ("previous-key", 32)]), Ok((64, Some(32))));
    }

    #[test]
    fn a_missing_or_short_key_is_named() {
        for (data, named) in [
            (vec![], "\"key\""),
            (vec![("key", 31)], "\"key\""),
            (vec![("previous-key", 32)], "\"key\""),
            (vec![("key", 32), ("previous-key", 31)], "\"previous-key\""),
        ] {
            let told = read_of(&data).unwrap_err();
            assert!(told.contains(named) && told.contains("\"root\""), "{told}");
        }
    }
}
