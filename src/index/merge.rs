//! The index: the catalogs of a federation's members as one, names kept apart, serialised once.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use bytes::Bytes;

use super::catalog::{Catalog, Item, List};
use super::{naming, template};
use crate::api::federation::IndexStatus;
use crate::mcp::object::{self, Members, ObjectWriter};
use crate::mcp::{Era, ParamHeaders, Revision, descriptor, meta};

/// The catalog of one member, with what naming needs.
#[derive(Clone, Debug)]
pub struct MemberCatalog {
    /// The server's name, which shortened names depend on.
    pub server: String,
    /// Put before names; empty for none.
    pub prefix: String,
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
}

/// The merged view of a federation.
#[derive(Debug, Default)]
pub struct Index {
    tools: Listing,
    resources: Listing,
    templates: Listing,
    prompts: Listing,
    contributed: Vec<usize>,
}

/// One merged list, written once for each group of revisions whose clients see the same.
#[derive(Debug, Default)]
pub struct Listing {
    /// Before 2025-06-18; shared with `legacy` unless they differ.
    early: Bytes,
    legacy: Bytes,
    modern: Bytes,
    targets: HashMap<String, Target>,
}

/// An entry on its way into a list.
struct Entry {
    target: Target,
    text: String,
    era: Era,
}

impl Index {
    /// Merges `members`, which come in order: of two entries with one key the earlier member's stands.
    /// `server_info` is what the federation says of itself, as JSON.
    pub fn build(members: &[MemberCatalog], server_info: &str) -> Self {
        let merge = |list| Listing::build(list, members, server_info);
        let tools = merge(List::Tools);
        let mut contributed = vec![0; members.len()];
        for target in tools.targets.values() {
            if let Some(count) = contributed.get_mut(target.member) {
                *count += 1;
            }
        }
        Self {
            tools,
            resources: merge(List::Resources),
            templates: merge(List::Templates),
            prompts: merge(List::Prompts),
            contributed,
        }
    }

    /// One of the merged lists.
    pub fn list(&self, list: List) -> &Listing {
        match list {
            List::Tools => &self.tools,
            List::Resources => &self.resources,
            List::Templates => &self.templates,
            List::Prompts => &self.prompts,
        }
    }

    /// Whether clients of every revision see in `list` what they saw in that of `other`.
    pub fn shows_as(&self, other: &Self, list: List) -> bool {
        let (ours, theirs) = (self.list(list), other.list(list));
        Revision::ALL
            .into_iter()
            .all(|revision| ours.result(revision) == theirs.result(revision))
    }

    /// Who owns the resource `uri`: the member that lists it, else the one whose template it fits.
    pub fn resource(&self, uri: &str) -> Option<Target> {
        if let Some(target) = self.resources.target(uri) {
            return Some(target.clone());
        }
        let fitting = self
            .templates
            .targets
            .iter()
            .filter(|(template, _)| template::matches(template, uri));
        let (_, owner) = fitting.min_by_key(|(template, target)| (target.member, *template))?;
        Some(Target {
            member: owner.member,
            original: uri.to_owned(),
            param_headers: None,
        })
    }

    /// How many tools the member in this place contributes.
    pub fn tools_of(&self, member: usize) -> usize {
        self.contributed.get(member).copied().unwrap_or(0)
    }

    /// The index in numbers.
    pub fn status(&self) -> IndexStatus {
        let count = |listing: &Listing| i64::try_from(listing.targets.len()).unwrap_or(i64::MAX);
        IndexStatus {
            tools: count(&self.tools),
            resources: count(&self.resources),
            templates: count(&self.templates),
            prompts: count(&self.prompts),
        }
    }
}

impl Listing {
    /// The whole result of the list method for a client of `revision`, as JSON.
    pub fn result(&self, revision: Revision) -> &Bytes {
        match revision {
            Revision::V2024_11_05 | Revision::V2025_03_26 => &self.early,
            Revision::V2025_06_18 | Revision::V2025_11_25 => &self.legacy,
            Revision::V2026_07_28 => &self.modern,
        }
    }

