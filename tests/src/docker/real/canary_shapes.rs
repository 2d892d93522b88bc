//! Secrets of every known shape, planted in every place: no tool, resource or prompt shows one.

mod outputs;

use std::collections::BTreeSet;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};

use self::outputs::Outputs;
use crate::docker::SERVER;
use crate::docker::lab::{Folder, Lab, lab, merged};
use crate::harness::{Server, eventually, real};

/// Begins every secret; those of hexadecimal digits and of capital letters differ only in case and digits.
const MARKS: [&str; 2] = ["c4n4ry", "c0ffee"];

/// The rows of the table with a secret of their own each: place and text.
fn planted() -> Vec<(&'static str, String)> {
    let rows = include_str!("canary_shapes.txt").lines();
    let rows = rows.filter_map(|row| row.split_once(" ;; ")).enumerate();
    let planted = rows.map(|(number, (place, text))| {
        let [mark, hexadecimal] = MARKS;
        let secret = format!("{mark}{number:03}Zq");
        let text = text
            .replace("@@", &secret)
            .replace("^^", &secret.to_uppercase())
            .replace("##", &format!("{hexadecimal}{number:03}"));
        (place, text.replace('¶', "\n"))
    });
    planted.collect()
}

fn at(place: &str) -> Vec<String> {
    let planted = planted().into_iter().filter(|row| row.0 == place);
    planted.map(|row| row.1).collect()
}

/// `KEY=value` as members.
fn members(place: &str) -> Value {
    let pairs = at(place).into_iter();
    let pairs = pairs.map(|pair| {
        let (key, value) = pair.split_once('=').unwrap();
        (key.to_owned(), json!(value))
    });
    pairs.collect::<Map<_, _>>().into()
}

/// A command of a shell that prints all texts. They are encoded, so that they are secrets only in the output.
fn print() -> String {
    format!(
        "echo {} | base64 -d",
        STANDARD.encode(at("text").join("\n") + "\n")
    )
}

/// The containers: one runs and is unhealthy, one has ended, one cannot be started.
async fn plant(lab: &mut Lab) -> [String; 3] {
    let mut labels = members("label");
    labels["com.docker.compose.config-hash"] = json!("1");
    labels["com.docker.compose.project"] = json!(lab.name("shop"));
    labels["com.docker.compose.service"] = json!("web");
    let health = at("health").join("; ") + "; " + &print() + "; exit 1";
    let more = json!({
        "Env": at("env"),
        "Labels": labels,
        "Healthcheck": {"Test": ["CMD-SHELL", health], "Interval": 500_000_000, "Retries": 1},
    });
    let words = at("word").join("»");
    let command = |script: String| {
        let shell = ["sh".to_owned(), "-c".to_owned(), script];
        let words = words.split('»').map(str::to_owned);
        shell.into_iter().chain(words).collect::<Vec<_>>()
    };
    let (runs, ends) = (
        command(print() + "; sleep 600"),
        command(print() + "; exit 1"),
    );
    let [runs, ends]: [Vec<&str>; 2] =
        [&runs, &ends].map(|all| all.iter().map(|word| &**word).collect());
    let fails: Vec<&str> = ["/nope"].into_iter().chain(words.split('»')).collect();
    [
        lab.run("runs", &runs, more.clone()).await,
        lab.finish("ends", &ends, more.clone()).await,
        lab.create("fails", &fails, more).await,
    ]
}

