//! What one upstream offers.

use std::sync::Arc;
use std::time::Duration;

use aws_lc_rs::digest::{Context, SHA256};
use tokio::time::Instant;

use super::item::Item;
use super::list::List;
use super::withheld::{Defect, Withheld};
use crate::defaults;
use crate::mcp::{Era, Mark};

/// The lists of one upstream, as it sent them.
#[derive(Clone, Debug)]
pub struct Catalog {
    /// The era that was spoken with it.
    pub era: Era,
    /// What it lists under `tools/list`.
    pub tools: Vec<Item>,
    /// What it lists under `resources/list`.
    pub resources: Vec<Item>,
    /// What it lists under `resources/templates/list`.
    pub templates: Vec<Item>,
    /// What it lists under `prompts/list`.
    pub prompts: Vec<Item>,
    /// What it lists under `skills/list`.
    pub skills: Vec<Item>,
    /// Entries that it lists and that are not offered, and before them lists that it does not give: the first
    /// [`defaults::WITHHELD_MAX`].
    pub withheld: Vec<Withheld>,
    /// How many more there are.
    pub withheld_more: usize,
    /// How many entries without a name or URI the lists hold, which nobody can ask for; only lists that hold any.
    pub nameless: Vec<(List, usize)>,
    /// The lists that the server declares and does not give, and since when it does not.
    pub refused: Vec<(List, Instant)>,
    /// False: a list was cut at the page or item cap, or is not given.
    pub complete: bool,
    digest: String,
}

impl Catalog {
    /// A catalog without entries, to be filled from an upstream of `era`.
    pub const fn new(era: Era) -> Self {
        Self {
            era,
            tools: Vec::new(),
            resources: Vec::new(),
            templates: Vec::new(),
            prompts: Vec::new(),
            skills: Vec::new(),
            withheld: Vec::new(),
            withheld_more: 0,
            nameless: Vec::new(),
            refused: Vec::new(),
            complete: true,
            digest: String::new(),
        }
    }

    /// The entries of `list`.
    pub fn list(&self, list: List) -> &[Item] {
        match list {
            List::Tools => &self.tools,
            List::Resources => &self.resources,
            List::Templates => &self.templates,
            List::Prompts => &self.prompts,
            List::Skills => &self.skills,
        }
    }

    /// The entries of `list`, to be filled.
    pub fn list_mut(&mut self, list: List) -> &mut Vec<Item> {
        match list {
            List::Tools => &mut self.tools,
            List::Resources => &mut self.resources,
            List::Templates => &mut self.templates,
            List::Prompts => &mut self.prompts,
            List::Skills => &mut self.skills,
        }
    }

    /// Leaves an entry out.
    pub fn withhold(&mut self, entry: Withheld) {
        if self.withheld.len() < defaults::WITHHELD_MAX {
            self.withheld.push(entry);
        } else {
            self.withheld_more += 1;
        }
    }

    /// Takes what `part`, a catalog of the same server, has of `list` and leaves out of it.
    pub fn take(&mut self, list: List, mut part: Self) {
        self.list_mut(list).append(part.list_mut(list));
        for entry in part.withheld {
            self.withhold(entry);
        }
        self.withheld_more += part.withheld_more;
        self.nameless.append(&mut part.nameless);
    }

    /// Leaves `list` out, which the server does not give because of `defect`, as of `now`.
    pub fn refuse(&mut self, list: List, defect: Defect, now: Instant) {
        self.list_mut(list).clear();
        self.refused.push((list, now));
        self.is_not_whole(list, defect);
    }

    /// Notes that `list` goes on after `most`, which is as far as it is read.
    pub fn cut(&mut self, list: List, most: String) {
        self.is_not_whole(list, Defect::Cut(most));
    }

    fn is_not_whole(&mut self, list: List, defect: Defect) {
        self.complete = false;
        // Before all else that is left out.
        self.withheld
            .insert(0, Withheld::new(list, list.method().as_str(), defect));
        if self.withheld.len() > defaults::WITHHELD_MAX {
            self.withheld.pop();
            self.withheld_more += 1;
        }
    }

    /// The catalog with the entries that `before` had of the lists that are not given now, as long as they are not given
    /// for `most` already.
    #[must_use]
    pub fn taking_over(mut self, before: &Self, most: Duration) -> Self {
        if self.refused.is_empty() || self.era != before.era {
            return self;
        }
        let mut refused = std::mem::take(&mut self.refused);
        for (list, since) in &mut refused {
            let known = before.refused.iter().find(|(known, _)| known == list);
            let first = known.map_or(*since, |(_, first)| *first);
            if since.duration_since(first) < most {
                *self.list_mut(*list) = before.list(*list).to_vec();
            }
            *since = first;
        }
        self.refused = refused;
        self.sealed()
    }

    /// The catalog with nothing in it that is offered, because some of it cannot be.
    #[must_use]
    pub fn withheld_whole(mut self) -> Self {
        for list in List::ALL {
            self.list_mut(list).clear();
        }
        self
    }

    /// `catalog` without what has passed the federation `mark` on its way: that federation has it already, and would list
    /// it under ever longer names.
    pub fn without(catalog: &Arc<Self>, mark: Mark) -> Arc<Self> {
        let passed = |item: &Item| item.passed.contains(&mark);
        if !List::ALL.iter().any(|list| catalog.list(*list).iter().any(passed)) {
            return Arc::clone(catalog);
        }
        let mut rest = Self::clone(catalog);
        for list in List::ALL {
            rest.list_mut(list).retain(|item| !passed(item));
        }
        Arc::new(rest.sealed())
    }

