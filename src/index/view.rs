//! What one audience sees of an index: its lists, written once.

use std::borrow::Cow;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::Range;
use std::sync::OnceLock;

use bytes::Bytes;

use super::Index;
use super::audience::Audience;
use super::list::List;
use super::meta_tool::MetaTool;
use crate::mcp::{ListKind, Mark, Revision};

/// The lists that one audience sees.
#[derive(Debug, Default)]
pub struct View {
    /// Whether the two tools that lead to unlisted ones are listed.
    pub leads_to_unlisted: bool,
    lists: [Listing; 5],
}

/// What tells lists apart that an audience saw at different times: equal where they show the same, and the same in
/// every replica.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Shown {
    pub tools: u64,
    pub resources: u64,
    pub prompts: u64,
}

/// One list as an audience sees it.
#[derive(Debug, Default)]
pub(super) struct Listing {
    lines: Vec<Line>,
    /// Written when it is first asked for, for each group of revisions whose clients see the same.
    texts: [OnceLock<Text>; 3],
    digest: u64,
}

/// A part of a list, in the order of keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Page<'v> {
    /// The descriptors, JSON with commas between them.
    pub items: &'v [u8],
    /// The key of the last one, if more follow.
    pub last: Option<&'v str>,
    /// What the items lie in.
    text: &'v Bytes,
}

/// A line of a list.
#[derive(Clone, Copy, Debug)]
pub(super) enum Line {
    /// The entry in this place.
    Entry(usize),
    Meta(MetaTool),
}

/// Descriptors one after the other, with commas between them.
#[derive(Debug)]
struct Text {
    joined: Bytes,
    /// Where each ends.
    ends: Vec<usize>,
}

impl Page<'_> {
    /// The items where they lie, for as long as anybody needs them.
    pub fn shared(&self) -> Bytes {
        self.text.slice_ref(self.items)
    }
}

impl View {
    pub(super) fn of(index: &Index, audience: Audience) -> Self {
        let leads_to_unlisted = !audience.show_all && index.has_discoverable(audience.rules);
        Self {
            leads_to_unlisted,
            lists: List::ALL.map(|list| Listing::of(index, list, audience, leads_to_unlisted)),
        }
    }

    /// What it shows now.
    pub fn shown(&self) -> Shown {
        let of = |list| self.list(list).digest;
        Shown {
            tools: of(List::Tools),
            // Skills are told of as what they are made of (Skills extension).
            resources: of(List::Resources).rotate_left(1) ^ of(List::Templates) ^ of(List::Skills).rotate_left(2),
            prompts: of(List::Prompts),
        }
    }

    fn list(&self, list: List) -> &Listing {
        let [tools, resources, templates, prompts, skills] = &self.lists;
        match list {
            List::Tools => tools,
            List::Resources => resources,
            List::Templates => templates,
            List::Prompts => prompts,
            List::Skills => skills,
        }
    }
}

impl Shown {
    /// What tells nothing, since no list is known.
    pub const UNKNOWN: Self = Self {
        tools: UNKNOWN,
        resources: UNKNOWN,
        prompts: UNKNOWN,
    };

    /// What tells the lists of this kind apart.
    pub fn of(self, kind: ListKind) -> u64 {
        match kind {
            ListKind::Tools => self.tools,
            ListKind::Resources => self.resources,
            ListKind::Prompts => self.prompts,
        }
    }

    /// Whether `now` shows another list of this kind, as far as both are known.
    pub fn is_other(self, now: Self, kind: ListKind) -> bool {
        let (then, now) = (self.of(kind), now.of(kind));
        then != now && then != UNKNOWN && now != UNKNOWN
    }

    /// Takes what is not known from `now`.
    pub fn learn(&mut self, now: Self) {
        for kind in ListKind::ALL {
            if self.of(kind) == UNKNOWN {
                *self.of_mut(kind) = now.of(kind);
            }
        }
    }

    /// The same, to be changed.
    pub fn of_mut(&mut self, kind: ListKind) -> &mut u64 {
        match kind {
            ListKind::Tools => &mut self.tools,
            ListKind::Resources => &mut self.resources,
            ListKind::Prompts => &mut self.prompts,
        }
    }
}

/// The digest of no list.
const UNKNOWN: u64 = 0;

