//! Commands that do one thing and end.

pub mod crds;
