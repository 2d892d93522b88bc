//! Invalid and hostile names never become a request.

use crate::docker::prelude::*;

/// Filters and bodies are no part of a path.
const NO_PATH: [(&str, &str); 2] = [
    ("list_containers", "image"),
    ("create_container", "network"),
];

/// The calls of all tools with an argument that goes into a path: tool, argument, and all arguments.
fn places() -> Vec<(&'static str, String, Value)> {
    let places = rows().into_iter().filter_map(|(_, tool, _, arguments)| {
        let mut named = arguments.as_object().unwrap().iter();
        let (argument, _) = named.find(|(name, value)| **value == "@" && *name != "confirm")?;
        let is_path = !NO_PATH.contains(&(tool, argument));
        is_path.then(|| (tool, argument.clone(), arguments.clone()))
    });
    places.collect()
}

/// Harmless: these are valid names of images.
fn is_an_image(name: &Value) -> bool {
    matches!(name.as_str(), Some("x/json" | "x/start" | "x:y"))
}

/// Harmless: a number, which is a name, and where the argument is optional or no container: a missing argument, which ""
/// and null mean, and a name that is too long for a container only.
fn is_harmless(tool: &str, argument: &str, name: &Value) -> bool {
    let is_optional = ["get_container_logs", "get_container_stats"].contains(&tool);
    let is_missing = name.is_null() || name == "";
    let is_long = name.as_str().is_some_and(|name| name.len() == 256);
    match argument {
        "container" => name.is_number() || is_optional && is_missing,
        _ => name.is_number() || is_missing || is_long,
    }
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
    names.push("x".repeat(256));
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

#[tokio::test]
async fn hostile_names_do_not_reach_the_engine() {
    let Some(lab) = lab().await else { return };
    let proxy = Proxy::start(&lab.host).await;
    let server = in_front_of(&proxy.host, &[]).await;
    for name in hostile_values() {
        for (tool, argument, mut arguments) in places() {
            let takes_images = matches!(&*argument, "image" | "tag") || tool == "tag_image";
            if is_harmless(tool, &argument, &name) || (takes_images && is_an_image(&name)) {
                continue;
            }
            arguments[&argument] = name.clone();
            let error = invalid(&server, tool, arguments).await;
            assert_eq!(error["data"]["field"], argument, "{tool}: {error}");
        }
    }
    assert!(proxy.requests().is_empty(), "{:?}", proxy.requests());
}

/// Values that do go to the engine, in a query or a body, cannot change the request.
#[tokio::test]
async fn hostile_values_do_not_change_the_request() {
    let Some(lab) = lab().await else { return };
    let proxy = Proxy::start(&lab.host).await;
    let server = in_front_of(&proxy.host, &[]).await;
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
            call(&server, tool, arguments).await;
        }
    }
    for request in proxy.requests() {
        let path = request.split('?').next().unwrap();
        let intended = path.starts_with("GET /containers/")
            || path.starts_with("HEAD /containers/") && path.ends_with("/archive")
            || ["POST /images/create", "GET /events"].contains(&path)
            // Of docker build.
            || ["HEAD /_ping", "GET /info", "GET /version", "POST /grpc", "POST /session", "POST /build"].contains(&path)
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
async fn engine_receives_only_the_intended_paths() {
    let Some(lab) = lab().await else { return };
    let proxy = Proxy::start(&lab.host).await;
    let server = in_front_of(&proxy.host, &[]).await;
    let web = lab.sleep("web", json!({})).await;
    succeed!(server, "stop_container", {"container": format!("/{web}"), "timeout_seconds": 0});
    let requests = proxy.requests();
    let id = requests[1].split('/').nth(2).unwrap();
    let expected = [
        format!("GET /containers/{web}/json"),
        format!("POST /containers/{id}/stop?t=0"),
        format!("GET /containers/{id}/json"),
    ];
    assert_eq!(requests, expected);
    let listed = succeed!(server, "list_containers", {"name": "x\"]}&all=1#?../", "all": true});
    assert_eq!(listed["containers"], json!([]));
    assert_eq!(proxy.requests()[3], "GET /containers/json?all=true");
}

#[tokio::test]
async fn unknown_names_get_suggestions() {
    let Some(lab) = lab().await else { return };
    let web = lab.create("webshop", &["true"], json!({})).await;
    for (_, tool, _, arguments) in calls_on(&web.replace("webshop", "webshpo")) {
        fails_with!(lab, tool, arguments, "There is no container", &web);
    }
}
