//! Keeps the keys of clients' sessions as the install's root key says. Sessions wait for it, and nothing else does.

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwapOption;
use kube::Client;
use tokio::time::{sleep, timeout};
use tracing::{info, warn};

use crate::gateway::session::{KeyError, Keyring};
use crate::operator::root_key::{self, RootKey};

/// While there is no key it is looked for this often.
const LOOK_AGAIN: Duration = Duration::from_secs(1);
/// A key is read again after this long, so that every replica knows of a change by then.
const READ_AGAIN: Duration = Duration::from_secs(60);
/// A read that takes longer is given up.
const READ_TIMEOUT: Duration = Duration::from_secs(10);

/// Reads the Secret `name` again and again, and puts what follows from it into `keyring`. Never ends.
pub(super) async fn keep(client: Client, namespace: String, name: String, keyring: Arc<ArcSwapOption<Keyring>>) {
    let mut known: Option<RootKey> = None;
    let mut told: Option<String> = None;
    loop {
        match read(client.clone(), &namespace, &name).await {
            Ok(root) => {
                match next(known.as_ref(), &root) {
                    Ok(Some(next)) => keyring.store(Some(Arc::new(next))),
                    Ok(None) => {}
                    Err(error) => warn!(secret = name, namespace, %error, "sessions cannot use the root key"),
                }
                if told.take().is_some() {
                    info!(secret = name, namespace, "the root key was read");
                }
                known = Some(root);
            }
            Err(why) => {
                if told.as_ref() != Some(&why) {
                    let waiting = known.is_none();
                    let effect = if waiting {
                        "Legacy clients must wait for it"
                    } else {
                        "sessions go on with the last known one"
                    };
                    warn!(secret = name, namespace, why, "no root key: {effect}");
                    told = Some(why);
                }
            }
        }
        sleep(if known.is_some() { READ_AGAIN } else { LOOK_AGAIN }).await;
    }
}

/// The Secret's content, or why there is none, for a person.
async fn read(client: Client, namespace: &str, name: &str) -> Result<RootKey, String> {
    match timeout(READ_TIMEOUT, root_key::read(client, namespace, name)).await {
        Ok(Ok(Some(root))) => Ok(root),
        Ok(Ok(None)) => Err("it does not exist yet; the replica that leads makes it".into()),
        Ok(Err(error)) => Err(error.to_string()),
        Err(_) => Err("the API server does not answer".into()),
    }
}

/// What to sign with after `read` was read, if that is anything new; `known` was read before.
///
/// Other replicas may not know of a new key until they read it: what is signed meanwhile is signed with the previous
/// one, if that is still accepted.
fn next(known: Option<&RootKey>, read: &RootKey) -> Result<Option<Keyring>, KeyError> {
    let key = read.key.as_slice();
    let keyring = match (&read.previous, known == Some(read)) {
        (Some(previous), false) => Keyring::new(previous, [key]),
        (Some(previous), true) => Keyring::new(key, [previous.as_slice()]),
        (None, false) => Keyring::new(key, []),
        (None, true) => return Ok(None),
    };
    keyring.map(Some)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::gateway::session::{Opening, SessionError, Sessions};
    use crate::mcp::Revision;
    use crate::metrics::Metrics;

    fn root(key: u8, previous: Option<u8>) -> RootKey {
        RootKey {
            key: vec![key; 32],
            previous: previous.map(|key| vec![key; 32]),
        }
    }

    fn sessions(known: Option<&RootKey>, read: &RootKey) -> Sessions {
        let keyring = next(known, read).unwrap();
        Sessions::new(
            Arc::new(ArcSwapOption::from_pointee(keyring)),
            Metrics::new().unwrap().sessions(),
        )
    }

    /// Whether a session that `by` opens is one that `at` takes.
    fn moves(by: &Sessions, at: &Sessions) -> bool {
        let opening = Opening {
            federation: "team/all",
            principal: None,
            revision: Revision::LATEST_LEGACY,
            capabilities: None,
            client: None,
            shows_all: false,
            ttl: 60,
        };
        let token = by.open(&opening, 0).unwrap();
        match at.find(token.as_bytes(), "team/all", None, 0) {
            Ok(_) => true,
            Err(error) => {
                assert_eq!(error, SessionError::NotFound);
                false
            }
        }
    }

    #[test]
    fn while_a_new_key_spreads_every_replica_takes_every_session() {
        let changed = root(2, Some(1));
        let stages = [
            sessions(None, &root(1, None)),
            sessions(Some(&root(1, None)), &changed),
            sessions(Some(&changed), &changed),
        ];
        assert!(
            moves(&stages[1], &stages[0]),
            "who knows of it signs for those who do not"
        );
        assert!(moves(&stages[0], &stages[1]) && moves(&stages[0], &stages[2]));
        assert!(moves(&stages[2], &stages[1]), "and takes what is signed with it");
        assert!(
            moves(&stages[2], &sessions(None, &root(2, None))),
            "the new key is used in the end"
        );
    }

    #[test]
    fn a_key_that_replaces_another_without_leaving_it_there_ends_all_sessions() {
        let before = root(1, None);
        let replaced = sessions(Some(&before), &root(2, None));
        assert!(!moves(&sessions(None, &before), &replaced));
    }

    #[test]
    fn a_key_that_was_read_again_is_no_news() {
        assert!(next(Some(&root(1, None)), &root(1, None)).unwrap().is_none());
    }
}
