//! `mcpfleet crds`.

use std::io::{self, Write};

use crate::api;

/// Writes the custom resource definitions as YAML, one document each.
///
/// # Errors
/// When `out` cannot be written to.
pub fn write(out: &mut impl Write) -> io::Result<()> {
    for definition in api::definitions() {
        let text = serde_yaml::to_string(&definition).map_err(io::Error::other)?;
        write!(out, "---\n{text}")?;
    }
    Ok(())
}
