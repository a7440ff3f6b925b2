//! What a `SKILL.md` says of its skill: the YAML between `---` lines at its very beginning (Agent Skills
//! specification).

use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::yaml;
use crate::defaults::{FRONTMATTER_MAX, SKILL_DESCRIPTION_MAX, SKILL_NAME_MAX};
use crate::mcp::{Members, object, printable};

/// The frontmatter of a skill.
#[derive(Clone, Debug, PartialEq)]
pub struct Frontmatter {
    /// The skill's name.
    pub name: String,
    /// What it is for.
    pub description: String,
    /// All of it, as hosts find it in the file.
    pub fields: Map<String, Value>,
}

/// What is wrong with a frontmatter.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrontmatterError {
    /// The file is no text.
    #[error("SKILL.md is not UTF-8")]
    NotText,
    /// The file does not begin with `---`.
    #[error("SKILL.md does not begin with frontmatter: its first line must be `---`, with nothing before it")]
    Missing,
    /// The line that ends it is missing.
    #[error("the frontmatter of SKILL.md has no end: a line `---` must follow it")]
    Open,
    /// It is longer than [`FRONTMATTER_MAX`].
    #[error("the frontmatter of SKILL.md is longer than {FRONTMATTER_MAX} bytes")]
    TooLong,
    /// It is no YAML that JSON can say.
    #[error("the frontmatter of SKILL.md cannot be read: {0}")]
    Yaml(String),
    /// It is something else than a map.
    #[error("the frontmatter of SKILL.md is not a map of fields, such as `name: x`")]
    NotAMap,
    /// The name is missing or breaks the rules.
    #[error(
        "`name` must be 1 to {SKILL_NAME_MAX} lower-case letters, digits and single hyphens between them, as the directory is called; {0}"
    )]
    Name(String),
    /// Another field that the specification knows breaks the rules.
    #[error("`{0}` must be {1}")]
    Field(&'static str, &'static str),
    /// The description is missing or breaks the rules.
    #[error("`description` must be a text of 1 to {SKILL_DESCRIPTION_MAX} characters; {0}")]
    Description(String),
}

impl FrontmatterError {
    /// One CamelCase word.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::NotText => "NotText",
            Self::Missing => "FrontmatterMissing",
            Self::Open => "FrontmatterOpen",
            Self::TooLong => "FrontmatterTooLong",
            Self::Yaml(_) => "FrontmatterUnreadable",
            Self::NotAMap => "FrontmatterNotAMap",
            Self::Name(_) => "InvalidName",
            Self::Field(..) => "InvalidField",
            Self::Description(_) => "InvalidDescription",
        }
    }
}

impl Frontmatter {
    /// Reads the frontmatter of a `SKILL.md`. Fields beside name and description are taken as they are.
    ///
    /// # Errors
    /// It is not there, cannot be read, or its name or description break the rules.
    pub fn parse(file: &[u8]) -> Result<Self, FrontmatterError> {
        let text = std::str::from_utf8(file).map_err(|_| FrontmatterError::NotText)?;
        let value =
            yaml::to_json(block(text)?).map_err(|error| FrontmatterError::Yaml(printable(&error.to_string(), 300)))?;
        let Value::Object(fields) = value else {
            return Err(FrontmatterError::NotAMap);
        };
        let name = string(&fields, "name").map_err(FrontmatterError::Name)?;
        if !is_name(&name) {
            return Err(FrontmatterError::Name(shown(&name)));
        }
        let description = string(&fields, "description").map_err(FrontmatterError::Description)?;
        match description.chars().count() {
            _ if description.trim().is_empty() => Err(FrontmatterError::Description("it is empty".into())),
            length if length > SKILL_DESCRIPTION_MAX => Err(FrontmatterError::Description(format!("it has {length}"))),
            _ => {
                check_fields(&fields)?;
                Ok(Self {
                    name,
                    description,
                    fields,
                })
            }
        }
    }
}

