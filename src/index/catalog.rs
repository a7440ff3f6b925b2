//! What one upstream offers.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use aws_lc_rs::digest::{Context, SHA256};
use serde_json::value::RawValue;
use tokio::time::Instant;

use super::mended::mended;
use super::withheld::{Defect, Withheld};
use crate::defaults;
use crate::mcp::{Era, Mark, Members, Method, ParamHeaders};

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

/// The four lists that every revision knows, and that of the extension for skills.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum List {
    Tools,
    Resources,
    Templates,
    Prompts,
    Skills,
}

impl List {
    /// All of them.
    pub const ALL: [Self; 5] = [
        Self::Tools,
        Self::Resources,
        Self::Templates,
        Self::Prompts,
        Self::Skills,
    ];

    /// One entry of it, in words.
    pub const fn entry(self) -> &'static str {
        match self {
            Self::Tools => "tool",
            Self::Resources => "resource",
            Self::Templates => "resource template",
            Self::Prompts => "prompt",
            Self::Skills => "skill",
        }
    }

    /// The method that reads it.
    pub const fn method(self) -> Method {
        match self {
            Self::Tools => Method::ToolsList,
            Self::Resources => Method::ResourcesList,
            Self::Templates => Method::ResourceTemplatesList,
            Self::Prompts => Method::PromptsList,
            Self::Skills => Method::SkillsList,
        }
    }

    /// The list that `method` reads.
    pub fn of_method(method: Method) -> Option<Self> {
        Self::ALL.into_iter().find(|list| list.method() == method)
    }

    /// The member of the result that holds the entries.
    pub const fn member(self) -> &'static str {
        match self {
            Self::Tools => "tools",
            Self::Resources => "resources",
            Self::Templates => "resourceTemplates",
            Self::Prompts => "prompts",
            Self::Skills => "skills",
        }
    }

    /// The member of an entry that identifies it.
    pub const fn key(self) -> &'static str {
        match self {
            Self::Tools | Self::Prompts => "name",
            Self::Resources | Self::Skills => "uri",
            Self::Templates => "uriTemplate",
        }
    }

    /// Whether its entries have names, which prefixes keep apart, rather than URIs.
    pub const fn has_names(self) -> bool {
        matches!(self, Self::Tools | Self::Prompts)
    }

    /// The server capability that goes with it, if the protocol itself knows one.
    pub const fn capability(self) -> Option<&'static str> {
        match self {
            Self::Tools => Some("tools"),
            Self::Resources | Self::Templates => Some("resources"),
            Self::Prompts => Some("prompts"),
            Self::Skills => None,
        }
    }
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
}

/// What an item takes beside its texts, about.
const ITEM_BYTES: usize = 96;

fn stamp(raw: &RawValue) -> u64 {
    let mut hasher = DefaultHasher::new();
    raw.get().hash(&mut hasher);
    hasher.finish()
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
        items
            .map(|item| ITEM_BYTES + item.key.len() + item.raw.get().len())
            .sum()
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
