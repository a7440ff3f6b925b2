//! What a server declares that it can do.

use serde_json::Value;

use crate::index::{List, skills};
use crate::mcp::{Revision, task};

/// What a server declares that it can do, as far as it matters here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Capabilities {
    /// Tools.
    pub tools: Offer,
    /// Resources and their templates.
    pub resources: Offer,
    /// Prompts.
    pub prompts: Offer,
    /// It tells when a single resource changes, to whoever subscribes to it.
    pub subscribe: bool,
    /// It writes log messages, and lets their level be set.
    pub logging: bool,
    /// It completes arguments.
    pub completions: bool,
    /// It serves skills, by the extension, in either era.
    pub skills: Skills,
    /// It makes tasks of calls: a Modern server by the extension, one of 2025-11-25 where it is asked to.
    pub tasks: bool,
}

/// What a server declares of skills (Skills extension).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Skills {
    /// Nothing.
    #[default]
    None,
    /// It lists them.
    Listed,
    /// And it lists what is in their directories.
    WithDirectories,
}

/// What a server declares of one kind of list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Offer {
    /// Nothing.
    #[default]
    None,
    /// It has such lists, and does not tell when they change.
    Silent,
    /// It has such lists, and tells when they change.
    Announced,
}

impl Capabilities {
    /// Of a server that was not asked: everything may be there, and nothing is promised.
    pub const UNKNOWN: Self = Self {
        tools: Offer::Silent,
        resources: Offer::Silent,
        prompts: Offer::Silent,
        subscribe: false,
        logging: false,
        completions: true,
        skills: Skills::None,
        tasks: false,
    };

    /// Those in `capabilities`, as a server of `revision` wrote them. What is malformed counts as not declared.
    pub(crate) fn read(capabilities: Option<&Value>, revision: Revision) -> Self {
        let object = |name: &str| capabilities?.get(name).filter(|own| own.is_object());
        let offer = |list: List| match list.capability().and_then(object) {
            None => Offer::None,
            Some(own) if is_true(own, "listChanged") => Offer::Announced,
            Some(_) => Offer::Silent,
        };
        Self {
            tools: offer(List::Tools),
            resources: offer(List::Resources),
            prompts: offer(List::Prompts),
            subscribe: object("resources").is_some_and(|own| is_true(own, "subscribe")),
            logging: object("logging").is_some(),
            // The first revision has the method and no word for it (2024-11-05, completion).
            completions: object("completions").is_some() || revision == Revision::V2024_11_05,
            skills: Skills::read(object("extensions")),
            tasks: match revision {
                Revision::V2026_07_28 => has(object("extensions"), &[task::EXTENSION]),
                Revision::V2025_11_25 => has(object("tasks"), &["requests", "tools", "call"]),
                Revision::V2024_11_05 | Revision::V2025_03_26 | Revision::V2025_06_18 => false,
            },
        }
    }

    /// What is declared of `list`.
    pub fn offer(&self, list: List) -> Offer {
        match list {
            List::Tools => self.tools,
            List::Resources | List::Templates => self.resources,
            List::Prompts => self.prompts,
            List::Skills if self.skills == Skills::None => Offer::None,
            // That they have changed is told as a change of resources.
            List::Skills => Offer::Silent,
        }
    }
}

impl Skills {
    fn read(extensions: Option<&Value>) -> Self {
        match extensions.and_then(|all| all.get(skills::EXTENSION)) {
            Some(own) if own.is_object() && is_true(own, "directoryRead") => Self::WithDirectories,
            Some(own) if own.is_object() => Self::Listed,
            _ => Self::None,
        }
    }
}

/// Whether `object` has an object at the end of this path.
fn has(object: Option<&Value>, path: &[&str]) -> bool {
    let end = path.iter().try_fold(object, |object, name| object?.get(name).map(Some));
    end.flatten().is_some_and(Value::is_object)
}

fn is_true(object: &Value, name: &str) -> bool {
    object.get(name) == Some(&Value::Bool(true))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_declared_counts_and_what_is_malformed_does_not() {
        let declared = json!({
            "tools": {"listChanged": true}, "resources": {"subscribe": true, "listChanged": "yes"},
            "prompts": true, "logging": {}, "experimental": {},
        });
        let capabilities = Capabilities::read(Some(&declared), Revision::V2025_06_18);
        let expected = Capabilities {
            tools: Offer::Announced,
            resources: Offer::Silent,
            prompts: Offer::None,
            subscribe: true,
            logging: true,
            completions: false,
            skills: Skills::None,
            tasks: false,
        };
        assert_eq!(capabilities, expected);
        assert_eq!(capabilities.offer(List::Templates), Offer::Silent);
        assert_eq!(Capabilities::read(None, Revision::LATEST), Capabilities::default());
    }

    #[test]
    fn each_revision_has_its_own_word_for_tasks() {
        let core = json!({"tasks": {"list": {}, "requests": {"tools": {"call": {}}}}});
        let extension = json!({"extensions": {"io.modelcontextprotocol/tasks": {}}});
        let read = |declared: &Value| Revision::ALL.map(|it| Capabilities::read(Some(declared), it).tasks);
        assert_eq!(read(&core), Revision::ALL.map(|it| it == Revision::V2025_11_25));
        assert_eq!(read(&extension), Revision::ALL.map(|it| it == Revision::V2026_07_28));
        assert_eq!(read(&json!({"tasks": {"cancel": {}}, "extensions": {}})), [false; 5]);
    }

    #[test]
    fn skills_are_declared_alike_in_all_revisions() {
        let read = |own: Value| {
            let declared = json!({"extensions": {"io.modelcontextprotocol/skills": own}});
            Revision::ALL.map(|it| Capabilities::read(Some(&declared), it).skills)
        };
        assert_eq!(read(json!({})), [Skills::Listed; 5]);
        assert_eq!(read(json!({"directoryRead": false})), [Skills::Listed; 5]);
        assert_eq!(read(json!({"directoryRead": true})), [Skills::WithDirectories; 5]);
        assert_eq!(read(json!(true)), [Skills::None; 5]);
    }

    #[test]
    fn the_first_revision_completes_without_saying_so() {
        assert!(Capabilities::read(None, Revision::V2024_11_05).completions);
        assert!(!Capabilities::read(None, Revision::V2025_03_26).completions);
    }
}
