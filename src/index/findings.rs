//! What `tool_search` gives: tools of an index that fit a query, and those that members found themselves.

mod answered;

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use serde_json::Value;
use serde_json::value::RawValue;

use super::search::{self, Query, Searchable};
use super::view::Line;
use super::{Audience, Index, List, MemberCatalog, MetaTool, Selection, Target};
use crate::defaults;
use crate::mcp::Revision;
use crate::mcp::apps::ToolUi;
use crate::mcp::object::{Members, ObjectWriter};
use crate::mcp::printable::{acts_on_the_line, one_line};
use answered::Answered;
pub use answered::Unreadable;

/// A tool that was found, as it is told.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    /// The name under which clients call it.
    pub name: String,
    /// How well it fits.
    pub score: f64,
    json: String,
}

/// A tool that no list has, and that its member runs by its own `execute_tool`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delegated {
    /// The member, by its place in the federation.
    pub member: usize,
    /// The tool's name as the member knows it.
    pub original: String,
}

/// The tools of an index, made ready for searching.
#[derive(Debug)]
pub(super) struct Findable {
    /// The place of its entry.
    place: usize,
    tool: Searchable,
}

/// What an index knows of the tools of each member, by their places and by the names that they have there.
pub(super) type Standings = Box<[HashMap<Box<str>, Standing>]>;

/// What an index knows of a tool of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// It is in this place.
    Offered(usize),
    /// The member has it, and it is not offered.
    Withheld,
    Unknown,
}

impl Index {
    /// The best `limit` tools for `query` of those that `audience` may use and that are for models, listed or not, as a
    /// client of `revision` is told of them.
    pub fn find(&self, query: &Query, limit: usize, audience: Audience, revision: Revision) -> Vec<Finding> {
        let tools = self.merged(List::Tools);
        let may_use = |findable: &&Findable| tools.is_seen(findable.place, audience.rules);
        let findable = self.findable().iter().filter(may_use).map(|findable| &findable.tool);
        let hits = search::best(findable, query, limit);
        let found = hits.iter().filter_map(|hit| {
            let place = tools.place(hit.tool.name(), audience.rules)?;
            self.finding(place, hit.score, revision)
        });
        found.collect()
    }

    /// The members whose own search is asked for `audience`.
    pub fn searching_members(&self, audience: Audience) -> impl Iterator<Item = usize> {
        let members = self.members.iter().enumerate();
        let asked = members.filter(move |(_, member)| {
            member.selection.searches_remotely && self.rules().touching(&member.name).meets(audience.rules)
        });
        asked.map(|(place, _)| place)
    }

