//! Secrets of every known shape, planted in every place: no tool, resource or prompt shows one.

use std::collections::BTreeSet;
use std::sync::Mutex;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures_util::future::join_all;
use futures_util::{StreamExt as _, stream};
use serde_json::Map;

use crate::docker::prelude::*;

/// Begins every secret; those of hexadecimal digits and of capital letters differ only in case and digits.
const MARKS: [&str; 2] = ["c4n4ry", "c0ffee"];

const MAX_CONCURRENT_CALLS: usize = 6;

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

/// A command that ends with the planted words.
fn command(first: &[&str]) -> Value {
    let words = at("word").join("»");
    let all: Vec<_> = first.iter().copied().chain(words.split('»')).collect();
    json!(all)
}

/// The containers: one runs and is unhealthy, one has ended, one cannot be started.
async fn plant(lab: &Lab) -> [String; 3] {
    let labels = merged(members("label"), of_compose(&lab.name("shop"), "web"));
    let health = at("health").join("; ") + "; " + &print() + "; exit 1";
    let more = |first: &[&str]| {
        json!({"Env": at("env"), "Labels": labels, "Cmd": command(first), "Healthcheck":
            {"Test": ["CMD-SHELL", health], "Interval": 500_000_000, "Retries": 1}})
    };
    let [runs, ends] = ["sleep 600", "exit 1"].map(|end| format!("{}; {end}", print()));
    [
        lab.run("runs", &[], more(&["sh", "-c", &runs])).await,
        lab.finish("ends", &[], more(&["sh", "-c", &ends])).await,
        lab.create("fails", &[], more(&["/nope"])).await,
    ]
}

/// Objects that are made, shown and removed through the server.
const CALLS: &str = r#"
create_volume | {"volume": "P-volume", "labels": $volume}
create_network | {"network": "P-network", "labels": $network}
build_image | {"tag": "P-image", "dockerfile": $DOCKERFILE, "build_args": $argument, "no_cache": true}
build_image | {"tag": "P-image", "dockerfile": $DOCKERFAIL, "build_args": $argument}
tag_image | {"image": "P-image", "new_name": "127.0.0.1:9/P-image:1"}
push_image | {"image": "127.0.0.1:9/P-image:1", "confirm": "127.0.0.1:9/P-image:1"}
pull_image | {"image": "127.0.0.1:9/x:1"}
list_images | {"limit": 100}
list_images | {"image": "P-image"}
create_container | {"image": "P-image", "name": "P-made", "env": $env, "labels": $label, "command": $WORDS}
update_container | {"container": "P-runs", "memory_mb": 64}
recreate_container | {"container": "P-runs", "changes": {"env": $env}, "confirm": "P-runs"}
connect_network | {"network": "P-network", "container": "P-runs"}
list_networks | {}
list_networks | {"network": "P-network"}
list_volumes | {}
list_volumes | {"volume": "P-volume"}
connect_network | {"network": "P-network", "container": "P-runs", "disconnect": true, "confirm": "P-runs"}
remove_network | {"network": "P-network", "confirm": "P-network"}
remove_volume | {"volume": "P-volume", "confirm": "P-volume"}
compose_up | {"directory": "$DIR/good", "project": "P-made"}
compose_up | {"directory": "$DIR/bad", "project": "P-made"}
compose_up | {"directory": "$DIR/worse", "project": "P-made"}
compose_config | {"directory": "$DIR/good", "project": "P-made"}
compose_config | {"directory": "$DIR/bad", "project": "P-made"}
compose_config | {"directory": "$DIR/worse", "project": "P-made"}
compose_service | {"project": "P-made", "action": "restart"}
get_container_logs | {"project": "P-made"}
list_compose_projects | {}
list_compose_projects | {"project": "P-made"}
compose_service | {"project": "P-made", "action": "down", "confirm": "P-made"}
execute_command | {"container": "P-runs", "command": [$PRINT], "shell": true, "max_bytes": 60000, "env": $env}
execute_command | {"container": "P-runs", "command": $ECHO}
copy_to_container | {"container": "P-runs", "path": "/tmp/x", "text": $TEXT}
copy_from_container | {"container": "P-runs", "path": "/tmp/x", "max_bytes": 60000}
list_containers | {"all": true, "limit": 50}
list_events | {"limit": 1000}
get_system_info | {"disk_usage": true}
diagnose_host | {}
prune | {"what": "containers"}
get_container_stats | {}
"#;

