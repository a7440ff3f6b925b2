//! The install's root key: one Secret, made once, from which other keys are derived. Losing it rolls the pods of
//! servers that use Secrets or ConfigMaps once, and nothing else.

use std::collections::BTreeMap;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{ObjectMeta, PostParams};
use kube::{Api, Client};

use super::mandate::Mandate;
use super::names::{FIELD_MANAGER, MANAGED_BY_LABEL};

/// Name of the Secret, before the install's class.
pub const ROOT_KEY: &str = "mcpfleet-root-key";
/// The key in the Secret.
const DATA_KEY: &str = "key";
/// Bytes of a root key.
const LENGTH: usize = 32;

/// Why there is no root key.
#[derive(Debug, thiserror::Error)]
pub enum RootKeyError {
    /// The API server refused or did not answer.
    #[error("the API server: {0}")]
    Api(#[source] Box<kube::Error>),
    /// The Secret is there and unusable.
    #[error(
        "Secret {0:?} has no key \"key\" of at least {LENGTH} bytes; restore it from a backup, or delete it to have it made anew"
    )]
    Unusable(String),
    /// The system gives no random bytes.
    #[error("no random bytes")]
    Random,
    /// Another replica may lead by now, so nothing was written.
    #[error("this replica leads no longer")]
    NotLeading,
}

/// Reads the root key from the Secret `name`, which is made where it is absent.
///
/// # Errors
/// It cannot be read or made, or what is there is not a key.
pub async fn read_or_create(
    client: Client,
    namespace: &str,
    name: &str,
    mandate: &Mandate,
) -> Result<Vec<u8>, RootKeyError> {
    let secrets: Api<Secret> = Api::namespaced(client, namespace);
    if let Some(secret) = secrets.get_opt(name).await? {
        return key_of(secret, name);
    }
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
        Ok(created) => key_of(created, name),
        // Somebody else was faster: theirs is the one.
        Err(kube::Error::Api(status)) if status.is_already_exists() => key_of(secrets.get(name).await?, name),
        Err(error) => Err(error.into()),
    }
}

impl From<kube::Error> for RootKeyError {
    fn from(error: kube::Error) -> Self {
        Self::Api(Box::new(error))
    }
}

fn key_of(secret: Secret, name: &str) -> Result<Vec<u8>, RootKeyError> {
    let key = secret.data.and_then(|mut data| data.remove(DATA_KEY));
    key.map(|ByteString(key)| key)
        .filter(|key| key.len() >= LENGTH)
        .ok_or_else(|| RootKeyError::Unusable(name.to_owned()))
}
