//! What servers ask of clients on the way to an answer, over the eras.

mod completion;
mod greeting;
mod legacy_client;
mod legacy_server;
mod modern;

pub(crate) use self::greeting::with;
