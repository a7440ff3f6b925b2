//! What must hold for any bytes that a client or a server may send.
//!
//! Each module has one function `check`, which fails where it does not hold. Fuzzers call them, and so do ordinary tests
//! (`tests/it/fuzz_corpus.rs`), with the inputs in `corpus/` and with made-up ones.

pub mod envelope;
pub mod header_value;
pub mod json;
pub mod meta;
pub mod object;
pub mod param_headers;
pub mod questions;
pub mod session_token;
pub mod shape;
pub mod sse;

/// Fails where an input breaks what must hold.
pub type Check = fn(&[u8]);

/// Every target by its name.
pub const TARGETS: [(&str, Check); 9] = [
    ("envelope", envelope::check),
    ("header_value", header_value::check),
    ("meta", meta::check),
    ("object", object::check),
    ("param_headers", param_headers::check),
    ("questions", questions::check),
    ("session_token", session_token::check),
    ("shape", shape::check),
    ("sse", sse::check),
];
