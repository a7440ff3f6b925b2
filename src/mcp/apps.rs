//! MCP Apps (SEP-1865): which clients show them, and what descriptors say of them.
//!
//! Everything is read from raw JSON; nothing here changes a byte of it.

use std::borrow::Cow;

use serde_json::value::RawValue;

use super::object::{self, Members, ObjectWriter};

/// The extension's id.
pub const EXTENSION: &str = "io.modelcontextprotocol/ui";
/// The type of pages that every host of apps shows.
pub const MIME_TYPE: &str = "text/html;profile=mcp-app";
/// What URIs of such pages begin with.
pub const SCHEME: &str = "ui://";

/// When a client counts as one that shows apps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Terms {
    /// It shows pages of one of these types.
    pub mime_types: Vec<String>,
    /// It counts too if it does not say which types it shows, which the specification demands.
    pub lenient: bool,
}

/// What a tool's descriptor says of apps.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ToolUi<'a> {
    /// The page that shows its results: then the tool is an app's.
    pub resource_uri: Option<Cow<'a, str>>,
    /// Who may use it.
    pub audience: Audience,
}

/// Who may use a tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Audience {
    /// The model.
    pub model: bool,
    /// The app that the same server supplied.
    pub app: bool,
}

impl Terms {
    /// Whether a client with these `capabilities`, an object as it wrote them, shows apps. What is malformed counts as
    /// not declared.
    pub fn are_met_by(&self, capabilities: &str) -> bool {
        let settings = Members::parse(capabilities)
            .and_then(|capabilities| Members::parse(capabilities.get("extensions")?.get()))
            .and_then(|extensions| extensions.get(EXTENSION));
        settings.is_some_and(|settings| self.are_met_by_settings(settings.get()))
    }

    /// The same for a client that declared the extension with these `settings`.
    pub fn are_met_by_settings(&self, settings: &str) -> bool {
        let Some(settings) = Members::parse(settings) else {
            return false;
        };
        let Some(types) = settings.get("mimeTypes").filter(|types| types.get() != "null") else {
            return self.lenient;
        };
        let types: Vec<&RawValue> = serde_json::from_str(types.get()).unwrap_or_default();
        let mut shown = types.into_iter().filter_map(object::string);
        shown.any(|shown| self.mime_types.iter().any(|own| *own == shown))
    }

    /// The settings under which a server declares the extension, as JSON.
    pub fn settings(&self) -> String {
        let mut out = Vec::new();
        let mut settings = ObjectWriter::open(&mut out);
        let types = settings.name("mimeTypes");
        types.push(b'[');
        for (place, own) in self.mime_types.iter().enumerate() {
            if place > 0 {
                types.push(b',');
            }
            object::write_string(types, own);
        }
        types.push(b']');
        settings.close();
        String::from_utf8_lossy(&out).into_owned()
    }
}

impl Default for Terms {
    fn default() -> Self {
        Self {
            mime_types: vec![MIME_TYPE.to_owned()],
            lenient: false,
        }
    }
}

impl<'a> ToolUi<'a> {
    /// Reads the descriptor of a tool.
    pub fn of_tool(tool: &'a str) -> Self {
        match Members::parse(tool).and_then(|tool| tool.get("_meta")) {
            Some(meta) => Self::of_meta(meta.get()),
            None => Self::default(),
        }
    }

    /// Reads the `_meta` of a tool. The page's URI is read leniently: what is malformed is as if it were not there, and
    /// then the flat key of earlier drafts counts. Who may use the tool is read strictly: see [`Audience`].
    pub fn of_meta(meta: &'a str) -> Self {
        if !meta.starts_with('{') {
            return Self::default();
        }
        let Some(meta) = Members::parse(meta) else {
            let audience = Audience::NOBODY;
            return Self {
                resource_uri: None,
                audience,
            };
        };
        let block = meta.get("ui").filter(|block| block.get().starts_with('{'));
        let members = block.map(|block| Members::parse(block.get()));
        let uri = |members: &Members<'a>, name| members.string(name).filter(|uri| !uri.is_empty());
        let nested = members
            .as_ref()
            .and_then(|members| uri(members.as_ref()?, "resourceUri"));
        Self {
            resource_uri: nested.or_else(|| uri(&meta, FLAT_KEY)),
            audience: match members {
                None => Audience::EVERYBODY,
                Some(None) => Audience::NOBODY,
                Some(Some(members)) => members.get("visibility").map_or(Audience::EVERYBODY, Audience::read),
            },
        }
    }

