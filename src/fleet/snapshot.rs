//! The immutable snapshot that requests are served from.

pub mod alone;
mod federation;
mod seen;

use std::collections::HashMap;
use std::sync::Arc;

pub(super) use self::federation::Alone;
pub use self::federation::Federation;

/// Everything that is served now; swapped whole.
#[derive(Debug, Default)]
pub struct Fleet {
    federations: HashMap<String, Arc<Federation>>,
    default: Option<Arc<Federation>>,
}

impl Fleet {
    /// A fleet of `federations`; `default` is served at the bare path.
    pub fn new(federations: impl IntoIterator<Item = Arc<Federation>>, default: Option<&str>) -> Self {
        let federations: HashMap<_, _> = federations.into_iter().map(|f| (f.name.clone(), f)).collect();
        let default = default.and_then(|name| federations.get(name)).cloned();
        Self { federations, default }
    }

    /// The federation `namespace/name`, or `namespace/name/servers/member`, which is one member of it alone.
    pub fn federation(&self, name: &str) -> Option<&Arc<Federation>> {
        self.federations.get(name).or_else(|| {
            let (federation, member) = name.rsplit_once(alone::BEFORE_MEMBER)?;
            self.federations.get(federation)?.alone(member)
        })
    }

    /// The federation that is served at the bare path.
    pub fn default_federation(&self) -> Option<&Arc<Federation>> {
        self.default.as_ref()
    }
}
