use kube::core::crd::CustomResourceExt;
fn main() {
    for d in mcpfleet::api::definitions() {
        println!("---\n{}", serde_yaml::to_string(&d).expect("x"));
    }
    let _ = mcpfleet::api::MCPServer::crd_name();
}
