//! URIs of skills.

use std::borrow::Cow;
use std::fmt::Write as _;

use crate::defaults::SKILL_DEPTH_MAX;

/// What URIs of skills begin with that have no scheme of their server's own.
pub const SCHEME: &str = "skill://";
/// The file that makes a directory a skill.
pub const MANIFEST: &str = "SKILL.md";

/// What stands before the paths of a member's skills: `ops` in `skill://ops/restart-runbook/SKILL.md`. URIs of other
/// schemes stay as they are.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SkillPrefix(Box<str>);

/// How clients know the skills of a member.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum SkillUris {
    /// They are not offered.
    #[default]
    LeftOut,
    /// As the member does: it is alone.
    AsTheyAre,
    /// Under this prefix.
    Under(SkillPrefix),
}

impl SkillUris {
    /// The prefix that they are under.
    pub fn prefix(&self) -> Option<&SkillPrefix> {
        match self {
            Self::LeftOut | Self::AsTheyAre => None,
            Self::Under(prefix) => Some(prefix),
        }
    }

    /// The same where the member is alone.
    #[must_use]
    pub fn alone(&self) -> Self {
        match self {
            Self::LeftOut => Self::LeftOut,
            Self::AsTheyAre | Self::Under(_) => Self::AsTheyAre,
        }
    }
}

impl From<Option<SkillPrefix>> for SkillUris {
    fn from(prefix: Option<SkillPrefix>) -> Self {
        prefix.map_or(Self::LeftOut, Self::Under)
    }
}

/// A prefix has other characters than lower-case letters, digits and hyphens, or none.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "prefix {0:?} cannot stand in URIs of skills: only lower-case letters, digits and `-` can, and at least one; change the prefix, or set `skills: false`"
)]
pub struct InvalidPrefix(String);

impl SkillPrefix {
    /// Takes a member's prefix.
    ///
    /// # Errors
    /// It cannot stand in a URI, where case may not count.
    pub fn new(prefix: &str) -> Result<Self, InvalidPrefix> {
        let may_stand = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        if prefix.is_empty() || !prefix.chars().all(may_stand) {
            return Err(InvalidPrefix(prefix.to_owned()));
        }
        Ok(Self(prefix.into()))
    }

    /// The prefix alone.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The URI under which clients know the member's `uri`, a template's too.
    pub fn to_client<'u>(&self, uri: &'u str) -> Cow<'u, str> {
        match split(uri) {
            Some((scheme, path)) => Cow::Owned([scheme, &self.0, "/", path].concat()),
            None => Cow::Borrowed(uri),
        }
    }

    /// The URI under which the member knows a client's `uri`, if it is under this prefix.
    pub fn to_member(&self, uri: &str) -> Option<String> {
        let (scheme, path) = split(uri)?;
        let rest = path.strip_prefix(&*self.0)?.strip_prefix('/')?;
        Some([scheme, rest].concat())
    }
}

/// Whether `uri` has the scheme of skills; schemes have no case.
pub fn is_skill(uri: &str) -> bool {
    split(uri).is_some()
}

/// The prefix that a client's `uri` is under, if it is one of a skill: whose prefix this is, alone is asked for it.
pub fn prefix_of(uri: &str) -> Option<&str> {
    let (prefix, _) = split(uri)?.1.split_once('/')?;
    Some(prefix)
}

/// The directory of the skill whose `SKILL.md` has this URI, without a slash at its end.
pub fn directory(manifest: &str) -> Option<&str> {
    manifest.strip_suffix(MANIFEST)?.strip_suffix('/')
}

/// The URI of the `SKILL.md` that is meant by `uri`, which may be that of its directory.
pub fn manifest(uri: &str) -> Cow<'_, str> {
    if directory(uri).is_some() {
        return Cow::Borrowed(uri);
    }
    Cow::Owned([uri.strip_suffix('/').unwrap_or(uri), "/", MANIFEST].concat())
}

/// The URIs of the `SKILL.md` of each skill that `uri` may be a file of: one for each directory that it is in, from the
/// outermost in, at most [`SKILL_DEPTH_MAX`] of them.
pub fn manifests_around(uri: &str) -> impl Iterator<Item = String> {
    let start = uri.find("://").map_or(uri.len(), |scheme| scheme + "://".len());
    let path = uri.get(start..).unwrap_or_default();
    let ends = path.match_indices('/').map(move |(place, _)| start + place);
    let directories = ends.filter_map(move |end| uri.get(..end));
    directories
        .take(SKILL_DEPTH_MAX)
        .map(|directory| [directory, "/", MANIFEST].concat())
}

/// How many parts the path of a skill's directory has.
pub fn depth(directory: &str) -> usize {
    directory
        .split_once("://")
        .map_or(directory, |(_, path)| path)
        .split('/')
        .count()
}

/// The URI of the file or directory at `path`, a path of plain text: what may not stand in a URI is percent-encoded
/// (RFC 3986, section 2.1).
pub fn of_path(path: &str) -> String {
    let mut uri = String::from(SCHEME);
    for byte in path.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~' | b'/') {
            uri.push(char::from(byte));
        } else {
            // Writing to a string never fails.
            let _written = write!(uri, "%{byte:02X}");
        }
    }
    uri
}

