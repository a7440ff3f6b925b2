//! Whether this replica may write.

use std::fmt;
use std::sync::Arc;

/// Asks, before each write, whether this replica still leads. A process that was stopped for a while must find out
/// before it writes, not after.
#[derive(Clone)]
pub struct Mandate(Arc<dyn Fn() -> bool + Send + Sync>);

impl Mandate {
    /// A mandate that holds as long as `holds` says so.
    pub fn new(holds: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        Self(Arc::new(holds))
    }

    /// Whether writing is allowed now.
    pub fn holds(&self) -> bool {
        (self.0)()
    }
}

impl fmt::Debug for Mandate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Mandate").field(&self.holds()).finish()
    }
}
