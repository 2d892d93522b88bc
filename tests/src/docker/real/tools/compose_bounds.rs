//! `compose_up` stays within the operator's bounds.

use std::fs;

use bollard::models::{NetworkCreateRequest, VolumeCreateRequest};
use bollard::query_parameters::RemoveVolumeOptions;
use serde_json::json;

use super::super::super::lab::{Folder, Lab, merged};
use super::{call, fail, succeed};
use crate::harness::{assert_lacks, real};

/// A server with the compose program and access to the directory; `None` if either is missing.
async fn lab(shop: &Folder, env: &[(&str, &str)]) -> Option<Lab> {
    let path = format!("{}:/usr/bin:/bin", real::compose_dir()?);
    let all = [
        ("PATH", path.as_str()),
        ("DOCKER_MCP_PROJECT_DIR", shop.str()),
        ("MCP_TOOLSETS", "all"),
    ];
    Some(Lab::at(real::docker()?, &[&all[..], env].concat()).await)
}

/// A project of one service with these further lines, and with these lines at its end.
fn project(service: &str, end: &str) -> String {
    format!(
        "services:\n  web:\n    image: busybox:test\n    command: [sleep, '600']\n    \
         stop_grace_period: 0s\n    {service}\n{end}"
    )
}

#[tokio::test]
#[expect(clippy::too_many_lines, reason = "a table of calls")]
async fn project_cannot_do_what_a_container_cannot() {
    let (shop, outside) = (Folder::new(), Folder::new());
    outside.write("o.env", "A=canary-31\n");
    outside.write("inc.yml", "services: {other: {image: 'busybox:test'}}\n");
    outside.write("secret", "canary-32");
    outside.write("Dockerfile", "FROM busybox:test\n");
    let binds = json!({"create": {"binds": [format!("{}/a$$b", shop.str())]}});
    let policy = outside.write("policy.json", &binds.to_string());
    let out = outside.str();
    std::os::unix::fs::symlink(out, shop.path().join("link")).unwrap();
    let Some(mut bounded) = lab(
        &shop,
        &[
            ("DOCKER_MCP_DENY", "name=*-prod,name=*-web-3"),
            ("DOCKER_MCP_POLICY", policy.to_str().unwrap()),
        ],
    )
    .await
    else {
        return;
    };
    let theirs = bounded.name("prod");
    let name = Some(theirs.clone());
    let volume = VolumeCreateRequest {
        name,
        ..VolumeCreateRequest::default()
    };
    bounded.docker.create_volume(volume).await.unwrap();
    let name = theirs.clone();
    let network = NetworkCreateRequest {
        name,
        ..NetworkCreateRequest::default()
    };
    bounded.docker.create_network(network).await.unwrap();
    let container = bounded.run("prod", &["sleep", "600"], json!({})).await;

    let external = |kind: &str| format!("{kind}: {{data: {{external: true, name: {theirs}}}}}\n");
    let file = |kind: &str, path: &str| format!("{kind}: {{x: {{file: {path}/secret}}}}\n");
    shop.write("secret", "x");
    let host = "does not create containers with";
    let (away, link) = ("outside of those", "symbolic link");
    let rows = [
        ("privileged: true".to_owned(), String::new(), host),
        ("pid: host".to_owned(), String::new(), host),
        ("ipc: host".to_owned(), String::new(), host),
        ("uts: host".to_owned(), String::new(), host),
        ("userns_mode: host".to_owned(), String::new(), host),
        ("network_mode: host".to_owned(), String::new(), host),
        ("cap_add: [SYS_ADMIN]".to_owned(), String::new(), host),
        (
            "devices: ['/dev/null:/dev/x']".to_owned(),
            String::new(),
            host,
        ),
        (
            "security_opt: ['seccomp=unconfined']".to_owned(),
            String::new(),
            host,
        ),
        ("cgroup_parent: /x".to_owned(), String::new(), host),
        (
            "volumes_from: ['container:x']".to_owned(),
            String::new(),
            host,
        ),
        ("logging: {driver: syslog}".to_owned(), String::new(), host),
        ("volumes: ['/:/h']".to_owned(), String::new(), host),
        (
            "volumes: ['/var/run/docker.sock:/s']".to_owned(),
            String::new(),
            host,
        ),
        ("volumes: ['./data:/s']".to_owned(), String::new(), host),
        (
            "volumes: ['data:/x']".to_owned(),
            "volumes: {data: {driver_opts: {type: none, o: bind, device: /}}}\n".to_owned(),
            host,
        ),
        (
            "networks: [x]".to_owned(),
            "networks: {x: {driver: macvlan}}\n".to_owned(),
            host,
        ),
        (
            "networks: [x]".to_owned(),
            "networks: {x: {driver_opts: {com.docker.network.bridge.name: docker0}}}\n".to_owned(),
            host,
        ),
        (
            "networks: [x]".to_owned(),
            "networks: {x: {ipam: {driver: other}}}\n".to_owned(),
            host,
        ),
        (
            "networks: {default: {driver_opts: {com.docker.network.endpoint.ifname: a}}}"
                .to_owned(),
            String::new(),
            host,
        ),
        (
            format!("volumes: ['{}/a$$b:/x']", shop.str()),
            String::new(),
            host,
        ),
        ("scale: 3".to_owned(), String::new(), "-web-3` is not"),
        (
            "volumes: ['data:/x']".to_owned(),
            external("volumes"),
            "not accessible",
        ),
        (
            "networks: [data]".to_owned(),
            external("networks"),
            "not accessible",
        ),
        (
            format!("network_mode: 'container:{container}'"),
            String::new(),
            host,
        ),
        (
            format!("container_name: {}", bounded.name("new-prod")),
            String::new(),
            "not accessible",
        ),
        (format!("env_file: {out}/o.env"), String::new(), away),
        ("env_file: link/o.env".to_owned(), String::new(), away),
        (format!("label_file: {out}/o.env"), String::new(), away),
        (
            format!("extends: {{file: {out}/inc.yml, service: other}}"),
            String::new(),
            away,
        ),
        (String::new(), format!("include: [{out}/inc.yml]\n"), away),
        (
            String::new(),
            "include: ['https://127.0.0.1/x.yml']\n".to_owned(),
            "not valid",
        ),
        (format!("build: {out}"), String::new(), away),
        (
            format!("build: {{context: ., dockerfile: {out}/Dockerfile}}"),
            String::new(),
            away,
        ),
        ("secrets: [x]".to_owned(), file("secrets", out), away),
        ("configs: [x]".to_owned(), file("configs", out), away),
        // Compose mounts them.
        ("secrets: [x]".to_owned(), file("secrets", "."), host),
        ("configs: [x]".to_owned(), file("configs", "."), host),
        (
            "logging: {driver: json-file, options: {path: /etc/x}}".to_owned(),
            String::new(),
            host,
        ),
        (
            "labels: {docker-mcp-server.created: 'true'}".to_owned(),
            String::new(),
            "only this server",
        ),
    ];
    for (service, end, reason) in rows {
        shop.write("compose.yml", &project(&service, &end));
        let arguments = json!({"directory": shop.path(), "project": bounded.name("x")});
        let text = fail(&bounded, "compose_up", arguments.clone()).await;
        assert!(text.contains(reason), "{service} {end}: {text}");
        assert_lacks(&text, "canary");
        // The same project as a text, and the same judgement without bringing it up.
        let text = merged(arguments, json!({"yaml": project(&service, &end)}));
        let shown = call(&bounded, "compose_config", text).await.to_string();
        assert!(shown.contains(reason), "{service} {end}: {shown}");
        assert_lacks(&shown, "canary");
    }
    // The text stands for the file; what refers to that means the one on the disk.
    shop.write(
        "compose.yml",
        &project(&format!("env_file: {out}/o.env"), ""),
    );
    for text in [
        "services: {b: {extends: {file: ./compose.yml, service: web}}}\n",
        "include: [compose.yml]\n",
    ] {
        let arguments =
            json!({"directory": shop.path(), "project": bounded.name("x"), "yaml": text});
        let shown = call(&bounded, "compose_config", arguments)
            .await
            .to_string();
        assert!(shown.contains(away), "{text}: {shown}");
        assert_lacks(&shown, "canary");
    }
    // What is doubled in a file is one character in a path.
    let file = project(&format!("volumes: ['{}/a$$$$b:/x']", shop.str()), "");
    let arguments = json!({"directory": shop.path(), "project": bounded.name("x"), "yaml": file});
    let shown = succeed(&bounded, "compose_config", arguments).await;
    assert!(shown["refused"].is_null(), "{shown}");
    fs::remove_file(shop.path().join("compose.yml")).unwrap();
    outside.write("compose.yml", &project("", ""));
    for file in ["compose.yml", ".env"] {
        std::os::unix::fs::symlink(outside.path().join("compose.yml"), shop.path().join(file))
            .unwrap();
        let arguments = json!({"directory": shop.path(), "project": bounded.name("x")});
        let text = fail(&bounded, "compose_up", arguments).await;
        assert!(text.contains(link), "{text}");
        fs::remove_file(shop.path().join(file)).unwrap();
        shop.write("compose.yml", &project("", ""));
    }
    bounded.remove(&container).await;
    bounded.docker.remove_network(&theirs).await.unwrap();
    let removal = bounded
        .docker
        .remove_volume(&theirs, None::<RemoveVolumeOptions>);
    removal.await.unwrap();
}

