//! Questions to the user before a loss of data, with clients that support elicitation.

use bollard::query_parameters::{RemoveVolumeOptions, TagImageOptionsBuilder};
use mcp_client::{Client, EraChoice};

use crate::docker::prelude::*;

/// Makes a container that an asking tool would stop, remove or overwrite.
async fn make(lab: &Lab, name: &str) {
    let mut options = json!({"StopTimeout": 0});
    match name {
        "left" => options["HostConfig"] = json!({"NetworkMode": lab.name("network")}),
        "stopped" => options["HostConfig"] = json!({"AutoRemove": true}),
        "down" | "project-web-1" => options["Labels"] = of_compose(&lab.name("project"), "web"),
        _ => {}
    }
    let container = lab.sleep(name, options).await;
    if name == "written" {
        succeed!(lab, "copy_to_container", {"container": container, "path": "/note", "text": "old"});
    }
}

/// Makes the objects that the asking tools would lose.
async fn plant(lab: &Lab) -> Folder {
    succeed!(lab, "create_network", {"network": lab.name("network")});
    for name in [
        "killed", "removed", "replaced", "written", "stopped", "left", "down",
    ] {
        make(lab, name).await;
    }
    for name in ["tagged", "built", "untagged", "pushed", "other"] {
        lab.image(name, &lab.name("left")).await;
    }
    for name in ["volume", "pruned"] {
        succeed!(lab, "create_volume", {"volume": lab.name(name)});
    }
    let folder = Folder::new();
    folder.write(
        "compose.yaml",
        "services: {web: {image: 'busybox:test', command: sleep 600}}",
    );
    folder
}

/// Puts another object of the same name in the place of the one that a call would lose.
async fn renew(lab: &Lab, (tool, arguments): (&str, &Value)) {
    let prefix = lab.name("");
    let container = match tool {
        "compose_up" => Some("down"),
        "compose_service" => Some("project-web-1"),
        _ => arguments["container"].as_str(),
    };
    let container = container.map(|name| name.trim_start_matches(&*prefix));
    if let Some(name) = container {
        lab.remove(&lab.name(name)).await;
    }
    if let Some(name) = arguments["network"].as_str() {
        lab.docker.remove_network(name).await.unwrap();
        lab.network("network").await;
    }
    if let Some(name) = container {
        make(lab, name).await;
    }
    let volume = match tool {
        "remove_volume" => "volume",
        "prune" => "pruned",
        _ => return,
    };
    let name = lab.name(volume);
    let created = async || lab.docker.inspect_volume(&name).await.unwrap().created_at;
    let before = created().await;
    // Its time has whole seconds.
    wait_until("a later volume", async || {
        let none = None::<RemoveVolumeOptions>;
        lab.docker.remove_volume(&name, none).await.unwrap();
        lab.volume(volume, json!({})).await;
        created().await != before
    })
    .await;
}

/// Calls of all tools that ask, each with the `confirm` that would do for a client that cannot ask.
const ASKING: &str = r#"
kill_container | {"container": "P-killed", "confirm": "P-killed"}
remove_container | {"container": "P-removed", "confirm": "P-removed", "force": true}
recreate_container | {"container": "P-replaced", "confirm": "P-replaced", "timeout_seconds": 30}
copy_to_container | {"container": "P-written", "path": "/note", "text": "x", "confirm": "/note"}
stop_container | {"container": "P-stopped", "confirm": "P-stopped"}
connect_network | {"container": "P-left", "confirm": "P-left", "network": "P-network", "disconnect": true}
tag_image | {"image": "busybox:test", "new_name": "P-tagged:1", "confirm": "P-tagged:1"}
build_image | {"dockerfile": "FROM busybox:test\nLABEL a=b", "tag": "P-built:1", "confirm": "P-built:1"}
remove_image | {"image": "P-untagged:1", "confirm": "P-untagged:1"}
push_image | {"image": "P-pushed:1", "confirm": "P-pushed:1"}
remove_network | {"network": "P-network", "confirm": "P-network"}
remove_volume | {"volume": "P-volume", "confirm": "P-volume"}
prune | {"what": "volumes", "all": true, "apply": true, "confirm": "volumes"}
compose_up | {"project": "P-project", "confirm": "P-project", "directory": "FOLDER"}
compose_service | {"project": "P-project", "confirm": "P-project", "action": "down"}
"#;