    /// Whether the tool is an app's: it has a page.
    pub fn is_app(&self) -> bool {
        self.resource_uri.is_some()
    }
}

impl Audience {
    /// Those of a tool that does not say.
    pub const EVERYBODY: Self = Self { model: true, app: true };
    /// Those of a tool that says it in a way that cannot be read, or names none: who guesses could show a tool to a
    /// model that must not see it.
    pub const NOBODY: Self = Self {
        model: false,
        app: false,
    };

    /// Reads the value of `visibility`: a list of `model` and `app`, or null for both.
    fn read(visibility: &RawValue) -> Self {
        #[derive(serde::Deserialize)]
        #[serde(rename_all = "lowercase")]
        enum Who {
            Model,
            App,
        }
        if visibility.get() == "null" {
            return Self::EVERYBODY;
        }
        let named: Vec<Who> = serde_json::from_str(visibility.get()).unwrap_or_default();
        named.into_iter().fold(Self::NOBODY, |known, who| match who {
            Who::Model => Self { model: true, ..known },
            Who::App => Self { app: true, ..known },
        })
    }
}

impl Default for Audience {
    fn default() -> Self {
        Self::EVERYBODY
    }
}

/// Whether `uri` is that of a page of an app.
pub fn is_page(uri: &str) -> bool {
    uri.starts_with(SCHEME)
}

/// Whether `uri` has the scheme of pages, well written or not: such a one is not asked for where apps are excluded.
pub fn has_scheme(uri: &str) -> bool {
    uri.get(..3).is_some_and(|scheme| scheme.eq_ignore_ascii_case("ui:"))
}

