//! The official conformance suite, through the gateway.
//!
//! Its server scenarios are clients of the gateway, over the server that they are written for
//! (`tests/peers/node/servers/conformance`); its client scenarios are servers behind the gateway. One test for each
//! scenario, so that a failure names it. A scenario passes where the suite finds no fault and where every check that
//! succeeds without the gateway succeeds with it.

mod client;
mod gaps;
mod scenarios;
mod server;
mod suite;
mod tasks;
