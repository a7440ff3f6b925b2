//! One list of all members as one: names kept apart, sorted, and each leading back to its owner.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use super::audience::{AccessRules, RuleSet};
use super::catalog::Catalog;
use super::item::Item;
use super::list::List;
use super::naming::Naming;
use super::selection::Selection;
use super::skills::{OwnSkills, SkillUris};
use crate::api::STATUS_LIST_MAX;
use crate::api::federation::{Clash, PrefixStrategy, Renamed, ToolOverride, Visibility};
use crate::mcp::ParamHeaders;
use crate::mcp::apps::{self, ToolUi};
use crate::mcp::printable::printable;

/// The catalog of one member, with what of it is offered and how.
#[derive(Clone, Debug)]
pub struct MemberCatalog {
    /// The member's name.
    pub name: String,
    /// The server's name, which shortened names depend on.
    pub server: String,
    /// Put before names; empty for none.
    pub prefix: String,
    /// How clients know its skills.
    pub skills: SkillUris,
    /// What of it is offered.
    pub selection: Arc<Selection>,
    /// What the member offers now; `None` while nothing is known.
    pub catalog: Option<Arc<Catalog>>,
}

/// Who owns a name that clients see.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// The member, by its place in the federation.
    pub member: usize,
    /// The name or URI as the member knows it.
    pub original: String,
    /// Which arguments are repeated as headers, if it is a tool that says so.
    pub param_headers: Option<Arc<ParamHeaders>>,
    /// Whether it is a tool that has to be called for a task.
    pub needs_task: bool,
}

impl Target {
    /// The resource `uri` of the member in this place.
    pub fn resource(member: usize, uri: &str) -> Self {
        Self {
            member,
            original: uri.to_owned(),
            param_headers: None,
            needs_task: false,
        }
    }
}

/// One entry of a merged list.
#[derive(Debug)]
pub(super) struct Entry {
    /// What clients call it.
    pub(super) key: Box<str>,
    pub(super) target: Target,
    /// Its place in its member's list.
    pub(super) place: usize,
    /// The rules that cover it.
    pub(super) covered: RuleSet,
    /// Whether it is listed for those who do not want to see everything.
    pub(super) listed: bool,
    /// Whether it is for models: for apps alone it is not.
    pub(super) for_models: bool,
    /// The page that shows its results, if it is a tool that has one.
    pub(super) page: Option<Box<str>>,
}

/// A merged list.
#[derive(Debug, Default)]
pub(super) struct Merged {
    /// By their keys; several of one key in the order in which they stand for it, as each is seen by somebody who sees
    /// none before it.
    pub(super) entries: Vec<Entry>,
    /// Of each key the first.
    places: HashMap<Box<str>, usize>,
}

/// What merging did that nobody would expect from the lists alone.
#[derive(Debug, Default)]
pub(super) struct Report {
    pub(super) renamed: Vec<Renamed>,
    pub(super) clashes: Vec<Clash>,
}

/// What of an index is the same for all lists.
#[derive(Clone, Copy)]
pub(super) struct Parts<'p> {
    pub(super) naming: &'p Naming,
    pub(super) rules: &'p AccessRules,
    pub(super) members: &'p [MemberCatalog],
    /// The place among them of what is the federation's own, which goes before all members.
    pub(super) own: Option<usize>,
    /// Names that no member can have.
    pub(super) reserved: &'p [&'p str],
}

/// An entry on its way into a list, in the order of members.
struct Candidate<'p> {
    member: usize,
    place: usize,
    item: &'p Item,
    /// What it is called without a prefix.
    base: &'p str,
    /// The rules that cover it.
    covered: RuleSet,
}

/// Why an entry is called as it is, the strongest claim first: a name behind a prefix is that of the member with this
/// prefix, whatever others call theirs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Claim {
    /// It got the prefix of its member, and has no other name to go by.
    Prefixed,
    /// Its server calls it so, with what is the prefix of its member.
    SaidSo,
    Bare,
}