    /// The first `limit` tools, of the first [`defaults::SEARCH_ROWS_MAX`], in the `result` that the search of the member
    /// in this place gave, as clients know them and as far as `audience` may use them. Those without a score come after
    /// those with one, in their order.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn found_by(
        &self,
        member: usize,
        result: &str,
        limit: usize,
        audience: Audience,
        revision: Revision,
    ) -> Result<Vec<Finding>, Unreadable> {
        let answered = Answered::parse(result)?;
        let rows = answered.rows()?.into_iter().take(defaults::SEARCH_ROWS_MAX);
        let rows: Vec<Members<'_>> = rows.filter_map(|row| Members::parse(row.get())).collect();
        let lowest = rows.iter().filter_map(score).fold(UNSCORED, f64::min);
        let found = rows.iter().enumerate().filter_map(|(place, row)| {
            let score = score(row).unwrap_or_else(|| score_by_place(place, lowest));
            self.found_remotely(member, row, score, audience, revision)
        });
        Ok(found.take(limit).collect())
    }

    /// Who owns the tool that `audience` calls `name`, if it is for models.
    pub fn target_for_models(&self, name: &str, audience: Audience) -> Option<&Target> {
        let entry = self.merged(List::Tools).get(name, audience.rules)?;
        entry.for_models.then_some(&entry.target)
    }

    /// The member under whose prefix `name` is that no list has, if its own search may have told of it.
    pub fn delegated(&self, name: &str, audience: Audience) -> Option<Delegated> {
        let members = self.members.iter().enumerate();
        let claims = members.filter_map(|(place, member)| {
            let shown = match member.prefix.as_str() {
                "" => member.selection.searches_remotely.then_some(name),
                prefix => self.plan.naming.without_prefix(prefix, name),
            };
            Some((place, member, shown.filter(|shown| !shown.is_empty())?))
        });
        // Of the longest prefixes that fit the first member's.
        let (place, member, shown) = claims.min_by_key(|(_, member, _)| usize::MAX - member.prefix.len())?;
        let original = member.selection.original_of(shown)?;
        self.delegates(place, member, original, audience).then(|| Delegated {
            member: place,
            original: original.to_owned(),
        })
    }

    /// Whether the `result` that the member's own search gave when it was asked for `delegated` has that tool, and nothing
    /// against its being run by name.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn is_found(&self, delegated: &Delegated, result: &str) -> Result<bool, Unreadable> {
        let Some(member) = self.members.get(delegated.member) else {
            return Ok(false);
        };
        let answered = Answered::parse(result)?;
        let rows = answered.rows()?.into_iter().filter_map(|row| Members::parse(row.get()));
        let named = rows.filter(|row| row.string("name").is_some_and(|name| name == delegated.original));
        let mut named = named.map(|row| is_for_models(&member.selection, &row)).peekable();
        Ok(named.peek().is_some() && named.all(|is_for_models| is_for_models))
    }

    /// Whether the member in this place runs the tool that it calls `original`, and that no list has, for `audience`.
    fn delegates(&self, place: usize, member: &MemberCatalog, original: &str, audience: Audience) -> bool {
        member.selection.searches_remotely
            && can_be_a_name(original)
            && member.selection.offers(original)
            && self.covering(place, original).meets(audience.rules)
            && self.standing(place, original) == Standing::Unknown
    }

    fn findable(&self) -> &[Findable] {
        self.findable.get_or_init(|| {
            let entries = self.merged(List::Tools).entries.iter().enumerate();
            let findable = entries
                .filter(|(_, entry)| entry.for_models)
                .filter_map(|(place, entry)| {
                    let (member, _, item) = self.item(List::Tools, entry)?;
                    let tool = Members::parse(item.raw.get()).unwrap_or_default();
                    let description = description(&member.selection, &item.key, &tool);
                    let tool = Searchable::new(&entry.key, &description, keywords(member, &item.key));
                    Some(Findable { place, tool })
                });
            findable.collect()
        })
    }

    /// The tool in this place of the list, found with this score.
    fn finding(&self, place: usize, score: f64, revision: Revision) -> Option<Finding> {
        let entry = self.merged(List::Tools).entries.get(place)?;
        let (member, _, item) = self.item(List::Tools, entry)?;
        let described = self.described(List::Tools, Line::Entry(place), revision);
        let tool = Members::parse(&described).unwrap_or_default();
        let keywords: Value = keywords(member, &item.key).collect();
        Some(Finding::new(
            &entry.key,
            score,
            &Told {
                description: description(&member.selection, &item.key, &tool),
                schema: tool.get("inputSchema"),
                keywords: Some(&keywords.to_string()),
                meta: tool.get("_meta"),
                icons: tool.get("icons"),
            },
        ))
    }

    /// One row of what a member's own search gave.
    fn found_remotely(
        &self,
        place: usize,
        row: &Members<'_>,
        score: f64,
        audience: Audience,
        revision: Revision,
    ) -> Option<Finding> {
        let member = self.members.get(place)?;
        let original = row.string("name").filter(|name| !name.is_empty())?;
        if let Standing::Offered(place) = self.standing(place, &original) {
            let tools = self.merged(List::Tools);
            let is_seen = tools.entries.get(place)?.for_models && tools.is_seen(place, audience.rules);
            return is_seen.then(|| self.finding(place, score, revision))?;
        }
        if !self.delegates(place, member, &original, audience) || !is_for_models(&member.selection, row) {
            return None;
        }
        let selection = &member.selection;
        // It is told to be called, not listed, so that it may be longer than names in lists.
        let name = self.plan.naming.prefixed(&member.prefix, selection.shown_as(&original));
        let is_anothers =
            self.merged(List::Tools).get(&name, audience.rules).is_some() || MetaTool::of_name(&name).is_some();
        let keywords = row.get("keywords").filter(|keywords| keywords.get().starts_with('['));
        (!is_anothers).then(|| {
            Finding::new(
                &name,
                score,
                &Told {
                    description: description(selection, &original, row),
                    schema: object_of(row, "inputSchema").or_else(|| object_of(row, OLD_SCHEMA)),
                    keywords: keywords.map(RawValue::get),
                    meta: object_of(row, "_meta"),
                    icons: row.get("icons").filter(|icons| icons.get().starts_with('[')),
                },
            )
        })
    }

    fn standing(&self, member: usize, original: &str) -> Standing {
        let standing = self.standings().get(member).and_then(|known| known.get(original));
        standing.copied().unwrap_or(Standing::Unknown)
    }

    fn standings(&self) -> &[HashMap<Box<str>, Standing>] {
        self.standings.get_or_init(|| {
            let withheld = self.members.iter().map(withheld_by_name);
            let mut standings: Standings = withheld.collect();
            // Of several entries of one tool the first stands.
            for (place, entry) in self.merged(List::Tools).entries.iter().enumerate().rev() {
                if let Some(known) = standings.get_mut(entry.target.member) {
                    known.insert(entry.target.original.as_str().into(), Standing::Offered(place));
                }
            }
            standings
        })
    }
}

