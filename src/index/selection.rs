//! What of a member is offered, and how it is shown.

use std::collections::HashMap;

use super::glob::Glob;
use super::meta_tool::MetaTool;
use crate::api::federation::{Member, ToolOverride, Visibility};

/// What of a member is offered, made ready for asking.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    allow: Vec<Glob>,
    deny: Vec<Glob>,
    overrides: HashMap<String, ToolOverride>,
    visibility: Visibility,
    keywords: Vec<String>,
    /// Whether tools with a user interface, and the resources that it is made of, are left out.
    pub excludes_apps: bool,
    /// Whether the member is asked to search too, and to run what it finds.
    pub searches_remotely: bool,
}

impl Selection {
    /// What `member` says.
    pub fn of(member: &Member) -> Self {
        let globs = |patterns: &[String]| patterns.iter().map(|pattern| Glob::new(pattern)).collect();
        let tools = member.tools.clone().unwrap_or_default();
        Self {
            allow: globs(&tools.allow),
            deny: globs(&tools.deny),
            overrides: tools
                .overrides
                .into_iter()
                .map(|tool| (tool.name.clone(), tool))
                .collect(),
            visibility: member.visibility.unwrap_or_default(),
            keywords: member.keywords.clone(),
            excludes_apps: member.exclude_apps,
            searches_remotely: member.remote_search,
        }
    }

    /// The same without other names for tools.
    #[must_use]
    pub fn under_original_names(&self) -> Self {
        let mut own = self.clone();
        for tool in own.overrides.values_mut() {
            tool.rename = None;
        }
        own
    }

    /// Whether the tool of this original name is offered.
    pub fn offers(&self, tool: &str) -> bool {
        let is_meant = |globs: &[Glob]| globs.iter().any(|glob| glob.matches(tool));
        // Its search and what runs tools by name would lead past what is denied here.
        let is_asked_otherwise = self.searches_remotely && MetaTool::of_name(tool).is_some();
        (self.allow.is_empty() || is_meant(&self.allow)) && !is_meant(&self.deny) && !is_asked_otherwise
    }

    /// How the tool of this original name is shown otherwise than its server describes it.
    pub fn override_of(&self, tool: &str) -> Option<&ToolOverride> {
        self.overrides.get(tool)
    }

    /// Whether the tool of this original name is listed.
    pub fn visibility_of(&self, tool: &str) -> Visibility {
        let own = self.override_of(tool).and_then(|tool| tool.visibility);
        own.unwrap_or(self.visibility)
    }

    /// What the tool of this original name is called, but for a prefix.
    pub fn shown_as<'t>(&'t self, tool: &'t str) -> &'t str {
        let own = self.override_of(tool).and_then(|tool| tool.rename.as_deref());
        own.unwrap_or(tool)
    }

    /// The original name of the tool that is called this, but for a prefix. `None` for the name of one that is called
    /// otherwise.
    pub fn original_of<'t>(&'t self, shown: &'t str) -> Option<&'t str> {
        let mut overrides = self.overrides.values();
        match overrides.find(|tool| tool.rename.as_deref() == Some(shown)) {
            Some(tool) => Some(&tool.name),
            None => (self.shown_as(shown) == shown).then_some(shown),
        }
    }

    /// Whether the member may have tools that are not listed, whatever its list says now.
    pub fn may_have_unlisted(&self) -> bool {
        self.visibility == Visibility::Discoverable || self.searches_remotely
    }

    /// What it says of tools of which `names` has none, in words.
    pub(super) fn unmatched<'s>(&'s self, names: &'s [&str]) -> impl Iterator<Item = String> + 's {
        let filters = [("allow", &self.allow), ("deny", &self.deny)].into_iter();
        let filters = filters.flat_map(|(field, globs)| globs.iter().map(move |glob| (field, glob)));
        let filters = filters.filter(|(_, glob)| !names.iter().any(|name| glob.matches(name)));
        let filters =
            filters.map(|(field, glob)| format!("tools.{field} {:?}, which matches no tool", glob.to_string()));
        let mut overrides: Vec<_> = self.overrides.keys().collect();
        overrides.sort_unstable();
        let overrides = overrides.into_iter().filter(|name| !names.contains(&name.as_str()));
        filters.chain(overrides.map(|name| format!("tools.overrides of {name:?}, which its server does not list")))
    }

    /// The words that find the tool of this original name, beside its own.
    pub fn keywords_of<'s>(&'s self, tool: &str) -> impl Iterator<Item = &'s str> {
        let own = self.override_of(tool).into_iter().flat_map(|tool| &tool.keywords);
        self.keywords.iter().chain(own).map(String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn selection(mut member: Value) -> Selection {
        member["name"] = json!("m");
        Selection::of(&serde_json::from_value(member).unwrap())
    }

    #[test]
    fn what_is_denied_goes_before_what_is_allowed_and_all_is_allowed_by_omission() {
        let all = selection(json!({}));
        assert!(all.offers("anything"));
        let some = selection(json!({"tools": {"allow": ["list_*", "logs"], "deny": ["*_secrets"]}}));
        for (tool, expected) in [
            ("logs", true),
            ("list_pods", true),
            ("list_secrets", false),
            ("restart", false),
            ("m__logs", false),
        ] {
            assert_eq!(some.offers(tool), expected, "{tool}");
        }
    }

    #[test]
    fn what_is_said_of_a_tool_goes_before_what_is_said_of_its_member() {
        let selection = selection(json!({
            "visibility": "Discoverable",
            "keywords": ["ops"],
            "tools": {"overrides": [{"name": "logs", "visibility": "Native", "keywords": ["tail"]}]},
        }));
        assert_eq!(selection.visibility_of("logs"), Visibility::Native);
        assert_eq!(selection.visibility_of("exec"), Visibility::Discoverable);
        assert_eq!(selection.keywords_of("logs").collect::<Vec<_>>(), ["ops", "tail"]);
        assert_eq!(selection.keywords_of("exec").collect::<Vec<_>>(), ["ops"]);
    }
}