/// Calls that show the objects of this test.
const STATE: &str = r#"
list_containers | {"all": true, "name": "PREFIX", "limit": 500}
copy_from_container | {"container": "PREFIX-written", "path": "/note"}
"#;

/// The state of the objects of this test.
async fn state_of_all(lab: &Lab) -> String {
    let mut all = Vec::new();
    for (tool, arguments) in calls_of(STATE, &[("PREFIX", &lab.prefix)]) {
        let mut shown = succeed(lab, tool, arguments).await;
        for row in shown["containers"].as_array_mut().into_iter().flatten() {
            // Its age.
            row["status"] = Value::Null;
        }
        all.push(shown.to_string());
    }
    for name in ["tagged", "built", "untagged", "pushed"] {
        let image = format!("{}:1", lab.name(name));
        let found = lab.docker.inspect_image(&image).await;
        all.push(format!("{:?}", found.ok().map(|image| image.id)));
    }
    for name in ["volume", "pruned"] {
        let found = call(lab, "list_volumes", json!({"volume": lab.name(name)})).await;
        all.push(found["isError"].to_string());
    }
    let network = json!({"network": lab.name("network")});
    all.push(call(lab, "list_networks", network).await.to_string());
    all.join("\n")
}

/// The clients of both eras, on servers with the same options.
struct Clients {
    legacy: StdioSession,
    modern: Client,
    _server: Server,
}

impl Clients {
    async fn new(lab: &Lab, env: &[(&str, &str)]) -> Self {
        let legacy = StdioSession::open(&lab.host, env).await;
        let server = in_front_of(&lab.host, env).await;
        let capabilities = json!({"elicitation": {}});
        let modern = server.client_with(EraChoice::Modern, capabilities, None);
        let modern = modern.await;
        Self {
            legacy,
            modern,
            _server: server,
        }
    }

    /// The result of a call in this era, of which the user sees the question, then something else happens
    /// `meanwhile`, and then the user answers.
    async fn ask(
        &mut self,
        is_modern: bool,
        (tool, arguments): (&str, &Value),
        answer: &Value,
        meanwhile: impl Future<Output = ()>,
    ) -> Value {
        if !is_modern {
            let id = self.legacy.start(tool, arguments.clone()).await;
            let question = self.legacy.until("elicitation/create").await;
            let object = arguments["confirm"].as_str().unwrap();
            assert_contains(&question["params"]["message"], object);
            meanwhile.await;
            let reply = response(&question["id"], "result", answer.clone());
            self.legacy.say(reply).await;
            let mut done = self.legacy.answer(id).await;
            return match done["result"].take() {
                Value::Null => json!({"isError": true, "error": done}),
                result => result,
            };
        }
        let mut params = json!({"name": tool, "arguments": arguments});
        let asked = self.modern.request("tools/call", &params).await.unwrap();
        let asked: Value = serde_json::from_str(asked.get()).unwrap();
        assert_eq!(asked["resultType"], "input_required", "{tool}: {asked}");
        meanwhile.await;
        let mut keys = asked["inputRequests"].as_object().unwrap().keys();
        params["inputResponses"] = json!({keys.next().unwrap(): answer});
        // Without the state that has asked for it, an answer confirms nothing.
        let unasked = self.modern.request("tools/call", &params).await.unwrap();
        let unasked: Value = serde_json::from_str(unasked.get()).unwrap();
        assert_eq!(unasked["resultType"], "input_required", "{tool}: {unasked}");
        // Nor is it an answer of an earlier round from then on.
        let mut later = json!({"name": tool, "arguments": arguments});
        later["requestState"] = unasked["requestState"].clone();
        let later = self.modern.request("tools/call", &later).await.unwrap();
        let later: Value = serde_json::from_str(later.get()).unwrap();
        assert_eq!(later["resultType"], "input_required", "{tool}: {later}");
        params["requestState"] = asked["requestState"].clone();
        match self.modern.request("tools/call", &params).await {
            Ok(result) => serde_json::from_str(result.get()).unwrap(),
            Err(error) => json!({"isError": true, "error": error.to_string()}),
        }
    }
}

