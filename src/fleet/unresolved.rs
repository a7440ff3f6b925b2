//! Why something that an object says cannot be carried out.

/// Why a server cannot be reached, or a federation be served, before anything is tried.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unresolved {
    /// One CamelCase word for conditions and metrics.
    pub reason: &'static str,
    /// For a person: what is wrong and what to do.
    pub message: String,
}
