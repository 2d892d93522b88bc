//! A replacement keeps everything that was not asked for, or the old container.

use std::collections::{BTreeMap, BTreeSet};
use std::net::TcpListener;

use futures_util::{StreamExt as _, stream};

use super::super::super::super::lab::Folder;
use super::*;

const ROWS: &str = include_str!("kept.txt");

/// Replacements at the same time.
const MAX_CONCURRENT_ROWS: usize = 6;

/// The members of `docker inspect` that a user can set, by the path of the member.
fn settings(container: &Value) -> BTreeMap<String, String> {
    let mut all = BTreeMap::new();
    for part in ["Config", "HostConfig"] {
        for (name, value) in container[part].as_object().unwrap() {
            let mut value = value.clone();
            if let Value::Array(list) = &mut value {
                // A volume without a name is mounted by its id.
                list.retain(|item| !(name == "Binds" && is_anonymous(item.as_str().unwrap_or(""))));
                list.sort_by_key(Value::to_string);
            }
            if let Value::Object(labels) = &mut value {
                labels.retain(|key, _| !key.starts_with("docker-mcp-server."));
            }
            all.insert(format!("{part}.{name}"), value);
        }
    }
    for mount in container["Mounts"].as_array().unwrap() {
        let mut mount = mount.clone();
        mount["Mode"].take();
        let path = format!("Mounts.{}", mount["Destination"].as_str().unwrap());
        all.insert(path, mount);
    }
    let bindings = container["HostConfig"]["PortBindings"].clone();
    let mut ports = container["NetworkSettings"]["Ports"].clone();
    if let Value::Object(ports) = &mut ports {
        ports.retain(|_, bound| !bound.is_null());
    }
    for (port, bound) in ports.as_object_mut().into_iter().flatten() {
        for (at, bound) in bound.as_array_mut().into_iter().flatten().enumerate() {
            let wanted = bindings[port][at]["HostPort"].as_str().unwrap_or_default();
            if wanted.is_empty() || wanted == "0" {
                bound["HostPort"].take();
            }
        }
    }
    all.insert("NetworkSettings.Ports".to_owned(), ports);
    let id = &container["Id"].as_str().unwrap()[..12];
    for (network, endpoint) in container["NetworkSettings"]["Networks"]
        .as_object()
        .unwrap()
    {
        let mut own = json!({});
        for name in ["IPAMConfig", "Links", "Aliases", "DriverOpts"] {
            own[name] = endpoint[name].clone();
        }
        if let Some(aliases) = own["Aliases"].as_array_mut() {
            aliases.retain(|alias| alias != id);
        }
        if container["Config"]["MacAddress"].is_string() {
            own["MacAddress"] = endpoint["MacAddress"].clone();
        }
        all.insert(format!("NetworkSettings.Networks.{network}"), own);
    }
    if container["Config"]["Hostname"] == *id {
        all.remove("Config.Hostname");
    }
    let empty = ["null", "[]", "{}", "\"\""];
    let all = all
        .into_iter()
        .map(|(path, value)| (path, value.to_string()));
    all.filter(|(_, value)| !empty.contains(&&**value))
        .collect()
}

fn is_anonymous(bind: &str) -> bool {
    let name = bind.split(':').next().unwrap();
    name.len() == 64
}

fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port()
}

/// Runs a container with the options of a row, replaces it, and compares.
async fn check(lab: &Lab, docker: &str, number: usize, row: &str, part: &str) -> Option<String> {
    let row = row
        .replace("PREFIX", &lab.prefix)
        .replace("PART", part)
        .replace("PORT", &free_port().to_string());
    let [options, changes, allowed] = row.split(";;").collect::<Vec<_>>().try_into().unwrap();
    let (options, command) = options.split_once("-- ").unwrap_or((options, "sleep 600"));
    let name = lab.name(&format!("row{number}"));
    let image = format!("{}:1", lab.prefix);
    let mut arguments = vec!["run", "-d", "--name", &name, "--stop-timeout", "0"];
    arguments.extend(options.split_whitespace());
    arguments.push(&image);
    arguments.extend(command.split_whitespace());
    if let Err(error) = lab.command(docker, &arguments).await {
        // An old engine cannot do it, or this command does not offer it there.
        let is_old = error.contains("API version") || error.contains("unknown flag");
        assert!(is_old, "{row}: {error}");
        return None;
    }
    let before = inspect_raw(lab, docker, &name).await;
    let changes: Value = serde_json::from_str(changes).unwrap();
    let done = call_text(
        lab,
        json!({"container": name, "changes": changes, "confirm": name}),
    )
    .await;
    let after = inspect_raw(lab, docker, &name).await;
    let removed = lab.command(docker, &["rm", "-f", "-v", &name]).await;
    removed.unwrap();
    if before["Id"] == after["Id"] {
        return Some(format!("{row}: {done}"));
    }
    let (old, new) = (settings(&before), settings(&after));
    let paths: BTreeSet<_> = old.keys().chain(new.keys()).collect();
    let differ = paths
        .into_iter()
        .filter(|path| old.get(*path) != new.get(*path));
    let differ: BTreeSet<&str> = differ.map(String::as_str).collect();
    let allowed: BTreeSet<&str> = allowed.split_whitespace().collect();
    (differ != allowed).then(|| {
        let values = differ
            .iter()
            .map(|path| format!("{path}: {:?} -> {:?}", old.get(*path), new.get(*path)));
        format!("{row}: {}", values.collect::<Vec<_>>().join("; "))
    })
}