/// Whether the call did nothing, with an error or with another question.
fn is_refused(result: &Value) -> bool {
    result["isError"] == true || result["resultType"] == "input_required"
}

/// While the client can ask, only the user's own yes counts, in both eras: not a `confirm` of the model. The yes is to
/// what was shown: not to an object that has got its name meanwhile.
#[tokio::test]
async fn only_the_users_yes_lets_a_tool_lose_data() {
    let Some(lab) = lab().await else { return };
    let folder = plant(&lab).await;
    let rule = format!("name={}*,name=busybox", lab.prefix);
    let env = [
        ("DOCKER_MCP_PROJECT_DIR", folder.str()),
        ("DOCKER_MCP_ALLOW", &rule),
    ];
    let prefix = lab.name("");
    let calls = calls_of(ASKING, &[("P-", &prefix), ("FOLDER", folder.str())]);
    let listed = lab.server.result("tools/list", json!({})).await;
    for tool in listed["tools"].as_array().unwrap() {
        let asks = tool["inputSchema"]["properties"].get("confirm").is_some();
        let has_row = calls.iter().any(|(name, _)| tool["name"] == *name);
        assert_eq!(asks, has_row, "{}", tool["name"]);
    }
    let mut clients = Clients::new(&lab, &env).await;
    let accept = json!({"action": "accept", "content": {"confirm": true}});
    for (number, (tool, arguments)) in calls.into_iter().enumerate() {
        let call = (tool, &arguments);
        let mut before = state_of_all(&lab).await;
        for is_modern in [false, true] {
            for answer in [
                json!({"action": "decline"}),
                json!({"action": "cancel"}),
                json!({"action": "accept", "content": {"confirm": false}}),
                json!({"action": "accept", "content": {}}),
                json!({"action": "accept"}),
            ] {
                let refused = clients.ask(is_modern, call, &answer, async {}).await;
                assert!(is_refused(&refused), "{tool} {answer}: {refused}");
            }
            assert_eq!(state_of_all(&lab).await, before, "{tool}");
            let image = ["new_name", "tag", "image"].map(|name| arguments[name].as_str());
            if let Some(image) = image.into_iter().flatten().next() {
                let (repo, tag) = image.split_once(':').unwrap();
                let moves = async |to: &str| {
                    let options = TagImageOptionsBuilder::new().repo(repo).tag(tag).build();
                    lab.docker.tag_image(to, Some(options)).await.unwrap();
                };
                let id = lab.docker.inspect_image(image).await.unwrap().id.unwrap();
                let other = format!("{}:1", lab.name("other"));
                let moved = clients.ask(is_modern, call, &accept, moves(&other)).await;
                assert!(is_refused(&moved), "{tool}: {moved}");
                let [now, other] = [image, &other].map(|name| lab.docker.inspect_image(name));
                assert_eq!(now.await.unwrap().id, other.await.unwrap().id, "{tool}");
                moves(&id).await;
            } else {
                let meanwhile = async {
                    renew(&lab, call).await;
                    before = state_of_all(&lab).await;
                };
                let done = clients.ask(is_modern, call, &accept, meanwhile).await;
                let has_failed = done["structuredContent"]["failed"].is_object();
                assert!(is_refused(&done) || has_failed, "{tool}: {done}");
            }
            assert_eq!(state_of_all(&lab).await, before, "{tool}");
        }
        let is_modern = number % 2 == 0;
        let done = clients.ask(is_modern, call, &accept, async {}).await;
        // No registry takes it.
        let expected = tool == "push_image";
        assert_eq!(done["isError"], expected, "{tool}: {done}");
        if tool == "stop_container" {
            // With `--rm` the engine removes it afterwards.
            wait_until("its removal", async || {
                lab.inspect(&lab.name("stopped")).await.is_null()
            })
            .await;
        }
        let is_changed = state_of_all(&lab).await != before;
        assert_eq!(is_changed, !expected, "{tool}: {done}");
    }
}
