//! Who looks at an index, and what the rules of its federation let them see.

use super::glob::Glob;
use crate::api::federation::AccessRule;

/// Some of a federation's rules, one bit for each: those that hold for somebody, or those that cover something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RuleSet(u64);

/// Who looks at an index, and how. Whoever is alike in this sees the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Audience {
    /// The rules that hold for them.
    pub rules: RuleSet,
    /// Whether they want to see all there is, listed otherwise or not.
    pub show_all: bool,
    /// Whether they show user interfaces.
    pub apps: bool,
}

/// What whom may see and use, made ready for asking.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AccessRules(Vec<Rule>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Rule {
    principals: Vec<Glob>,
    members: Vec<Glob>,
    names: Vec<Glob>,
}

impl RuleSet {
    /// All rules, or everything where there are none.
    pub const ALL: Self = Self(u64::MAX);
    /// No rule.
    pub const NONE: Self = Self(0);

    /// The rules that are in either.
    #[must_use]
    pub const fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether all rules are in `other` too.
    pub const fn is_within(self, other: Self) -> bool {
        self.0 & !other.0 == 0
    }

    /// Whether a rule is in both: what is covered by one set may be seen by those for whom the other holds.
    pub const fn meets(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }
}

impl Audience {
    /// Those who see what is listed for everybody.
    pub const EVERYBODY: Self = Self {
        rules: RuleSet::ALL,
        show_all: false,
        apps: true,
    };
}

impl AccessRules {
    /// What `rules` say; of more than 64, which no object can have, the first.
    pub fn read(rules: &[AccessRule]) -> Self {
        let globs = |patterns: &[String]| patterns.iter().map(|pattern| Glob::new(pattern)).collect();
        let rules = rules.iter().take(64).map(|rule| Rule {
            principals: globs(&rule.principals),
            members: globs(&rule.members),
            names: globs(&rule.names),
        });
        Self(rules.collect())
    }

    /// Whether everybody sees the same.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The rules that hold for `principal`; who has no name is meant only by rules for everyone.
    pub fn holding_for(&self, principal: Option<&str>) -> RuleSet {
        self.those(|rule| matches(&rule.principals, principal))
    }

    /// The rules that cover what `member` calls by this name or URI.
    pub fn covering(&self, member: &str, name: &str) -> RuleSet {
        self.those(|rule| matches(&rule.members, Some(member)) && matches(&rule.names, Some(name)))
    }

    /// The rules that cover anything of `member`.
    pub fn touching(&self, member: &str) -> RuleSet {
        self.those(|rule| matches(&rule.members, Some(member)))
    }

    /// Of each rule the patterns of members and of names.
    pub(super) fn patterns(&self) -> impl Iterator<Item = (&[Glob], &[Glob])> {
        self.0.iter().map(|rule| (&*rule.members, &*rule.names))
    }

    /// The patterns of principals that fit none of `names`, with the place of their rule.
    pub fn for_nobody<'r>(&'r self, names: &'r [&str]) -> impl Iterator<Item = (usize, String)> + 'r {
        let rules = self.0.iter().enumerate();
        let patterns = rules.flat_map(|(place, rule)| rule.principals.iter().map(move |glob| (place, glob)));
        let of_nobody = patterns.filter(|(_, glob)| !names.iter().any(|name| glob.matches(name)));
        of_nobody.map(|(place, glob)| (place, glob.to_string()))
    }

    fn those(&self, is_meant: impl Fn(&Rule) -> bool) -> RuleSet {
        if self.0.is_empty() {
            return RuleSet::ALL;
        }
        let bits = self.0.iter().zip(0..).filter(|(rule, _)| is_meant(rule));
        RuleSet(bits.fold(0, |set, (_, bit)| set | 1 << bit))
    }
}

/// Whether `text` is meant by `globs`, of which none means everything.
fn matches(globs: &[Glob], text: Option<&str>) -> bool {
    globs.is_empty() || text.is_some_and(|text| globs.iter().any(|glob| glob.matches(text)))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn rules(rules: Value) -> AccessRules {
        AccessRules::read(&serde_json::from_value::<Vec<AccessRule>>(rules).unwrap())
    }

    fn sees(rules: &AccessRules, who: Option<&str>, member: &str, name: &str) -> bool {
        rules.holding_for(who).meets(rules.covering(member, name))
    }

    #[test]
    fn without_rules_everybody_sees_everything() {
        let none = rules(json!([]));
        assert!(none.is_empty() && sees(&none, None, "a", "x") && sees(&none, Some("alice"), "a", "x"));
    }

    #[test]
    fn with_rules_only_what_one_for_them_covers() {
        let rules = rules(json!([
            {"principals": ["alice"]},
            {"principals": ["bob", "ci-*"], "members": ["git*"], "names": ["list_*", "get_?"]},
            {"names": ["ping"]},
        ]));
        for (who, member, name, expected) in [
            (Some("alice"), "anything", "whatever", true),
            (Some("bob"), "github", "list_repos", true),
            (Some("ci-7"), "git", "get_1", true),
            (Some("ci-7"), "git", "get_12", false),
            (Some("bob"), "kube", "list_pods", false),
            (Some("bob"), "github", "delete", false),
            (Some("carol"), "github", "list_repos", false),
            (Some("carol"), "kube", "ping", true),
            (None, "kube", "ping", true),
            (None, "github", "list_repos", false),
        ] {
            assert_eq!(sees(&rules, who, member, name), expected, "{who:?} {member} {name}");
        }
        assert!(rules.holding_for(Some("bob")).meets(rules.touching("github")));
    }
}
