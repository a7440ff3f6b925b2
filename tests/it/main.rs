//! Integration tests: one binary, one module for each family of behaviour.
#![cfg(test)] // tells clippy that all of it is tests
#![allow(
    clippy::needless_pass_by_value,
    reason = "json!({…}) reads best as it is, without a reference"
)]

mod apiserver;
mod gateway;
mod invalid;
mod examples;
#[cfg(test)] // tells clippy that these are tests too
mod interop;
#[cfg(test)] // tells clippy that these are tests too
mod support;
mod upstreams;
