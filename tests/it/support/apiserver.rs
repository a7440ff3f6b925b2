//! A real kube-apiserver on loopback, one for the whole test binary, with our custom resources installed.
//!
//! Programs come from `$KUBEBUILDER_ASSETS`, else from the cache that `tests/cluster/build.sh` fills. No controller
//! runs beside the API server: nothing is garbage-collected, no pods are made, namespaces do not go away.

use std::fs;
use std::net::TcpListener;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Patch, PatchParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::runtime::wait::{await_condition, conditions};
use kube::{Api, Client, Config, ResourceExt};
use serde_json::json;
use tokio::sync::OnceCell;

use super::skip::skip;

/// A running API server.
#[derive(Debug)]
pub(crate) struct ApiServer {
    /// A kubeconfig of a cluster administrator.
    pub(crate) kubeconfig: PathBuf,
    /// While its standard input is open, the processes live; it closes with this process, however that ends.
    _processes: Child,
}

impl ApiServer {
    /// The API server of this test binary, started by whoever asks first.
    ///
    /// `None` where its programs are missing: the test says so and returns. (In CI that is a failure.)
    pub(crate) async fn shared() -> Option<&'static Self> {
        static SHARED: OnceCell<ApiServer> = OnceCell::const_new();
        let programs = Self::programs()?;
        Some(SHARED.get_or_init(|| Self::start(&programs)).await)
    }

    /// An API server for one test alone, which may do to it what it likes.
    pub(crate) async fn alone() -> Option<Self> {
        Some(Self::start(&Self::programs()?).await)
    }

    /// The same without our custom resources.
    pub(crate) async fn bare() -> Option<Self> {
        Some(Self::start_bare(&Self::programs()?).await)
    }

    fn programs() -> Option<PathBuf> {
        let programs = programs(&["kube-apiserver", "etcd"]);
        if programs.is_none() {
            skip("kube-apiserver and etcd: set KUBEBUILDER_ASSETS, or build them once with tests/cluster/build.sh");
        }
        programs
    }

    /// A client with all rights. Each test makes its own: a client lives on the runtime of the test that made it.
    pub(crate) async fn client(&self) -> Client {
        Client::try_from(self.config().await).unwrap()
    }

    /// What such a client is made from.
    pub(crate) async fn config(&self) -> Config {
        let kubeconfig = Kubeconfig::read_from(&self.kubeconfig).unwrap();
        Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default())
            .await
            .unwrap()
    }

    /// Creates a namespace for one test and gives its name back; two tests asking for the same one is a mistake.
    pub(crate) async fn namespace(&self, name: &str) -> String {
        let namespace = serde_json::from_value(json!({"metadata": {"name": name}})).unwrap();
        let namespaces: Api<Namespace> = Api::all(self.client().await);
        namespaces
            .create(&PostParams::default(), &namespace)
            .await
            .unwrap()
            .name_any()
    }

    async fn start(programs: &Path) -> Self {
        let server = Self::start_bare(programs).await;
        server.install().await;
        server
    }

    async fn start_bare(programs: &Path) -> Self {
        for _ in 0..3 {
            // A free port may be taken by somebody else before it is used: then all of it is tried again.
            if let Some(server) = Self::try_start(programs).await {
                return server;
            }
        }
        panic!("kube-apiserver did not become ready in three tries");
    }

    async fn try_start(programs: &Path) -> Option<Self> {
        let directory = tempfile::Builder::new()
            .prefix("mcpfleet-apiserver.")
            .tempdir()
            .unwrap()
            .keep();
        let [client, peer, secure] = free_ports();
        fs::write(directory.join("tokens.csv"), "admin-token,admin,admin,system:masters\n").unwrap();
        let processes = Command::new("sh")
            .args(["-c", SUPERVISOR])
            .env("DIRECTORY", &directory)
            .env("PROGRAMS", programs)
            .env("ETCD_CLIENT", format!("http://127.0.0.1:{client}"))
            .env("ETCD_PEER", format!("http://127.0.0.1:{peer}"))
            .env("PORT", secure.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0) // Ctrl-C reaches the supervisor as our end, not as a signal that it might die of first
            .spawn()
            .unwrap();
        let server = Self {
            kubeconfig: directory.join("kubeconfig"),
            _processes: processes,
        };
        let certificate = directory.join("certs/apiserver.crt");
        fs::write(&server.kubeconfig, kubeconfig(secure, &certificate)).unwrap();
        for _ in 0..300 {
            if certificate.exists() && server.is_ready().await {
                return Some(server);
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        let log = fs::read_to_string(directory.join("kube-apiserver.log")).unwrap_or_default();
        eprintln!(
            "kube-apiserver is not ready:\n{}",
            log.lines().rev().take(10).collect::<Vec<_>>().join("\n")
        );
        None
    }

    async fn is_ready(&self) -> bool {
        let request = http::Request::get("/readyz").body(Vec::new()).unwrap();
        self.client().await.request_text(request).await.is_ok()
    }

    /// Installs our custom resources, or brings them back.
    pub(crate) async fn install(&self) {
        let api: Api<CustomResourceDefinition> = Api::all(self.client().await);
        for definition in mcpfleet::api::definitions() {
            let name = definition.name_any();
            api.patch(&name, &PatchParams::apply("tests"), &Patch::Apply(&definition))
                .await
                .unwrap();
            let established = await_condition(api.clone(), &name, conditions::is_crd_established());
            tokio::time::timeout(Duration::from_secs(30), established)
                .await
                .unwrap()
                .unwrap();
        }
    }
}

/// Runs both programs until its standard input closes, then ends them and removes the directory.
const SUPERVISOR: &str = r#"
cd "$DIRECTORY" || exit 1
openssl genrsa -out sa.key 2048 2>openssl.log
"$PROGRAMS/etcd" --data-dir etcd --unsafe-no-fsync --listen-client-urls "$ETCD_CLIENT" \
  --advertise-client-urls "$ETCD_CLIENT" --listen-peer-urls "$ETCD_PEER" --initial-advertise-peer-urls "$ETCD_PEER" \
  --initial-cluster "default=$ETCD_PEER" >etcd.log 2>&1 &
etcd=$!
"$PROGRAMS/kube-apiserver" --etcd-servers="$ETCD_CLIENT" --secure-port="$PORT" --bind-address=127.0.0.1 \
  --advertise-address=127.0.0.1 --cert-dir=certs --token-auth-file=tokens.csv --authorization-mode=RBAC \
  --service-account-issuer=https://localhost --service-account-key-file=sa.key \
  --service-account-signing-key-file=sa.key --disable-admission-plugins=ServiceAccount \
  --service-cluster-ip-range=10.0.0.0/24 >kube-apiserver.log 2>&1 &
apiserver=$!
cat >/dev/null
kill -KILL $apiserver $etcd
wait
cd / && rm -rf "$DIRECTORY"
"#;

/// The folder with these programs, if there is one.
pub(crate) fn programs(names: &[&str]) -> Option<PathBuf> {
    let given = std::env::var_os("KUBEBUILDER_ASSETS").map(PathBuf::from);
    let cache = std::env::var_os("CACHE").map(PathBuf::from);
    let home = std::env::var_os("HOME").map(|home| Path::new(&home).join(".cache/mcpfleet-testcluster"));
    let built = cache.or(home).map(|cache| cache.join("bin"));
    let folders = [given, built].into_iter().flatten();
    folders
        .into_iter()
        .find(|folder| names.iter().all(|program| folder.join(program).is_file()))
}

fn free_ports() -> [u16; 3] {
    [(); 3]
        .map(|()| TcpListener::bind("127.0.0.1:0").unwrap())
        .map(|listener| listener.local_addr().unwrap().port())
}

fn kubeconfig(port: u16, certificate: &Path) -> String {
    json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "test", "cluster": {
            "server": format!("https://127.0.0.1:{port}"), "certificate-authority": certificate,
        }}],
        "users": [{"name": "admin", "user": {"token": "admin-token"}}],
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": "admin", "namespace": "default"}}],
        "current-context": "test",
    })
    .to_string()
}