/// All tools that `member` has, as if none were offered.
fn withheld_by_name(member: &MemberCatalog) -> HashMap<Box<str>, Standing> {
    let Some(catalog) = member.catalog.as_deref() else {
        return HashMap::new();
    };
    let withheld = catalog.withheld.iter().filter(|entry| entry.list == List::Tools);
    let names = withheld.map(|entry| entry.name.as_str());
    let names = names.chain(catalog.tools.iter().map(|tool| &*tool.key));
    names.map(|name| (name.into(), Standing::Withheld)).collect()
}

/// The best `limit` of what was found in several places, in the order of results: of two with one name the first stands.
pub fn merged(findings: impl IntoIterator<Item = Finding>, limit: usize) -> Vec<Finding> {
    let mut seen = HashSet::new();
    let findings = findings.into_iter().filter(|finding| seen.insert(finding.name.clone()));
    let mut findings: Vec<Finding> = findings.collect();
    findings.sort_by(|a, b| search::order((a.score, &a.name), (b.score, &b.name)));
    findings.truncate(limit);
    findings
}

/// What is told of `findings`: a JSON array of them or, where there are none, a sentence.
pub fn told(findings: &[Finding]) -> String {
    if findings.is_empty() {
        return NOTHING.to_owned();
    }
    let rows: Vec<&str> = findings.iter().map(|finding| finding.json.as_str()).collect();
    format!("[{}]", rows.join(","))
}

/// How well the member says that this row fits.
fn score(row: &Members<'_>) -> Option<f64> {
    let score: f64 = row.get("score")?.get().parse().ok()?;
    Some(score.clamp(0.0, 1.0))
}

/// The score of the row in this place of which the member does not say how well it fits: below `lowest`, and below those
/// before it.
fn score_by_place(place: usize, lowest: f64) -> f64 {
    let parts = defaults::SEARCH_ROWS_MAX + 1;
    #[allow(clippy::cast_precision_loss, reason = "they are few")]
    let part = parts.saturating_sub(place + 1) as f64 / parts as f64;
    (lowest * part * 1e6).round() / 1e6
}

/// Whether a tool that a member found may be told to models, and run for them by its name.
fn is_for_models(selection: &Selection, row: &Members<'_>) -> bool {
    let meta = object_of(row, "_meta");
    let ui = meta.map_or_else(ToolUi::default, |meta| ToolUi::of_meta(meta.get()));
    ui.audience.model && !(selection.excludes_apps && ui.is_app())
}

/// Whether a tool can be called so at all.
fn can_be_a_name(name: &str) -> bool {
    name.len() <= defaults::TOOL_NAME_MAX && !name.chars().any(acts_on_the_line)
}

/// What is told of a tool beside its name and score.
struct Told<'t> {
    description: String,
    schema: Option<&'t RawValue>,
    keywords: Option<&'t str>,
    meta: Option<&'t RawValue>,
    icons: Option<&'t RawValue>,
}

impl Finding {
    fn new(name: &str, score: f64, told: &Told<'_>) -> Self {
        let mut out = Vec::new();
        let mut row = ObjectWriter::open(&mut out);
        row.string("name", name);
        row.string("description", &told.description);
        row.member("score", &Value::from(score).to_string());
        for (member, json) in [
            ("inputSchema", told.schema.map(RawValue::get)),
            ("keywords", told.keywords),
            ("_meta", told.meta.map(RawValue::get)),
            ("icons", told.icons.map(RawValue::get)),
        ] {
            if let Some(json) = json {
                row.member(member, json);
            }
        }
        row.close();
        Self {
            name: name.to_owned(),
            score,
            json: String::from_utf8_lossy(&out).into_owned(),
        }
    }
}

/// The words that find a tool of `member`, beside its own.
fn keywords<'m>(member: &'m MemberCatalog, original: &str) -> impl Iterator<Item = &'m str> {
    let prefix = Some(member.prefix.as_str()).filter(|prefix| !prefix.is_empty());
    prefix
        .into_iter()
        .chain([REMOTE])
        .chain(member.selection.keywords_of(original))
}

/// What is said of a tool, on one line.
fn description(selection: &Selection, original: &str, tool: &Members<'_>) -> String {
    let ours = selection
        .override_of(original)
        .and_then(|ours| ours.description.as_deref());
    let said = ours.map(Cow::Borrowed).or_else(|| tool.string("description"));
    one_line(&said.unwrap_or_default(), usize::MAX)
}

fn object_of<'r>(row: &Members<'r>, member: &str) -> Option<&'r RawValue> {
    row.get(member).filter(|value| value.get().starts_with('{'))
}

/// A tool that fits, nobody says how well, is found like one that has a word somewhere in its description.
const UNSCORED: f64 = 0.5;
/// What earlier servers call a tool's input schema in what they found.
const OLD_SCHEMA: &str = "input_schema";
/// Finds all tools that are somebody else's.
const REMOTE: &str = "remote";
const NOTHING: &str =
    "No tool was found. Try other words, fewer of them, or none at all, which lists the first of all tools.";

#[cfg(test)]
mod tests;
