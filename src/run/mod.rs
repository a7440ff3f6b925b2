//! Composition roots: a fleet in a cluster, and a fleet on one machine.

pub(crate) mod launch;