impl Merged {
    /// Merges `list` of all members: of two entries with one key the earlier member's stands, for those who see it.
    pub(super) fn of(list: List, parts: Parts<'_>, report: &mut Report) -> Self {
        let candidates = candidates(list, parts);
        let claimants = claimants(list, parts, &candidates, report);
        let mut entries: BTreeMap<String, Vec<Entry>> = BTreeMap::new();
        let mut losers: BTreeMap<String, Vec<usize>> = BTreeMap::new();
        let keyed = candidates
            .iter()
            .map(|candidate| (key(list, parts, candidate, &claimants, report), candidate));
        let mut keyed: Vec<_> = keyed.collect();
        keyed.sort_by_key(|(key, candidate)| candidate.claim(list, key, parts, &claimants));
        for (key, candidate) in keyed {
            let key = match entries.get(&key) {
                Some(taken) if candidate.is_other_than(taken) => candidate.evading(list, key, parts, &mut losers),
                _ => key,
            };
            if list == List::Tools && parts.reserved.contains(&key.as_str()) {
                losers.entry(key).or_default().push(candidate.member);
                continue;
            }
            let entry = candidate.entry(list, &key, parts);
            let before = entries.entry(key).or_default();
            // A server that lists a name twice offers the first, which is no clash.
            if candidate.is_other_than(before) {
                losers.entry(entry.key.to_string()).or_default().push(candidate.member);
            }
            let seen = before.iter().fold(RuleSet::NONE, |seen, entry| seen.or(entry.covered));
            // Rules that do not name a template may cover what it stands for.
            let is_more = list == List::Templates && before.iter().all(|entry| entry.target.member != candidate.member);
            if is_more || !entry.covered.is_within(seen) {
                before.push(entry);
            }
        }
        for (key, losers) in losers {
            let winner = entries
                .get(&key)
                .and_then(|entries| entries.first())
                .map(|entry| entry.target.member);
            report.clash(list, &key, winner.into_iter().chain(losers), parts);
        }
        let entries: Vec<Entry> = entries.into_values().flatten().collect();
        let mut places = HashMap::with_capacity(entries.len());
        for (place, entry) in entries.iter().enumerate() {
            places.entry(entry.key.clone()).or_insert(place);
        }
        Self { entries, places }
    }

    /// How many keys there are.
    pub(super) fn len(&self) -> usize {
        self.places.len()
    }

    /// The place of what those for whom `rules` hold know by this key.
    pub(super) fn place(&self, key: &str, rules: RuleSet) -> Option<usize> {
        let mut of_key = self.of_key(key);
        let (place, _) = of_key.find(|(_, entry)| entry.covered.meets(rules))?;
        Some(place)
    }

    /// All that somebody knows by this key, with their places.
    pub(super) fn of_key(&self, key: &str) -> impl Iterator<Item = (usize, &Entry)> {
        let first = self.places.get(key).copied().unwrap_or(self.entries.len());
        let from_first = self.entries.iter().enumerate().skip(first);
        from_first.take_while(move |(_, entry)| *entry.key == *key)
    }

    /// Whether those for whom `rules` hold see the entry in this place.
    pub(super) fn is_seen(&self, place: usize, rules: RuleSet) -> bool {
        let entry = self.entries.get(place);
        entry.is_some_and(|entry| entry.covered.meets(rules) && self.place(&entry.key, rules) == Some(place))
    }

    /// What those for whom `rules` hold know by this key.
    pub(super) fn get(&self, key: &str, rules: RuleSet) -> Option<&Entry> {
        self.entries.get(self.place(key, rules)?)
    }

    /// What those for whom `rules` hold may see, with its place: one entry of each key.
    pub(super) fn seen_by(&self, rules: RuleSet) -> impl Iterator<Item = (usize, &Entry)> {
        let mut last = None;
        self.entries.iter().enumerate().filter(move |(_, entry)| {
            let is_seen = entry.covered.meets(rules) && last != Some(&entry.key);
            if is_seen {
                last = Some(&entry.key);
            }
            is_seen
        })
    }
}

