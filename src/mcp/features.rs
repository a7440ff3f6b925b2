//! The capabilities of a client that reach the servers behind the gateway: what they may ask it, and which extensions
//! it shows.

use std::collections::BTreeMap;

use super::apps;
use super::asking::Asking;
use super::object::{Members, ObjectWriter};
use super::task;
use super::version::{Era, Revision};

/// What a client can do, as far as the gateway can carry it.
///
/// Servers are told exactly this of a client's calls, and nothing that another client declared.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Features {
    /// It tells its roots.
    pub roots: bool,
    /// It tells when they change. Only Legacy clients do.
    pub roots_change: bool,
    /// It lets its model be asked.
    pub sampling: Option<Sampling>,
    /// It fills forms.
    pub forms: bool,
    /// It opens pages.
    pub pages: bool,
    /// It takes a task for the result of a call. Declared to Modern servers alone: those of 2025-11-25 have tasks of
    /// another kind.
    pub tasks: bool,
    /// Extensions that are carried, by id, with the client's settings as it wrote them.
    pub extensions: BTreeMap<String, String>,
}

/// How the client's model may be asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Sampling {
    /// With context of other servers.
    pub context: bool,
    /// With tools.
    pub tools: bool,
}

impl Features {
    /// Those in `capabilities`, an object as a client of `revision` wrote it. What the revision does not know, and what
    /// is malformed, counts as not declared.
    pub fn declared(capabilities: &str, revision: Revision) -> Self {
        let Some(members) = Members::parse(capabilities) else {
            return Self::default();
        };
        let object = |name: &str| members.get(name).and_then(|raw| Members::parse(raw.get()));
        let elicitation = object("elicitation").filter(|_| revision >= Revision::V2025_06_18);
        let has_pages = revision >= Revision::V2025_11_25;
        let names = |of: &Members<'_>, name: &str| of.get(name).is_some_and(|raw| raw.get().starts_with('{'));
        Self {
            roots: object("roots").is_some(),
            roots_change: revision.era() == Era::Legacy
                && object("roots").is_some_and(|roots| roots.get("listChanged").is_some_and(|raw| raw.get() == "true")),
            sampling: object("sampling").map(|sampling| Sampling {
                context: has_pages && names(&sampling, "context"),
                tools: has_pages && names(&sampling, "tools"),
            }),
            // Without a mode it means forms, as in the revision that had nothing else (2025-11-25, elicitation).
            forms: elicitation
                .as_ref()
                .is_some_and(|e| !has_pages || names(e, "form") || !names(e, "url")),
            pages: has_pages && elicitation.as_ref().is_some_and(|e| names(e, "url")),
            tasks: revision.era() == Era::Modern
                && object("extensions").is_some_and(|extensions| names(&extensions, task::EXTENSION)),
            extensions: object("extensions").map_or_else(BTreeMap::new, |extensions| {
                let carried = extensions.iter().filter(|(id, _)| CARRIED_EXTENSIONS.contains(id));
                carried
                    .filter(|(_, settings)| settings.get().starts_with('{'))
                    .map(|(id, settings)| (id.to_owned(), settings.get().to_owned()))
                    .collect()
            }),
        }
    }

    /// Everything that can be carried: servers make what they list depend on it.
    pub fn everything() -> Self {
        Self {
            roots: true,
            roots_change: true,
            sampling: Some(Sampling {
                context: true,
                tools: true,
            }),
            forms: true,
            pages: true,
            tasks: true,
            extensions: BTreeMap::from([
                (apps::EXTENSION.to_owned(), APPS_SETTINGS.to_owned()),
                (SKILLS.to_owned(), "{}".to_owned()),
            ]),
        }
    }

    /// Whether servers may ask the client anything.
    pub fn is_interactive(&self) -> bool {
        self.roots || self.sampling.is_some() || self.forms || self.pages
    }

    /// The same for a client that cannot be reached while it waits.
    #[must_use]
    pub fn silent(&self) -> Self {
        Self {
            extensions: self.extensions.clone(),
            ..Self::default()
        }
    }

    /// Whether the client can be asked `kind` of thing with these `params`.
    pub fn can_be_asked(&self, kind: Asking, params: &Members<'_>) -> bool {
        match kind {
            Asking::Roots => self.roots,
            Asking::Sampling => self.sampling.is_some_and(|sampling| {
                let uses_tools = params.get("tools").is_some() || params.get("toolChoice").is_some();
                sampling.tools || !uses_tools
            }),
            Asking::Elicitation if params.string("mode").as_deref() == Some("url") => self.pages,
            Asking::Elicitation => self.forms,
        }
    }

    /// The capabilities as they are declared to a server of `era`, as JSON.
    pub fn to_json(&self, era: Era) -> String {
        let mut out = Vec::new();
        let mut object = ObjectWriter::open(&mut out);
        if self.roots {
            let changes = self.roots_change && era == Era::Legacy;
            object.member("roots", if changes { r#"{"listChanged":true}"# } else { "{}" });
        }
        if let Some(sampling) = self.sampling {
            let mut own = ObjectWriter::open(object.name("sampling"));
            for (name, is_there) in [("context", sampling.context), ("tools", sampling.tools)] {
                if is_there {
                    own.member(name, "{}");
                }
            }
            own.close();
        }
        if self.forms || self.pages {
            let mut own = ObjectWriter::open(object.name("elicitation"));
            // Servers of 2025-06-18 know no modes: for them what has none means forms.
            if self.forms && (self.pages || era == Era::Modern) {
                own.member("form", "{}");
            }
            if self.pages {
                own.member("url", "{}");
            }
            own.close();
        }
        let tasks = self.tasks && era == Era::Modern;
        if tasks || !self.extensions.is_empty() {
            let mut own = ObjectWriter::open(object.name("extensions"));
            for (id, settings) in &self.extensions {
                own.member(id, settings);
            }
            if tasks {
                own.member(task::EXTENSION, "{}");
            }
            own.close();
        }
        object.close();
        String::from_utf8_lossy(&out).into_owned()
    }
}

/// The id of the extension for skills (Skills extension).
pub const SKILLS: &str = "io.modelcontextprotocol/skills";
/// The kind of page that every host of apps shows.
const APPS_SETTINGS: &str = r#"{"mimeTypes":["text/html;profile=mcp-app"]}"#;
/// Extensions of which servers hear whether a client declares them.
const CARRIED_EXTENSIONS: [&str; 2] = [apps::EXTENSION, SKILLS];

#[cfg(test)]
mod tests {
    use super::*;

    fn passed(capabilities: &str, revision: Revision, era: Era) -> String {
        Features::declared(capabilities, revision).to_json(era)
    }

    #[test]
    fn servers_hear_what_the_client_declared_and_can_be_carried() {
        let declared = r#"{"roots":{"listChanged":true},"sampling":{"tools":{}},"elicitation":{"form":{},"url":{}},"experimental":{"x":{}},"extensions":{"io.modelcontextprotocol/ui":{"mimeTypes":["a"]},"com.example/own":{}}}"#;
        let expected = r#"{"roots":{},"sampling":{"tools":{}},"elicitation":{"form":{},"url":{}},"extensions":{"io.modelcontextprotocol/ui":{"mimeTypes":["a"]}}}"#;
        for revision in [Revision::V2025_11_25, Revision::LATEST] {
            assert_eq!(passed(declared, revision, Era::Modern), expected);
        }
        // A Modern client says nothing when its roots change, and a Modern server would not hear it.
        assert_eq!(passed(declared, Revision::LATEST, Era::Legacy), expected);
        assert_eq!(
            passed(declared, Revision::V2025_11_25, Era::Legacy),
            expected.replace(r#""roots":{}"#, r#""roots":{"listChanged":true}"#)
        );
        assert_eq!(passed("{}", Revision::LATEST, Era::Modern), "{}");
    }

    #[test]
    fn tasks_are_declared_by_modern_clients_to_modern_servers_alone() {
        let declared = r#"{"extensions":{"io.modelcontextprotocol/tasks":{}}}"#;
        assert_eq!(passed(declared, Revision::LATEST, Era::Modern), declared);
        assert_eq!(passed(declared, Revision::LATEST, Era::Legacy), "{}");
        assert_eq!(passed(declared, Revision::V2025_11_25, Era::Modern), "{}");
        let silent = Features::declared(declared, Revision::LATEST).silent();
        assert_eq!(silent.to_json(Era::Modern), "{}");
        let odd = r#"{"extensions":{"io.modelcontextprotocol/tasks":true}}"#;
        assert_eq!(passed(odd, Revision::LATEST, Era::Modern), "{}");
    }

    #[test]
    fn elicitation_without_a_mode_means_forms() {
        assert_eq!(
            passed(r#"{"elicitation":{}}"#, Revision::LATEST, Era::Legacy),
            r#"{"elicitation":{}}"#
        );
        assert_eq!(
            passed(r#"{"elicitation":{}}"#, Revision::LATEST, Era::Modern),
            r#"{"elicitation":{"form":{}}}"#
        );
        assert_eq!(
            passed(r#"{"elicitation":{"url":{}}}"#, Revision::LATEST, Era::Modern),
            r#"{"elicitation":{"url":{}}}"#
        );
    }

    #[test]
    fn what_the_revision_does_not_know_is_not_declared() {
        let all = r#"{"sampling":{"tools":{}},"elicitation":{"url":{}}}"#;
        assert_eq!(
            passed(all, Revision::V2025_06_18, Era::Legacy),
            r#"{"sampling":{},"elicitation":{}}"#
        );
        assert_eq!(passed(all, Revision::V2025_03_26, Era::Legacy), r#"{"sampling":{}}"#);
    }

    #[test]
    fn everything_is_what_the_latest_client_could_declare() {
        for (era, revision) in [(Era::Legacy, Revision::LATEST_LEGACY), (Era::Modern, Revision::LATEST)] {
            let declared = Features::everything().to_json(era);
            assert_eq!(passed(&declared, revision, era), declared);
            assert!(
                declared.contains(r#"{"mimeTypes":["text/html;profile=mcp-app"]}"#),
                "{declared}"
            );
        }
    }

    #[test]
    fn malformed_capabilities_count_as_none() {
        for odd in ["[]", "null", r#"{"roots":true,"sampling":[],"extensions":[]}"#] {
            assert_eq!(passed(odd, Revision::LATEST, Era::Modern), "{}", "{odd}");
        }
    }

    #[test]
    fn a_client_is_asked_only_what_it_can_answer() {
        let features = Features::declared(r#"{"sampling":{},"elicitation":{"url":{}}}"#, Revision::LATEST);
        let can = |kind, params| features.can_be_asked(kind, &Members::parse(params).unwrap());
        assert!(can(Asking::Sampling, "{}"));
        assert!(!can(Asking::Sampling, r#"{"tools":[]}"#));
        assert!(can(Asking::Elicitation, r#"{"mode":"url"}"#));
        assert!(!can(Asking::Elicitation, r#"{"mode":"form"}"#));
        assert!(!can(Asking::Roots, "{}"));
        assert!(features.is_interactive());
        assert!(!features.silent().is_interactive());
    }
}
