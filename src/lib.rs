//! mcpfleet: fleets of MCP servers as one endpoint, on Kubernetes or on one machine.
//!
//! Two flows make up the program.
//!
//! A request: [`gateway`] reads a client's message, finds the member that owns the name in the index of the
//! federation's immutable snapshot, lets [`upstream`] carry it one hop further, and shapes the answer for the
//! client's protocol revision.
//!
//! State: objects come from the API server ([`run::cluster`]) or from files ([`manifest`], [`run::local`]);
//! [`fleet`] plans from them which upstreams to hold and which federations to serve, reads the upstreams'
//! catalogs, merges them ([`index`]) and publishes a new snapshot. [`operator`] turns the same objects into
//! workloads and status.
//!
//! Layers; each imports only from those above it in this list:
//!
//! 1. [`defaults`], `body`, `seldom` (what is said seldom), [`cores`] (the threads that serve), [`mcp`] (the protocol on the wire, pure), [`api`] (custom resources, data only)
//! 2. [`index`] (catalogs merged into what clients see, pure), [`manifest`] (files into objects), [`metrics`]
//! 3. [`upstream`] (one hop to one MCP server)
//! 4. [`fleet`] (what is served now)
//! 5. [`gateway`] (the data plane) and [`operator`] (the control plane), which never import each other
//! 6. [`run`] (composition roots), [`commands`], [`args`]

#![cfg_attr(
    test,
    allow(
        clippy::needless_pass_by_value,
        reason = "json!({…}) reads best as it is, without a reference"
    )
)]

#[allow(unreachable_pub, reason = "the schema derive repeats each struct in a private scope")]
pub mod api;
pub mod args;
mod body;
pub mod commands;
pub mod cores;
pub mod defaults;
pub mod fleet;
pub mod gateway;
pub mod index;
pub mod manifest;
pub mod mcp;
pub mod metrics;
pub mod operator;
pub mod run;
mod seldom;
pub mod upstream;