#[tokio::test]
async fn project_is_marked_as_created() {
    let shop = Folder::new();
    shop.write(
        "compose.yml",
        &project("volumes: ['data:/d']", "volumes: {data: }\n"),
    );
    let env = [("DOCKER_MCP_ONLY_CREATED", "1")];
    let Some(mut ours) = lab(&shop, &env).await else {
        return;
    };
    let name = ours.name("shop");
    let web = ours.adopt("shop-web-1");
    let arguments = json!({"directory": shop.path(), "project": name, "confirm": name});
    for _ in 0..2 {
        let up = succeed(&ours, "compose_up", arguments.clone()).await;
        assert_eq!(up["running"], 1, "{up}");
    }
    let down = succeed!(ours, "compose_down", {"project": name, "volumes": true, "confirm": name});
    assert!(down["failed"].is_null(), "{down}");
    assert_eq!(
        down["removed_volumes"],
        json!([format!("{name}_data")]),
        "{down}"
    );
    assert_eq!(
        down["removed_networks"],
        json!([format!("{name}_default")]),
        "{down}"
    );

    // A project of another program is not recreated.
    let labels = json!({"Labels": {"com.docker.compose.config-hash": "1", "com.docker.compose.project": name,
        "com.docker.compose.service": "web", "com.docker.compose.oneoff": "False"}});
    ours.run("shop-web-1", &["sleep", "600"], labels).await;
    let before = ours.docker.inspect_container(&web, None).await.unwrap().id;
    let text = fail(&ours, "compose_up", arguments).await;
    assert!(text.contains("was not created by this server"), "{text}");
    assert_eq!(
        ours.docker.inspect_container(&web, None).await.unwrap().id,
        before
    );
}