/// Some hosts take no other values in `metadata` than texts.
fn check_fields(fields: &Map<String, Value>) -> Result<(), FrontmatterError> {
    let json = Value::Object(fields.clone()).to_string();
    if let Some((field, rule)) = Members::parse(&json).as_ref().and_then(broken_field) {
        return Err(FrontmatterError::Field(field, rule));
    }
    match fields.get("metadata").and_then(Value::as_object) {
        Some(metadata) if !metadata.values().all(Value::is_string) => Err(FrontmatterError::Field(
            "metadata",
            "a map of texts; put its values in quotes",
        )),
        _ => Ok(()),
    }
}

/// Whether `name` is one of a skill: 1 to [`SKILL_NAME_MAX`] lower-case letters, digits, and hyphens that stand single
/// and between them.
pub fn is_name(name: &str) -> bool {
    let is_part = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
    name.len() <= SKILL_NAME_MAX && name.split('-').all(is_part)
}

/// The first field of the Agent Skills specification that breaks its rules, with the rule, of a frontmatter as JSON.
/// Values in `metadata` may be of any type: there are hosts that take them.
pub(super) fn broken_field(frontmatter: &Members<'_>) -> Option<(&'static str, &'static str)> {
    let text = |field: &str| frontmatter.string(field);
    let is_text = |field: &str, most: usize| {
        text(field).is_some_and(|text| !text.trim().is_empty() && text.chars().count() <= most)
    };
    let may_be = |field: &str, holds: &dyn Fn(&RawValue) -> bool| frontmatter.get(field).is_none_or(holds);
    let are_texts = |raw: &RawValue| serde_json::from_str::<Vec<String>>(raw.get()).is_ok();
    let holds = [
        ("name", NAME_RULE, text("name").is_some_and(|name| is_name(&name))),
        (
            "description",
            DESCRIPTION_RULE,
            is_text("description", SKILL_DESCRIPTION_MAX),
        ),
        (
            "license",
            "a text",
            may_be("license", &|raw| object::string(raw).is_some()),
        ),
        (
            "compatibility",
            COMPATIBILITY_RULE,
            may_be("compatibility", &|_| is_text("compatibility", COMPATIBILITY_MAX)),
        ),
        (
            "metadata",
            "a map",
            may_be("metadata", &|raw| raw.get().starts_with('{')),
        ),
        (
            "allowed-tools",
            "a text, or a list of texts",
            may_be("allowed-tools", &|raw| object::string(raw).is_some() || are_texts(raw)),
        ),
    ];
    let broken = holds.into_iter().find(|(_, _, holds)| !holds)?;
    Some((broken.0, broken.1))
}

const NAME_RULE: &str = "1 to 64 lower-case letters, digits and single hyphens between them";
const DESCRIPTION_RULE: &str = "a text of 1 to 1024 characters";
const COMPATIBILITY_RULE: &str = "a text of 1 to 500 characters";
/// Most characters of what a skill needs.
const COMPATIBILITY_MAX: usize = 500;

/// What stands between the first line, `---`, and the next such line; white space behind the hyphens does not count.
fn block(text: &str) -> Result<&str, FrontmatterError> {
    let is_mark = |line: &str| line.trim_end() == "---";
    let mut lines = text.split_inclusive('\n');
    let first = lines
        .next()
        .filter(|line| is_mark(line))
        .ok_or(FrontmatterError::Missing)?;
    let start = first.len();
    let mut end = start;
    for line in lines {
        if is_mark(line) {
            return text.get(start..end).ok_or(FrontmatterError::Open);
        }
        end += line.len();
        if end - start > FRONTMATTER_MAX {
            return Err(FrontmatterError::TooLong);
        }
    }
    Err(FrontmatterError::Open)
}

/// The text of a field, or what is wrong with it.
fn string(fields: &Map<String, Value>, field: &str) -> Result<String, String> {
    match fields.get(field) {
        Some(Value::String(text)) => Ok(text.clone()),
        None | Some(Value::Null) => Err("it is missing".into()),
        Some(other) => Err(format!(
            "{} is no text; put it in quotes",
            printable(&other.to_string(), 64)
        )),
    }
}

