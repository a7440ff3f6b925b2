//! Integration tests: one binary, one module for each family of behaviour.
#![cfg(test)] // tells clippy that all of it is tests
#![allow(
    clippy::needless_pass_by_value,
    reason = "json!({…}) reads best as it is, without a reference"
)]

mod apiserver;
mod crds;
mod examples;
mod gateway;
#[cfg(test)] // tells clippy that these are tests too
mod interop;
mod invalid;
#[cfg(test)] // tells clippy that these are tests too
mod support;
mod upstreams;
