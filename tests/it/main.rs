//! Integration tests: one binary, one module for each family of behaviour.

mod apiserver;
mod examples;
#[cfg(test)] // tells clippy that these are tests too
mod interop;
#[cfg(test)] // tells clippy that these are tests too
mod support;
