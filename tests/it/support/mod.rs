//! What the integration tests stand on.

pub(crate) mod apiserver;
pub(crate) mod client;
pub(crate) mod controllers;
pub(crate) mod corpus;
pub(crate) mod event_stream;
pub(crate) mod fickle;
pub(crate) mod gateway;
pub(crate) mod held;
pub(crate) mod http;
pub(crate) mod legacy_client;
pub(crate) mod peers;
pub(crate) mod process;
pub(crate) mod remote;
pub(crate) mod replica;
pub(crate) mod shelf;
pub(crate) mod skip;
pub(crate) mod up;
pub(crate) mod upstream;
pub(crate) mod wire;
pub(crate) mod world;
