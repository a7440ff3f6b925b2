//! Skills as members list them.

use std::collections::BTreeMap;

use percent_encoding::percent_decode_str;
use serde_json::value::RawValue;

use super::frontmatter;
use super::proof::Proof;
use super::uri::{self, SkillPrefix};
use crate::defaults::{SKILL_BYTES_MAX, SKILL_DEPTH_MAX, SKILL_FILES_MAX};
use crate::mcp::Members;
use crate::mcp::edits::Edits;
use crate::mcp::object;
use crate::mcp::printable;
use crate::mcp::printable::acts_on_the_line;

/// One skill of a member, as it listed it.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The URI of its `SKILL.md`, as the member knows it.
    pub uri: String,
    /// Its name.
    pub name: String,
    /// What it is for, if it says so, as it should.
    pub description: Option<String>,
    /// Its files.
    pub files: Files,
    raw: Box<str>,
}

/// Which files a skill has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Files {
    /// They change all the time, and nothing can be said of them.
    Dynamic,
    /// These, by their URIs as the member knows them.
    Listed(BTreeMap<String, Proof>),
}

/// Why a skill is not listed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EntryError {
    /// It is no JSON object, or one that names a member twice.
    #[error("the entry is no object that can be read")]
    Unreadable,
    /// Its URI is not one of a `SKILL.md`.
    #[error("uri {0:?} is not that of a SKILL.md in a directory")]
    Uri(String),
    /// Its directory is deeper than any that is looked for.
    #[error("uri {0:?} has more than {SKILL_DEPTH_MAX} directories")]
    TooDeep(String),
    /// There is no frontmatter, or it has no name.
    #[error("the entry has no frontmatter with a name")]
    Frontmatter,
    /// The directory is called otherwise than the skill.
    #[error("the skill is called {name:?}, and its directory otherwise: {uri:?}")]
    NameMismatch {
        /// The name.
        name: String,
        /// The URI.
        uri: String,
    },
    /// It does not say which files there are, which hosts must know.
    #[error("`resources` is neither a list nor \"dynamic\"")]
    Files,
    /// A file is listed without what hosts verify.
    #[error(
        "file {0:?} is listed without uri, digest (sha256: and 64 lower-case hexadecimal digits) and size (whole bytes)"
    )]
    File(String),
    /// A file is listed that is elsewhere.
    #[error("file {0:?} is not in the directory of the skill")]
    Outside(String),
    /// A file is listed twice.
    #[error("file {0:?} is listed twice")]
    FileTwice(String),
    /// Its name, its description or another field that the Agent Skills specification knows breaks the rules, for which
    /// hosts refuse it, and some all skills with it.
    #[error("frontmatter field `{0}` must be {1}")]
    Field(&'static str, &'static str),
    /// The list of files lacks the one that must be there.
    #[error("its own SKILL.md is not among its files")]
    ManifestMissing,
}

impl EntryError {
    /// One CamelCase word.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Unreadable => "Unreadable",
            Self::Uri(_) => "InvalidURI",
            Self::TooDeep(_) => "TooDeep",
            Self::Outside(_) => "FileOutside",
            Self::Frontmatter => "FrontmatterMissing",
            Self::NameMismatch { .. } => "NameMismatch",
            Self::Files => "ResourcesMissing",
            Self::File(_) => "InvalidResource",
            Self::FileTwice(_) => "FileTwice",
            Self::Field(..) => "InvalidField",
            Self::ManifestMissing => "ManifestMissing",
        }
    }
}