impl Index {
    /// Up to `size` entries of `list` as `view`, one of this index, shows them to clients of `revision`: those behind
    /// the key `after`, which need not be there any more. All that follow where `size` is 0.
    pub fn page<'v>(
        &'v self,
        view: &'v View,
        list: List,
        revision: Revision,
        after: Option<&str>,
        size: usize,
    ) -> Page<'v> {
        let listing = view.list(list);
        let lines = &listing.lines;
        let Range { start: from, end: to } = self.places(view, list, after, size);
        let last = (to < lines.len()).then(|| lines.get(to.wrapping_sub(1))).flatten();
        let text = listing.text(self, list, revision);
        Page {
            items: text.between(from, to),
            last: last.map(|line| self.key(list, *line)),
            text: &text.joined,
        }
    }

    /// The keys of the entries that such a page has, each with the federations that it has passed.
    pub fn passed<'v>(
        &'v self,
        view: &'v View,
        list: List,
        after: Option<&str>,
        size: usize,
    ) -> impl Iterator<Item = (&'v str, &'v [Mark])> {
        let lines = view.list(list).lines.get(self.places(view, list, after, size));
        lines.unwrap_or_default().iter().filter_map(move |line| match line {
            Line::Entry(place) => {
                let entry = self.merged(list).entries.get(*place)?;
                let (_, _, item) = self.item(list, entry)?;
                Some((&*entry.key, &*item.passed))
            }
            Line::Meta(_) => None,
        })
    }

    /// Which lines of `list` are on the page of this `size` behind `after`.
    fn places(&self, view: &View, list: List, after: Option<&str>, size: usize) -> Range<usize> {
        let lines = &view.list(list).lines;
        let from = after.map_or(0, |after| lines.partition_point(|line| self.key(list, *line) <= after));
        let to = match size {
            0 => lines.len(),
            _ => from.saturating_add(size).min(lines.len()),
        };
        from..to
    }

    pub(super) fn key(&self, list: List, line: Line) -> &str {
        match line {
            Line::Entry(place) => self.merged(list).entries.get(place).map_or("", |entry| &entry.key),
            Line::Meta(meta) => meta.name(),
        }
    }
}

impl Listing {
    fn of(index: &Index, list: List, audience: Audience, leads_to_unlisted: bool) -> Self {
        let seen = index.merged(list).seen_by(audience.rules);
        let mut lines: Vec<Line> = seen
            .filter(|(_, entry)| (entry.listed || audience.show_all) && (audience.apps || entry.for_models))
            .map(|(place, _)| Line::Entry(place))
            .collect();
        if list == List::Tools && leads_to_unlisted {
            for meta in MetaTool::ALL {
                let place = lines.partition_point(|line| index.key(list, *line) < meta.name());
                lines.insert(place, Line::Meta(meta));
            }
        }
        let mut hasher = DefaultHasher::new();
        for line in &lines {
            index.key(list, *line).hash(&mut hasher);
            if let Line::Entry(place) = line {
                index.stamp(list, *place).hash(&mut hasher);
            }
        }
        Self {
            lines,
            texts: Default::default(),
            digest: hasher.finish().max(1),
        }
    }

    fn text(&self, index: &Index, list: List, revision: Revision) -> &Text {
        let [early, legacy, modern] = &self.texts;
        let (cell, revision) = match revision {
            Revision::V2024_11_05 | Revision::V2025_03_26 => (early, Revision::V2025_03_26),
            Revision::V2025_06_18 | Revision::V2025_11_25 => (legacy, Revision::V2025_11_25),
            Revision::V2026_07_28 => (modern, Revision::V2026_07_28),
        };
        cell.get_or_init(|| Text::of(self.lines.iter().map(|line| index.described(list, *line, revision))))
    }
}

impl Text {
    fn of<'d>(descriptors: impl Iterator<Item = Cow<'d, str>>) -> Self {
        let (mut joined, mut ends) = (Vec::new(), Vec::new());
        for descriptor in descriptors {
            if !ends.is_empty() {
                joined.push(b',');
            }
            joined.extend_from_slice(descriptor.as_bytes());
            ends.push(joined.len());
        }
        joined.shrink_to_fit();
        Self {
            joined: joined.into(),
            ends,
        }
    }

    /// The descriptors from place `from` on, up to that before place `to`.
    fn between(&self, from: usize, to: usize) -> &[u8] {
        let end = to.checked_sub(1).and_then(|last| self.ends.get(last)).copied();
        let start = match from.checked_sub(1) {
            None => 0,
            Some(before) => self.ends.get(before).map_or(self.joined.len(), |end| end + 1),
        };
        self.joined.get(start..end.unwrap_or(0)).unwrap_or_default()
    }
}
