use serde_json::json;

use super::*;

const RUNBOOK: &str =
    "---\nname: restart-runbook\ndescription: Restart a wedged workload\nversion: 2.0.1\n---\n\nSteps.\n";

fn files(files: &[(&str, &[u8])]) -> Vec<(String, Bytes)> {
    let owned = files
        .iter()
        .map(|(path, bytes)| ((*path).to_owned(), Bytes::copy_from_slice(bytes)));
    owned.collect()
}

fn runbook(directory: &str) -> Package {
    let files = files(&[
        ("zones.txt", b"eu-west, us-east\n"),
        ("SKILL.md", RUNBOOK.as_bytes()),
        ("scripts/run it.sh", b"#!/bin/sh\n"),
        ("scripts/deep/a.bin", b"\x00\x01\x02\xff"),
    ]);
    Package::new(directory, files).unwrap()
}

fn parsed(json: &str) -> Value {
    serde_json::from_str(json).unwrap()
}

#[test]
fn an_entry_has_the_frontmatter_and_every_file_with_digest_and_size() {
    let files = files(&[("zones.txt", b"eu-west, us-east\n"), ("SKILL.md", RUNBOOK.as_bytes())]);
    let skill = Package::new("restart-runbook", files).unwrap();
    assert_eq!(
        parsed(&skill.entry()),
        json!({
            "uri": "skill://restart-runbook/SKILL.md",
            "frontmatter": {"name": "restart-runbook", "description": "Restart a wedged workload", "version": "2.0.1"},
            "resources": [
                {
                    "uri": "skill://restart-runbook/SKILL.md",
                    "digest": "sha256:c874b52e4ac4796dec228cb2123450d7e2e892d6d56275169ffc3f39c412b949",
                    "size": 92,
                },
                {
                    "uri": "skill://restart-runbook/zones.txt",
                    "digest": "sha256:3116f440fb6169a786794141c11b132b6cf346f79dd31f4458caf66cd9c25c32",
                    "size": 17,
                },
            ],
        })
    );
}

#[test]
fn a_path_before_the_name_is_part_of_every_uri() {
    let skill = runbook("ops/net/restart-runbook");
    assert_eq!(skill.uri(), "skill://ops/net/restart-runbook/SKILL.md");
    let uris: Vec<&str> = skill.files().map(|(uri, _)| uri).collect();
    assert_eq!(
        uris,
        [
            "skill://ops/net/restart-runbook/SKILL.md",
            "skill://ops/net/restart-runbook/scripts/deep/a.bin",
            "skill://ops/net/restart-runbook/scripts/run%20it.sh",
            "skill://ops/net/restart-runbook/zones.txt",
        ]
    );
    let entry = super::super::Entry::read(&skill.entry()).unwrap();
    assert_eq!(entry.uri, skill.uri());
}

#[test]
fn files_are_read_as_text_or_as_base64() {
    let skill = runbook("restart-runbook");
    assert_eq!(
        parsed(&skill.read("skill://restart-runbook/zones.txt").unwrap()),
        json!([{"uri": "skill://restart-runbook/zones.txt", "mimeType": "text/plain", "text": "eu-west, us-east\n"}])
    );
    let binary = parsed(&skill.read("skill://restart-runbook/scripts/deep/a.bin").unwrap());
    assert_eq!(binary[0]["blob"], "AAEC/w==");
    assert_eq!(binary[0]["mimeType"], "application/octet-stream");
    let manifest = parsed(&skill.read("skill://restart-runbook/SKILL.md").unwrap());
    assert_eq!(manifest[0]["text"], RUNBOOK);
    for uri in [
        "skill://restart-runbook",
        "skill://restart-runbook/",
        "skill://restart-runbook/../x",
        "",
    ] {
        assert_eq!(skill.read(uri), None, "{uri}");
    }
}

#[test]
fn files_are_resources_and_the_manifest_has_the_skills_name() {
    let skill = runbook("restart-runbook");
    let resources: Vec<Value> = skill.resources().map(|(_, resource)| parsed(&resource)).collect();
    assert_eq!(
        resources[0],
        json!({
            "uri": "skill://restart-runbook/SKILL.md",
            "name": "restart-runbook",
            "description": "Restart a wedged workload",
            "mimeType": "text/markdown",
            "size": 92,
        })
    );
    assert_eq!(
        (&resources[2]["name"], &resources[2]["mimeType"]),
        (&json!("run it.sh"), &json!("text/x-shellscript"))
    );
}