impl Candidate<'_> {
    /// How strong its claim to `key` is.
    fn claim(&self, list: List, key: &str, parts: Parts<'_>, claimants: &BTreeMap<&str, Vec<usize>>) -> Claim {
        let member = parts.members.get(self.member).filter(|_| list.has_names());
        let owns = member.is_some_and(|member| parts.naming.without_prefix(&member.prefix, key).is_some());
        let is_prefixed = parts.naming.strategy == PrefixStrategy::Always || claimants.contains_key(self.base);
        match (owns, is_prefixed) {
            (true, true) => Claim::Prefixed,
            (true, false) => Claim::SaidSo,
            (false, _) => Claim::Bare,
        }
    }

    /// Whether `taken`, entries of one key, are others: another member's, or one that its own member knows by another name.
    fn is_other_than(&self, taken: &[Entry]) -> bool {
        let is_it = |target: &Target| target.member == self.member && target.original == self.item.key;
        taken.iter().any(|entry| !is_it(&entry.target))
    }

    /// What it is called where another member has `key`: by its prefix, where names that clash have those.
    fn evading(&self, list: List, key: String, parts: Parts<'_>, losers: &mut BTreeMap<String, Vec<usize>>) -> String {
        let member = parts.members.get(self.member).filter(|_| list.has_names());
        match member {
            Some(member) if parts.naming.strategy == PrefixStrategy::OnConflict && !member.prefix.is_empty() => {
                losers.entry(key).or_default().push(self.member);
                let full = parts.naming.prefixed(&member.prefix, self.base);
                parts.naming.fitting(full, &member.server, &self.item.key)
            }
            _ => key,
        }
    }

    fn entry(&self, list: List, key: &str, parts: Parts<'_>) -> Entry {
        let original = &self.item.key;
        let member = parts.members.get(self.member);
        let visibility = |member: &MemberCatalog| match list {
            List::Tools => member.selection.visibility_of(original),
            List::Resources | List::Templates | List::Prompts | List::Skills => Visibility::Native,
        };
        let ui = ui_of(list, self.item);
        Entry {
            key: key.into(),
            target: Target {
                member: self.member,
                original: original.clone(),
                param_headers: self.item.param_headers.clone(),
                needs_task: self.item.needs_task,
            },
            place: self.place,
            covered: self.covered,
            listed: member.is_none_or(|member| visibility(member) == Visibility::Native),
            for_models: ui.audience.model,
            page: ui.resource_uri.map(|page| page.into_owned().into()),
        }
    }
}

impl Report {
    fn clash(&mut self, list: List, name: &str, members: impl Iterator<Item = usize>, parts: Parts<'_>) {
        let names = members.filter_map(|member| Some(parts.members.get(member)?.name.clone()));
        self.clashes.push(Clash {
            list: list.member().to_owned(),
            name: printable(name, NAME_SHOWN),
            members: names.take(STATUS_LIST_MAX).collect(),
        });
    }
}

impl MemberCatalog {
    /// What is seen of the member where it is alone, if anything is.
    pub(super) fn state(&self) -> Option<(&str, &Selection, &str)> {
        let catalog = self.catalog.as_deref()?;
        Some((&self.name, &self.selection, catalog.digest()))
    }

    /// What a federation has itself, as a member of it.
    pub(super) fn of_federation(own: &OwnSkills) -> Self {
        Self {
            name: OWN.to_owned(),
            server: String::new(),
            prefix: String::new(),
            skills: SkillUris::AsTheyAre,
            selection: Arc::default(),
            catalog: Some(Arc::clone(own.catalog())),
        }
    }

    fn offers(&self, list: List, item: &Item) -> bool {
        match list {
            List::Tools => {
                self.selection.offers(&item.key) && !(self.selection.excludes_apps && ui_of(list, item).is_app())
            }
            List::Resources | List::Templates => !(self.selection.excludes_apps && apps::has_scheme(&item.key)),
            List::Prompts => true,
            List::Skills => self.skills != SkillUris::LeftOut,
        }
    }

    /// What clients call the resource or template that the member calls `uri`.
    pub(super) fn uri_for_clients<'u>(&self, uri: &'u str) -> Cow<'u, str> {
        match self.skills.prefix() {
            Some(prefix) => prefix.to_client(uri),
            None => Cow::Borrowed(uri),
        }
    }

    /// How this tool of the member is shown otherwise than its server describes it.
    pub(super) fn override_of(&self, list: List, original: &str) -> Option<&ToolOverride> {
        (list == List::Tools).then(|| self.selection.override_of(original))?
    }
}

