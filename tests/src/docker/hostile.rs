//! Names that are no names never become a request.

use serde_json::{Value, json};

use super::lab::Lab;
use super::proxy::Proxy;
use super::{SERVER, fail, succeed};
use crate::harness::{Fake, Response, Server};

/// The tools that take a container.
const TOOLS: [&str; 5] = [
    "get_container",
    "start_container",
    "stop_container",
    "restart_container",
    "get_container_logs",
];

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

#[tokio::test]
async fn hostile_names_reach_nothing() {
    let fake =
        Fake::start(|_| Response::json(200, &json!({"Version": "1", "ApiVersion": "1.41"}))).await;
    let host = fake.url.replace("http://", "tcp://");
    let server = Server::start(SERVER, &[("DOCKER_HOST", &host)]).await;
    attack(&server).await;
    let others: Vec<_> = fake
        .requests()
        .into_iter()
        .filter(|request| request.target != "/version")
        .collect();
    assert!(others.is_empty(), "{others:?}");
}

#[tokio::test]
async fn a_real_engine_sees_only_the_intended_paths() {
    let Some(mut lab) = Lab::open().await else {
        return;
    };
    let proxy = Proxy::start(&lab.host).await;
    let server = Server::start(SERVER, &[("DOCKER_HOST", &proxy.host)]).await;
    attack(&server).await;
    assert!(proxy.requests().is_empty(), "{:?}", proxy.requests());

    let web = lab.run("web", &["sleep", "600"], json!({})).await;
    let arguments = json!({"container": format!("/{web}"), "timeout_seconds": 0});
    succeed(&server, "stop_container", arguments).await;
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
    let Some(mut lab) = Lab::open().await else {
        return;
    };
    let web = lab.create("webshop", &["true"], json!({})).await;
    for tool in TOOLS {
        let asked = json!({"container": web.replace("webshop", "webshpo")});
        let message = fail(&lab.server, tool, asked).await;
        assert!(
            message.contains("There is no container") && message.contains(&web),
            "{message}"
        );
    }
}
