//! Names that are no names never become a request.

use serde_json::{Value, json};

use super::lab::lab;
use super::proxy::{Proxy, is_own_accord};
use super::{SERVER, fail, succeed};
use crate::harness::{FakeService, Response, Server, assert_contains};

/// The tools that take a container.
const TOOLS: [&str; 6] = [
    "get_container",
    "start_container",
    "stop_container",
    "restart_container",
    "get_container_logs",
    "diagnose_container",
];

/// The other places where a name goes into a path: tool, argument, and what else the tool needs.
fn places() -> Vec<(&'static str, &'static str, Value)> {
    let path = json!({"path": "/x"});
    let in_network = json!({"network": "x"});
    let of_container = json!({"container": "x"});
    vec![
        ("update_container", "container", json!({})),
        ("update_container", "new_name", of_container.clone()),
        ("pause_container", "container", json!({})),
        ("kill_container", "container", json!({})),
        ("remove_container", "container", json!({})),
        ("wait_container", "container", json!({})),
        ("follow_container_logs", "container", json!({})),
        ("get_container_stats", "container", json!({})),
        ("copy_from_container", "container", path.clone()),
        ("copy_to_container", "container", path),
        ("execute_command", "container", json!({"command": ["true"]})),
        ("create_container", "name", json!({"image": "x"})),
        ("create_container", "image", json!({})),
        ("get_image", "image", json!({})),
        ("pull_image", "image", json!({})),
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
        ("get_compose_logs", "project", json!({})),
        ("compose_down", "project", json!({})),
        ("compose_up", "project", json!({"directory": "/"})),
    ]
}

/// Harmless, as images are called so.
fn is_an_image(name: &Value) -> bool {
    matches!(name.as_str(), Some("x/json" | "x/start" | "x:y"))
}

/// Absence is not hostile, and names of objects may be longer than a container's.
fn is_harmless(name: &Value) -> bool {
    name.is_null() || name.as_str().is_some_and(|name| name.len() == 129)
}

/// More than a hundred strings that would reach another endpoint, or confuse something on the way.
fn hostile_names() -> Vec<String> {
    let targets = [
        "volumes/victim",
        "images/x",
        "networks/x",
        "containers/prune",
        "version",
        "info",
    ];
    let climbs = [
        "../",
        "..%2f",
        "%2e%2e/",
        "%2e%2e%2f",
        "..\\",
        ".%2e/",
        "x/../../",
        "x/%2e%2e/%2e%2e/",
        "..;/",
        "/../",
        "./../",
        "%252e%252e/",
    ];
    let mut names: Vec<String> = Vec::new();
    for climb in climbs {
        names.extend(targets.iter().map(|target| format!("{climb}{target}")));
    }
    let odd = [
        "",
        " ",
        ".",
        "..",
        "/",
        "//",
        "///x",
        "?",
        "#",
        "&",
        "=",
        "%",
        "%00",
        "%0a",
        "\0",
        "\n",
        "\r\n",
        "\t",
        "a b",
        "a\nb",
        "a\0b",
        "a\r\nX: y",
        "x?force=true",
        "x#",
        "x?t=0&signal=KILL",
        "x/json",
        "x/start",
        "x;y",
        "x|y",
        "$(id)",
        "`id`",
        "'",
        "\"",
        "<x>",
        "{x}",
        "[x]",
        "@x",
        "x@sha256:00",
        "x:y",
        "-x",
        "_x",
        "--help",
        "~",
        "*",
        "x*",
        "\\",
        "ä",
        "漢字",
        "x\u{202e}y",
        "\u{ff0e}\u{ff0e}\u{ff0f}x",
        "\u{2025}/x",
        "x\u{200b}",
        "http://h/x",
        "unix:///x",
        "x+y",
        "x!",
        "x,y",
        "x(y)",
        "x%20y",
    ];
    names.extend(odd.map(String::from));
    names.push("x".repeat(129));
    names.push("x".repeat(10_000));
    names.push("../".repeat(1_000));
    names
}

/// Sends every hostile name and every value that is no string to every tool.
async fn attack(server: &Server) {
    let names = hostile_names();
    assert!(names.len() > 100);
    let strings = names.into_iter().map(Value::from);
    let others = [
        json!(null),
        json!(1),
        json!(true),
        json!(["web"]),
        json!({"id": "web"}),
    ];
    for name in strings.chain(others) {
        for tool in TOOLS {
            let params = json!({"name": tool, "arguments": {"container": name}});
            let error = server.error("tools/call", params).await;
            assert_eq!(error["code"], -32602, "{tool} {name}: {error}");
            assert_eq!(
                error["data"]["field"], "container",
                "{tool} {name}: {error}"
            );
        }
    }
}