#[test]
fn directories_list_what_is_directly_in_them() {
    let skill = runbook("restart-runbook");
    let names = |uri: &str| -> Option<Vec<(String, String)>> {
        let list = parsed(&skill.list_directory(uri)?);
        let text = |child: &Value, member: &str| child[member].as_str().unwrap().to_owned();
        let children = list.as_array().unwrap().iter();
        Some(
            children
                .map(|child| (text(child, "name"), text(child, "mimeType")))
                .collect(),
        )
    };
    let expect = |children: &[(&str, &str)]| {
        let owned = children
            .iter()
            .map(|(name, mime)| ((*name).to_owned(), (*mime).to_owned()));
        Some(owned.collect::<Vec<_>>())
    };
    let whole = expect(&[
        ("restart-runbook", "text/markdown"),
        ("scripts", "inode/directory"),
        ("zones.txt", "text/plain"),
    ]);
    assert_eq!(names("skill://restart-runbook"), whole);
    assert_eq!(names("skill://restart-runbook/"), whole);
    assert_eq!(
        names("skill://restart-runbook/scripts"),
        expect(&[("deep", "inode/directory"), ("run it.sh", "text/x-shellscript")])
    );
    for uri in [
        "skill://restart-runbook/zones.txt",
        "skill://restart-runbook/none",
        "skill://restart",
        "skill://x",
        "",
    ] {
        assert_eq!(names(uri), None, "{uri}");
    }
}

#[test]
fn files_that_are_no_skill_are_refused_with_the_reason() {
    let manifest = |name: &str| format!("---\nname: {name}\ndescription: d\n---\n").into_bytes();
    let alpha = manifest("alpha");
    let beta = manifest("beta");
    for (directory, content, reason) in [
        ("alpha", files(&[("SKILL.md", &beta)]), "NameMismatch"),
        ("x/alpha", files(&[("SKILL.md", &beta)]), "NameMismatch"),
        ("alpha", files(&[("skill.md", &alpha)]), "ManifestMissing"),
        ("alpha", files(&[("a/SKILL.md", &alpha)]), "ManifestMissing"),
        ("alpha", files(&[("SKILL.md", b"# no")]), "FrontmatterMissing"),
        ("", files(&[("SKILL.md", &alpha)]), "InvalidDirectory"),
        ("Alpha", files(&[("SKILL.md", &alpha)]), "InvalidDirectory"),
        ("a//alpha", files(&[("SKILL.md", &alpha)]), "InvalidDirectory"),
        ("../alpha", files(&[("SKILL.md", &alpha)]), "InvalidDirectory"),
        ("alpha", files(&[("SKILL.md", &alpha), ("../x", b"")]), "InvalidPath"),
        ("alpha", files(&[("SKILL.md", &alpha), ("/x", b"")]), "InvalidPath"),
        ("alpha", files(&[("SKILL.md", &alpha), ("a//b", b"")]), "InvalidPath"),
        ("alpha", files(&[("SKILL.md", &alpha), ("a\\b", b"")]), "InvalidPath"),
        ("alpha", files(&[("SKILL.md", &alpha), ("a\nb", b"")]), "InvalidPath"),
        ("alpha", files(&[("SKILL.md", &alpha), ("a/", b"")]), "InvalidPath"),
        (
            "alpha",
            files(&[("SKILL.md", &alpha), ("a", b""), ("a", b"")]),
            "FileTwice",
        ),
    ] {
        let error = Package::new(directory, content).unwrap_err();
        assert_eq!(error.reason(), reason, "{directory}: {error}");
    }
}

#[test]
fn more_than_hosts_must_take_is_refused() {
    let manifest = || {
        (
            "SKILL.md".to_owned(),
            Bytes::from_static(b"---\nname: a\ndescription: d\n---\n"),
        )
    };
    let many = |count: usize| -> Vec<(String, Bytes)> {
        (1..count)
            .map(|i| (format!("f{i}"), Bytes::new()))
            .chain([manifest()])
            .collect()
    };
    assert!(Package::new("a", many(512)).is_ok());
    assert_eq!(
        Package::new("a", many(513)).unwrap_err(),
        PackageError::TooManyFiles(513)
    );
    let large = Bytes::from(vec![0; 16 << 20]);
    let error = Package::new("a", vec![manifest(), ("b".into(), large)]).unwrap_err();
    assert_eq!(error.reason(), "TooLarge");
}