impl Entry {
    /// Reads an entry of `skills/list`, or the `skill` that `skills/get` gives.
    ///
    /// # Errors
    /// Hosts could not use it.
    pub fn read(raw: &str) -> Result<Self, EntryError> {
        let members = Members::parse(raw).ok_or(EntryError::Unreadable)?;
        let uri = members.string("uri").unwrap_or_default().into_owned();
        let shown = || printable(&uri, SHOWN);
        let directory = uri::directory(&uri).filter(|_| !uri.contains(acts_on_the_line));
        let directory = directory.ok_or_else(|| EntryError::Uri(shown()))?;
        if uri::depth(directory) > SKILL_DEPTH_MAX {
            return Err(EntryError::TooDeep(shown()));
        }
        let frontmatter = members.get("frontmatter").and_then(|raw| Members::parse(raw.get()));
        let frontmatter = frontmatter.ok_or(EntryError::Frontmatter)?;
        let text = |field| frontmatter.string(field).filter(|text| !text.is_empty());
        let name = text("name").ok_or(EntryError::Frontmatter)?.into_owned();
        if !is_called(directory, &name) {
            return Err(EntryError::NameMismatch {
                name: printable(&name, SHOWN),
                uri: shown(),
            });
        }
        let resources = members.get("resources").ok_or(EntryError::Files)?;
        let files = Files::read(resources)?;
        if let Files::Listed(listed) = &files {
            let is_inside = |file: &str| file.strip_prefix(directory).is_some_and(|rest| rest.starts_with('/'));
            if let Some(outside) = listed.keys().find(|file| !is_inside(file)) {
                return Err(EntryError::Outside(printable(outside, SHOWN)));
            }
        }
        if matches!(&files, Files::Listed(listed) if !listed.contains_key(&uri)) {
            return Err(EntryError::ManifestMissing);
        }
        Ok(Self {
            name,
            description: text("description").map(Into::into),
            files,
            raw: raw.into(),
            uri,
        })
    }

    /// Whether hosts can read a list with it, which some refuse whole for one field of another type.
    ///
    /// # Errors
    /// They could not.
    pub fn check_fields(&self) -> Result<(), EntryError> {
        let frontmatter = Members::parse(&self.raw).and_then(|entry| Members::parse(entry.get("frontmatter")?.get()));
        match frontmatter.as_ref().and_then(frontmatter::broken_field) {
            Some((field, rule)) => Err(EntryError::Field(field, rule)),
            None => Ok(()),
        }
    }

    /// The entry as the member wrote it.
    pub fn raw(&self) -> &str {
        &self.raw
    }

    /// The entry for clients: the URIs with the member's prefix, every other byte as the member wrote it.
    pub fn for_client(&self, prefix: &SkillPrefix) -> String {
        self.with_uris(|uri| uri::is_skill(uri).then(|| prefix.to_client(uri).into_owned()))
    }

    /// The entry of clients as the member knows it; `None` if it is not one of this member's.
    pub fn for_member(&self, prefix: &SkillPrefix) -> Option<Self> {
        Self::read(&self.with_uris(|uri| prefix.to_member(uri))).ok()
    }

    fn with_uris(&self, rename: impl Fn(&str) -> Option<String>) -> String {
        let mut edits = Edits::of(&self.raw);
        let mut prefixed = |raw: &RawValue| {
            if let Some(uri) = object::string(raw).and_then(|uri| rename(&uri)) {
                let mut json = Vec::new();
                object::write_string(&mut json, &uri);
                edits.replace(raw, String::from_utf8_lossy(&json).into_owned());
            }
        };
        if let Some(members) = Members::parse(&self.raw) {
            members.get("uri").into_iter().for_each(&mut prefixed);
            let resources = members.get("resources").map(|raw| raw.get()).unwrap_or_default();
            let resources: Vec<&RawValue> = serde_json::from_str(resources).unwrap_or_default();
            let uris = resources
                .into_iter()
                .filter_map(|raw| Members::parse(raw.get())?.get("uri"));
            uris.for_each(prefixed);
        }
        edits.finish().into_owned()
    }

    /// What is known of the file with this URI, as the member knows it: `None` if it is no listed file of the skill.
    pub fn proof(&self, uri: &str) -> Option<Proof> {
        match &self.files {
            Files::Dynamic => None,
            Files::Listed(files) => files.get(uri).copied(),
        }
    }

    /// Whether it has more files or bytes than every host takes.
    pub fn exceeds_limits(&self) -> bool {
        match &self.files {
            Files::Dynamic => false,
            Files::Listed(files) => {
                let bytes = files.values().fold(0_u64, |sum, file| sum.saturating_add(file.size));
                files.len() > SKILL_FILES_MAX || bytes > SKILL_BYTES_MAX
            }
        }
    }
}

impl Files {
    fn read(resources: &RawValue) -> Result<Self, EntryError> {
        if object::string(resources).is_some_and(|text| text == "dynamic") {
            return Ok(Self::Dynamic);
        }
        let listed: Vec<&RawValue> = serde_json::from_str(resources.get()).map_err(|_| EntryError::Files)?;
        let mut files = BTreeMap::new();
        for raw in listed {
            let members = Members::parse(raw.get());
            let uri = members.as_ref().and_then(|file| file.string("uri")).unwrap_or_default();
            let shown = || printable(&uri, SHOWN);
            let proof = members
                .as_ref()
                .and_then(Proof::read)
                .filter(|_| !uri.is_empty() && !uri.contains(acts_on_the_line));
            let proof = proof.ok_or_else(|| EntryError::File(shown()))?;
            if files.insert(uri.clone().into_owned(), proof).is_some() {
                return Err(EntryError::FileTwice(shown()));
            }
        }
        Ok(Self::Listed(files))
    }
}

