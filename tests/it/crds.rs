//! Generated files are what the code generates. `UPDATE=1 cargo test --test it crds` writes them anew.

use std::fs;
use std::path::PathBuf;

use mcpfleet::commands::{crds, reference};

#[test]
fn crd_files_are_up_to_date() {
    let files = crds::files().unwrap();
    for file in &files {
        assert_generated(&format!("crds/{}", file.name), &file.yaml);
    }
    let on_disk = fs::read_dir(path("crds")).unwrap().count();
    assert_eq!(on_disk, files.len(), "crds/ has a file that is not generated any more");
}

#[test]
fn the_reference_page_is_up_to_date() {
    assert_generated("docs/resources.md", &reference::page());
}

#[test]
fn each_crd_fits_into_an_annotation() {
    // `kubectl apply` keeps a copy in an annotation, and all annotations together may have 256 KiB.
    for file in crds::files().unwrap() {
        assert!(
            file.yaml.len() < 200 << 10,
            "{} has {} bytes",
            file.name,
            file.yaml.len()
        );
    }
}

#[test]
fn the_printed_stream_holds_every_definition() {
    let mut printed = Vec::new();
    crds::write(&mut printed).unwrap();
    let printed = String::from_utf8(printed).unwrap();
    let joined: String = crds::files()
        .unwrap()
        .into_iter()
        .map(|file| format!("---\n{}", file.yaml))
        .collect();
    assert_eq!(printed, joined);
}

fn assert_generated(name: &str, content: &str) {
    let path = path(name);
    if std::env::var_os("UPDATE").is_some() {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, content).unwrap();
    }
    let found = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        found == content,
        "{name} is out of date; run: UPDATE=1 cargo test --test it crds"
    );
}

fn path(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(name)
}