/// Calls about each container.
const ON_EACH: &str = r#"
start_container | {"container": "$ID"}
get_container | {"container": "$ID"}
get_container | {"container": "$ID", "sections": ["processes", "changes", "env", "labels", "command"]}
diagnose_container | {"container": "$ID"}
get_container_stats | {"container": "$ID"}
update_container | {"container": "$ID", "paused": true}
update_container | {"container": "$ID", "paused": false}
wait_container | {"container": "$ID", "timeout_seconds": 1}
get_container_logs | {"container": "$ID", "follow_seconds": 1, "tail": 500}
get_container_logs | {"container": "$ID", "grep": "MII", "timestamps": true}
get_container_logs | {"container": "$ID", "grep": "=", "timestamps": true}
get_container_logs | {"container": "$ID", "grep": ":", "timestamps": true}
get_container_logs | {"container": "$ID", "grep": "b3Bl", "timestamps": true}
"#;
/// Other requests: the method, the name of what is asked, and the parameters.
const OF_EACH: &str = r#"
resources/read docker://containers/{id} | {"uri": "docker://containers/$ID"}
resources/read docker://containers/{id} | {"uri": "docker://containers/$ID/logs"}
resources/read docker://containers/{id} | {"uri": "docker://containers/$ID/stats"}
prompts/get troubleshoot_container | {"name": "troubleshoot_container", "arguments": {"container": "$ID"}}
"#;
const OF_ALL: &str = r#"
prompts/get review_compose_project | {"name": "review_compose_project", "arguments": {"project": "$SHOP"}}
prompts/get clean_up_safely | {"name": "clean_up_safely"}
resources/read docker://containers | {"uri": "docker://containers"}
resources/read docker://images | {"uri": "docker://images"}
resources/read docker://compose | {"uri": "docker://compose"}
resources/read docker://compose/{project} | {"uri": "docker://compose/$SHOP"}
resources/list resources/list | {}
"#;

#[tokio::test]
#[expect(clippy::too_many_lines, reason = "a table of calls")]
async fn no_output_shows_a_planted_secret() {
    let Some(lab) = lab().await else { return };
    let [runs, ends, fails] = plant(&lab).await;
    let folder = Folder::new();
    let registry = "127.0.0.1:9";
    let login =
        json!({"auths": {registry: {"auth": STANDARD.encode(format!("bob:{}000Zq", MARKS[0]))}}});
    folder.write("docker/config.json", &login.to_string());
    let config = folder.path().join("docker");
    let env = [
        ("DOCKER_CONFIG", config.to_str().unwrap()),
        ("DOCKER_MCP_PROJECT_DIR", folder.str()),
        ("MCP_LOG", "trace"),
    ];
    let server = in_front_of(&lab.host, &env).await;
    server.wait_for_status("online").await;
    let outputs = Outputs {
        server,
        asked: Mutex::default(),
        shown: Mutex::default(),
    };
    eventually("the container is unhealthy", async || {
        let health = lab.inspect(&runs).await["State"]["Health"].clone();
        (health["FailingStreak"].as_u64() > Some(0)).then_some(())
    })
    .await;

    // What is made through the server.
    let lines = |word: &str, place: &str| {
        let members = members(place);
        let lines = members.as_object().unwrap().iter();
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
    let text = |value: Value| value.to_string();
    let places = ["env", "label", "volume", "network", "argument"];
    let places = places.map(|place| (format!("${place}"), text(members(place))));
    let dockerfail = text(json!(format!("{dockerfile}RUN false\n")));
    let prefix = lab.name("");
    let words = [
        ("P-", &*prefix),
        ("$DIR", folder.str()),
        ("$DOCKERFAIL", &dockerfail),
        ("$DOCKERFILE", &text(json!(dockerfile))),
        ("$WORDS", &text(command(&["sh", "-c", "sleep 600"]))),
        ("$PRINT", &text(json!(print()))),
        ("$ECHO", &text(command(&["echo"]))),
        ("$TEXT", &text(json!(at("text").join("\n")))),
    ];
    let places = places.iter().map(|(word, value)| (&**word, &**value));
    let words: Vec<_> = words.into_iter().chain(places).collect();
    let calls = calls_of(CALLS, &words);
    let mut failed = Vec::new();
    for (tool, arguments) in calls {
        if outputs.call(tool, arguments).await["result"]["isError"] == true {
            failed.push(tool);
        }
    }
    // The replacement is unhealthy, too.
    let expected = "build_image push_image pull_image recreate_container compose_up compose_up \
                    compose_config compose_config";
    assert_eq!(failed.join(" "), expected);
    let outputs = &outputs;
    let [made, image] = ["made", "image"].map(|name| lab.name(name));
    let on_each = [&runs, &ends, &fails, &made].map(async |container| {
        for (tool, arguments) in calls_of(ON_EACH, &[("$ID", container)]) {
            outputs.call(tool, arguments).await;
        }
        outputs.ask_all(OF_EACH, ("$ID", container)).await;
    });
    // Every part of the log, also of a private key; the others say the same, or nothing.
    let tails = 1..=at("text").join("\n").lines().count();
    let parts = tails.map(|tail| {
        (
            "get_container_logs",
            json!({"container": ends, "tail": tail}),
        )
    });
    let absent = lab.name("absent");
    let errors = at("text").into_iter();
    let errors = errors.map(|text| json!({"container": absent, "error": text}));
    let errors = errors.map(|failed| ("diagnose_container", failed));
    let calls = stream::iter(parts.chain(errors));
    let calls = calls.map(|(tool, arguments)| outputs.call(tool, arguments));
    let calls = calls.buffer_unordered(MAX_CONCURRENT_CALLS);
    let calls = calls.for_each(async |_| ());
    tokio::join!(join_all(on_each), calls);
    outputs.ask_all(OF_ALL, ("$SHOP", &lab.name("shop"))).await;
    for verb in ["restart", "stop", "kill", "remove"] {
        let arguments = json!({"container": runs, "confirm": runs});
        outputs.call(&format!("{verb}_container"), arguments).await;
    }
    lab.remove(&made).await;
    for image in [format!("{registry}/{image}:1"), image] {
        let removal = json!({"image": image, "confirm": image});
        outputs.call("remove_image", removal).await;
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
            let is_asked = outputs.asked.lock().unwrap().contains(name);
            assert!(is_asked, "{name} is not asked");
        }
    }
    let log = outputs.server.log();
    outputs.check("the log of the server", &log);
    let shown = outputs.shown.lock().unwrap();
    assert!(shown.is_empty(), "{shown:#?}");
}

