//! A registry on the engine's own loopback: the engine of the tests reaches no other.

use serde_json::json;

use super::super::super::lab::Lab;
use super::succeed;

/// Starts one that takes `seconds` between the 21 parts of a layer; the name of its image, whose
/// tag is `1`.
pub(super) async fn start(lab: &mut Lab, seconds: &str) -> String {
    let more = json!({
        "Env": [format!("SLOWNESS={seconds}")],
        "ExposedPorts": {"5000/tcp": {}},
        "HostConfig": {"PortBindings": {"5000/tcp": [{"HostIp": "127.0.0.1", "HostPort": ""}]}},
    });
    let script = ["sh", "-c", include_str!("registry.sh")];
    let name = lab.run("registry", &script, more).await;
    let arguments = json!({"container": name, "until_match": "^ready$", "tail": 10});
    let log = succeed(lab, "get_container_logs", arguments).await;
    assert_eq!(log["stopped_by"], "matched", "{log}");
    let shown = succeed(lab, "get_container", json!({"container": name})).await;
    let port = shown["ports"][0].as_str().unwrap();
    let address = &port[..port.find('-').unwrap()];
    format!("{address}/app")
}
