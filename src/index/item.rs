//! One entry of a list.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use serde_json::value::RawValue;

use super::list::List;
use super::mended::mended;
use crate::mcp::{Mark, Members, ParamHeaders};

/// One entry of a list.
#[derive(Clone, Debug)]
pub struct Item {
    /// Its name or URI.
    pub key: String,
    /// The whole entry, byte for byte, but for what no reader would miss or take as it was written.
    pub raw: Box<RawValue>,
    /// Tells it from what the entry was at other times.
    pub stamp: u64,
    /// Which arguments are repeated as headers, if it is a tool that says so.
    pub param_headers: Option<Arc<ParamHeaders>>,
    /// Whether it is a tool that has to be called for a task, of a server that makes some.
    pub needs_task: bool,
    /// The federations that it has passed, the last one first; none where its server is no gateway that tells.
    pub passed: Box<[Mark]>,
}

impl Item {
    /// Whether the server says of this tool that to call it twice is as good as once: it changes nothing, or nothing
    /// more the second time (2025-03-26, tool annotations).
    pub fn may_be_repeated(&self) -> bool {
        #[derive(serde::Deserialize)]
        struct Tool {
            annotations: Annotations,
        }
        #[derive(serde::Deserialize)]
        #[serde(rename_all = "camelCase", default)]
        #[derive(Default)]
        struct Annotations {
            read_only_hint: bool,
            idempotent_hint: bool,
        }
        serde_json::from_str::<Tool>(self.raw.get())
            .is_ok_and(|tool| tool.annotations.read_only_hint || tool.annotations.idempotent_hint)
    }

    /// Reads one entry of `list`, or `None` if it has no key to address it by.
    pub fn read(list: List, raw: Box<RawValue>) -> Option<Self> {
        let key = Members::parse(raw.get())?.string(list.key())?.into_owned();
        let raw = mended(list, raw);
        (!key.is_empty()).then(|| Self {
            key,
            stamp: stamp(&raw),
            raw,
            param_headers: None,
            needs_task: false,
            passed: Box::default(),
        })
    }

    /// How many bytes it takes, about.
    pub(super) fn bytes(&self) -> usize {
        ITEM_BYTES + self.key.len() + self.raw.get().len()
    }
}

/// What an item takes beside its texts, about.
const ITEM_BYTES: usize = 96;

fn stamp(raw: &RawValue) -> u64 {
    let mut hasher = DefaultHasher::new();
    raw.get().hash(&mut hasher);
    hasher.finish()
}
