use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;

use super::*;

const SERVER: &str =
    "apiVersion: mcpfleet.dev/v1alpha1\nkind: MCPServer\nmetadata: {name: NAME}\nspec: {remote: {url: \"http://x\"}}\n";

fn loaded(paths: &[&Path]) -> Reading {
    let options = Options {
        loopback: true,
        had_federation: false,
        ..Options::default()
    };
    load(&mut Sources::new(paths.iter().map(|path| path.to_path_buf())), &options)
}

fn names(loaded: &Reading) -> Vec<String> {
    let servers = &loaded.manifests.as_ref().unwrap().servers;
    servers
        .iter()
        .map(|server| server.metadata.name.clone().unwrap())
        .collect()
}

fn told(loaded: &Reading) -> String {
    loaded.manifests.as_ref().unwrap_err().to_string()
}

fn write(directory: &Path, name: &str) -> PathBuf {
    let path = directory.join(name);
    let stem = path.file_stem().unwrap().to_str().unwrap();
    fs::write(&path, SERVER.replace("NAME", stem)).unwrap();
    path
}

#[test]
fn a_directory_stands_for_the_manifests_directly_in_it() {
    let directory = tempfile::tempdir().unwrap();
    for name in ["b.yml", "a.yaml", "notes.txt", ".hidden.yaml"] {
        write(directory.path(), name);
    }
    fs::create_dir(directory.path().join("deeper")).unwrap();
    write(&directory.path().join("deeper"), "d.yaml");
    fs::write(
        directory.path().join("c.json"),
        r#"{"mcpServers": {"c": {"command": "x"}}}"#,
    )
    .unwrap();
    let loaded = loaded(&[directory.path()]);
    assert_eq!(names(&loaded), ["a", "b"]);
    assert_eq!(loaded.manifests.unwrap().commands.len(), 1);
}

#[test]
fn a_file_named_twice_is_read_once() {
    let directory = tempfile::tempdir().unwrap();
    let file = write(directory.path(), "a.yaml");
    let link = directory.path().join("link.yaml");
    symlink(&file, &link).unwrap();
    assert_eq!(names(&loaded(&[directory.path(), &file, &link])), ["a"]);
}

#[test]
fn what_cannot_be_read_is_told_with_what_else_is_wrong() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    fs::write(path("latin1.yaml"), b"a: \xe9\n").unwrap();
    fs::write(path("bad.yaml"), "kind: Pod\n").unwrap();
    fs::write(path("large.yaml"), vec![b'#'; MANIFEST_BYTES_MAX + 1]).unwrap();
    fs::create_dir(path("empty")).unwrap();
    fs::create_dir_all(path("deep/er")).unwrap();
    let loaded = loaded(&[
        &path("missing.yaml"),
        &path("latin1.yaml"),
        &path("large.yaml"),
        &path("empty"),
        &path("deep"),
        &path("bad.yaml"),
    ]);
    let told = told(&loaded);
    let told: Vec<_> = told
        .lines()
        .map(|line| line.replace(&format!("{}/", directory.path().display()), ""))
        .collect();
    assert_eq!(
        told[0],
        "missing.yaml: cannot be read: No such file or directory (os error 2); check the path"
    );
    assert_eq!(told[1], "latin1.yaml: is not UTF-8 text; save it as UTF-8");
    assert_eq!(told[2], "large.yaml: is larger than 4 MiB; split it");
    assert_eq!(told[3], "empty: has no *.yaml, *.yml or *.json in it; check the path");
    assert_eq!(
        told[4],
        "deep: has no *.yaml, *.yml or *.json in it; directories in it are not searched: name them"
    );
    assert!(told[5].starts_with("bad.yaml:1: kind:"), "{told:?}");
    assert_eq!(told.len(), 6);
}

#[test]
fn the_largest_file_is_read() {
    let directory = tempfile::tempdir().unwrap();
    let path = write(directory.path(), "a.yaml");
    let padding = MANIFEST_BYTES_MAX - usize::try_from(fs::metadata(&path).unwrap().len()).unwrap();
    let text = fs::read_to_string(&path).unwrap() + &"#".repeat(padding);
    fs::write(&path, text).unwrap();
    assert_eq!(names(&loaded(&[&path])), ["a"]);
}

#[test]
fn files_are_read_anew_each_time() {
    let directory = tempfile::tempdir().unwrap();
    let file = write(directory.path(), "a.yaml");
    let options = Options {
        loopback: true,
        had_federation: false,
        ..Options::default()
    };
    let mut sources = Sources::new([file.clone()]);
    assert_eq!(names(&load(&mut sources, &options)), ["a"]);
    fs::write(&file, SERVER.replace("NAME", "other")).unwrap();
    assert_eq!(names(&load(&mut sources, &options)), ["other"]);
    fs::write(&file, "").unwrap();
    assert!(
        told(&load(&mut sources, &options)).contains("hold no MCPServer"),
        "a file caught empty is no empty fleet"
    );
}

#[test]
fn what_may_never_end_is_refused_unread() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    // Nobody ever writes into it: opening it would block.
    assert!(
        std::process::Command::new("mkfifo")
            .arg(path("pipe.yaml"))
            .status()
            .unwrap()
            .success()
    );
    symlink(path("pipe.yaml"), path("link.yaml")).unwrap();
    let _socket = UnixListener::bind(path("socket.yaml")).unwrap();
    let device = Path::new("/dev/zero");
    let named = [&*path("pipe.yaml"), &path("link.yaml"), &path("socket.yaml"), device].map(Path::to_owned);
    let named: Vec<&Path> = named.iter().map(PathBuf::as_path).collect();
    let told = told(&loaded(&named));
    for (line, what) in told.lines().zip(["a pipe", "a pipe", "a socket", "a device"]) {
        assert!(line.contains(&format!("is {what}, and only files")), "{told}");
        assert!(line.ends_with("can be piped to `mcpfleet up -`"), "{told}");
    }
    assert_eq!(told.lines().count(), named.len());
    write(directory.path(), "a.yaml");
    assert_eq!(
        names(&loaded(&[directory.path()])),
        ["a"],
        "in a directory they are passed over"
    );
}
