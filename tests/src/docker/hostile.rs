//! Invalid and hostile names never become a request.

use serde_json::{Value, json};

use super::lab::lab;
use super::proxy::{Proxy, is_background_request};
use super::{SERVER, fail, invalid, succeed};
use crate::harness::{FakeService, Response, Server};
use crate::surface;

/// The tools that take a container.
const TOOLS: [&str; 6] = [
    "get_container",
    "start_container",
    "stop_container",
    "restart_container",
    "get_container_logs",
    "diagnose_container",
];

/// The other arguments that go into a path: tool, argument, and its other required arguments.
fn places() -> Vec<(&'static str, &'static str, Value)> {
    let path = json!({"path": "/x"});
    let in_network = json!({"network": "x"});
    let of_container = json!({"container": "x"});
    vec![
        ("update_container", "container", json!({})),
        ("update_container", "new_name", of_container.clone()),
        ("pause_container", "container", json!({})),
        ("kill_container", "container", json!({})),
        ("recreate_container", "container", json!({})),
        ("remove_container", "container", json!({})),
        ("wait_container", "container", json!({})),
        ("get_container_stats", "container", json!({})),
        ("copy_from_container", "container", path.clone()),
        ("copy_to_container", "container", path),
        ("execute_command", "container", json!({"command": ["true"]})),
        ("create_container", "name", json!({"image": "x"})),
        ("create_container", "image", json!({})),
        ("get_image", "image", json!({})),
        ("pull_image", "image", json!({})),
        ("push_image", "image", json!({})),
        ("tag_image", "image", json!({"new_name": "x"})),
        ("tag_image", "new_name", json!({"image": "x"})),
        ("remove_image", "image", json!({})),
        ("build_image", "tag", json!({"dockerfile": "FROM x"})),
        ("list_networks", "network", json!({})),
        ("create_network", "network", json!({})),
        ("remove_network", "network", json!({})),
        ("connect_network", "network", of_container.clone()),
        ("connect_network", "container", in_network.clone()),
        ("disconnect_network", "network", of_container),
        ("disconnect_network", "container", in_network),
        ("list_volumes", "volume", json!({})),
        ("create_volume", "volume", json!({})),
        ("remove_volume", "volume", json!({})),
        ("get_container_logs", "project", json!({})),
        ("compose_down", "project", json!({})),
        ("compose_up", "project", json!({"directory": "/"})),
        ("compose_config", "project", json!({"directory": "/"})),
        ("compose_service", "project", json!({"action": "stop"})),
    ]
}

/// Harmless: these are valid names of images.
fn is_an_image(name: &Value) -> bool {
    matches!(name.as_str(), Some("x/json" | "x/start" | "x:y"))
}

/// Harmless: a missing argument, which "" and null mean where it is optional, a number, which is a name, and a name
/// that is too long for a container only.
fn is_harmless(name: &Value) -> bool {
    let is_short = |name: &str| name.is_empty() || name.len() == 129;
    name.is_null() || name.is_number() || name.as_str().is_some_and(is_short)
}

/// More than a hundred strings that would reach another endpoint, or break a parser.
fn hostile_names() -> Vec<String> {
    let targets = "volumes/victim images/x networks/x containers/prune version info";
    let climbs = "../ ..%2f %2e%2e/ %2e%2e%2f ..\\ .%2e/ x/../../ x/%2e%2e/%2e%2e/ ..;/ /../ ./../ \
        %252e%252e/";
    let mut names: Vec<String> = Vec::new();
    for climb in climbs.split(' ') {
        names.extend(targets.split(' ').map(|target| format!("{climb}{target}")));
    }
    let with_space = ["", " ", "a b", "a\r\nX: y"];
    let others = ". .. / // ///x ? # & = % %00 %0a \0 \n \r\n \t a\nb a\0b x?force=true x# \
        x?t=0&signal=KILL x/json x/start x;y x|y $(id) `id` ' \" <x> {x} [x] @x x@sha256:00 x:y -x _x \
        --help ~ * x* \\ ä 漢字 x\u{202e}y \u{ff0e}\u{ff0e}\u{ff0f}x \u{2025}/x x\u{200b} http://h/x \
        unix:///x x+y x! x,y x(y) x%20y";
    names.extend(others.split(' ').chain(with_space).map(String::from));
    names.push("x".repeat(129));
    names.push("x".repeat(10_000));
    names.push("../".repeat(1_000));
    names
}

/// Every hostile name, and values that are not strings.
fn hostile_values() -> Vec<Value> {
    let names = hostile_names();
    assert!(names.len() > 100);
    let mut values: Vec<_> = names.into_iter().map(Value::from).collect();
    values.extend([
        json!(null),
        json!(1),
        json!(true),
        json!(["web"]),
        json!({"id": "web"}),
    ]);
    values
}

async fn assert_refused(server: &Server, tool: &str, argument: &str, arguments: Value) {
    let error = invalid(server, tool, arguments).await;
    assert_eq!(error["data"]["field"], argument, "{tool}: {error}");
}

/// Calls every tool of the default toolset with every hostile value.
async fn attack(server: &Server) {
    for name in hostile_values() {
        // A number is a name.
        if name.is_number() {
            continue;
        }
        let is_missing = name.is_null() || name == "";
        // A project in the place of the container is enough for the log.
        for tool in TOOLS {
            if is_missing && tool == "get_container_logs" {
                continue;
            }
            assert_refused(server, tool, "container", json!({"container": name})).await;
        }
    }
}