#[tokio::test]
#[expect(clippy::too_many_lines, reason = "a table of calls")]
async fn no_output_shows_a_planted_secret() {
    let Some(mut lab) = lab().await else { return };
    let [runs, ends, fails] = plant(&mut lab).await;
    let (folder, compose) = (Folder::new(), real::compose_dir().unwrap_or_default());
    let registry = "127.0.0.1:9";
    let login =
        json!({"auths": {registry: {"auth": STANDARD.encode(format!("bob:{}000Zq", MARKS[0]))}}});
    folder.write("docker/config.json", &login.to_string());
    let path = format!("{compose}:/usr/bin:/bin");
    let config = folder.path().join("docker");
    let env = [
        ("DOCKER_HOST", &*lab.host),
        ("DOCKER_CONFIG", config.to_str().unwrap()),
        ("DOCKER_MCP_ALLOW_EXEC", "1"),
        ("DOCKER_MCP_PROJECT_DIR", folder.str()),
        ("MCP_CALL_TIMEOUT", "120"),
        ("MCP_LOG", "trace"),
        ("MCP_TOOLSETS", "all"),
        ("PATH", &path),
    ];
    let server = Server::start(SERVER, &env).await;
    server.wait_for_status("online").await;
    let mut outputs = Outputs {
        server,
        asked: BTreeSet::new(),
        shown: BTreeSet::new(),
    };
    eventually("the container is unhealthy", async || {
        let health = lab.docker.inspect_container(&runs, None).await.unwrap();
        let health = health.state.unwrap().health.unwrap();
        (health.failing_streak > Some(0)).then_some(())
    })
    .await;

    // What is made through the server.
    let (image, made) = (lab.name("image"), lab.adopt("made"));
    let [network, volume] = ["network", "volume"].map(|name| lab.name(name));
    let lines = |word: &str, place: &str| {
        let lines = members(place).as_object().unwrap().clone().into_iter();
        let lines = lines.map(|(key, value)| format!("{word} {key}={value}\n"));
        lines.collect::<String>()
    };
    let names: String = members("argument")
        .as_object()
        .unwrap()
        .keys()
        .map(|name| format!("ARG {name}\n"))
        .collect();
    let dockerfile = format!(
        "FROM busybox:test\n{names}{}{}RUN env; {}\n",
        lines("ENV", "imageenv"),
        lines("LABEL", "imagelabel"),
        print()
    );
    let project = lab.name("made");
    let words = at("word").join("»");
    let words = ["sh", "-c", "sleep 600"]
        .into_iter()
        .chain(words.split('»'));
    let words = json!(words.collect::<Vec<_>>());
    let service = json!({"services": {"web": {"image": "busybox:test", "environment": at("compose"), "labels": members("label"),
        "command": ["sh", "-c", print() + "; sleep 600"], "stop_grace_period": "0s"}}});
    folder.write("good/compose.yml", &service.to_string());
    folder.write(
        "bad/compose.yml",
        &service.to_string().replace("environment", "environmen"),
    );
    folder.write(
        "worse/compose.yml",
        &format!("services:\n  web: {{}}\n{}", at("text").join("\n")),
    );
    lab.adopt("made-web-1");
    let both = format!("{registry}/{image}:1");
    let project_in = |dir: &str| json!({"directory": folder.path().join(dir), "project": project});
    let tools = [
        (
            "create_volume",
            json!({"volume": volume, "labels": members("volume")}),
        ),
        (
            "create_network",
            json!({"network": network, "labels": members("network")}),
        ),
        (
            "build_image",
            json!({"tag": image, "dockerfile": dockerfile, "build_args": members("argument"), "no_cache": true}),
        ),
        (
            "build_image",
            json!({"tag": image, "dockerfile": format!("{dockerfile}RUN false\n"), "build_args": members("argument")}),
        ),
        ("tag_image", json!({"image": image, "new_name": both})),
        ("push_image", json!({"image": both, "confirm": both})),
        ("pull_image", json!({"image": format!("{registry}/x:1")})),
        ("list_images", json!({"limit": 100})),
        ("get_image", json!({"image": image})),
        (
            "create_container",
            json!({"image": image, "name": made, "env": members("env"), "labels": members("label"), "command": words}),
        ),
        (
            "update_container",
            json!({"container": runs, "memory_mb": 64}),
        ),
        (
            "recreate_container",
            json!({"container": runs, "changes": {"env": members("env")}, "confirm": runs}),
        ),
        (
            "connect_network",
            json!({"network": network, "container": runs}),
        ),
        ("list_networks", json!({})),
        ("list_networks", json!({"network": network})),
        ("list_volumes", json!({})),
        ("list_volumes", json!({"volume": volume})),
        (
            "disconnect_network",
            json!({"network": network, "container": runs, "confirm": runs}),
        ),
        (
            "remove_network",
            json!({"network": network, "confirm": network}),
        ),
        (
            "remove_volume",
            json!({"volume": volume, "confirm": volume}),
        ),
        ("compose_up", project_in("good")),
        ("compose_up", project_in("bad")),
        ("compose_up", project_in("worse")),
        ("compose_config", project_in("good")),
        ("compose_config", project_in("bad")),
        ("compose_config", project_in("worse")),
        (
            "compose_service",
            json!({"project": project, "action": "restart"}),
        ),
        ("get_container_logs", json!({"project": project})),
        ("list_compose_projects", json!({})),
        ("list_compose_projects", json!({"project": project})),
        (
            "compose_down",
            json!({"project": project, "confirm": project}),
        ),
        (
            "execute_command",
            json!({"container": runs, "command": [print()], "shell": true, "max_bytes": 60_000, "env": members("env")}),
        ),
        (
            "execute_command",
            json!({"container": runs, "command": at("word").iter().flat_map(|w| w.split('»')).fold(vec!["echo"], |mut all, w| { all.push(w); all })}),
        ),
        (
            "copy_to_container",
            json!({"container": runs, "path": "/tmp/x", "text": at("text").join("\n")}),
        ),
        (
            "copy_from_container",
            json!({"container": runs, "path": "/tmp/x", "max_bytes": 60_000}),
        ),
        ("list_containers", json!({"all": true, "limit": 50})),
        ("list_events", json!({"limit": 1000})),
        ("get_system_info", json!({"disk_usage": true})),
        ("diagnose_host", json!({})),
        ("prune", json!({"what": "containers"})),
        ("get_container_stats", json!({})),
    ];
    let mut failed = Vec::new();
    for (tool, arguments) in tools {
        if outputs.call(tool, arguments).await["result"]["isError"] == true {
            failed.push(tool);
        }
    }
    // The replacement is unhealthy, too.
    let expected = "build_image push_image pull_image recreate_container compose_up compose_up \
                    compose_config compose_config";
    assert_eq!(failed.join(" "), expected);
    for container in [&runs, &ends, &fails, &made] {
        let asked = json!({"container": container});
        let with = |more: Value| merged(asked.clone(), more);
        let all = ["processes", "changes", "env", "labels", "command"];
        for (tool, arguments) in [
            ("start_container", asked.clone()),
            ("get_container", asked.clone()),
            ("get_container", with(json!({"sections": all}))),
            ("diagnose_container", asked.clone()),
            ("get_container_stats", asked.clone()),
            ("pause_container", asked.clone()),
            ("pause_container", with(json!({"unpause": true}))),
            ("wait_container", with(json!({"timeout_seconds": 1}))),
            (
                "get_container_logs",
                with(json!({"follow_seconds": 1, "tail": 500})),
            ),
        ] {
            outputs.call(tool, arguments).await;
        }
        // Every part of the log, also of a private key.
        for tail in 1..=at("text").join("\n").lines().count() {
            outputs
                .call("get_container_logs", with(json!({"tail": tail})))
                .await;
        }
        for grep in ["MII", "=", ":", "b3Bl"] {
            outputs
                .call(
                    "get_container_logs",
                    with(json!({"grep": grep, "timestamps": true})),
                )
                .await;
        }
        for end in ["", "/logs", "/stats"] {
            let uri = json!({"uri": format!("docker://containers/{container}{end}")});
            outputs
                .ask("docker://containers/{id}", "resources/read", uri)
                .await;
        }
        let prompt = json!({"name": "troubleshoot_container", "arguments": asked});
        outputs
            .ask("troubleshoot_container", "prompts/get", prompt)
            .await;
    }
    for text in at("text") {
        outputs
            .call(
                "diagnose_container",
                json!({"container": lab.name("absent"), "error": text}),
            )
            .await;
    }
    let shop =
        json!({"name": "review_compose_project", "arguments": {"project": lab.name("shop")}});
    outputs
        .ask("review_compose_project", "prompts/get", shop)
        .await;
    outputs
        .ask(
            "clean_up_safely",
            "prompts/get",
            json!({"name": "clean_up_safely"}),
        )
        .await;
    for uri in ["docker://containers", "docker://images", "docker://compose"] {
        outputs
            .ask(uri, "resources/read", json!({"uri": uri}))
            .await;
    }
    let uri = format!("docker://compose/{}", lab.name("shop"));
    outputs
        .ask(
            "docker://compose/{project}",
            "resources/read",
            json!({"uri": uri}),
        )
        .await;
    outputs
        .ask("resources/list", "resources/list", json!({}))
        .await;
    for verb in ["restart", "stop", "kill", "remove"] {
        let arguments = json!({"container": runs, "confirm": runs});
        outputs.call(&format!("{verb}_container"), arguments).await;
    }
    lab.remove(&made).await;
    for image in [both, image] {
        outputs
            .call("remove_image", json!({"image": image, "confirm": image}))
            .await;
    }

    // Every tool, resource and prompt was asked.
    for (method, list, name) in [
        ("tools/list", "tools", "name"),
        ("prompts/list", "prompts", "name"),
        (
            "resources/templates/list",
            "resourceTemplates",
            "uriTemplate",
        ),
    ] {
        let all = outputs.ask(method, method, json!({})).await;
        for one in all["result"][list].as_array().unwrap() {
            let name = one[name].as_str().unwrap();
            let name = name.trim_end_matches("/logs").trim_end_matches("/stats");
            assert!(outputs.asked.contains(name), "{name} is not asked");
        }
    }
    let log = outputs.server.log();
    outputs.check("the log of the server", &log);
    let shown: Vec<_> = outputs.shown.into_iter().collect();
    assert!(
        shown.is_empty(),
        "{} shown:\n{}",
        shown.len(),
        shown.join("\n")
    );
}