    /// Leaves an entry of `list` out that has no name or URI.
    pub fn leave_out_nameless(&mut self, list: List) {
        match self.nameless.iter_mut().find(|(known, _)| *known == list) {
            Some((_, count)) => *count += 1,
            None => self.nameless.push((list, 1)),
        }
    }

    /// How many bytes it takes, about.
    pub fn bytes(&self) -> usize {
        let items = List::ALL.into_iter().flat_map(|list| self.list(list));
        items.map(Item::bytes).sum()
    }

    /// `sha256:` and the hexadecimal SHA-256 over all entries in their order, and over what is left out; empty before
    /// [`Self::sealed`].
    pub fn digest(&self) -> &str {
        &self.digest
    }

    /// The catalog once all its entries are there.
    #[must_use]
    pub fn sealed(mut self) -> Self {
        let mut context = Context::new(&SHA256);
        for list in List::ALL {
            context.update(list.member().as_bytes());
            for item in self.list(list) {
                context.update(b"\n");
                context.update(item.raw.get().as_bytes());
                for mark in &item.passed {
                    context.update(format!(" {mark}").as_bytes());
                }
            }
            context.update(b"\0");
        }
        for entry in &self.withheld {
            context.update(format!("\n{} {:?} {}", entry.list.member(), entry.name, entry.cause).as_bytes());
        }
        if self.withheld_more > 0 {
            context.update(format!("\n{}", self.withheld_more).as_bytes());
        }
        for (list, count) in &self.nameless {
            context.update(format!("\n{} {count}", list.member()).as_bytes());
        }
        let hex: String = context
            .finish()
            .as_ref()
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        self.digest = format!("sha256:{hex}");
        self
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use serde_json::value::RawValue;

    use super::*;

    const MOST: Duration = Duration::from_secs(600);

    fn item(list: List, name: &str) -> Item {
        let raw = json!({list.key(): name}).to_string();
        Item::read(list, RawValue::from_string(raw).unwrap()).unwrap()
    }

    fn catalog(tool: &str, prompts: Result<&str, Instant>) -> Catalog {
        let mut catalog = Catalog::new(Era::Legacy);
        catalog.tools.push(item(List::Tools, tool));
        match prompts {
            Ok(name) => catalog.prompts.push(item(List::Prompts, name)),
            Err(now) => catalog.refuse(List::Prompts, Defect::List("no database".into()), now),
        }
        catalog.sealed()
    }

    fn keys(items: &[Item]) -> Vec<&str> {
        items.iter().map(|item| item.key.as_str()).collect()
    }

    #[test]
    fn a_list_that_is_refused_is_named_before_all_else_that_is_left_out() {
        let mut catalog = catalog("a", Ok("of a first page"));
        for place in 0..defaults::WITHHELD_MAX {
            catalog.withhold(Withheld::new(List::Tools, &place.to_string(), Defect::Name));
        }
        catalog.refuse(List::Prompts, Defect::List("no database".into()), Instant::now());
        assert!(catalog.prompts.is_empty() && !catalog.complete);
        assert_eq!((catalog.tools.len(), catalog.withheld_more), (1, 1));
        assert_eq!(catalog.withheld.len(), defaults::WITHHELD_MAX);
        let first = &catalog.withheld[0];
        assert_eq!(
            (first.name.as_str(), first.cause.reason()),
            ("prompts/list", "ListRefused")
        );
        assert!(first.cause.to_string().contains("no database"));
    }

    #[test]
    fn a_part_is_taken_with_what_it_leaves_out() {
        let mut whole = catalog("a", Ok("of others"));
        let mut part = Catalog::new(Era::Legacy);
        part.resources.push(item(List::Resources, "memo://r"));
        for place in 0..=defaults::WITHHELD_MAX {
            part.withhold(Withheld::new(List::Resources, &place.to_string(), Defect::Name));
        }
        part.leave_out_nameless(List::Resources);
        whole.withhold(Withheld::new(List::Tools, "b", Defect::Name));
        whole.take(List::Resources, part);
        assert_eq!(
            (keys(&whole.tools), keys(&whole.resources)),
            (vec!["a"], vec!["memo://r"])
        );
        assert_eq!((whole.withheld.len(), whole.withheld_more), (defaults::WITHHELD_MAX, 2));
        assert_eq!(whole.nameless, [(List::Resources, 1)]);
    }

    #[test]
    fn what_was_listed_before_stays_for_a_while_beside_what_is_new() {
        let start = Instant::now();
        let later = |seconds| start + Duration::from_secs(seconds);
        let first = catalog("a", Ok("brief"));
        let mut before = first.clone();
        for seconds in [0, 300, 599] {
            let read = catalog("b", Err(later(seconds)));
            let empty = read.digest().to_owned();
            before = read.taking_over(&before, MOST);
            assert_eq!((keys(&before.tools), keys(&before.prompts)), (vec!["b"], vec!["brief"]));
            assert!(!before.complete && before.digest() != empty && before.digest() != first.digest());
        }
        before = catalog("b", Err(later(600))).taking_over(&before, MOST);
        assert_eq!(keys(&before.prompts), [""; 0]);
        before = catalog("b", Ok("brief")).taking_over(&before, MOST);
        assert!(before.complete && before.refused.is_empty());
        before = catalog("b", Err(later(700))).taking_over(&before, MOST);
        assert_eq!(keys(&before.prompts), ["brief"], "that was another time");
    }

    #[test]
    fn nothing_is_taken_over_from_another_era() {
        let before = catalog("a", Ok("brief"));
        let mut read = catalog("a", Err(Instant::now()));
        read.era = Era::Modern;
        assert_eq!(keys(&read.taking_over(&before, MOST).prompts), [""; 0]);
    }
}