/// As the command shows it: the types of the tests lack members.
async fn inspect_raw(lab: &Lab, docker: &str, name: &str) -> Value {
    let shown = lab
        .command(docker, &["inspect", "--type", "container", name])
        .await
        .unwrap();
    let shown: Value = serde_json::from_str(&shown).unwrap();
    shown[0].clone()
}

async fn call_text(lab: &Lab, arguments: Value) -> String {
    super::super::refusal(&lab.server, "recreate_container", &arguments).await
}

#[tokio::test]
async fn nothing_differs_that_was_not_asked_for() {
    let Some(docker) = real::docker_command() else {
        return;
    };
    let dir = Folder::new();
    let policy = json!({"create": {"privileged": true, "host_namespaces": true,
        "capabilities": ["NET_ADMIN"]}})
    .to_string();
    let policy = dir.write("policy.json", &policy);
    let env = [
        ("MCP_TOOLSETS", "all"),
        ("DOCKER_MCP_POLICY", policy.to_str().unwrap()),
    ];
    let mut failed = Vec::new();
    for host in real::docker_engines() {
        let mut lab = Lab::at(host, &env).await;
        let [one, two] = [1, 2].map(|version| format!("{}:{version}", lab.prefix));
        let source = lab
            .create(
                "source",
                &["sleep", "600"],
                json!({"Volumes": {"/of-source": {}}}),
            )
            .await;
        let run = async |arguments: &[&str]| lab.command(&docker, arguments).await;
        run(&["start", &source]).await.unwrap();
        run(&["commit", "--change", "ENV LANG=C", &source, &one])
            .await
            .unwrap();
        let more = [
            "commit",
            "--change",
            "ENV LANG=D",
            "--change",
            "EXPOSE 99",
            &source,
            &two,
        ];
        run(&more).await.unwrap();
        // Tests that run at the same time have other networks.
        let network = lab.name("net");
        let mut part = 0;
        for number in 100..250 {
            let subnet = format!("172.31.{number}.0/24");
            if run(&["network", "create", "--subnet", &subnet, &network])
                .await
                .is_ok()
            {
                part = number;
                break;
            }
        }
        let part = part.to_string();
        let rows = ROWS.lines().filter(|row| !row.starts_with('#')).enumerate();
        let rows: Vec<_> = rows.collect();
        let lab_ref = &lab;
        let checks = rows
            .iter()
            .map(|(number, row)| check(lab_ref, &docker, *number, row, &part));
        let checks: Vec<_> = stream::iter(checks)
            .buffer_unordered(MAX_CONCURRENT_ROWS)
            .collect()
            .await;
        failed.extend(
            checks
                .into_iter()
                .flatten()
                .map(|text| format!("{}: {text}", lab.host)),
        );
        run(&["rm", "-f", "-v", &source]).await.unwrap();
        run(&["network", "rm", &network]).await.unwrap();
        run(&["volume", "rm", "-f", &lab.name("vol")])
            .await
            .unwrap();
        run(&["rmi", "-f", &one, &two]).await.unwrap();
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

/// One of five calls replaces it; the others are refused, and undo nothing.
#[tokio::test]
async fn container_is_replaced_by_one_call_at_a_time() {
    for mut lab in labs().await {
        let web = lab
            .run("web", &["sleep", "600"], json!({"StopTimeout": 0}))
            .await;
        let id = inspect(&lab, &web).await["Id"].clone();
        let call = || call_text(&lab, json!({"container": web, "confirm": web}));
        let (a, b, c, d, e) = tokio::join!(call(), call(), call(), call(), call());
        let (done, refused): (Vec<_>, Vec<_>) =
            [a, b, c, d, e].into_iter().partition(String::is_empty);
        assert_eq!(done.len(), 1, "{refused:?}");
        for text in &refused {
            let is_clear = text.contains("is being replaced")
                || text.contains("no container")
                || text.contains("No such");
            assert!(is_clear, "{text}");
        }
        assert_eq!(names(&lab).await, std::slice::from_ref(&web));
        let after = inspect(&lab, &web).await;
        assert!(
            after["Id"] != id && after["State"]["Running"] == true,
            "{after}"
        );
    }
}

#[tokio::test]
async fn container_whose_namespaces_others_share_is_not_replaced() {
    for mut lab in labs().await {
        let vpn = lab
            .run(
                "vpn",
                &["sleep", "600"],
                json!({"StopTimeout": 0, "HostConfig": {"IpcMode": "shareable"}}),
            )
            .await;
        let id = inspect(&lab, &vpn).await["Id"].clone();
        for (number, option) in ["NetworkMode", "PidMode", "IpcMode"]
            .into_iter()
            .enumerate()
        {
            let host = json!({"HostConfig": {option: format!("container:{vpn}")}});
            let app = lab
                .run(&format!("app{number}"), &["sleep", "600"], host)
                .await;
            let arguments = json!({"container": vpn, "confirm": vpn});
            fails_with!(lab, "recreate_container", arguments, &format!("`{app}`"));
            assert_eq!(inspect(&lab, &vpn).await["Id"], id);
            lab.remove(&app).await;
        }
        succeed!(lab, "recreate_container", {"container": vpn, "confirm": vpn});
    }
}
