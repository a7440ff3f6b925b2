//! Whose skills are whose, and in which order they are listed.

use super::*;
use crate::index::skills::Package;
use crate::index::skills::own::{SourceFiles, packages};

/// A member with a skill of these files at `skill://a/`, and with this resource.
fn with_skill(prefix: &str, resource: &str) -> MemberCatalog {
    let entry = json!({"uri": "skill://a/SKILL.md", "frontmatter": {"name": "a"}, "resources": "dynamic"});
    let item = |list, value: Value| Item::read(list, serde_json::from_str(&value.to_string()).unwrap()).unwrap();
    let mut catalog = Catalog::new(Era::Modern);
    catalog.skills = vec![item(List::Skills, entry)];
    catalog.resources = vec![item(List::Resources, json!({"uri": resource}))];
    catalog.templates = vec![item(List::Templates, json!({"uriTemplate": "{+anything}"}))];
    MemberCatalog {
        catalog: Some(Arc::new(catalog.sealed())),
        ..member(prefix, &[])
    }
}

#[test]
fn what_is_under_a_prefix_for_skills_is_that_members_alone() {
    let index = build(vec![with_skill("x", "skill://a/f"), with_skill("ops", "git://a/f")]);
    let owner = |uri: &str| {
        let target = index.resource(uri, Audience::EVERYBODY)?;
        Some((target.member, target.original))
    };
    assert_eq!(owner("skill://ops/a/f"), Some((1, "skill://a/f".to_owned())));
    assert_eq!(
        owner("skill://x/never/listed"),
        Some((0, "skill://never/listed".to_owned()))
    );
    // Not even by a template that is for anything.
    assert_eq!(owner("skill://a/f"), None);
    assert_eq!(owner("git://b"), Some((0, "git://b".to_owned())));
    let skill = |uri: &str| index.skill(uri, Audience::EVERYBODY).map(|target| target.member);
    assert_eq!(
        (skill("skill://ops/b/SKILL.md"), skill("skill://zzz/a/SKILL.md")),
        (Some(1), None)
    );
}

#[test]
fn a_member_alone_has_its_skills_as_it_knows_them() {
    let index = build(vec![with_skill("x", "skill://a/f")]);
    let alone = index.alone(0).unwrap();
    let listed = seen(&alone, Audience::EVERYBODY, List::Skills, Revision::LATEST);
    assert_eq!(listed[0]["uri"], "skill://a/SKILL.md");
    let target = alone.resource("skill://b/c", Audience::EVERYBODY).unwrap();
    assert_eq!((target.member, target.original.as_str()), (0, "skill://b/c"));
    let without = MemberCatalog {
        skills: SkillUris::LeftOut,
        ..with_skill("x", "skill://a/f")
    };
    let index = build(vec![without]);
    assert_eq!(index.alone(0).unwrap().status().skills, 0);
    let read = |uri: &str| index.resource(uri, Audience::EVERYBODY).map(|target| target.original);
    // A resource that is listed is read, whatever its scheme.
    assert_eq!(
        (read("skill://a/f"), read("skill://a/g")),
        (Some("skill://a/f".into()), None)
    );
}

/// A skill of the federation itself.
fn own_skill(prefix: &str, name: &str) -> Vec<Package> {
    let manifest = format!("---\nname: {name}\ndescription: D\n---\n").into();
    let files = SourceFiles {
        read: vec![(format!("{name}/SKILL.md"), manifest)],
        unread: Vec::new(),
    };
    packages(&[prefix.to_owned()], &files).0
}

#[test]
fn what_the_federation_has_itself_goes_before_members() {
    let own = own_skill("x", "a");
    let plan = IndexPlan {
        own: Some(Arc::new(OwnSkills::new(own).0)),
        ..IndexPlan::default()
    };
    let index = Index::build(plan, vec![with_skill("x", "skill://a/f")]);
    let listed = seen(&index, Audience::EVERYBODY, List::Skills, Revision::LATEST);
    assert_eq!(listed.as_array().unwrap().len(), 1);
    assert_eq!(listed[0]["frontmatter"]["description"], "D");
    let is_own = |uri: &str| {
        let target = index.resource(uri, Audience::EVERYBODY).unwrap();
        index.is_own(&target)
    };
    assert!(is_own("skill://x/a/SKILL.md") && !is_own("skill://x/a/f"));
    let clash = &index.status().conflicts[0];
    assert_eq!((clash.list.as_str(), clash.members.len()), ("skills", 2));
    assert!(index.readers("git://b", Audience::EVERYBODY).eq([0]));
}

/// A member with these skills.
fn with_skills(prefix: &str, paths: &[&str]) -> MemberCatalog {
    let entry = |path: &&str| {
        let name = path.rsplit('/').next();
        let entry =
            json!({"uri": format!("skill://{path}/SKILL.md"), "frontmatter": {"name": name}, "resources": "dynamic"});
        Item::read(List::Skills, serde_json::from_str(&entry.to_string()).unwrap()).unwrap()
    };
    let mut catalog = Catalog::new(Era::Modern);
    catalog.skills = paths.iter().map(entry).collect();
    MemberCatalog {
        catalog: Some(Arc::new(catalog.sealed())),
        ..member(prefix, &[])
    }
}

#[test]
fn skills_of_all_are_sorted_by_their_uris() {
    let own = own_skill("net", "own");
    let plan = IndexPlan {
        own: Some(Arc::new(OwnSkills::new(own).0)),
        ..IndexPlan::default()
    };
    let members = vec![with_skills("ops", &["b", "a-b", "a/c"]), with_skills("a-b", &["z"])];
    let index = Index::build(plan, members);
    let listed = seen(&index, Audience::EVERYBODY, List::Skills, Revision::LATEST);
    let listed = listed.as_array().unwrap().iter();
    let uris: Vec<&str> = listed.map(|entry| entry["uri"].as_str().unwrap()).collect();
    assert_eq!(
        uris,
        [
            "skill://a-b/z/SKILL.md",
            "skill://net/own/SKILL.md",
            "skill://ops/a-b/SKILL.md",
            "skill://ops/a/c/SKILL.md",
            "skill://ops/b/SKILL.md",
        ]
    );
}