/// What the federation itself and all members offer of `list`, and somebody may see: what no rule covers takes no name
/// from anything.
fn candidates(list: List, parts: Parts<'_>) -> Vec<Candidate<'_>> {
    let mut all = Vec::new();
    let members = || parts.members.iter().enumerate();
    let is_own = |(number, _): &(usize, &MemberCatalog)| parts.own == Some(*number);
    let own_first = members()
        .filter(is_own)
        .chain(members().filter(|member| !is_own(member)));
    for (number, member) in own_first {
        let Some(catalog) = &member.catalog else { continue };
        let offered = catalog.list(list).iter().enumerate();
        let offered = offered.filter(|(_, item)| member.offers(list, item));
        let offered = offered.filter_map(|(place, item)| {
            let covered = parts.rules.covering(&member.name, &item.key);
            let rename = member
                .override_of(list, &item.key)
                .and_then(|tool| tool.rename.as_deref());
            let is_seen = covered != RuleSet::NONE || list == List::Templates;
            is_seen.then(|| Candidate {
                member: number,
                place,
                item,
                base: rename.unwrap_or(&item.key),
                covered,
            })
        });
        let before = all.len();
        all.extend(offered);
        // Of two that the member would call alike the one that its owner named so, and not the one that is listed first.
        let own = all.get_mut(before..).unwrap_or_default();
        own.sort_by_key(|candidate| (candidate.base == candidate.item.key, &candidate.item.key));
    }
    all
}

/// Names that several members have, where those get prefixes for it: for everybody, so that a name means the same
/// whoever asks, and does not change with what somebody may see.
fn claimants<'c>(
    list: List,
    parts: Parts<'_>,
    candidates: &'c [Candidate<'_>],
    report: &mut Report,
) -> BTreeMap<&'c str, Vec<usize>> {
    if !list.has_names() || parts.naming.strategy != PrefixStrategy::OnConflict {
        return BTreeMap::new();
    }
    let mut claimants: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for candidate in candidates {
        let members = claimants.entry(candidate.base).or_default();
        if members.last() != Some(&candidate.member) {
            members.push(candidate.member);
        }
    }
    claimants.retain(|name, members| members.len() > 1 || parts.reserved.contains(name));
    for (name, members) in &claimants {
        report.clash(list, name, members.iter().copied(), parts);
    }
    claimants
}

/// What clients call an entry. URIs stay as they are, but for those of skills.
fn key(
    list: List,
    parts: Parts<'_>,
    candidate: &Candidate<'_>,
    claimants: &BTreeMap<&str, Vec<usize>>,
    report: &mut Report,
) -> String {
    let Some(member) = parts.members.get(candidate.member) else {
        return candidate.item.key.clone();
    };
    if !list.has_names() {
        return member.uri_for_clients(&candidate.item.key).into_owned();
    }
    let full = match parts.naming.strategy {
        PrefixStrategy::Always => parts.naming.prefixed(&member.prefix, candidate.base),
        PrefixStrategy::OnConflict if claimants.contains_key(candidate.base) => {
            parts.naming.prefixed(&member.prefix, candidate.base)
        }
        PrefixStrategy::OnConflict | PrefixStrategy::Never => Cow::Borrowed(candidate.base),
    };
    let original = &candidate.item.key;
    let was = full.len();
    let shown = parts.naming.fitting(full, &member.server, original);
    if shown.len() != was || candidate.base != original {
        report.renamed.push(Renamed {
            member: member.name.clone(),
            name: printable(original, NAME_SHOWN),
            shown: shown.clone(),
        });
    }
    shown
}

/// What the descriptor of a tool says of apps.
fn ui_of(list: List, item: &Item) -> ToolUi<'_> {
    let descriptor = item.raw.get();
    // Most tools say nothing, and need not be read for it.
    if list == List::Tools && descriptor.contains("\"ui") {
        ToolUi::of_tool(descriptor)
    } else {
        ToolUi::default()
    }
}

/// So many characters of the names and URIs that servers give are told.
const NAME_SHOWN: usize = 512;
/// What rules and status call what a federation has itself; no member can be called so.
const OWN: &str = "(federation)";
