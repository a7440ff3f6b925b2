use std::os::unix::fs::symlink;
use std::time::Duration;

use tempfile::TempDir;

use super::*;

/// Longer than a poll, so that both ways of noticing have had their turn.
const QUIET: Duration = Duration::from_millis(2_500);
/// Shorter than a poll: the system's notice did it.
const SOON: Duration = Duration::from_millis(1_500);

struct Folder(TempDir);

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        path
    }

    fn watch(&self, name: &str) -> FileWatch {
        FileWatch::new([self.path(name)])
    }
}

impl FileWatch {
    async fn changes(&mut self) {
        timeout(SOON, self.changed()).await.expect("no change told");
    }

    async fn is_quiet(&mut self) {
        timeout(QUIET, self.changed()).await.expect_err("a change told");
    }
}

#[tokio::test]
async fn a_write_in_place_is_told_once() {
    let folder = Folder::new();
    folder.write("fleet.yaml", "one");
    let mut watch = folder.watch("fleet.yaml");
    folder.write("fleet.yaml", "two");
    watch.changes().await;
    watch.is_quiet().await;
}

#[tokio::test]
async fn what_others_write_into_their_files_beside_manifests_is_not_looked_at() {
    let folder = Folder::new();
    folder.write("fleet/fleet.yaml", "one");
    let log = folder.write("fleet/run.log", "");
    let watch = folder.watch("fleet");
    for _ in 0..3 {
        fs::write(&log, "more").unwrap();
        fs::OpenOptions::new()
            .append(true)
            .open(&log)
            .unwrap()
            .set_len(9)
            .unwrap();
    }
    timeout(QUIET, watch.noticed.notified())
        .await
        .expect_err("a look for nothing");
    let linked = Folder::new();
    let target = linked.write("target", "one");
    symlink(&target, linked.path("link.yaml")).unwrap();
    let mut watch = linked.watch("link.yaml");
    linked.write("target", "two");
    watch.changes().await;
}

