//! Skills of a federation itself: made of the files that its object names, without IO.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use bytes::Bytes;

use super::reference::{Content, Reference, ReferenceKind, References};
use super::unresolved::Unresolved;
use crate::api::federation::{MCPFederationSpec, SkillSource};
use crate::index::skills::{LeftOut, OwnSkills, own};

/// The skills of one federation itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SkillsPlan {
    /// Those that can be served.
    pub own: Option<Arc<OwnSkills>>,
    /// What is left out.
    pub problems: Vec<SkillProblem>,
}

/// Something of a federation's skills that is left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SkillProblem {
    /// The source, as the object says it; the skill or file in it, if it is not all of it.
    pub what: String,
    /// Why.
    pub why: Unresolved,
}

impl SkillsPlan {
    /// The skills that `spec`, of a federation in `namespace`, names, out of `references`.
    pub fn resolve(spec: &MCPFederationSpec, namespace: &str, references: &References) -> Self {
        let (mut packages, mut problems) = (Vec::new(), Vec::new());
        for source in &spec.skills {
            let shown = shown(source);
            match files(source, namespace, references) {
                Ok(files) => {
                    let (found, left_out) = own::packages(&source.prefix, &files);
                    packages.extend(found);
                    problems.extend(left_out.into_iter().map(|left| SkillProblem::of(&shown, &left)));
                }
                Err(why) => problems.push(SkillProblem { what: shown, why }),
            }
        }
        let (own, left_out) = OwnSkills::new(packages);
        problems.extend(left_out.into_iter().map(|left| SkillProblem::of("spec.skills", &left)));
        Self {
            own: (!own.is_empty()).then(|| Arc::new(own)),
            problems,
        }
    }
}

/// The ConfigMaps and directories that `spec`, of a federation in `namespace`, takes its skills from.
pub fn skill_references<'a>(spec: &'a MCPFederationSpec, namespace: &'a str) -> impl Iterator<Item = Reference> + 'a {
    spec.skills.iter().filter_map(|source| reference(source, namespace))
}

impl SkillProblem {
    fn of(source: &str, left: &LeftOut) -> Self {
        Self {
            what: format!("{source}: {}", left.path),
            why: Unresolved {
                reason: left.cause.reason(),
                message: left.cause.to_string(),
            },
        }
    }
}

impl fmt::Display for SkillProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.what, self.why.message)
    }
}

fn shown(source: &SkillSource) -> String {
    match (&source.config_map_ref, &source.directory) {
        (Some(config_map), _) => format!("ConfigMap {:?}", config_map.name),
        (None, Some(directory)) => format!("directory {directory:?}"),
        (None, None) => "spec.skills".to_owned(),
    }
}

fn reference(source: &SkillSource, namespace: &str) -> Option<Reference> {
    let config_map = source.config_map_ref.as_ref();
    let config_map = config_map.map(|own| Reference::new(ReferenceKind::ConfigMap, namespace, &own.name));
    let directory = source.directory.as_ref();
    config_map.or_else(|| directory.map(|path| Reference::new(ReferenceKind::Directory, namespace, path)))
}

/// The files of a source, each with its path.
fn files(source: &SkillSource, namespace: &str, references: &References) -> Result<own::SourceFiles, Unresolved> {
    let nothing = || Unresolved {
        reason: "NoSource",
        message: "set exactly one of configMapRef and directory".into(),
    };
    let reference = reference(source, namespace).ok_or_else(nothing)?;
    let is_directory = reference.kind == ReferenceKind::Directory;
    if is_directory
        && !matches!(
            references.content(&reference),
            Some(Content::Found(_) | Content::Partly { .. } | Content::Unreadable(_))
        )
    {
        return Err(Unresolved {
            reason: "DirectoryUnsupported",
            message:
                "directories are served by `mcpfleet up` alone; put the files into a ConfigMap, and name that with \
                      configMapRef and items"
                    .into(),
        });
    }
    let values = references.values(&reference, false)?.ok_or_else(nothing)?;
    if is_directory {
        let unread = references.unread(&reference).map(|(path, why)| own::Unread {
            path: path.to_owned(),
            reason: "RefUnreadable",
            why: why.to_owned(),
        });
        return Ok(own::SourceFiles {
            read: values
                .iter()
                .map(|(path, bytes)| (path.clone(), shared(bytes)))
                .collect(),
            unread: unread.collect(),
        });
    }
    let missing = source.items.iter().filter(|item| !values.contains_key(&item.key));
    let unread = missing.map(|item| own::Unread {
        path: item.path.clone(),
        reason: "RefNotFound",
        why: format!("{reference} has no key {:?}; add it or correct items", item.key),
    });
    // Two files of one key are one in memory.
    let mut read: BTreeMap<&str, Bytes> = BTreeMap::new();
    let files = source.items.iter().filter_map(|item| {
        let value = values.get(&item.key)?;
        let bytes = read.entry(&item.key).or_insert_with(|| shared(value));
        Some((item.path.clone(), bytes.clone()))
    });
    Ok(own::SourceFiles {
        read: files.collect(),
        unread: unread.collect(),
    })
}