/// The scheme as it is written, with its slashes, and what follows.
fn split(uri: &str) -> Option<(&str, &str)> {
    let (scheme, path) = uri.split_at_checked(SCHEME.len())?;
    scheme.eq_ignore_ascii_case(SCHEME).then_some((scheme, path))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn ops() -> SkillPrefix {
        SkillPrefix::new("ops").unwrap()
    }

    #[test]
    fn a_prefix_goes_first_and_can_be_taken_away() {
        for (member, client) in [
            ("skill://restart/SKILL.md", "skill://ops/restart/SKILL.md"),
            ("skill://a/b/c.txt", "skill://ops/a/b/c.txt"),
            ("skill://ops/a/SKILL.md", "skill://ops/ops/a/SKILL.md"),
            ("skill://{name}/SKILL.md", "skill://ops/{name}/SKILL.md"),
            ("skill://A%20b/C", "skill://ops/A%20b/C"),
            ("SKILL://a/b", "SKILL://ops/a/b"),
            ("skill://", "skill://ops/"),
        ] {
            assert_eq!(ops().to_client(member), client);
            assert_eq!(ops().to_member(client).as_deref(), Some(member));
        }
    }

    #[test]
    fn a_file_may_be_of_the_skill_of_each_directory_that_it_is_in() {
        let around = |uri| manifests_around(uri).collect::<Vec<_>>();
        assert_eq!(
            around("skill://a/b/c.txt"),
            ["skill://a/SKILL.md", "skill://a/b/SKILL.md"]
        );
        assert_eq!(around("git://a/SKILL.md"), ["git://a/SKILL.md"]);
        for uri in ["skill://a", "skill://", "a/b", ""] {
            assert_eq!(around(uri), Vec::<String>::new(), "{uri}");
        }
        let deep = format!("skill://{}", "x/".repeat(100_000));
        assert_eq!(around(&deep).len(), SKILL_DEPTH_MAX);
        assert_eq!((depth("skill://a/b"), depth("skill://a")), (2, 1));
    }

    #[test]
    fn other_schemes_stay_as_they_are() {
        for uri in [
            "github://o/r/SKILL.md",
            "skill:/a",
            "skill",
            "",
            "skills://a/b",
            "skillé://a",
            "file:///skill://a",
        ] {
            assert!(
                matches!(ops().to_client(uri), Cow::Borrowed(same) if same == uri),
                "{uri}"
            );
            assert!(!is_skill(uri));
            assert_eq!((ops().to_member(uri), prefix_of(uri)), (None, None));
        }
    }

    #[test]
    fn only_the_prefix_itself_is_its_own() {
        for uri in [
            "skill://opsx/a",
            "skill://ops",
            "skill://other/a",
            "skill://OPS/a",
            "skill:///ops/a",
        ] {
            assert_eq!(ops().to_member(uri), None, "{uri}");
        }
        assert_eq!(prefix_of("skill://zzz/a/SKILL.md"), Some("zzz"));
        assert_eq!(prefix_of("skill://zzz"), None);
    }

    #[test]
    fn what_cannot_stand_in_a_uri_is_no_prefix() {
        for prefix in ["", "Ops", "o_ps", "o/ps", "o.ps", "é"] {
            let error = SkillPrefix::new(prefix).unwrap_err();
            assert!(error.to_string().contains("skills: false"));
        }
        assert_eq!(SkillPrefix::new("a-1").unwrap().as_str(), "a-1");
    }

    #[test]
    fn a_directory_and_its_manifest_are_found_from_each_other() {
        assert_eq!(directory("skill://a/b/SKILL.md"), Some("skill://a/b"));
        assert_eq!(directory("skill://a/b/skill.md"), None);
        assert_eq!(directory("skill://a/bSKILL.md"), None);
        for uri in ["skill://a/b/SKILL.md", "skill://a/b", "skill://a/b/"] {
            assert_eq!(manifest(uri), "skill://a/b/SKILL.md");
        }
    }

    #[test]
    fn paths_are_encoded_where_they_have_to_be() {
        assert_eq!(
            of_path("ops/a-b_c.~1/x y%é.md"),
            "skill://ops/a-b_c.~1/x%20y%25%C3%A9.md"
        );
    }

    proptest! {
        #[test]
        fn prefixing_can_always_be_undone(prefix in "[a-z0-9-]{1,9}", uri in "(skill|SKILL|x|):?/{0,3}.{0,12}") {
            let prefix = SkillPrefix::new(&prefix).unwrap();
            let client = prefix.to_client(&uri);
            if is_skill(&uri) {
                prop_assert_eq!(prefix.to_member(&client), Some(uri.clone()));
                prop_assert_eq!(prefix_of(&client), Some(prefix.as_str()));
            } else {
                prop_assert_eq!(&client, &uri);
            }
        }
    }
}
