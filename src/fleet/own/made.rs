//! What was made for callers, as long as there is room.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::got::Part;
use super::recent::Recent;
use crate::defaults;
use crate::fleet::caller::CallerId;
use crate::index::Index;
use crate::mcp::Era;

/// Which of callers' own lists stand in merged ones: of each member that has such, where they are known.
pub(in crate::fleet) type Lists = Vec<Option<(Era, String)>>;

/// What was made for callers of one federation: views of it, and the merged lists that these share.
#[derive(Debug)]
pub(in crate::fleet) struct Made<F>(Mutex<Kept<F>>);

#[derive(Debug)]
struct Kept<F> {
    views: Recent<CallerId, View<F>>,
    indexes: Recent<Lists, Arc<Index>>,
}

/// A federation as a caller sees it, and what it was made from.
#[derive(Debug)]
struct View<F> {
    from: Vec<Part>,
    federation: Arc<F>,
}

impl<F> Made<F> {
    /// The view of `caller`, if it was made from the same.
    pub(in crate::fleet) fn view(&self, caller: CallerId, from: &[Part]) -> Option<Arc<F>> {
        let mut kept = self.kept();
        let view = kept.views.get(&caller)?;
        view.is_of(from).then(|| Arc::clone(&view.federation))
    }

    /// Keeps the view of `caller`, with what it was made from.
    pub(in crate::fleet) fn keep_view(&self, caller: CallerId, from: Vec<Part>, federation: Arc<F>) {
        let mut kept = self.kept();
        kept.views.insert(caller, View { from, federation }, 0);
        while kept.views.len() > defaults::OWN_CATALOGS_MAX {
            drop(kept.views.remove_oldest(|_| Some(0)));
        }
    }

    /// The index with these lists.
    pub(in crate::fleet) fn index(&self, lists: &Lists) -> Option<Arc<Index>> {
        self.kept().indexes.get(lists).cloned()
    }

    /// Keeps the index with these lists. What makes room for it goes with all views of which `shows` says that they
    /// have it.
    pub(in crate::fleet) fn keep_index(
        &self,
        lists: Lists,
        index: &Arc<Index>,
        shows: impl Fn(&F, &Arc<Index>) -> bool,
    ) {
        let mut kept = self.kept();
        kept.indexes.insert(lists, Arc::clone(index), index.bytes());
        while kept.indexes.weight() > defaults::OWN_INDEXES_BYTES_MAX && kept.indexes.len() > 1 {
            let Some(gone) = kept.indexes.remove_oldest(|_| Some(0)) else {
                break;
            };
            // Nothing may keep it that would not be counted.
            drop(kept.views.remove_unless(|_, view| !shows(&view.federation, &gone)));
        }
    }

    fn kept(&self) -> MutexGuard<'_, Kept<F>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<F> Default for Made<F> {
    fn default() -> Self {
        Self(Mutex::new(Kept {
            views: Recent::default(),
            indexes: Recent::default(),
        }))
    }
}

impl<F> View<F> {
    fn is_of(&self, from: &[Part]) -> bool {
        self.from.len() == from.len() && self.from.iter().zip(from).all(|(a, b)| a.is_same(b))
    }
}
