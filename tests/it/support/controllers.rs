//! Kubernetes' own controllers beside the shared API server: Deployments get pods (which stay Pending: there is no
//! node), owned objects go away with their owner, namespaces go away.

use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

use tokio::sync::OnceCell;

use super::apiserver::{ApiServer, programs};
use super::skip::skip;

/// The API server, with the controllers started once beside it.
///
/// `None` where a program is missing: the test says so and returns. (In CI that is a failure.)
pub(crate) async fn with_controllers() -> Option<&'static ApiServer> {
    static STARTED: OnceCell<Child> = OnceCell::const_new();
    let server = ApiServer::shared().await?;
    let Some(programs) = programs(&["kube-controller-manager"]) else {
        skip("kube-controller-manager: build it once with tests/cluster/build.sh");
        return None;
    };
    STARTED
        .get_or_init(|| async {
            let program = programs.join("kube-controller-manager");
            Command::new("sh")
                .args(["-c", SUPERVISOR])
                .env("PROGRAM", program)
                .env("KUBECONFIG_FILE", &server.kubeconfig)
                .stdin(Stdio::piped())
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .process_group(0)
                .spawn()
                .unwrap()
        })
        .await;
    Some(server)
}

/// Runs the program until its standard input closes, which it does with this process.
const SUPERVISOR: &str = r#"
"$PROGRAM" --kubeconfig="$KUBECONFIG_FILE" --leader-elect=false --secure-port=0 \
  --controllers=deployment-controller,replicaset-controller,garbage-collector-controller,namespace-controller &
program=$!
cat >/dev/null
kill -KILL $program
"#;