#[tokio::test]
async fn a_burst_of_writes_is_told_once_it_is_over() {
    let folder = Folder::new();
    folder.write("fleet.yaml", "");
    let mut watch = folder.watch("fleet.yaml");
    let started = Instant::now();
    let writes = async {
        for n in 0..20 {
            folder.write("fleet.yaml", &"x".repeat(n));
            sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::join!(writes, watch.changes());
    assert!(started.elapsed() >= Duration::from_millis(400));
    watch.is_quiet().await;
}

#[tokio::test]
async fn a_file_that_never_rests_is_told_all_the_same() {
    let folder = Folder::new();
    folder.write("fleet.yaml", "");
    let mut watch = folder.watch("fleet.yaml");
    let writes = async {
        for n in 0.. {
            folder.write("fleet.yaml", &"x".repeat(n));
            sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::select! {
        () = writes => {}
        () = watch.changes() => {}
    }
}

#[tokio::test]
async fn an_editor_that_replaces_the_file_is_seen_each_time() {
    let folder = Folder::new();
    folder.write("fleet.yaml", "0");
    let mut watch = folder.watch("fleet.yaml");
    for n in 1..4 {
        let new = folder.write(".fleet.yaml.swp", &n.to_string());
        fs::rename(new, folder.path("fleet.yaml")).unwrap();
        watch.changes().await;
    }
}

#[tokio::test]
async fn a_file_that_is_deleted_and_made_again_is_seen() {
    let folder = Folder::new();
    folder.write("fleet.yaml", "one");
    let mut watch = folder.watch("fleet.yaml");
    fs::remove_file(folder.path("fleet.yaml")).unwrap();
    watch.changes().await;
    folder.write("fleet.yaml", "one");
    watch.changes().await;
}

#[tokio::test]
async fn a_mounted_config_map_is_seen_each_time_its_data_is_swapped() {
    let folder = Folder::new();
    folder.write("..1/fleet.yaml", "one");
    symlink("..1", folder.path("..data")).unwrap();
    symlink("..data/fleet.yaml", folder.path("fleet.yaml")).unwrap();
    let mut by_file = folder.watch("fleet.yaml");
    let mut by_folder = folder.watch("");
    for n in 2..5 {
        folder.write(&format!("..{n}/fleet.yaml"), &n.to_string());
        symlink(format!("..{n}"), folder.path("..data_tmp")).unwrap();
        fs::rename(folder.path("..data_tmp"), folder.path("..data")).unwrap();
        fs::remove_dir_all(folder.path(&format!("..{}", n - 1))).unwrap();
        tokio::join!(by_file.changes(), by_folder.changes());
    }
}

#[tokio::test]
async fn a_linked_file_is_watched_where_it_lies() {
    let (here, there) = (Folder::new(), Folder::new());
    let real = there.write("real.yaml", "one");
    symlink(&real, here.path("fleet.yaml")).unwrap();
    let mut watch = here.watch("fleet.yaml");
    there.write("real.yaml", "two");
    watch.changes().await;
}

#[tokio::test]
async fn files_that_come_to_and_leave_a_directory_are_seen() {
    let folder = Folder::new();
    folder.write("conf/a.yaml", "a");
    let mut watch = folder.watch("conf");
    folder.write("conf/b.yaml", "b");
    watch.changes().await;
    fs::remove_file(folder.path("conf/a.yaml")).unwrap();
    watch.changes().await;
}

#[tokio::test]
async fn a_directory_that_is_replaced_is_watched_on() {
    let folder = Folder::new();
    folder.write("conf/a.yaml", "a");
    let mut watch = folder.watch("conf");
    folder.write("new/a.yaml", "b");
    fs::rename(folder.path("conf"), folder.path("old")).unwrap();
    fs::rename(folder.path("new"), folder.path("conf")).unwrap();
    watch.changes().await;
    folder.write("conf/a.yaml", "c");
    watch.changes().await;
    fs::remove_dir_all(folder.path("conf")).unwrap();
    watch.changes().await;
    folder.write("conf/a.yaml", "d");
    watch.changes().await;
}

#[tokio::test]
async fn neighbours_and_readers_are_no_change() {
    let folder = Folder::new();
    let path = folder.write("fleet.yaml", "one");
    folder.write("conf/a.yaml", "a");
    let mut watch = FileWatch::new([path.clone(), folder.path("conf"), folder.path("none"), "-".into()]);
    let noise = async {
        for n in 0..20 {
            folder.write("fleet.log", &n.to_string());
            folder.write("conf/.a.yaml", &n.to_string());
            folder.write("conf/a.yaml~", &n.to_string());
            fs::read(&path).unwrap();
            sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::join!(noise, watch.is_quiet());
}

#[tokio::test]
async fn without_notices_changes_are_found_by_looking() {
    let folder = Folder::new();
    folder.write("fleet.yaml", "one");
    let mut watch = folder.watch("fleet.yaml");
    watch._watcher = None;
    folder.write("fleet.yaml", "longer");
    timeout(defaults::FILE_POLL + SOON, watch.changed())
        .await
        .expect("no change found");
}

#[tokio::test]
async fn what_changes_at_any_depth_of_a_deep_directory_is_told() {
    let folder = Folder::new();
    folder.write("skills/ops/backup/SKILL.md", "one");
    let mut watch = FileWatch::deep([folder.path("skills")]);
    folder.write("skills/ops/backup/SKILL.md", "two");
    watch.changes().await;
    folder.write("skills/new/bin/run.sh", "x");
    watch.changes().await;
    folder.write("skills/new/bin/run.sh", "y");
    watch.changes().await;
    folder.write("skills/.hidden/x", "y");
    watch.is_quiet().await;
}

#[tokio::test]
async fn a_pipe_is_left_alone() {
    let folder = Folder::new();
    let made = std::process::Command::new("mkfifo")
        .arg(folder.path("pipe"))
        .status()
        .unwrap();
    assert!(made.success());
    let watched = |deep| Watched {
        paths: vec![folder.path("pipe")],
        deep,
    };
    assert!(Snapshot::of(&watched(false)).files.is_empty() && Snapshot::of(&watched(true)).files.is_empty());
}