/// The outputs of one server, and the secrets in them.
struct Outputs {
    server: Server,
    asked: Mutex<BTreeSet<String>>,
    shown: Mutex<BTreeSet<String>>,
}

impl Outputs {
    fn check(&self, output: &str, text: &str) {
        let text = text.to_lowercase();
        if !MARKS.iter().any(|mark| text.contains(mark)) {
            return;
        }
        for (place, planted) in planted() {
            let lower = planted.to_lowercase();
            let marks = MARKS.iter().filter_map(|mark| {
                let from = lower.find(mark)?;
                Some(&lower[from..from + 9])
            });
            if marks.into_iter().any(|secret| text.contains(secret)) {
                let shown = format!("{output} shows {place}: {planted}");
                self.shown.lock().unwrap().insert(shown);
            }
        }
    }

    async fn ask(&self, output: &str, method: &str, params: Value) -> Value {
        let reply = post(&self.server, method, params).await;
        self.check(output, &reply.body);
        let asked = output.split(' ').next().unwrap().to_owned();
        self.asked.lock().unwrap().insert(asked);
        reply.json()
    }

    /// Makes the requests of a table, with a value in place of a word.
    async fn ask_all(&self, table: &str, word: (&str, &str)) {
        for (asked, params) in calls_of(table, &[word]) {
            let (method, name) = asked.split_once(' ').unwrap();
            self.ask(name, method, params).await;
        }
    }

    /// Calls a tool, and again if it names the `confirm` for what it has shown.
    async fn call(&self, tool: &str, mut arguments: Value) -> Value {
        let params = json!({"name": tool, "arguments": arguments});
        let answer = self.ask(tool, "tools/call", params).await;
        match asked_for(&answer["result"]) {
            Some(confirm) if arguments["confirm"].is_string() => {
                arguments["confirm"] = json!(confirm);
                let params = json!({"name": tool, "arguments": arguments});
                self.ask(tool, "tools/call", params).await
            }
            _ => answer,
        }
    }
}

#[tokio::test]
async fn redacted_values_are_counted() {
    let Some(lab) = lab().await else { return };
    let [_, ends, _] = plant(&lab).await;
    for tool in ["get_container", "get_container_logs", "diagnose_container"] {
        let answer = succeed!(lab, tool, {"container": ends});
        assert!(answer["redacted"].as_u64() >= Some(6), "{answer}");
    }
    let env = json!({"Env": ["MODE=open", "DB_PASSWORD=c4n4ry"]});
    let name = lab.create("open", &["true"], env).await;
    let shown = succeed!(lab, "get_container", {"container": name});
    let env = shown["env"].as_array().unwrap();
    assert!(env.contains(&json!("MODE=open")) && env.contains(&json!("DB_PASSWORD=***")));
    let open = Lab::at(lab.host.clone(), &[("DOCKER_MCP_SHOW_SECRETS", "1")]).await;
    let answer = succeed!(open, "get_container", {"container": name});
    assert_contains(&answer, "c4n4ry");
    assert_lacks(&answer, "redacted");
}