fn shared(bytes: &[u8]) -> Bytes {
    Bytes::copy_from_slice(bytes)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    const MANIFEST: &[u8] = b"---\nname: backup\ndescription: Back up a cluster\n---\n";

    fn resolved(skills: Value, references: &References) -> (Vec<String>, Vec<(String, &'static str)>) {
        let spec: MCPFederationSpec = serde_json::from_value(json!({"skills": skills})).unwrap();
        let plan = SkillsPlan::resolve(&spec, "team", references);
        let own = plan.own.iter().flat_map(|own| &own.catalog().skills);
        let problems = plan
            .problems
            .into_iter()
            .map(|problem| (problem.what, problem.why.reason));
        (own.map(|item| item.key.clone()).collect(), problems.collect())
    }

    fn references(kind: ReferenceKind, name: &str, files: &[(&str, &[u8])]) -> References {
        let files = files.iter().map(|(key, bytes)| ((*key).to_owned(), bytes.to_vec()));
        [(Reference::new(kind, "team", name), Content::Found(files.collect()))]
            .into_iter()
            .collect()
    }

    #[test]
    fn a_config_map_gives_the_files_that_its_items_name() {
        let values = references(
            ReferenceKind::ConfigMap,
            "runbooks",
            &[("m", MANIFEST), ("run", b"\xff\0"), ("other", b"x")],
        );
        let source = |items: Value| json!([{"configMapRef": {"name": "runbooks"}, "prefix": ["ops"], "items": items}]);
        let items = json!([{"key": "m", "path": "backup/SKILL.md"}, {"key": "run", "path": "backup/bin/run"}]);
        assert_eq!(
            resolved(source(items), &values),
            (vec!["skill://ops/backup/SKILL.md".to_owned()], vec![])
        );
        let missing = source(json!([{"key": "nope", "path": "backup/SKILL.md"}]));
        assert_eq!(
            resolved(missing.clone(), &values).1,
            [("ConfigMap \"runbooks\": ops/backup".to_owned(), "RefNotFound")]
        );
        assert_eq!(resolved(missing, &References::default()).1[0].1, "RefPending");
        let partly = source(json!([
            {"key": "m", "path": "backup/SKILL.md"},
            {"key": "m", "path": "restore/SKILL.md"},
            {"key": "nope", "path": "restore/bin/run"},
        ]));
        assert_eq!(
            resolved(partly, &values),
            (
                vec!["skill://ops/backup/SKILL.md".to_owned()],
                vec![("ConfigMap \"runbooks\": ops/restore".to_owned(), "RefNotFound")]
            )
        );
        let mistaken =
            source(json!([{"key": "m", "path": "restore/SKILL.md"}, {"key": "m", "path": "backup/SKILL.md"}]));
        let (served, left_out) = resolved(mistaken, &values);
        assert_eq!(served, ["skill://ops/backup/SKILL.md"]);
        assert_eq!(
            left_out,
            [("ConfigMap \"runbooks\": ops/restore".to_owned(), "NameMismatch")]
        );
    }

    #[test]
    fn directories_are_served_where_they_were_read_and_nowhere_else() {
        let source = || json!([{"directory": "./skills"}]);
        let values = references(ReferenceKind::Directory, "./skills", &[("backup/SKILL.md", MANIFEST)]);
        assert_eq!(resolved(source(), &values).0, ["skill://backup/SKILL.md"]);
        assert_eq!(
            resolved(source(), &References::default()).1,
            [("directory \"./skills\"".to_owned(), "DirectoryUnsupported")]
        );
        let partly = Content::Partly {
            values: [("backup/SKILL.md".to_owned(), MANIFEST.to_vec())].into(),
            unread: [("restore/SKILL.md".to_owned(), "it is a link to nothing".to_owned())].into(),
        };
        let reference = Reference::new(ReferenceKind::Directory, "team", "./skills");
        assert_eq!(
            resolved(source(), &[(reference, partly)].into_iter().collect()),
            (
                vec!["skill://backup/SKILL.md".to_owned()],
                vec![("directory \"./skills\": restore".to_owned(), "RefUnreadable")]
            )
        );
    }
}