fn shown(name: &str) -> String {
    format!("it is `{}`", printable(name, 80))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(yaml: &str) -> Result<Frontmatter, FrontmatterError> {
        Frontmatter::parse(format!("---\n{yaml}\n---\nBody.\n").as_bytes())
    }

    #[test]
    fn all_fields_are_kept_with_their_types_and_order() {
        let file = b"---\nname: restart-runbook\ndescription: Restart a wedged workload\nversion: 2.0.1\nmetadata:\n  rank: '3'\nplaces:\n  rank: 3\n  tags: [a, b]\n---\n\nSteps.\n---\nnot: this\n";
        let read = Frontmatter::parse(file).unwrap();
        assert_eq!(
            (read.name.as_str(), read.description.as_str()),
            ("restart-runbook", "Restart a wedged workload")
        );
        assert_eq!(
            Value::Object(read.fields).to_string(),
            r#"{"name":"restart-runbook","description":"Restart a wedged workload","version":"2.0.1","metadata":{"rank":"3"},"places":{"rank":3,"tags":["a","b"]}}"#
        );
    }

    #[test]
    fn line_ends_of_both_kinds_and_white_space_behind_the_hyphens_are_taken() {
        let read = Frontmatter::parse(b"--- \r\nname: a\r\ndescription: b\r\n---\t").unwrap();
        assert_eq!((read.name.as_str(), read.description.as_str()), ("a", "b"));
    }

    #[test]
    fn a_block_that_is_not_where_it_must_be_is_refused() {
        for (file, reason) in [
            (&b""[..], "FrontmatterMissing"),
            (b"# Title\n", "FrontmatterMissing"),
            (b"\n---\nname: a\n---\n", "FrontmatterMissing"),
            (b" ---\nname: a\n---\n", "FrontmatterMissing"),
            (b"\xef\xbb\xbf---\nname: a\n---\n", "FrontmatterMissing"),
            (b"---", "FrontmatterOpen"),
            (b"---\nname: a\n", "FrontmatterOpen"),
            (b"---\nname: \xff\n---\n", "NotText"),
            (b"---\n---\n", "FrontmatterNotAMap"),
            (b"---\n- a\n---\n", "FrontmatterNotAMap"),
            (b"---\nname: [\n---\n", "FrontmatterUnreadable"),
        ] {
            let error = Frontmatter::parse(file).unwrap_err();
            assert_eq!(error.reason(), reason, "{}", String::from_utf8_lossy(file));
        }
        let long = parse(&"x: y\n".repeat(FRONTMATTER_MAX / 5 + 1));
        assert_eq!(long.unwrap_err().reason(), "FrontmatterTooLong");
    }

    #[test]
    fn fields_that_hosts_know_keep_the_rules() {
        for (yaml, says) in [
            ("license: 2.0", "`license` must be a text"),
            ("metadata: {rank: 3}", "put its values in quotes"),
            ("metadata: [a]", "`metadata` must be a map"),
            ("compatibility:", "`compatibility`"),
            ("allowed-tools: 7", "`allowed-tools`"),
        ] {
            let error = parse(&format!("name: a\ndescription: d\n{yaml}")).unwrap_err();
            assert_eq!(error.reason(), "InvalidField", "{yaml}");
            assert!(error.to_string().contains(says), "{error}");
        }
    }

    #[test]
    fn names_and_descriptions_keep_the_rules() {
        for name in ["a", "a-1", "0", "restart-runbook", &"a".repeat(64)] {
            assert!(parse(&format!("name: '{name}'\ndescription: d")).is_ok(), "{name}");
        }
        for (name, says) in [
            ("A", "`A`"),
            ("-a", "`-a`"),
            ("a-", "`a-`"),
            ("a--b", "`a--b`"),
            ("a_b", "`a_b`"),
            ("é", "`é`"),
            ("''", "``"),
            ("1", "put it in quotes"),
            ("~", "missing"),
            (&"a".repeat(65), "1 to 64"),
        ] {
            let error = parse(&format!("name: {name}\ndescription: d")).unwrap_err();
            assert_eq!(error.reason(), "InvalidName", "{name}");
            assert!(error.to_string().contains(says), "{error}");
        }
        for description in ["''", "' '", "[a]", "~", &"é".repeat(1025)] {
            let error = parse(&format!("name: a\ndescription: {description}")).unwrap_err();
            assert_eq!(error.reason(), "InvalidDescription", "{description}");
        }
        assert!(parse(&format!("name: a\ndescription: {}", "é".repeat(1024))).is_ok());
        assert_eq!(parse("description: d").unwrap_err().reason(), "InvalidName");
    }
}
