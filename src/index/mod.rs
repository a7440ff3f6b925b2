//! Catalogs merged into what the clients of a federation see: pure, deterministic, built once per change.

pub mod audience;
pub mod catalog;
mod described;
pub mod findings;
pub mod glob;
pub mod instructions;
mod item;
mod list;
mod mended;
mod merged;
pub mod meta_tool;
pub mod naming;
pub mod search;
pub mod selection;
mod skill_owners;
pub mod skills;
pub mod template;
mod unmatched;
mod view;
pub mod withheld;

use std::borrow::Cow;
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, OnceLock};

use arc_swap::ArcSwap;

pub use audience::{AccessRules, Audience, RuleSet};
pub use catalog::Catalog;
pub use findings::Delegated;
pub use item::Item;
pub use list::List;
pub use merged::{MemberCatalog, Target};
pub use meta_tool::MetaTool;
pub use naming::Naming;
pub use selection::Selection;
pub use skills::{OwnSkills, SkillPrefix, SkillUris};
pub use view::{Page, Shown, View};
pub use withheld::{Annotations, Defect, Withheld};

use crate::api::STATUS_LIST_MAX;
use crate::api::federation::{IndexStatus, PrefixStrategy};
use crate::defaults;
use crate::mcp::{Revision, apps, descriptor};
use findings::{Findable, Standings};
use merged::{Entry, Merged, Parts, Report};
use skills::rewrite;
use skills::uri::is_skill;
use template::Template;
use view::Line;

/// How an index is built from catalogs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IndexPlan {
    /// How names are kept apart.
    pub naming: Naming,
    /// What whom may see and use.
    pub rules: AccessRules,
    /// Whether tools that only user interfaces may call are not listed for clients without any.
    pub hides_app_only: bool,
    /// Skills of the federation itself.
    pub own: Option<Arc<OwnSkills>>,
}

