//! `compose_up` stays within the operator's bounds: no text of a caller, and no file that an agent may have written, makes
//! the compose program read a file outside of the allowed directories, or run for long.

use base64::prelude::{BASE64_STANDARD as STANDARD, Engine as _};

use crate::docker::prelude::*;

/// A server with the compose program and access to the directory; `None` if either is missing.
async fn lab(shop: &Folder, env: &[(&str, &str)]) -> Option<Lab> {
    let directory = ("DOCKER_MCP_PROJECT_DIR", shop.str());
    lab_with(&[&[directory], env].concat()).await
}

/// Lines of a service, up to `;`, and of the project, and the words of the refusal, or `any`. OUT is a folder outside, PATH
/// a file in it and BASE64 the same path; HERE is the folder of the project; THEIRS is the name of a volume and a network
/// that are hidden. What is `harmless`, compose leaves out, does not find, or does only by `compose watch`, which this
/// server does not run.
const ROWS: &str = r#"
privileged: true | does not create containers with
pid: host | does not create containers with
ipc: host | does not create containers with
uts: host | does not create containers with
userns_mode: host | does not create containers with
network_mode: host | does not create containers with
network_mode: 'container:CONTAINER' | does not create containers with
cap_add: [SYS_ADMIN] | does not create containers with the capability SYS_ADMIN
devices: ['/dev/null:/dev/x'] | does not create containers with
security_opt: ['seccomp=unconfined'] | does not create containers with
cgroup_parent: /x | does not create containers with
volumes_from: ['container:x'] | does not create containers with
logging: {driver: syslog} | does not create containers with
logging: {driver: json-file, options: {path: /etc/x}} | does not create containers with
volumes: ['/:/h'] | does not create containers with a mount of `/` of the host
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
env_file: PATH | any
env_file: !!binary BASE64 | any
env_file: !<tag:yaml.org,2002:binary> BASE64 | any
env_file: !!str PATH | any
env_file: !reset PATH | harmless
env_file: !override [PATH] | any
env_file: [!!binary BASE64] | any
env_file: [{path: !!binary BASE64, required: true}] | any
env_file: [{path: PATH, format: raw}] | any
env_file: [{!!binary cGF0aA==: PATH}] | any
env_file: &a !!binary BASE64 | any
!!binary ZW52X2ZpbGU=: PATH | any
!!str env_file: PATH | any
? env_file;x-a: 1 | any
? !!str env_file | any
"env_file": PATH | any
"env\u005ffile": PATH | any
env_file: ${NO:-PATH} | any
env_file: $NO/PATH | any
env_file: ../../../../../../../../../PATH | any
env_file: ~/x | any
env_file: *p;x-p: &p PATH | any
<<: *m;x-m: &m {env_file: PATH} | any
<<: [*m];x-m: &m {env_file: !!binary BASE64} | any
!!merge x: *m;x-m: &m {env_file: !!binary BASE64} | any
label_file: PATH | any
label_file: !!binary BASE64 | any
extends: {file: PATH, service: x} | any
extends: {file: !!binary BASE64, service: x} | any
extends: !!map {file: PATH, service: x} | any
extends: {<<: *m, service: x};x-m: &m {file: PATH} | any
;include: [PATH] | any
;include: [!!binary BASE64] | any
;include: !!binary BASE64 | any
;include: [{path: !!binary BASE64}] | any
;include: [{path: [inner.yml], env_file: PATH}] | any
;include: [{path: inner.yml, env_file: !!binary BASE64}] | any
;include: [{path: inner.yml, project_directory: OUT}] | harmless
;!!binary aW5jbHVkZQ==: [PATH] | any
;? include | any
;# x | any
configs: [x];configs: {x: {file: PATH}} | any
configs: [x];configs: {x: {file: !!binary BASE64}} | any
secrets: [x];secrets: {x: {file: PATH}} | any
secrets: [x];secrets: {x: {file: !!binary BASE64}} | any
build: OUT | any
build: !!binary RElS | any
build: {context: ., dockerfile: PATH} | any
build: {context: ., dockerfile: !!binary BASE64} | any
build: {context: ., additional_contexts: {x: OUT}} | any
build: {context: ., additional_contexts: ['x=OUT']} | any
build: {context: ., ssh: ['default=PATH']} | any
build: {context: ., secrets: [x]};secrets: {x: {file: PATH}} | any
build: {context: 'https://127.0.0.1/x.git'} | any
build: {context: 'git@127.0.0.1:x'} | any
volumes: ['PATH:/x'] | any
volumes: ['OUT:/x:ro'] | any
volumes: [{type: bind, source: PATH, target: /x}] | any
volumes: [{type: bind, source: !!binary BASE64, target: /x}] | any
volumes: ['vol:/x'];volumes: {vol: {driver_opts: {type: none, o: bind, device: OUT}}} | any
develop: {watch: [{path: OUT, action: sync, target: /x}]} | harmless
credential_spec: {file: 'PATH'} | any
provider: {type: PATH} | any
provider: {type: model, options: {x: PATH}} | any
models: [m];models: {m: {model: PATH}} | any
"#;