/// The key of earlier drafts for a tool's page, which is read and never written.
const FLAT_KEY: &str = "ui/resourceUri";

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const LENIENT: bool = true;

    fn shows(capabilities: &str, lenient: bool) -> bool {
        let terms = Terms {
            lenient,
            ..Terms::default()
        };
        terms.are_met_by(capabilities)
    }

    fn with_settings(settings: &str) -> String {
        format!(r#"{{"x":1,"extensions":{{"com.example/a":{{}},"io.modelcontextprotocol/ui":{settings}}}}}"#)
    }

    #[test]
    fn a_client_shows_apps_if_it_names_the_type_of_their_pages() {
        for (settings, expected) in [
            (r#"{"mimeTypes":["text/html;profile=mcp-app"]}"#, true),
            (
                r#"{"mimeTypes":[7,null,"text/html;profile=mcp-app"],"future":{}}"#,
                true,
            ),
            (r#"{"mimeTypes":["text\/html;profile=mcp-app"]}"#, true),
            (r#"{"mimeTypes":["text/html"]}"#, false),
            (r#"{"mimeTypes":[]}"#, false),
            (r#"{"mimeTypes":"text/html;profile=mcp-app"}"#, false),
            (r#"{"mimeTypes":{}}"#, false),
        ] {
            for lenient in [!LENIENT, LENIENT] {
                assert_eq!(shows(&with_settings(settings), lenient), expected, "{settings}");
            }
        }
    }

    #[test]
    fn a_client_that_names_no_types_counts_only_leniently() {
        for settings in ["{}", r#"{"mimeTypes":null}"#, r#"{"future":1}"#] {
            assert!(!shows(&with_settings(settings), !LENIENT), "{settings}");
            assert!(shows(&with_settings(settings), LENIENT), "{settings}");
        }
    }

    #[test]
    fn malformed_capabilities_declare_nothing() {
        for capabilities in ["null", "{}", "[]", "", r#"{"extensions":"x"}"#, r#"{"extensions":[]}"#] {
            assert!(!shows(capabilities, LENIENT), "{capabilities}");
        }
        for settings in ["7", "null", "true", "[]", "\"x\"", r#"{"a":1,"a":2}"#] {
            assert!(!shows(&with_settings(settings), LENIENT), "{settings}");
        }
    }

    #[test]
    fn other_types_may_be_asked_for_and_are_what_is_declared() {
        let terms = Terms {
            mime_types: vec!["a/b".into(), r#"c/"d"#.into()],
            lenient: false,
        };
        assert!(terms.are_met_by_settings(r#"{"mimeTypes":["c/\"d"]}"#));
        assert!(!terms.are_met_by_settings(&Terms::default().settings()));
        assert_eq!(terms.settings(), r#"{"mimeTypes":["a/b","c/\"d"]}"#);
        assert!(Terms::default().are_met_by_settings(&Terms::default().settings()));
    }

    #[track_caller]
    fn reads(meta: &str, uri: Option<&str>, model: bool, app: bool) {
        let tool = format!(r#"{{"name":"t","_meta":{meta},"inputSchema":{{}}}}"#);
        let ui = ToolUi::of_tool(&tool);
        assert_eq!(ui.resource_uri.as_deref(), uri, "{meta}");
        assert_eq!(ui.audience, Audience { model, app }, "{meta}");
        assert_eq!(ui.is_app(), uri.is_some());
    }

    #[test]
    fn the_nested_uri_wins_over_the_flat_one() {
        reads(
            r#"{"ui":{"resourceUri":"ui://new/1","visibility":["app"]},"ui/resourceUri":"ui://old/1"}"#,
            Some("ui://new/1"),
            false,
            true,
        );
        reads(r#"{"ui/resourceUri":"ui://old/1"}"#, Some("ui://old/1"), true, true);
        reads(
            r#"{"ui":{},"ui/resourceUri":"ui://old/1"}"#,
            Some("ui://old/1"),
            true,
            true,
        );
        reads(
            r#"{"ui":7,"ui/resourceUri":"ui://old/1"}"#,
            Some("ui://old/1"),
            true,
            true,
        );
        reads(r#"{"ui":{"resourceUri":""},"ui/resourceUri":7}"#, None, true, true);
    }

    #[test]
    fn a_malformed_uri_is_as_if_it_were_not_there_and_who_may_use_the_tool_still_counts() {
        reads(r#"{"ui":{"resourceUri":12,"visibility":["app"]}}"#, None, false, true);
        reads(r#"{"ui":{"visibility":["model"]}}"#, None, true, false);
        reads(r#"{"ui":{"visibility":["app","model","app"]}}"#, None, true, true);
    }

    #[test]
    fn who_may_use_the_tool_is_nobody_where_it_cannot_be_read() {
        for visibility in [
            r#""model""#,
            r#"["robot"]"#,
            r#"["model","robot"]"#,
            "[7]",
            "[null]",
            "{}",
            "7",
            "[]",
            r#"["Model"]"#,
        ] {
            reads(
                &format!(r#"{{"ui":{{"visibility":{visibility}}}}}"#),
                None,
                false,
                false,
            );
            reads(
                &format!(r#"{{"ui":{{"resourceUri":"ui://a","visibility":{visibility}}}}}"#),
                Some("ui://a"),
                false,
                false,
            );
        }
        reads(
            r#"{"ui":{"visibility":["app"],"visibility":["model"]}}"#,
            None,
            false,
            false,
        );
        reads(r#"{"ui":{},"ui":{"visibility":["app"]}}"#, None, false, false);
    }

    #[test]
    fn who_may_use_the_tool_is_everybody_where_it_does_not_say() {
        for meta in [
            r#"{"ui":{"visibility":null}}"#,
            r#"{"ui":{}}"#,
            r#"{"ui":null}"#,
            r#"{"ui":"x"}"#,
            r#"{"visibility":["app"]}"#,
            "{}",
            "null",
            "7",
        ] {
            reads(meta, None, true, true);
        }
        assert_eq!(ToolUi::of_tool(r#"{"name":"t"}"#), ToolUi::default());
    }

    #[test]
    fn uris_of_pages_are_known_by_their_whole_scheme_and_excluded_by_less() {
        for (uri, page, scheme) in [
            ("ui://a/b", true, true),
            ("ui://", true, true),
            ("ui:/x", false, true),
            ("ui:x", false, true),
            ("UI://a", false, true),
            ("ui", false, false),
            ("https://ui://a", false, false),
            ("", false, false),
            ("ué", false, false),
        ] {
            assert_eq!((is_page(uri), has_scheme(uri)), (page, scheme), "{uri}");
        }
    }

    proptest! {
        #[test]
        fn nothing_that_is_sent_breaks_the_readers(text in r#"(\{|\}|\[|\]|"ui"|"visibility"|"extensions"|"app"|:|,|null){0,12}"#) {
            ToolUi::of_tool(&text);
            ToolUi::of_meta(&text);
            shows(&text, LENIENT);
        }
    }
}