/// Every tool of compose projects, on one that another program has brought up.
#[tokio::test]
async fn projects_of_others_are_not_changed() {
    let shop = Folder::new();
    shop.write("compose.yml", &project("", ""));
    let Some(mut free) = lab(&shop, &[]).await else {
        return;
    };
    let name = free.name("shop");
    let labels = json!({"Labels": {"com.docker.compose.config-hash": "1", "com.docker.compose.project": name,
        "com.docker.compose.service": "web", "com.docker.compose.oneoff": "False"}});
    let web = free.run("shop-web-1", &["sleep", "600"], labels).await;
    for (option, value) in [
        ("DOCKER_MCP_DENY", format!("name={web}")),
        (
            "DOCKER_MCP_DENY",
            format!("label=com.docker.compose.project={name}"),
        ),
        ("DOCKER_MCP_ONLY_CREATED", "1".to_owned()),
        ("DOCKER_MCP_NO_DESTRUCTIVE", "1".to_owned()),
        ("MCP_READ_ONLY", "1".to_owned()),
    ] {
        let bounded = lab(&shop, &[(option, &value)]).await.unwrap();
        let directory = json!({"directory": shop.path(), "project": name, "confirm": name});
        let own = json!({"project": name, "confirm": name});
        for (tool, arguments) in [
            ("compose_up", directory.clone()),
            (
                "compose_up",
                merged(directory, json!({"yaml": project("init: true", "")})),
            ),
            ("compose_down", own.clone()),
            (
                "compose_service",
                merged(own.clone(), json!({"action": "stop"})),
            ),
            ("compose_service", merged(own, json!({"action": "restart"}))),
        ] {
            let request = json!({"name": tool, "arguments": arguments});
            let request =
                json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": request});
            let answer = bounded.server.post(request.to_string()).await.json();
            let is_refused = !answer["error"].is_null() || answer["result"]["isError"] == true;
            assert!(is_refused, "{option}={value} {tool}: {answer}");
        }
    }
    assert_eq!(free.state(&web).await, "running");
    let file = fs::read_to_string(shop.path().join("compose.yml")).unwrap();
    assert_eq!(file, project("", ""));
}

/// An image of another program keeps its name, unless the user agrees.
#[tokio::test]
async fn builds_and_pulls_take_no_names_of_others() {
    let shop = Folder::new();
    let Some(free) = lab(&shop, &[]).await else {
        return;
    };
    let only = [("DOCKER_MCP_ONLY_CREATED", "1")];
    let bounded = lab(&shop, &only).await.unwrap();
    let name = free.name("x");
    let inline = "build: {context: ., dockerfile_inline: FROM scratch}";
    for (lines, more) in [
        ("pull_policy: always".to_owned(), json!({})),
        ("init: true".to_owned(), json!({"pull": true})),
        (format!("{inline}\n    pull_policy: build"), json!({})),
        (inline.to_owned(), json!({"build": true})),
    ] {
        shop.write("compose.yml", &project(&lines, ""));
        let arguments = merged(more, json!({"directory": shop.path(), "project": name}));
        let text = fail(&bounded, "compose_up", arguments.clone()).await;
        assert!(
            text.contains("was not created by this server"),
            "{lines}: {text}"
        );
        if lines.contains("build") {
            let asked = fail(&free, "compose_up", arguments).await;
            assert!(
                asked.contains("Takes these names from other images: busybox:test"),
                "{asked}"
            );
        }
    }
}