/// Whether the last part of `directory` is `name`, percent-encoded where it has to be (RFC 3986, section 2.1).
fn is_called(directory: &str, name: &str) -> bool {
    let last = directory.rsplit('/').next().unwrap_or_default();
    last == name || percent_decode_str(last).eq(name.bytes())
}

/// Longest URI in a message.
const SHOWN: usize = 128;

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const DIGEST: &str = "sha256:3116f440fb6169a786794141c11b132b6cf346f79dd31f4458caf66cd9c25c32";

    fn entry() -> String {
        format!(
            r#"{{ "uri":"skill://a/ops/SKILL.md", "frontmatter":{{"name":"ops","description":"D","x":[1.0 ]}},"resources":[{{"uri":"skill:\/\/a/ops/SKILL.md","digest":"{DIGEST}","size":17 }}, {{"size":17,"digest":"{DIGEST}","uri":"skill://a/ops/b c.txt","k":null}},{{"uri":"skill://a/ops/y","digest":"{DIGEST}","size":0}}],"_meta":{{"uri":"skill://a"}} }}"#
        )
    }

    #[test]
    fn uris_get_the_prefix_and_no_other_byte_changes() {
        let read = Entry::read(&entry()).unwrap();
        assert_eq!((read.name.as_str(), read.description.as_deref()), ("ops", Some("D")));
        let expected = entry()
            .replace(r#""uri":"skill://a/ops"#, r#""uri":"skill://m/a/ops"#)
            .replace(r"skill:\/\/a/ops", "skill://m/a/ops");
        let prefix = SkillPrefix::new("m").unwrap();
        assert_eq!(read.for_client(&prefix), expected);
        let back = Entry::read(&expected).unwrap().for_member(&prefix).unwrap();
        assert_eq!(back.raw(), entry().replace(r"skill:\/\/", "skill://"));
        assert_eq!(read.raw(), entry());
    }

    #[test]
    fn skills_without_a_fixed_list_of_files_stay_so() {
        let raw = r#"{"uri":"skill://ops/SKILL.md","frontmatter":{"name":"ops"},"resources":"dynamic"}"#;
        let read = Entry::read(raw).unwrap();
        assert_eq!((&read.files, &read.description), (&Files::Dynamic, &None));
        assert_eq!(
            read.for_client(&SkillPrefix::new("m").unwrap()),
            raw.replace("//ops", "//m/ops")
        );
        assert!(read.proof("skill://ops/SKILL.md").is_none() && !read.exceeds_limits());
    }

    #[test]
    fn other_schemes_stay_as_they_are() {
        let raw = entry().replace("skill:", "git:");
        let read = Entry::read(&raw).unwrap();
        assert_eq!(read.for_client(&SkillPrefix::new("m").unwrap()), raw);
    }

    #[test]
    fn what_hosts_could_not_use_is_refused_with_the_reason() {
        let changed = |from: &str, to: &str| entry().replacen(from, to, 1);
        for (raw, reason) in [
            ("[]".to_owned(), "Unreadable"),
            (changed(r#""uri":"#, r#""uri":"x","uri":"#), "Unreadable"),
            (changed(r#""uri":"#, r#""url":"#), "InvalidURI"),
            (changed("/SKILL.md", "/skill.md"), "InvalidURI"),
            (changed("/SKILL.md", r"\u0007/SKILL.md"), "InvalidURI"),
            (
                changed(r#""frontmatter":{"#, r#""frontmatter":7,"f":{"#),
                "FrontmatterMissing",
            ),
            (changed(r#""name":"ops""#, r#""name":7"#), "FrontmatterMissing"),
            (changed(r#""name":"ops""#, r#""name":"""#), "FrontmatterMissing"),
            (changed(r#""name":"ops""#, r#""name":"other""#), "NameMismatch"),
            (changed(r#""resources":"#, r#""files":"#), "ResourcesMissing"),
            (
                changed(r#""resources":"#, r#""resources":"static","f":"#),
                "ResourcesMissing",
            ),
            (changed(r#""resources":["#, r#""resources":[7,"#), "InvalidResource"),
            (changed("sha256:3", "sha256:G"), "InvalidResource"),
            (changed("3116f", "3116F"), "InvalidResource"),
            (changed("sha256:31", "sha256:3"), "InvalidResource"),
            (changed("sha256:31", "sha256:311"), "InvalidResource"),
            (changed("sha256:31", "md5:31"), "InvalidResource"),
            (changed(r#""size":17 "#, r#""size":-1"#), "InvalidResource"),
            (changed(r#""size":17 "#, r#""size":1.5"#), "InvalidResource"),
            (changed("/ops/b c.txt", "/ops/SKILL.md"), "FileTwice"),
            (changed("/ops/b c.txt", "/opsx"), "FileOutside"),
            (entry().replace("a/ops", &format!("{}ops", "a/".repeat(64))), "TooDeep"),
            (
                changed(r"skill:\/\/a/ops/SKILL", "skill://a/ops/OTHER"),
                "ManifestMissing",
            ),
        ] {
            assert_eq!(Entry::read(&raw).unwrap_err().reason(), reason, "{raw}");
        }
    }

    #[test]
    fn fields_that_hosts_know_keep_the_rules_and_others_are_free() {
        let check = |fields: serde_json::Value| {
            let mut frontmatter = json!({"name": "a", "description": "D"});
            for (field, value) in fields.as_object().unwrap() {
                frontmatter[field] = value.clone();
            }
            let entry = json!({"uri": "skill://a/SKILL.md", "frontmatter": frontmatter, "resources": "dynamic"});
            Entry::read(&entry.to_string()).unwrap().check_fields()
        };
        for fields in [
            json!({}),
            json!({"license": "MIT", "compatibility": "any", "allowed-tools": "Read Write", "other": [1]}),
            json!({"allowed-tools": ["Read"], "metadata": {"rank": 3}}),
            json!({"description": "é".repeat(1_024), "compatibility": "é".repeat(500)}),
        ] {
            assert_eq!(check(fields.clone()), Ok(()), "{fields}");
        }
        for (fields, field) in [
            (json!({"description": null}), "description"),
            (json!({"description": " "}), "description"),
            (json!({"description": 7}), "description"),
            (json!({"description": "é".repeat(1_025)}), "description"),
            (json!({"license": 2}), "license"),
            (json!({"license": null}), "license"),
            (json!({"compatibility": ""}), "compatibility"),
            (json!({"compatibility": "é".repeat(501)}), "compatibility"),
            (json!({"metadata": "x"}), "metadata"),
            (json!({"allowed-tools": {"a": 1}}), "allowed-tools"),
            (json!({"allowed-tools": ["a", 1]}), "allowed-tools"),
        ] {
            let error = check(fields.clone()).unwrap_err();
            assert_eq!(error.reason(), "InvalidField");
            assert!(error.to_string().contains(&format!("`{field}`")), "{fields}: {error}");
        }
        let entry = json!({"uri": "skill://A_b/SKILL.md", "frontmatter": {"name": "A_b", "description": "D"}, "resources": "dynamic"});
        let error = Entry::read(&entry.to_string()).unwrap().check_fields().unwrap_err();
        assert!(error.to_string().contains("`name`"), "{error}");
    }

    #[test]
    fn a_name_may_be_encoded_in_the_uri() {
        let read = |directory: &str, name: &str| {
            let uri = format!("skill://a/{directory}/SKILL.md");
            let entry = json!({"uri": uri, "frontmatter": {"name": name}, "resources": "dynamic"});
            Entry::read(&entry.to_string()).map_err(|error| error.reason())
        };
        for (directory, name) in [("r%C3%A9sum%c3%a9", "résumé"), ("résumé", "résumé"), ("100%", "100%")] {
            let read = read(directory, name).unwrap();
            assert_eq!((read.name.as_str(), read.uri.contains(directory)), (name, true));
        }
        for (directory, name) in [("r%C3sum", "résumé"), ("résumé", "r%C3%A9sum%C3%A9"), ("b%2Fc", "c")] {
            assert_eq!(read(directory, name).unwrap_err(), "NameMismatch", "{directory}");
        }
    }

    #[test]
    fn more_than_every_host_takes_is_known() {
        let large = Entry::read(&entry().replacen(r#""size":17 "#, r#""size":16777217 "#, 1)).unwrap();
        assert!(large.exceeds_limits() && !Entry::read(&entry()).unwrap().exceeds_limits());
    }
}