    /// Who owns `key`.
    pub fn target(&self, key: &str) -> Option<&Target> {
        self.targets.get(key)
    }

    fn build(list: List, members: &[MemberCatalog], server_info: &str) -> Self {
        let mut entries: BTreeMap<String, Entry> = BTreeMap::new();
        for (place, member) in members.iter().enumerate() {
            let Some(catalog) = &member.catalog else { continue };
            for item in catalog.list(list) {
                let (key, text) = advertise(list, member, item);
                let target = Target {
                    member: place,
                    original: item.key.clone(),
                    param_headers: item.param_headers.clone(),
                };
                let era = catalog.era;
                entries.entry(key).or_insert(Entry { target, text, era });
            }
        }
        let legacy = list_result(list, &items(list, &entries, Revision::LATEST_LEGACY), None);
        let early = list_result(list, &items(list, &entries, Revision::V2024_11_05), None);
        Self {
            early: if early == legacy { legacy.clone() } else { early },
            legacy,
            modern: list_result(list, &items(list, &entries, Revision::LATEST), Some(server_info)),
            targets: entries.into_iter().map(|(key, entry)| (key, entry.target)).collect(),
        }
    }
}

/// The entries for a client of revision `to`, as a JSON array.
fn items(list: List, entries: &BTreeMap<String, Entry>, to: Revision) -> String {
    let texts = entries.values().map(|entry| match list {
        List::Tools => descriptor::tool(&entry.text, entry.era, to),
        List::Resources | List::Templates | List::Prompts => Cow::Borrowed(entry.text.as_str()),
    });
    format!("[{}]", texts.collect::<Vec<_>>().join(","))
}

/// The key and the text of an entry as clients see it. URIs stay as they are.
fn advertise(list: List, member: &MemberCatalog, item: &Item) -> (String, String) {
    let text = item.raw.get();
    if list.key() != "name" {
        return (item.key.clone(), text.to_owned());
    }
    let name = naming::advertised(&member.prefix, &member.server, &item.key);
    let renamed = Members::parse(text).and_then(|members| {
        let mut json = Vec::with_capacity(name.len() + 2);
        object::write_string(&mut json, &name);
        Some(object::replace_value(
            text,
            members.get("name")?,
            std::str::from_utf8(&json).ok()?,
        ))
    });
    (name, renamed.unwrap_or_else(|| text.to_owned()))
}