/// What a name without a prefix stands for.
#[derive(Debug, PartialEq, Eq)]
pub enum Bare<'i> {
    /// Nothing.
    Nothing,
    /// This tool alone.
    Only(&'i Target),
    /// One of these, which clients call so.
    Several(Vec<&'i str>),
}

/// The merged view of a federation, immutable once built.
#[derive(Debug)]
pub struct Index {
    plan: IndexPlan,
    members: Vec<MemberCatalog>,
    /// The place among them of what is the federation's own.
    own: Option<usize>,
    lists: [Merged; 5],
    /// Those of the list of templates, in its order.
    templates: Vec<Template>,
    report: Report,
    has_apps: bool,
    /// Tells it from others that anybody may see otherwise.
    fingerprint: u64,
    /// Made when somebody searches first.
    findable: OnceLock<Box<[Findable]>>,
    standings: OnceLock<Standings>,
    everybody: Arc<View>,
    /// Of audiences that see something else than everybody.
    views: ArcSwap<HashMap<Audience, Arc<View>>>,
}

impl Index {
    /// Merges `members`, which come in order: of two entries with one key the earlier member's stands, and before all of
    /// them what the federation has itself.
    pub fn build(plan: IndexPlan, mut members: Vec<MemberCatalog>) -> Self {
        let own = plan.own.as_ref().map(|own| MemberCatalog::of_federation(own));
        let place = own.is_some().then_some(members.len());
        members.extend(own);
        let mut report = Report::default();
        let parts = Parts {
            naming: &plan.naming,
            rules: &plan.rules,
            members: &members,
            own: place,
            reserved: &MetaTool::NAMES,
        };
        let lists = List::ALL.map(|list| Merged::of(list, parts, &mut report));
        let [tools, _, templates, _, _] = &lists;
        let has_apps = tools.entries.iter().any(|entry| entry.page.is_some());
        let mut index = Self {
            plan,
            members,
            own: place,
            templates: templates
                .entries
                .iter()
                .map(|entry| Template::parse(&entry.key))
                .collect(),
            lists,
            report,
            has_apps,
            fingerprint: 0,
            findable: OnceLock::new(),
            standings: OnceLock::new(),
            everybody: Arc::default(),
            views: ArcSwap::default(),
        };
        index.fingerprint = index.fingerprint();
        index.everybody = Arc::new(View::of(&index, Audience::EVERYBODY));
        index
    }

    /// What `audience` sees.
    pub fn view(&self, audience: Audience) -> Arc<View> {
        let audience = Audience {
            apps: audience.apps || !self.plan.hides_app_only,
            ..audience
        };
        if audience == Audience::EVERYBODY {
            return Arc::clone(&self.everybody);
        }
        if let Some(known) = self.views.load().get(&audience) {
            return Arc::clone(known);
        }
        let view = Arc::new(View::of(self, audience));
        self.views.rcu(|views| {
            let mut views = HashMap::clone(views);
            // Who comes after so many others sees the same, only written anew each time.
            if views.len() < defaults::VIEWS_MAX {
                views.insert(audience, Arc::clone(&view));
            }
            views
        });
        view
    }

    /// The same index where the members in these places have other catalogs.
    #[must_use]
    pub fn with(&self, catalogs: impl IntoIterator<Item = (usize, Option<Arc<Catalog>>)>) -> Self {
        let mut members = self.members.clone();
        for (place, catalog) in catalogs {
            if let Some(member) = members.get_mut(place) {
                member.catalog = catalog;
            }
        }
        // What is the federation's own stands last, and is put in anew.
        members.truncate(self.own.unwrap_or(members.len()));
        Self::build(self.plan.clone(), members)
    }

    /// How many bytes it takes, about, with its lists written twice.
    pub fn bytes(&self) -> usize {
        let entries = |list| self.merged(list).entries.iter().map(move |entry| (list, entry));
        let all = List::ALL.into_iter().flat_map(entries);
        all.map(|(list, entry)| ENTRY_BYTES + 2 * self.raw(list, entry).len())
            .sum()
    }

    /// Whether `name` is behind the prefix of the member in this place.
    pub fn is_under_prefix(&self, place: usize, name: &str) -> bool {
        let member = self.members.get(place);
        member.is_some_and(|member| self.plan.naming.without_prefix(&member.prefix, name).is_some())
    }

    /// Whether the member in this place may have a tool or prompt that clients call `name`, whatever it lists: where
    /// all names have prefixes, only those of the prefix do, and those without any where it is no other's.
    pub fn may_own(&self, place: usize, name: &str) -> bool {
        if self.plan.naming.strategy != PrefixStrategy::Always {
            return true;
        }
        let has_prefix = self.members.get(place).is_some_and(|member| !member.prefix.is_empty());
        if has_prefix {
            self.is_under_prefix(place, name)
        } else {
            !(0..self.members.len()).any(|other| self.is_under_prefix(other, name))
        }
    }

    /// The member in this place alone, under the names that its server gives.
    pub fn alone(&self, member: usize) -> Option<Self> {
        let member = self.members.get(member)?;
        let plan = IndexPlan {
            naming: Naming::NONE,
            own: None,
            ..self.plan.clone()
        };
        let alone = MemberCatalog {
            prefix: String::new(),
            skills: member.skills.alone(),
            selection: Arc::new(member.selection.under_original_names()),
            ..member.clone()
        };
        Some(Self::build(plan, vec![alone]))
    }

    /// Whether anybody may see something else in it than in `other`, or in one of its members alone.
    pub fn differs_from(&self, other: &Self) -> bool {
        let states = self.members.iter().filter_map(MemberCatalog::state);
        self.fingerprint != other.fingerprint
            || self.plan != other.plan
            || !states.eq(other.members.iter().filter_map(MemberCatalog::state))
    }

    /// What whom may see and use.
    pub fn rules(&self) -> &AccessRules {
        &self.plan.rules
    }

    /// Whether what clients see depends on whether they show user interfaces.
    pub fn hides_app_only(&self) -> bool {
        self.plan.hides_app_only
    }

    /// Who owns the tool, prompt, resource or template that `audience` calls `key`, listed or not.
    pub fn target(&self, list: List, key: &str, audience: Audience) -> Option<&Target> {
        Some(&self.merged(list).get(key, audience.rules)?.target)
    }

    /// Whether `audience` may use the tool that the member in this place calls `original`.
    pub fn offers_tool(&self, member: usize, original: &str, audience: Audience) -> bool {
        let runs_others = || self.searching_members(audience).any(|place| place == member);
        self.offers(List::Tools, member, original, audience) || (original == MetaTool::Execute.name() && runs_others())
    }

    /// Whether `audience` may use the prompt that the member in this place calls `original`.
    pub fn offers_prompt(&self, member: usize, original: &str, audience: Audience) -> bool {
        self.offers(List::Prompts, member, original, audience)
    }

    fn offers(&self, list: List, member: usize, original: &str, audience: Audience) -> bool {
        let mut entries = self.merged(list).seen_by(audience.rules);
        entries.any(|(_, entry)| entry.target.member == member && entry.target.original == original)
    }

    /// Who owns the resource `uri`: of one under a member's prefix for skills that member, else the member that lists it,
    /// or the skill that it is of, else the one whose template it fits: first one whose variables hold no slash, then
    /// the first member's; else, of a page, the one whose tool is shown by it.
    pub fn resource(&self, uri: &str, audience: Audience) -> Option<Target> {
        if let Some(owner) = self.owner_by_prefix(uri) {
            return self.seen_by(owner, audience);
        }
        if let Some(entry) = self.merged(List::Resources).get(uri, audience.rules) {
            return Some(entry.target.clone());
        }
        if let Some(owner) = self.owner_by_skill(uri, audience) {
            return self.seen_by(owner, audience);
        }
        let templates = self.templates.iter().zip(&self.merged(List::Templates).entries);
        // A URI of skills is nobody's by a template that is for anything.
        let templates = templates.filter(|(_, entry)| !is_skill(uri) || is_skill(&entry.key));
        let fitting = templates.filter_map(|(template, entry)| {
            let rank = template.rank(uri)?;
            // A rule that names a template means all that it stands for.
            let rules = entry.covered.or(self.covering(entry.target.member, uri));
            let is_seen = rules.meets(audience.rules) && !self.excludes(entry.target.member, uri);
            is_seen.then_some((rank, entry))
        });
        let owner = fitting.min_by_key(|(rank, entry)| (*rank, entry.target.member, &entry.key));
        let owner = owner.map(|(_, entry)| entry.target.member);
        let owner = owner.or_else(|| self.page_owner(uri, audience))?;
        Some(Target::resource(owner, uri))
    }

    /// The members that may be asked for a resource that nobody owns, by their places and in their order.
    pub fn readers(&self, uri: &str, audience: Audience) -> impl Iterator<Item = usize> {
        (0..self.members.len()).filter(move |member| self.own != Some(*member) && self.may_read(*member, uri, audience))
    }

    /// Whether `audience` may read `uri` from the member in this place.
    fn may_read(&self, member: usize, uri: &str, audience: Audience) -> bool {
        !self.excludes(member, uri) && self.covering(member, uri).meets(audience.rules)
    }

    /// Whether `uri` is a page, and those of the member in this place are left out.
    fn excludes(&self, member: usize, uri: &str) -> bool {
        let member = self.members.get(member);
        member.is_some_and(|member| member.selection.excludes_apps) && apps::has_scheme(uri)
    }

    /// The member that owns the page `uri`: the first of whose tools one that `audience` may use is shown by it.
    fn page_owner(&self, uri: &str, audience: Audience) -> Option<usize> {
        if !apps::is_page(uri) {
            return None;
        }
        let tools = self.merged(List::Tools).seen_by(audience.rules);
        tools
            .filter(|(_, tool)| tool.page.as_deref() == Some(uri))
            .map(|(_, tool)| tool.target.member)
            .filter(|member| self.may_read(*member, uri, audience))
            .min()
    }

    /// Whether a member has apps.
    pub fn has_apps(&self) -> bool {
        self.has_apps
    }

    /// What the tool is that `audience` calls by the name which its server gives it, without a prefix.
    pub fn bare_tool(&self, original: &str, audience: Audience) -> Bare<'_> {
        let tools = self.merged(List::Tools).seen_by(audience.rules);
        let mut meant = tools
            .map(|(_, tool)| tool)
            .filter(|tool| tool.target.original == original);
        match (meant.next(), meant.next()) {
            (None, _) => Bare::Nothing,
            (Some(only), None) => Bare::Only(&only.target),
            (Some(first), Some(second)) => {
                let all = [first, second].into_iter().chain(meant).map(|entry| &*entry.key);
                Bare::Several(all.take(defaults::CANDIDATES_MAX).collect())
            }
        }
    }

    /// Whether there are tools that `rules` let use and that are found only by search, or members that may have some.
    pub fn has_discoverable(&self, rules: RuleSet) -> bool {
        let mut tools = self.merged(List::Tools).seen_by(rules);
        let mut members = self.members.iter();
        tools.any(|(_, tool)| !tool.listed && tool.for_models)
            || members.any(|member| {
                member.selection.may_have_unlisted() && self.plan.rules.touching(&member.name).meets(rules)
            })
    }

    /// How many tools the member in this place contributes.
    pub fn tools_of(&self, member: usize) -> usize {
        let tools = self.merged(List::Tools).entries.iter();
        tools.filter(|entry| entry.target.member == member).count()
    }

    /// How many bytes the descriptors of all listed tools have.
    pub fn tools_bytes(&self) -> usize {
        let seen = self.merged(List::Tools).seen_by(RuleSet::ALL);
        let listed = seen.filter(|(_, entry)| entry.listed);
        listed.map(|(_, entry)| self.raw(List::Tools, entry).len()).sum()
    }

    /// The index in numbers, with what merging did that nobody would expect.
    pub fn status(&self) -> IndexStatus {
        let number = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
        let count = |list| number(self.merged(list).len());
        let bytes = self.tools_bytes();
        let Report { renamed, clashes } = &self.report;
        let kept = |length: usize| length.min(STATUS_LIST_MAX);
        let left_out = renamed.len() - kept(renamed.len()) + clashes.len() - kept(clashes.len());
        IndexStatus {
            tools: count(List::Tools),
            resources: count(List::Resources),
            templates: count(List::Templates),
            prompts: count(List::Prompts),
            skills: count(List::Skills),
            bytes: number(bytes),
            estimated_tokens: number(bytes / BYTES_PER_TOKEN),
            renamed: renamed.iter().take(STATUS_LIST_MAX).cloned().collect(),
            conflicts: clashes.iter().take(STATUS_LIST_MAX).cloned().collect(),
            truncated: (left_out > 0).then(|| number(left_out)),
        }
    }

    fn fingerprint(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        for list in List::ALL {
            for (place, entry) in self.merged(list).entries.iter().enumerate() {
                entry.key.hash(&mut hasher);
                (self.stamp(list, place), entry.covered, entry.listed).hash(&mut hasher);
            }
            list.member().hash(&mut hasher);
        }
        for member in &self.members {
            (&member.name, member.selection.may_have_unlisted()).hash(&mut hasher);
        }
        hasher.finish()
    }

    fn merged(&self, list: List) -> &Merged {
        let [tools, resources, templates, prompts, skills] = &self.lists;
        match list {
            List::Tools => tools,
            List::Resources => resources,
            List::Templates => templates,
            List::Prompts => prompts,
            List::Skills => skills,
        }
    }

    /// The rules that cover what the member in this place calls by this name or URI.
    fn covering(&self, member: usize, original: &str) -> RuleSet {
        let member = self.members.get(member);
        member.map_or(RuleSet::ALL, |member| self.plan.rules.covering(&member.name, original))
    }

    fn item(&self, list: List, entry: &Entry) -> Option<(&MemberCatalog, &Catalog, &Item)> {
        let member = self.members.get(entry.target.member)?;
        let catalog = member.catalog.as_deref()?;
        Some((member, catalog, catalog.list(list).get(entry.place)?))
    }

    /// The descriptor as its server wrote it.
    fn raw(&self, list: List, entry: &Entry) -> &str {
        self.item(list, entry).map_or("", |(_, _, item)| item.raw.get())
    }

    /// The descriptor of a line, as clients of `revision` see it.
    fn described(&self, list: List, line: Line, revision: Revision) -> Cow<'_, str> {
        let entry = match line {
            Line::Meta(meta) => return Cow::Borrowed(meta.descriptor()),
            Line::Entry(place) => self.merged(list).entries.get(place),
        };
        let Some((entry, (member, catalog, item))) = entry.and_then(|entry| Some((entry, self.item(list, entry)?)))
        else {
            return Cow::Borrowed("{}");
        };
        let mut text = Cow::Borrowed(item.raw.get());
        if list.has_names() && *entry.key != *item.key {
            text = Cow::Owned(described::renamed(&text, &entry.key).into_owned());
        }
        if let Some(shown) = member.override_of(list, &item.key) {
            text = Cow::Owned(described::overridden(&text, shown).into_owned());
        }
        match list {
            List::Tools => match descriptor::tool(&text, catalog.era, revision) {
                Cow::Borrowed(_) => text,
                Cow::Owned(shaped) => Cow::Owned(shaped),
            },
            List::Resources | List::Templates => match member.skills.prefix() {
                Some(prefix) => Cow::Owned(rewrite::descriptor(&text, prefix).into_owned()),
                None => text,
            },
            List::Skills => match (member.skills.prefix(), skills::Entry::read(&text)) {
                (Some(prefix), Ok(entry)) => Cow::Owned(entry.for_client(prefix)),
                _ => text,
            },
            List::Prompts => text,
        }
    }

    /// Tells descriptors of an entry apart that clients saw at different times.
    fn stamp(&self, list: List, place: usize) -> u64 {
        let entry = self.merged(list).entries.get(place);
        let Some((member, _, item)) = entry.and_then(|entry| self.item(list, entry)) else {
            return 0;
        };
        let mut hasher = DefaultHasher::new();
        item.stamp.hash(&mut hasher);
        if let Some(shown) = member.override_of(list, &item.key) {
            format!("{shown:?}").hash(&mut hasher);
        }
        hasher.finish()
    }
}

/// What an entry takes beside its descriptor, about.
const ENTRY_BYTES: usize = 512;
/// What a token of a model is in text, about.
const BYTES_PER_TOKEN: usize = 4;

#[cfg(test)]
mod tests;