/// Calls all other tools with every hostile value.
async fn attack_all(server: &Server) {
    for name in hostile_values() {
        for (tool, argument, mut arguments) in places() {
            let takes_images = matches!(argument, "image" | "tag") || tool == "tag_image";
            if is_harmless(&name) || (takes_images && is_an_image(&name)) {
                continue;
            }
            arguments[argument] = name.clone();
            assert_refused(server, tool, argument, arguments).await;
        }
    }
}

#[tokio::test]
async fn hostile_names_of_other_tools_do_not_reach_the_engine() {
    let Some(lab) = lab().await else { return };
    let proxy = Proxy::start(&lab.host).await;
    let env = [
        ("DOCKER_HOST", proxy.host.as_str()),
        ("MCP_TOOLSETS", "all"),
        ("DOCKER_MCP_ALLOW_EXEC", "1"),
    ];
    let server = Server::start(SERVER, &env).await;
    attack_all(&server).await;
    assert!(proxy.requests().is_empty(), "{:?}", proxy.requests());
}

/// Values that do go to the engine, in a query or a body, cannot change the request.
#[tokio::test]
async fn hostile_values_do_not_change_the_request() {
    let Some(mut lab) = lab().await else { return };
    let proxy = Proxy::start(&lab.host).await;
    let env = [
        ("DOCKER_HOST", proxy.host.as_str()),
        ("MCP_TOOLSETS", "all"),
    ];
    let server = Server::start(SERVER, &env).await;
    let web = lab.create("web", &["true"], json!({})).await;
    for value in
        "/x?force=true|/x#y|/x&v=1|/../../volumes/prune|/%2e%2e/%2e%2e|/x\n|/x y".split('|')
    {
        fail!(server, "copy_from_container", {"container": web, "path": value});
        let build = json!({"tag": "mcp-x:1", "dockerfile": "FROM nothing-here", "target": value});
        for (tool, arguments) in [
            (
                "pull_image",
                json!({"image": "busybox:test", "platform": value}),
            ),
            ("build_image", build),
            ("list_events", json!({"name": value, "kind": "volume"})),
        ] {
            super::call(&server, tool, arguments).await;
        }
    }
    for request in proxy.requests() {
        let path = request.split('?').next().unwrap();
        let intended = path.starts_with("GET /containers/")
            || ["POST /images/create", "POST /build", "GET /events"].contains(&path)
            // The base image, whose ONBUILD counts, too.
            || ["busybox:test", "mcp-x:1", "nothing-here"]
                .iter()
                .any(|image| path == format!("GET /images/{image}/json"));
        assert!(intended && !path.contains(".."), "{request}");
        let query = request.split('?').nth(1).unwrap_or_default();
        let is_changed = query.contains("force=true") || query.contains("v=1");
        assert!(!is_changed, "{request}");
    }
}

#[tokio::test]
async fn hostile_names_cause_no_request() {
    let fake =
        FakeService::start(|_| Response::json(200, &json!({"Version": "1", "ApiVersion": "1.41"})))
            .await;
    let host = fake.url.replace("http://", "tcp://");
    let server = Server::start(SERVER, &[("DOCKER_HOST", &host)]).await;
    attack(&server).await;
    let others: Vec<_> = fake
        .requests()
        .into_iter()
        .filter(|request| !is_background_request(&request.target))
        // The event follower lists containers again whenever its stream has ended.
        .filter(|request| request.target != "/containers/json?all=true")
        .collect();
    assert!(others.is_empty(), "{others:?}");
}

#[tokio::test]
async fn engine_receives_only_the_intended_paths() {
    let Some(mut lab) = lab().await else { return };
    let proxy = Proxy::start(&lab.host).await;
    let server = Server::start(SERVER, &[("DOCKER_HOST", &proxy.host)]).await;
    attack(&server).await;
    assert!(proxy.requests().is_empty(), "{:?}", proxy.requests());

    let web = lab.run("web", &["sleep", "600"], json!({})).await;
    succeed!(server, "stop_container", {"container": format!("/{web}"), "timeout_seconds": 0});
    let requests = proxy.requests();
    let id = requests[1].split('/').nth(2).unwrap();
    let expected = [
        format!("GET /containers/{web}/json"),
        format!("POST /containers/{id}/stop?t=0"),
        format!("GET /containers/{id}/json"),
    ];
    assert_eq!(requests, expected);
    let hostile = json!({"name": "x\"]}&all=1#?../", "all": true});
    let listed = succeed(&server, "list_containers", hostile).await;
    assert_eq!(listed["containers"], json!([]));
    assert_eq!(proxy.requests()[3], "GET /containers/json?all=true");
}

#[tokio::test]
async fn unknown_names_get_suggestions() {
    let Some(mut lab) = lab().await else { return };
    let web = lab.create("webshop", &["true"], json!({})).await;
    for tool in TOOLS {
        fails_with!(lab, tool, {"container": web.replace("webshop", "webshpo")},
            "There is no container", &web);
    }
}

/// A new tool has a row here.
#[test]
fn every_tool_with_a_name_has_a_row() {
    /// Filters and bodies are no part of a path.
    const NO_PATH: [(&str, &str); 2] = [
        ("list_containers", "image"),
        ("create_container", "network"),
    ];
    let tools = surface::tools("docker-mcp-server", "all");
    let rows: Vec<_> = places().into_iter().map(|row| (row.0, row.1)).collect();
    for tool in &tools {
        let name = tool["name"].as_str().unwrap();
        for argument in ["container", "image", "network", "volume", "new_name"] {
            let row = (name, argument);
            let has_row = rows.contains(&row)
                || NO_PATH.contains(&row)
                || (argument == "container" && TOOLS.contains(&name));
            let schema = &tool["inputSchema"]["properties"][argument];
            assert!(
                has_row || schema["type"] != "string",
                "{row:?} has no row in places()"
            );
        }
    }
}