/// The result of a list method; Modern results say how long they hold and who answers (2026-07-28, caching).
fn list_result(list: List, items: &str, modern: Option<&str>) -> Bytes {
    let mut out = Vec::with_capacity(items.len() + 192);
    let mut result = ObjectWriter::open(&mut out);
    if modern.is_some() {
        result.string("resultType", "complete");
    }
    result.member(list.member(), items);
    if let Some(server_info) = modern {
        result.member("ttlMs", "0");
        result.string("cacheScope", "public");
        let mut own = ObjectWriter::open(result.name("_meta"));
        own.member(meta::SERVER_INFO, server_info);
        own.close();
    }
    result.close();
    Bytes::from(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn member(prefix: &str, tools: &[Value]) -> MemberCatalog {
        let item = |tool: &Value| Item::read(List::Tools, serde_json::value::to_raw_value(tool).unwrap()).unwrap();
        let mut catalog = Catalog::new(Era::Legacy);
        catalog.tools = tools.iter().map(item).collect();
        MemberCatalog {
            server: format!("server-{prefix}"),
            prefix: prefix.into(),
            catalog: Some(Arc::new(catalog)),
        }
    }

    fn tools(index: &Index, revision: Revision) -> Value {
        serde_json::from_slice(index.list(List::Tools).result(revision)).unwrap()
    }

    #[test]
    fn names_are_prefixed_sorted_and_lead_back_to_their_owner() {
        let index = Index::build(
            &[
                member("b", &[json!({"name": "x"})]),
                member("a", &[json!({"name": "x"})]),
            ],
            "{}",
        );
        assert_eq!(
            tools(&index, Revision::LATEST_LEGACY),
            json!({"tools": [{"name": "a__x"}, {"name": "b__x"}]})
        );
        let target = index.list(List::Tools).target("a__x").unwrap();
        assert_eq!(
            *target,
            Target {
                member: 1,
                original: "x".into(),
                param_headers: None,
            }
        );
        assert_eq!(index.list(List::Tools).target("x"), None);
        assert_eq!((index.tools_of(0), index.tools_of(1)), (1, 1));
    }

    #[test]
    fn everything_but_the_name_stays_value_for_value() {
        let odd = json!({"name": "x", "inputSchema": {"name": "x"}, "future": {"a": [1, null]}, "_meta": {"k": 1.0}});
        let index = Index::build(&[member("p", std::slice::from_ref(&odd))], "{}");
        let mut expected = odd;
        expected["name"] = json!("p__x");
        assert_eq!(tools(&index, Revision::LATEST)["tools"], json!([expected]));
    }

    #[test]
    fn of_two_equal_names_the_first_member_wins() {
        let members = [
            member("", &[json!({"name": "x", "from": 1})]),
            member("", &[json!({"name": "x", "from": 2})]),
        ];
        let index = Index::build(&members, "{}");
        assert_eq!(
            tools(&index, Revision::LATEST_LEGACY),
            json!({"tools": [{"name": "x", "from": 1}]})
        );
        assert_eq!((index.tools_of(0), index.tools_of(1)), (1, 0));
    }

    #[test]
    fn a_federation_without_members_lists_empty_arrays() {
        let index = Index::build(&[], r#"{"name":"f"}"#);
        for list in List::ALL {
            let legacy: Value = serde_json::from_slice(index.list(list).result(Revision::LATEST_LEGACY)).unwrap();
            assert_eq!(legacy, json!({list.member(): []}));
            let modern: Value = serde_json::from_slice(index.list(list).result(Revision::LATEST)).unwrap();
            assert_eq!(modern["ttlMs"], 0);
            assert_eq!(modern["_meta"][meta::SERVER_INFO]["name"], "f");
        }
    }

    #[test]
    fn each_revision_gets_the_tools_it_can_read_and_equal_lists_are_kept_once() {
        let plain = json!({"name": "x"});
        let index = Index::build(&[member("", std::slice::from_ref(&plain))], "{}");
        let bytes = |index: &Index, revision| index.list(List::Tools).result(revision).as_ptr();
        assert_eq!(
            bytes(&index, Revision::V2025_03_26),
            bytes(&index, Revision::V2025_06_18),
            "shared"
        );

        let tool = json!({
            "name": "x", "outputSchema": {"type": "object"}, "execution": {"taskSupport": "optional"},
        });
        let array = json!({"name": "y", "outputSchema": {"type": "array"}});
        let index = Index::build(&[member("", &[tool.clone(), array.clone()])], "{}");
        let listed = |revision| tools(&index, revision)["tools"].take();
        let early = json!([{"name": "x", "execution": {"taskSupport": "optional"}}, {"name": "y"}]);
        assert_eq!(listed(Revision::V2024_11_05), early);
        assert_eq!(listed(Revision::V2025_03_26), early);
        let legacy = json!([tool, {"name": "y"}]);
        assert_eq!(listed(Revision::V2025_06_18), legacy);
        assert_eq!(listed(Revision::V2025_11_25), legacy);
        let modern = json!([{"name": "x", "outputSchema": {"type": "object"}}, array]);
        assert_eq!(listed(Revision::V2026_07_28), modern);
    }
}
