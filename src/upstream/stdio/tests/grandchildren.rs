//! Processes that start processes.

use super::*;

/// A shell that starts a grandchild, tells of it, and does `then`.
fn with_grandchild(then: &str) -> StdioConnection {
    let grandchild = "grandchild = subprocess.Popen(['sleep', '1000'], stdin=subprocess.DEVNULL)";
    start(&format!("{grandchild}\ntell(pid=grandchild.pid)\n{then}"))
}

#[tokio::test]
async fn a_grandchild_goes_with_a_child_that_is_stopped() {
    let child = with_grandchild("for r in requests: pass");
    let pid = child.told().await["pid"].take();
    assert!(runs(&pid));
    child.stop().await;
    gone(&pid).await;
}

#[tokio::test]
async fn a_grandchild_may_finish_its_work_after_the_child_was_asked_to_stop() {
    let folder = tempfile::tempdir().unwrap();
    let mark = folder.path().join("mark");
    let trap = format!(
        "trap 'sleep 0.3; echo done > {}; exit' TERM; echo ready; while :; do sleep 0.01; done",
        mark.display()
    );
    let script = format!(
        "grandchild = subprocess.Popen(['sh', '-c', {trap:?}], stdout=subprocess.PIPE)\ngrandchild.stdout.readline()\n\
         tell(pid=grandchild.pid)\nwhile True: time.sleep(1000)"
    );
    let child = start(&script);
    let pid = child.told().await["pid"].take();
    child.stop().await;
    assert_eq!(std::fs::read_to_string(mark).unwrap(), "done\n");
    gone(&pid).await;
}

#[tokio::test]
async fn a_grandchild_goes_with_a_child_that_ends() {
    let child = with_grandchild("sys.exit(0)");
    let pid = child.told().await["pid"].take();
    assert_eq!(child.end().await.ending, Ending::Code(0));
    gone(&pid).await;
}

#[tokio::test]
async fn a_grandchild_goes_with_a_dropped_connection() {
    let child = with_grandchild("while True: time.sleep(1000)");
    let pid = child.told().await["pid"].take();
    drop(child);
    gone(&pid).await;
}

#[test]
fn children_and_grandchildren_go_with_the_runtime() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let (child, pid) = runtime.block_on(async {
        let child = with_grandchild("while True: time.sleep(1000)");
        let pid = child.told().await["pid"].take();
        (child, pid)
    });
    drop(runtime);
    drop(child);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(gone(&pid));
}
