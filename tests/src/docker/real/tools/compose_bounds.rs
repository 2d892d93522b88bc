//! `compose_up` stays within the operator's bounds.

use crate::docker::prelude::*;

/// A server with the compose program and access to the directory; `None` if either is missing.
async fn lab(shop: &Folder, env: &[(&str, &str)]) -> Option<Lab> {
    let directory = ("DOCKER_MCP_PROJECT_DIR", shop.str());
    lab_with(&[&[directory], env].concat()).await
}

/// Lines of a service, up to `;`, and of the project, and the words of the refusal. OUT is a folder outside, HERE that of
/// the project; THEIRS is the name of a volume and a network that are hidden.
const ROWS: &str = r#"
privileged: true | does not create containers with
pid: host | does not create containers with
ipc: host | does not create containers with
uts: host | does not create containers with
userns_mode: host | does not create containers with
network_mode: host | does not create containers with
network_mode: 'container:CONTAINER' | does not create containers with
cap_add: [SYS_ADMIN] | does not create containers with
devices: ['/dev/null:/dev/x'] | does not create containers with
security_opt: ['seccomp=unconfined'] | does not create containers with
cgroup_parent: /x | does not create containers with
volumes_from: ['container:x'] | does not create containers with
logging: {driver: syslog} | does not create containers with
logging: {driver: json-file, options: {path: /etc/x}} | does not create containers with
volumes: ['/:/h'] | does not create containers with
volumes: ['/var/run/docker.sock:/s'] | does not create containers with
volumes: ['./data:/s'] | does not create containers with
volumes: ['HERE/a$$b:/x'] | does not create containers with
volumes: ['data:/x'];volumes: {data: {driver_opts: {type: none, o: bind, device: /}}} | does not create containers with
networks: [x];networks: {x: {driver: macvlan}} | does not create containers with
networks: [x];networks: {x: {driver_opts: {com.docker.network.bridge.name: docker0}}} | does not create containers with
networks: [x];networks: {x: {ipam: {driver: other}}} | does not create containers with
networks: {default: {driver_opts: {com.docker.network.endpoint.ifname: a}}} | does not create containers with
secrets: [x];secrets: {x: {file: ./secret}} | does not create containers with
configs: [x];configs: {x: {file: ./secret}} | does not create containers with
scale: 3 | -web-3` is not
volumes: ['data:/x'];volumes: {data: {external: true, name: THEIRS}} | not accessible
networks: [data];networks: {data: {external: true, name: THEIRS}} | not accessible
container_name: PREFIX-new-prod | not accessible
env_file: OUT/o.env | outside of those
env_file: link/o.env | outside of those
;include: ['https://127.0.0.1/x.yml'] | not valid
secrets: [x];secrets: {x: {environment: HOME}} | use `file`
build: {context: ., network: host} | the option
build: {context: ., ssh: [default]} | the option
build: {context: ., privileged: true} | the option
build: {context: ., entitlements: [network.host]} | ntitlements
build: {context: ., cache_from: ['127.0.0.1:7/x']} | the option
build: {context: 'http://127.0.0.1:7/x.tar'} | absolute path
build: {context: 'git://127.0.0.1:7/x'} | absolute path
build: {context: 'https://127.0.0.1:7/x.git#main'} | absolute path
build: {context: ., additional_contexts: {x: 'http://127.0.0.1:7/x'}} | absolute path
build: {context: ., additional_contexts: {x: 'docker-image://127.0.0.1:7/x'}} | absolute path
labels: {docker-mcp-server.created: 'true'} | only this server
"#;

#[tokio::test]
async fn project_cannot_do_what_a_container_cannot() {
    let (shop, outside) = (Folder::new(), Folder::new());
    outside.write("o.env", "A=canary-31\n");
    let binds = json!({"create": {"binds": [format!("{}/a$$b", shop.str())]}});
    let policy = outside.write("policy.json", &binds.to_string());
    let out = outside.str();
    std::os::unix::fs::symlink(out, shop.path().join("link")).unwrap();
    let env = [
        ("DOCKER_MCP_DENY", "name=*-prod,name=*-web-3"),
        ("DOCKER_MCP_POLICY", policy.to_str().unwrap()),
    ];
    let Some(bounded) = lab(&shop, &env).await else {
        return;
    };
    let theirs = bounded.volume("prod", json!({})).await;
    bounded.network("prod").await;
    let container = bounded.sleep("prod", json!({})).await;

    shop.write("secret", "x");
    for row in ROWS.trim().lines() {
        let (lines, reason) = row.rsplit_once(" | ").unwrap();
        let mut lines = lines.replace("OUT", out).replace("HERE", shop.str());
        for (word, name) in [
            ("THEIRS", &theirs),
            ("CONTAINER", &container),
            ("PREFIX", &bounded.prefix),
        ] {
            lines = lines.replace(word, name);
        }
        let (service, end) = lines.split_once(';').unwrap_or((&lines, ""));
        let file = web_project(service, &format!("{end}\n"));
        shop.write("compose.yml", &file);
        let arguments = json!({"directory": shop.path(), "project": bounded.name("x")});
        let refused = fail(&bounded, "compose_up", arguments.clone()).await;
        // The same project as a text, and the same judgement without bringing it up.
        let text = merged(arguments, json!({"yaml": file}));
        let shown = call(&bounded, "compose_config", text).await.to_string();
        for text in [refused, shown] {
            assert!(text.contains(reason), "{row}: {text}");
            assert_lacks(&text, "canary");
        }
    }
    // The text stands for the file; what refers to that means the one on the disk.
    shop.write(
        "compose.yml",
        &web_project(&format!("env_file: {out}/o.env"), ""),
    );
    for text in [
        "services: {b: {extends: {file: ./compose.yml, service: web}}}\n",
        "include: [compose.yml]\n",
    ] {
        let arguments =
            json!({"directory": shop.path(), "project": bounded.name("x"), "yaml": text});
        let shown = call(&bounded, "compose_config", arguments).await;
        assert_contains(&shown, "outside of those");
        assert_lacks(&shown, "canary");
    }
    // What is doubled in a file is one character in a path.
    let file = web_project(&format!("volumes: ['{}/a$$$$b:/x']", shop.str()), "");
    let shown = succeed!(bounded, "compose_config",
        {"directory": shop.path(), "project": bounded.name("x"), "yaml": file});
    assert!(shown["refused"].is_null(), "{shown}");
    fs::remove_file(shop.path().join("compose.yml")).unwrap();
    outside.write("compose.yml", &web_project("", ""));
    for file in ["compose.yml", ".env"] {
        std::os::unix::fs::symlink(outside.path().join("compose.yml"), shop.path().join(file))
            .unwrap();
        fails_with!(bounded, "compose_up", {"directory": shop.path(), "project": bounded.name("x")},
            "symbolic link");
        fs::remove_file(shop.path().join(file)).unwrap();
        shop.write("compose.yml", &web_project("", ""));
    }
}

#[tokio::test]
async fn project_is_marked_as_created() {
    let shop = Folder::new();
    shop.write(
        "compose.yml",
        &web_project("volumes: ['data:/d']", "volumes: {data: }\n"),
    );
    let env = [("DOCKER_MCP_ONLY_CREATED", "1")];
    let Some(ours) = lab(&shop, &env).await else {
        return;
    };
    let name = ours.name("shop");
    let arguments = json!({"directory": shop.path(), "project": name, "confirm": name});
    for _ in 0..2 {
        let up = succeed(&ours, "compose_up", arguments.clone()).await;
        assert_eq!(up["running"], 1, "{up}");
    }
    let down = succeed!(ours, "compose_service", {"project": name, "action": "down", "volumes": true, "confirm": name});
    assert_has!(down, {"failed": null, "removed_volumes": [format!("{name}_data")],
        "removed_networks": [format!("{name}_default")]});
}

/// Calls of every tool that changes a project.
const CHANGES: &str = r#"
compose_up | {"directory": "$DIR", "project": "$P", "confirm": "$P"}
compose_up | {"directory": "$DIR", "project": "$P", "confirm": "$P", "yaml": $YAML}
compose_service | {"project": "$P", "confirm": "$P", "action": "down"}
compose_service | {"project": "$P", "confirm": "$P", "action": "stop"}
compose_service | {"project": "$P", "confirm": "$P", "action": "restart"}
"#;

/// Every tool of compose projects, on one that another program has brought up.
#[tokio::test]
async fn projects_of_others_are_not_changed() {
    let shop = Folder::new();
    shop.write("compose.yml", &web_project("", ""));
    let Some(free) = lab(&shop, &[]).await else {
        return;
    };
    let name = free.name("shop");
    let labels = json!({"Labels": of_compose(&name, "web")});
    let web = free.sleep("shop-web-1", labels).await;
    let yaml = json!(web_project("init: true", "")).to_string();
    let words = [("$DIR", shop.str()), ("$P", &name), ("$YAML", &yaml)];
    let id = free.id(&web).await;
    let [by_name, by_label] = [
        format!("name={web}"),
        format!("label=com.docker.compose.project={name}"),
    ];
    for (option, value, reason) in [
        ("DOCKER_MCP_DENY", &*by_name, ""),
        ("DOCKER_MCP_DENY", &by_label, ""),
        (
            "DOCKER_MCP_ONLY_CREATED",
            "1",
            "was not created by this server",
        ),
        ("DOCKER_MCP_NO_DESTRUCTIVE", "1", ""),
        ("MCP_READ_ONLY", "1", ""),
    ] {
        let bounded = lab(&shop, &[(option, value)]).await.unwrap();
        for (tool, arguments) in calls_of(CHANGES, &words) {
            let text = refusal(&bounded, tool, &arguments).await;
            assert_ne!(text, "", "{option}={value} {tool} {arguments}");
            assert_contains(&text, reason);
        }
    }
    assert_has!(free.inspect(&web).await, {"Id": id, "State": {"Running": true}});
    let file = fs::read_to_string(shop.path().join("compose.yml")).unwrap();
    assert_eq!(file, web_project("", ""));
}

#[tokio::test]
async fn networks_of_others_are_neither_replaced_nor_given_more_names() {
    let shop = Folder::new();
    let Some(free) = lab(&shop, &[]).await else {
        return;
    };
    let only = [("DOCKER_MCP_ONLY_CREATED", "1")];
    let bounded = lab(&shop, &only).await.unwrap();
    let theirs = free.name("theirs");
    let request = json!({"Name": theirs, "Labels": {"com.docker.compose.project": "prod"}});
    let request = serde_json::from_value(request).unwrap();
    free.docker.create_network(request).await.unwrap();
    for (lab, option, reason) in [
        (&free, "", "belongs to the project `prod`"),
        (
            &bounded,
            "external: true, ",
            "was not created by this server",
        ),
        (&free, "external: true, ", ""),
    ] {
        let networks = format!("networks: {{x: {{{option}name: {theirs}}}}}\n");
        let file = web_project("networks: [x]", &networks);
        let arguments = json!({"directory": shop.path(), "project": lab.name("x"), "yaml": file});
        let shown = succeed(lab, "compose_config", arguments).await;
        assert_eq!(shown["refused"].is_null(), reason.is_empty(), "{shown}");
        assert_contains(&shown, reason);
    }
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
        shop.write("compose.yml", &web_project(&lines, ""));
        let arguments = merged(more, json!({"directory": shop.path(), "project": name}));
        fails_with!(
            bounded,
            "compose_up",
            arguments,
            "was not created by this server"
        );
        if lines.contains("build") {
            let asked = fail(&free, "compose_up", arguments).await;
            assert_contains(&asked, "Takes these names from other images: busybox:test");
        }
    }
}
