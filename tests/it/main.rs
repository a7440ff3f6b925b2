//! Integration tests: one binary, one module for each family of behaviour.
#![cfg(test)] // tells clippy that all of it is tests
#![allow(
    clippy::needless_pass_by_value,
    reason = "json!({…}) reads best as it is, without a reference"
)]

mod access;
mod answers;
mod apiserver;
mod apps;
mod batches;
mod bounds;
mod bridge;
mod broken_connections;
mod broken_streams;
mod catalogs;
mod chart;
mod conformance;
mod controller;
mod crds;
mod discovery;
mod edge;
mod edits;
mod eras;
mod errors;
mod examples;
mod federation;
mod fresh_lists;
mod fuzz_corpus;
mod gateway;
mod handover;
mod hops;
mod interop;
mod invalid;
mod lanes;
mod large_lists;
mod leader;
mod list_news;
mod listening;
mod listens;
mod lost_sessions;
mod member_endpoints;
mod merging;
mod metrics;
mod missing_lists;
mod mixed_call;
mod odd_entries;
mod old_clients;
mod old_transport;
mod own_catalogs;
mod pages;
mod param_headers;
mod parking;
mod probing;
mod reads;
mod resume;
mod revisions;
mod rights;
mod rounds;
mod sdk_listeners;
mod sessions;
mod skills;
mod stdio_face;
mod streaming;
mod streams;
mod subscriptions;
mod support;
mod tasks;
mod unheard;
mod up;
mod updates;
mod upstreams;
mod users;
mod verbatim;
mod whole_lists;