/// From a text, and from the file itself.
#[tokio::test]
async fn project_cannot_do_what_a_container_cannot() {
    let (shop, outside) = (Folder::new(), Folder::new());
    let secret = outside.write("o.env", "CANARY=canary-31\n");
    let path = secret.to_str().unwrap();
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
    shop.write("Dockerfile", "FROM scratch\n");
    shop.write("inner.yml", "services: {b: {image: 'busybox:test'}}\n");
    let base64 = STANDARD.encode(path);
    let words = [
        ("OUT", out),
        ("HERE", shop.str()),
        ("PATH", path),
        ("BASE64", &base64),
        ("THEIRS", &theirs),
        ("CONTAINER", &container),
        ("PREFIX", &bounded.prefix),
    ];
    // A key with a mark of its own has its value in the next line.
    let mark = |line: &str, indent: &str| match line.starts_with('?') {
        true => format!("{line}\n{indent}: [{path}]"),
        false => line.replace("# x", &format!("\u{feff}include: [{path}]")),
    };
    for row in filled(ROWS, &words) {
        let (lines, reason) = row.rsplit_once(" | ").unwrap();
        let (service, end) = lines.split_once(';').unwrap_or((lines, ""));
        let (service, end) = (mark(service, "    "), mark(end, ""));
        let file = format!("{end}\nservices:\n  web:\n    image: busybox:test\n    {service}\n");
        shop.write("compose.yml", &file);
        let arguments = json!({"directory": shop.path(), "project": bounded.name("x")});
        let text = merged(arguments.clone(), json!({"yaml": file}));
        let mut refused = Vec::new();
        for arguments in [&arguments, &text] {
            let shown = call(&bounded, "compose_config", arguments.clone()).await;
            assert_lacks(&shown, "canary");
            let answer = shown["content"][0]["text"].as_str().unwrap();
            if shown["isError"] == true || answer.contains(r#""refused":""#) {
                refused.push(answer.to_owned());
            }
        }
        if reason == "harmless" {
            assert!(refused.len() < 2, "{row}: {refused:?}");
            continue;
        }
        refused.push(fail(&bounded, "compose_up", arguments).await);
        let has_reason = |text: &String| reason == "any" || text.contains(reason);
        assert!(
            refused.len() == 3 && refused.iter().all(has_reason),
            "{row}: {refused:?}"
        );
        assert_lacks(&refused[2], "canary");
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

/// Each would hold a processor for minutes.
#[tokio::test]
async fn no_project_repeats_without_end() {
    let dir = Folder::new();
    let Some(lab) = lab(&dir, &[]).await else {
        return;
    };
    let nested = "x-0: &a0 [x,x,x,x,x,x,x,x,x]\n".to_owned()
        + &(1..9)
            .map(|at| {
                format!(
                    "x-{at}: &a{at} [{}]\n",
                    vec![format!("*a{}", at - 1); 9].join(",")
                )
            })
            .collect::<String>();
    for (key, value) in [
        ("include", "[FILE,FILE,FILE,FILE,FILE,FILE]"),
        (
            "services",
            "{a: {extends: {file: FILE, service: a}}, b: {extends: {file: FILE, service: a}}}",
        ),
    ] {
        for at in 0..12 {
            let file = value.replace("FILE", &format!("{key}{}.yml", at + 1));
            dir.write(&format!("{key}{at}.yml"), &format!("{key}: {file}\n"));
        }
    }
    dir.write("self.yml", "include: [self.yml]\n");
    let web = "services: {w: {image: 'busybox:test'}}\n";
    for text in [
        nested + web,
        format!("include: [include0.yml]\n{web}"),
        "services: {w: {extends: {file: services0.yml, service: a}}}".to_owned(),
        format!("include: [self.yml]\n{web}"),
    ] {
        let text = fail!(lab, "compose_config", {"directory": dir.path(), "project": lab.name("x"), "yaml": text});
        let is_ended = [
            "did not end within 10 s",
            "memory",
            "circular",
            "cycle",
            "not valid",
        ];
        assert!(is_ended.iter().any(|end| text.contains(end)), "{text}");
    }
    let large = format!("x-a: [{}x]\n{web}", "x,".repeat(4_000_000));
    dir.write("large/compose.yml", &large);
    let large = dir.path().join("large");
    fails_with!(lab, "compose_config", {"directory": large, "project": lab.name("x")}, "(512 MiB)");
}
