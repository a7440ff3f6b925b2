//! What one upstream offers.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use aws_lc_rs::digest::{Context, SHA256};
use serde_json::value::RawValue;

use super::mended::without_nulls;
use super::withheld::Withheld;
use crate::defaults;
use crate::mcp::{Era, Members, Method, ParamHeaders};

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
    /// Tools and skills that it lists and that are not offered: the first [`defaults::WITHHELD_MAX`].
    pub withheld: Vec<Withheld>,
    /// How many more there are.
    pub withheld_more: usize,
    /// How many entries without a name or URI the lists hold, which nobody can ask for; only lists that hold any.
    pub nameless: Vec<(List, usize)>,
    /// False: a list was cut at the page or item cap.
    pub complete: bool,
    digest: String,
}

/// One entry of a list.
#[derive(Clone, Debug)]
pub struct Item {
    /// Its name or URI.
    pub key: String,
    /// The whole entry, byte for byte, but for null in place of what may be absent.
    pub raw: Box<RawValue>,
    /// Tells it from what the entry was at other times.
    pub stamp: u64,
    /// Which arguments are repeated as headers, if it is a tool that says so.
    pub param_headers: Option<Arc<ParamHeaders>>,
    /// Whether it is a tool that has to be called for a task, of a server that makes some.
    pub needs_task: bool,
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
        // Frontmatter of skills is passed as it is.
        let raw = if list == List::Skills { raw } else { without_nulls(raw) };
        (!key.is_empty()).then(|| Self {
            key,
            stamp: stamp(&raw),
            raw,
            param_headers: None,
            needs_task: false,
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

    /// Leaves a tool or a skill out.
    pub fn withhold(&mut self, entry: Withheld) {
        if self.withheld.len() < defaults::WITHHELD_MAX {
            self.withheld.push(entry);
        } else {
            self.withheld_more += 1;
        }
    }

    /// The catalog with nothing in it that is offered, because some of it cannot be.
    #[must_use]
    pub fn withheld_whole(mut self) -> Self {
        for list in List::ALL {
            self.list_mut(list).clear();
        }
        self
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
            }
            context.update(b"\0");
        }
        for entry in &self.withheld {
            context.update(format!("\n{:?} {}", entry.name, entry.cause).as_bytes());
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