/// The same on all other tools, with all that is switched on which can be.
async fn attack_all(server: &Server) {
    let names = hostile_names();
    let strings = names.into_iter().map(Value::from);
    let others = [json!(null), json!(1), json!(["web"]), json!({"id": "web"})];
    for name in strings.chain(others) {
        for (tool, argument, mut arguments) in places() {
            let takes_images = matches!(argument, "image" | "tag") || tool == "tag_image";
            if is_harmless(&name) || (takes_images && is_an_image(&name)) {
                continue;
            }
            arguments[argument] = name.clone();
            let params = json!({"name": tool, "arguments": arguments});
            let error = server.error("tools/call", params).await;
            assert_eq!(error["code"], -32602, "{tool} {argument} {name}: {error}");
            assert_eq!(error["data"]["field"], argument, "{tool} {name}: {error}");
        }
    }
}

#[tokio::test]
async fn a_real_engine_sees_nothing_of_the_other_tools() {
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

/// Values that do go to the engine, in a query or a body, cannot become more than that.
#[tokio::test]
async fn hostile_values_stay_values() {
    let Some(mut lab) = lab().await else { return };
    let proxy = Proxy::start(&lab.host).await;
    let env = [
        ("DOCKER_HOST", proxy.host.as_str()),
        ("MCP_TOOLSETS", "all"),
    ];
    let server = Server::start(SERVER, &env).await;
    let web = lab.create("web", &["true"], json!({})).await;
    for value in [
        "/x?force=true",
        "/x#y",
        "/x&v=1",
        "/../../volumes/prune",
        "/%2e%2e/%2e%2e",
        "/x\n",
        "/x y",
    ] {
        fail!(server, "copy_from_container", {"container": web, "path": value});
        let arguments = json!({"image": "busybox:test", "platform": value});
        super::call(&server, "pull_image", arguments).await;
        let arguments =
            json!({"tag": "mcp-x:1", "dockerfile": "FROM nothing-here", "target": value});
        super::call(&server, "build_image", arguments).await;
        let arguments = json!({"name": value, "kind": "volume"});
        super::call(&server, "list_events", arguments).await;
    }
    for request in proxy.requests() {
        let path = request.split('?').next().unwrap();
        let intended = path.starts_with("GET /containers/")
            || ["POST /images/create", "POST /build", "GET /events"].contains(&path)
            || path == "GET /images/busybox:test/json";
        assert!(intended && !path.contains(".."), "{request}");
        let query = request.split('?').nth(1).unwrap_or_default();
        assert!(
            !query.contains("force=true") && !query.contains("v=1"),
            "{request}"
        );
    }
}

#[tokio::test]
async fn hostile_names_reach_nothing() {
    let fake =
        FakeService::start(|_| Response::json(200, &json!({"Version": "1", "ApiVersion": "1.41"})))
            .await;
    let host = fake.url.replace("http://", "tcp://");
    let server = Server::start(SERVER, &[("DOCKER_HOST", &host)]).await;
    attack(&server).await;
    let others: Vec<_> = fake
        .requests()
        .into_iter()
        .filter(|request| !is_own_accord(&request.target))
        // What follows the engine's events looks again whenever their stream has ended.
        .filter(|request| request.target != "/containers/json?all=true")
        .collect();
    assert!(others.is_empty(), "{others:?}");
}

#[tokio::test]
async fn a_real_engine_sees_only_the_intended_paths() {
    let Some(mut lab) = lab().await else { return };
    let proxy = Proxy::start(&lab.host).await;
    let server = Server::start(SERVER, &[("DOCKER_HOST", &proxy.host)]).await;
    attack(&server).await;
    assert!(proxy.requests().is_empty(), "{:?}", proxy.requests());

    let web = lab.run("web", &["sleep", "600"], json!({})).await;
    succeed!(server, "stop_container", {"container": format!("/{web}"), "timeout_seconds": 0});
    let requests = proxy.requests();
    let id = requests[1].split('/').nth(2).unwrap();
    assert_eq!(
        requests,
        [
            format!("GET /containers/{web}/json"),
            format!("POST /containers/{id}/stop?t=0"),
            format!("GET /containers/{id}/json"),
        ]
    );
    let hostile = json!({"name": "x\"]}&all=1#?../", "all": true});
    assert_eq!(
        succeed(&server, "list_containers", hostile).await["containers"],
        json!([])
    );
    assert_eq!(proxy.requests()[3], "GET /containers/json?all=true");
}

#[tokio::test]
async fn names_that_do_not_exist_bring_up_the_nearest() {
    let Some(mut lab) = lab().await else { return };
    let web = lab.create("webshop", &["true"], json!({})).await;
    for tool in TOOLS {
        let message = fail!(lab, tool, {"container": web.replace("webshop", "webshpo")});
        assert_contains(&message, "There is no container");
        assert_contains(&message, &web);
    }
}
