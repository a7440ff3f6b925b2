use serde_json::{Value, json};

use super::*;
use crate::api::federation;
use crate::mcp::Era;

mod alone;
mod apps;
mod lists;
mod naming;
mod resources;
mod rules;
mod skills;

fn tool(value: &Value) -> Item {
    Item::read(List::Tools, serde_json::from_str(&value.to_string()).unwrap()).unwrap()
}

fn member(prefix: &str, tools: &[Value]) -> MemberCatalog {
    offering(prefix, json!({}), tools)
}

/// A member of which its manifest says this.
fn offering(prefix: &str, mut said: Value, tools: &[Value]) -> MemberCatalog {
    let mut catalog = Catalog::new(Era::Legacy);
    catalog.tools = tools.iter().map(tool).collect();
    said["name"] = json!(prefix);
    MemberCatalog {
        name: format!("member-{prefix}"),
        server: format!("server-{prefix}"),
        prefix: prefix.into(),
        skills: SkillPrefix::new(prefix).ok().into(),
        selection: Arc::new(Selection::of(&serde_json::from_value(said).unwrap())),
        catalog: Some(Arc::new(catalog.sealed())),
    }
}

fn named(names: &[&str]) -> Vec<Value> {
    names.iter().map(|name| json!({"name": name})).collect()
}

fn build(members: Vec<MemberCatalog>) -> Index {
    Index::build(IndexPlan::default(), members)
}

fn with_naming(naming: Value, members: Vec<MemberCatalog>) -> Index {
    let naming: federation::Naming = serde_json::from_value(naming).unwrap();
    let plan = IndexPlan {
        naming: Naming::of(Some(&naming)),
        ..IndexPlan::default()
    };
    Index::build(plan, members)
}

fn seen(index: &Index, audience: Audience, list: List, revision: Revision) -> Value {
    let view = index.view(audience);
    let page = index.page(&view, list, revision, None, 0);
    assert_eq!(page.last, None);
    serde_json::from_str(&format!("[{}]", String::from_utf8_lossy(page.items))).unwrap()
}

fn tools(index: &Index, revision: Revision) -> Value {
    seen(index, Audience::EVERYBODY, List::Tools, revision)
}

fn names(index: &Index, audience: Audience) -> Vec<String> {
    let tools = seen(index, audience, List::Tools, Revision::LATEST);
    let names = tools.as_array().unwrap().iter();
    names.map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
}

fn owner(index: &Index, name: &str) -> Option<(usize, String)> {
    let target = index.target(List::Tools, name, Audience::EVERYBODY)?;
    Some((target.member, target.original.clone()))
}

/// What `who` sees of an index whose federation has these rules.
fn ruled(rules: Value, naming: Value, members: Vec<MemberCatalog>) -> (Index, impl Fn(&Index, &str) -> Audience) {
    let naming: federation::Naming = serde_json::from_value(naming).unwrap();
    let plan = IndexPlan {
        naming: Naming::of(Some(&naming)),
        rules: AccessRules::read(&serde_json::from_value::<Vec<_>>(rules).unwrap()),
        ..IndexPlan::default()
    };
    let audience = |index: &Index, who: &str| Audience {
        rules: index.rules().holding_for(Some(who)),
        ..Audience::EVERYBODY
    };
    (Index::build(plan, members), audience)
}
