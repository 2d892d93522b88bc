//! `recreate_container`, and the options of `create_container` that it takes, too.

use std::collections::{BTreeMap, BTreeSet};

use bollard::query_parameters::ListVolumesOptions;
use futures_util::future::join_all;
use futures_util::stream::FuturesUnordered;
use futures_util::{StreamExt as _, stream};

use crate::docker::prelude::*;
use crate::harness::free_port;

/// Waits until the container of this name runs and is the one with this id, or another one.
pub(super) async fn until_runs(lab: &Lab, name: &str, id: &str, is_same: bool) {
    wait_until("it runs", async || {
        let now = lab.inspect(name).await;
        now["State"]["Running"] == true && (now["Id"] == *id) == is_same
    })
    .await;
}

/// A lock with which the servers of other tests, which have no environment, leave this container alone, since somebody
/// is at work with it.
pub(super) fn locked(id: &str) -> fs::File {
    let lock = fs::File::create(format!("/tmp/docker-mcp-server-{id}.lock")).unwrap();
    lock.lock().unwrap();
    lock
}

/// The names of the containers of this test.
async fn names(lab: &Lab) -> Vec<String> {
    let listed = succeed!(lab, "list_containers", {"name": lab.name(""), "all": true});
    let names = member_texts(&listed["containers"], "name").into_iter();
    names.map(str::to_owned).collect()
}

const WRONG: &str = r#"
create_container | {"image": "busybox:test", "restart_retries": 3} | ! restart: on-failure
create_container | {"image": "busybox:test", "restart": "always", "restart_retries": 3} | ! restart: on-failure
create_container | {"image": "busybox:test", "aliases": ["a"]} | ! give network
"#;

#[tokio::test]
async fn options_of_a_new_container_reach_the_engine() {
    for lab in labs(&[]).await {
        let name = lab.name("options");
        let created = succeed!(lab, "create_container", {"image": "busybox:test", "name": name,
            "command": ["sleep", "600"], "read_only": true, "tmpfs": ["/tmp:size=1m", "/run"],
            "mounts": [format!("{name}:/data:ro")],
            "cap_drop": ["ALL"], "no_new_privileges": true, "ulimits": {"nofile": 99}, "pids": 50,
            "dns": ["127.0.0.9"], "extra_hosts": ["db:127.0.0.8"], "init": false, "hostname": "box",
            "stop_signal": "SIGINT", "log_max_mb": 1, "log_max_files": 2, "restart": "on-failure",
            "restart_retries": 4, "healthcheck": {"command": ["true"], "interval_seconds": 1, "retries": 2},
            "env": {"GREETING": "a=b c"}, "ports": ["80"], "memory_mb": 32, "cpus": 0.5, "working_dir": "/bin",
            "user": "1000"});
        assert_eq!(created["state"], "running", "{created}");
        // Only on loopback, unless another address is given.
        assert_starts_with(&created["ports"][0], "127.0.0.1:");
        let made = lab.inspect(&name).await;
        let (config, host) = (&made["Config"], &made["HostConfig"]);
        assert_has!(host, {"Memory": 32 << 20, "NanoCpus": 500_000_000, "ReadonlyRootfs": true, "PidsLimit": 50, "Dns": ["127.0.0.9"],
            "ExtraHosts": ["db:127.0.0.8"], "RestartPolicy": {"Name": "on-failure", "MaximumRetryCount": 4},
            "Binds": [format!("{name}:/data:ro")], "Tmpfs": {"/tmp": "size=1m", "/run": ""},
            "Ulimits": [{"Name": "nofile", "Soft": 99, "Hard": 99}]});
        assert_eq!(host["LogConfig"]["Config"]["max-size"], "1m", "{host}");
        assert_starts_with(&host["SecurityOpt"][0], "no-new-privileges");
        assert_contains(&config["Env"], "GREETING=a=b c");
        assert_has!(config, {"Hostname": "box", "User": "1000", "WorkingDir": "/bin",
            "Labels": {"docker-mcp-server.created": "true"}});
        let created = succeed!(lab, "create_container",
            {"image": "busybox:test", "name": lab.name("later"), "only_create": true});
        assert_eq!(created["state"], "created", "{created}");
        assert_eq!(config["Healthcheck"]["Test"], json!(["CMD-SHELL", "true"]));
        lab.steps(WRONG, &[]).await;
    }
}

#[tokio::test]
async fn container_is_replaced_with_its_options_and_data() {
    let podman = real::podman();
    let mut labs = labs(&[]).await;
    if let Some(host) = podman.clone() {
        labs.push(Lab::at(host, &[]).await);
    }
    for lab in labs {
        let script = "test -e /data/old || echo kept > /data/old; exec sleep 600";
        let mut more = json!({"StopTimeout": 0, "Env": ["A=1", "B=2"], "Volumes": {"/data": {}}, "Healthcheck":
            {"Test": ["CMD-SHELL", "test -e /data/old"], "Interval": 1_000_000_000},
            "HostConfig": {"Memory": 64 << 20, "RestartPolicy": {"Name": "unless-stopped"}}});
        let has_health = podman.as_ref() != Some(&lab.host);
        if !has_health {
            // Podman needs systemd for them.
            more.as_object_mut().unwrap().remove("Healthcheck");
        }
        let web = lab
            .run(&"web".repeat(50), &["sh", "-c", script], more)
            .await;
        let before = lab.inspect(&web).await;
        let arguments = json!({"container": before["Id"],
            "changes": {"env": {"B": "9", "C": "3", "A": null}, "memory_mb": 32, "ports": ["80"]}});
        let (loss, done) = confirmed(&lab, "recreate_container", arguments, &web).await;
        assert_contains(&loss, "with changes of env, memory_mb, ports: it is down");
        assert_has!(done, {"container": web, "state": "running"});
        assert_eq!(done["health"] == "healthy", has_health, "{done}");
        let after = lab.inspect(&web).await;
        assert_ne!(after["Id"], before["Id"]);
        let env = &after["Config"]["Env"];
        assert_contains(env, "B=9");
        assert_contains(env, "C=3");
        assert_lacks(env, "A=1");
        assert_has!(after["HostConfig"], {"Memory": 32 << 20, "RestartPolicy": {"Name": "unless-stopped"}});
        let volume = |at: &Value| at["Mounts"][0]["Name"].clone();
        assert_eq!(volume(&after), volume(&before));
        let ports = &after["NetworkSettings"]["Ports"];
        assert!(ports["80/tcp"][0].is_object(), "{ports}");
        assert_eq!(names(&lab).await, [web]);
    }
}

/// Changes with which a container is not replaced, and the reason. The log of the new one may say what its environment
/// holds, which has no shape of a secret.
const FAILING: &str = r#"
{"command": ["sh", "-c", "echo got $SIGNING; sleep 1; exit 3"]} | got ***
{"healthcheck": {"command": ["echo saw $SIGNING; false"], "interval_seconds": 1, "retries": 1}} | saw ***
{"command": ["sh", "-c", "echo broken; exit 3"]} | exit code 3
{"command": ["/nowhere"]} | not in the image
{"healthcheck": {"command": ["echo not yet; false"], "interval_seconds": 1, "retries": 1}} | not yet
{"network": "none", "image": "nowhere:1"} | no image
{"privileged": true} | does not create containers with
{"mounts": ["/:/host"]} | does not create containers with
{"name": "other"} | cannot be changed
{"imagee": "x"} | unknown field
{"command": ["sh", "-c", "exit 4"], "restart": "always"} | exit code 4
"#;

#[tokio::test]
async fn old_container_comes_back_if_the_new_one_fails() {
    for lab in labs(&[]).await {
        let options = json!({"StopTimeout": 0, "Env": ["SIGNING=Wolkenbruch77"]});
        let web = lab.sleep("web", options).await;
        let id = lab.id(&web).await;
        for row in FAILING.trim().lines() {
            let (changes, reason) = row.split_once(" | ").unwrap();
            let changes: Value = serde_json::from_str(changes).unwrap();
            let error = fail!(lab, "recreate_container",
                {"container": web, "changes": changes, "confirm": web, "timeout_seconds": 60});
            assert_contains(&error, reason);
            assert_lacks(&error, "Wolkenbruch77");
            let now = lab.inspect(&web).await;
            let is_back = now["Id"] == id && now["State"]["Running"] == true;
            assert!(is_back, "{changes}: {now}");
            assert_eq!(names(&lab).await, std::slice::from_ref(&web), "{changes}");
        }
        let of_host = |option: &str, value: Value| json!({"HostConfig": {option: value}});
        let removed = lab.sleep("once", of_host("AutoRemove", json!(true))).await;
        fails_with!(lab, "recreate_container", {"container": removed}, "--rm");
        let host = lab.sleep("host", of_host("PidMode", json!("host"))).await;
        fails_with!(lab, "recreate_container", {"container": host, "confirm": host}, "namespace of the host");
    }
}

/// Anonymous volumes have no name that a rule could allow and no label; they go with their container.
#[tokio::test]
async fn anonymous_volumes_are_kept_under_every_rule_and_as_they_were() {
    for lab in labs(&[]).await {
        let rule = format!("name={}*", lab.prefix);
        for (number, option) in [
            ("DOCKER_MCP_ALLOW", &*rule),
            ("DOCKER_MCP_ONLY_CREATED", "1"),
        ]
        .into_iter()
        .enumerate()
        {
            let hex = || uuid::Uuid::new_v4().simple().to_string();
            let anonymous = format!("{}{}:/b:ro", hex(), hex());
            let mounts = json!({"StopTimeout": 0, "Volumes": {"/a": {}}, "HostConfig": {"Binds": [anonymous]},
                "Labels": {"docker-mcp-server.created": "true"}});
            let name = format!("web{number}");
            let web = lab.sleep(&name, mounts).await;
            let volumes = async |lab: &Lab| {
                let details = lab.inspect(&web).await;
                let mounts = details["Mounts"].as_array().unwrap().iter();
                let mounts =
                    mounts.map(|at| format!("{} {} {}", at["Name"], at["Destination"], at["RW"]));
                mounts.collect::<BTreeSet<_>>()
            };
            let before = volumes(&lab).await;
            assert_eq!(before.len(), 2, "{before:?}");
            let bounded = in_front_of(&lab.host, &[option]).await;
            for _ in 0..2 {
                succeed!(bounded, "recreate_container", {"container": web, "confirm": web});
                assert_eq!(volumes(&lab).await, before);
            }
            // The engine lists the two mounts in any order; the question is always the same.
            let remove = json!({"container": web, "force": true, "volumes": true});
            let mut questions = BTreeSet::new();
            for _ in 0..20 {
                questions.insert(fail(&bounded, "remove_container", remove.clone()).await);
            }
            assert_eq!(questions.len(), 1, "{questions:?}");
            succeed!(bounded, "remove_container", {"container": web, "force": true, "volumes": true, "confirm": web});
            let used = lab.docker.list_volumes(None::<ListVolumesOptions>).await;
            let left = used.unwrap().volumes.unwrap_or_default();
            for volume in left {
                assert_lacks(&format!("{before:?}"), &volume.name);
            }
        }
    }
}

/// Calls that give the marks by which this server knows its own objects.
const MARKS: &str = r#"
create_container | {"image": "busybox:test", "labels": {"docker-mcp-server.created": "true"}}
create_container | {"image": "busybox:test", "name": "WEB.before-0123456789ab"}
create_network | {"network": "WEB-x", "labels": {"docker-mcp-server.created": "true"}}
create_volume | {"volume": "WEB-x", "labels": {"docker-mcp-server.created": "true"}}
update_container | {"container": "WEB", "new_name": "WEB.before-0123456789ab"}
recreate_container | {"container": "WEB", "confirm": "WEB", "changes": {"labels": {"docker-mcp-server.created": "true"}}}
"#;

#[tokio::test]
async fn marks_of_this_server_are_refused() {
    let Some(lab) = lab().await else { return };
    let web = lab.create("web", &["true"], json!({})).await;
    for (tool, arguments) in calls_of(MARKS, &[("WEB", &web)]) {
        let error = fail(&lab, tool, arguments).await;
        let names_mark = error.contains("docker-mcp-server.") || error.contains(".before-");
        assert!(names_mark, "{tool}: {error}");
    }
}

#[tokio::test]
async fn question_says_that_the_image_is_another_one_by_now() {
    let Some(lab) = lab().await else { return };
    let base = lab.create("base", &["true"], json!({})).await;
    lab.image("image", &base).await;
    let image = json!({"Image": format!("{}:1", lab.name("image"))});
    let web = lab.create("web", &["true"], image).await;
    for (by_now, is_said) in [("first", false), ("second", true)] {
        let question = fail!(lab, "recreate_container", {"container": web});
        let says_so = question.contains("another image by now");
        assert_eq!(says_so, is_said, "{by_now}: {question}");
        lab.image("image", &web).await;
    }
    // The answer counts for these changes.
    let with = |value: &str| json!({"container": web, "changes": {"env": {"A": value}}});
    let asked = call(&lab, "recreate_container", with("1")).await;
    let other = merged(with("2"), json!({"confirm": asked_for(&asked)}));
    fails_with!(lab, "recreate_container", other, "another state or target");
}

const ROWS: &str = include_str!("recreate/kept.txt");

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
    let arguments = json!({"container": name, "changes": changes, "confirm": name});
    let done = refusal(lab, "recreate_container", &arguments).await;
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
    let env = [("DOCKER_MCP_POLICY", policy.to_str().unwrap())];
    let engines = real::docker_engines().into_iter();
    let engines = engines.map(async |host| check_all(Lab::at(host, &env).await, &docker).await);
    let failed = join_all(engines).await.concat();
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

/// Checks all rows on one engine; returns what failed.
async fn check_all(lab: Lab, docker: &str) -> Vec<String> {
    let [one, two] = [1, 2].map(|version| format!("{}:{version}", lab.prefix));
    let volumes = json!({"Volumes": {"/of-source": {}}});
    let source = lab.sleep("source", volumes).await;
    let run = async |arguments: &str| {
        let arguments = arguments.replace("SOURCE", &source);
        lab.command(docker, &arguments.split('|').collect::<Vec<_>>())
            .await
    };
    run(&format!("commit|--change|ENV LANG=C|SOURCE|{one}"))
        .await
        .unwrap();
    let more = format!("commit|--change|ENV LANG=D|--change|EXPOSE 99|SOURCE|{two}");
    run(&more).await.unwrap();
    // Tests that run at the same time have other networks.
    let network = lab.name("net");
    let mut part = 0;
    for number in 100..250 {
        let create = format!("network|create|--subnet|172.31.{number}.0/24|{network}");
        if run(&create).await.is_ok() {
            part = number;
            break;
        }
    }
    let (lab_ref, part) = (&lab, &part.to_string());
    let rows = ROWS.lines().filter(|row| !row.starts_with('#')).enumerate();
    let checks = rows.map(|(number, row)| check(lab_ref, docker, number, row, part));
    let checks = stream::iter(checks).buffer_unordered(MAX_CONCURRENT_ROWS);
    let checks: Vec<_> = checks.collect().await;
    let failed = checks.into_iter().flatten();
    failed.map(|text| format!("{}: {text}", lab.host)).collect()
}

/// One of five calls replaces it; the others are refused, and undo nothing.
#[tokio::test]
async fn container_is_replaced_by_one_call_at_a_time() {
    for lab in labs(&[]).await {
        let web = lab.sleep("web", json!({"StopTimeout": 0})).await;
        let id = lab.id(&web).await;
        let arguments = json!({"container": web, "confirm": web, "timeout_seconds": 600,
            "changes": {"healthcheck": held_check("true")}});
        let calls = (0..5).map(|_| refusal(&lab, "recreate_container", &arguments));
        let mut calls: FuturesUnordered<_> = calls.collect();
        for _ in 0..4 {
            let text = calls.next().await.unwrap();
            assert_contains(&text, "is being replaced");
        }
        let replaced = async {
            until_runs(&lab, &web, &id, false).await;
            succeed!(lab, "copy_to_container", {"container": web, "path": "/end", "text": ""});
        };
        let (done, ()) = tokio::join!(calls.next(), replaced);
        assert_eq!(done.as_deref(), Some(""));
        assert_eq!(names(&lab).await, std::slice::from_ref(&web));
        until_runs(&lab, &web, &id, false).await;
    }
}

#[tokio::test]
async fn container_whose_namespaces_others_share_is_not_replaced() {
    for lab in labs(&[]).await {
        let options = json!({"StopTimeout": 0, "HostConfig": {"IpcMode": "shareable"}});
        let vpn = lab.sleep("vpn", options).await;
        let id = lab.id(&vpn).await;
        for option in ["NetworkMode", "PidMode", "IpcMode"] {
            let host = json!({"HostConfig": {option: format!("container:{vpn}")}});
            let app = lab.sleep(option, host).await;
            fails_with!(lab, "recreate_container", {"container": vpn, "confirm": vpn}, &format!("`{app}`"));
            assert_eq!(lab.id(&vpn).await, id);
            lab.remove(&app).await;
        }
        // One of which the engine does not tell, and one that comes before the answer of the user.
        let shares = json!({"HostConfig": {"NetworkMode": format!("container:{vpn}")}});
        let app = lab.sleep("untold", shares.clone()).await;
        let untold = format!("/containers/{}/json", lab.id(&app).await);
        let proxy = Proxy::redirecting(&lab.host, [&untold, "/containers/json?limit=x"]).await;
        let server = in_front_of(&proxy.host, &[]).await;
        fail!(server, "recreate_container", {"container": vpn, "confirm": vpn});
        lab.remove(&app).await;
        let mut session = StdioSession::open(&lab.host, &[]).await;
        let call = session
            .start("recreate_container", json!({"container": vpn}))
            .await;
        let question = session.until("elicitation/create").await;
        let app = lab.sleep("late", shares).await;
        let accept = json!({"action": "accept", "content": {"confirm": true}});
        session
            .say(response(&question["id"], "result", accept))
            .await;
        assert_contains(&session.answer(call).await, &format!("`{app}`"));
        assert_eq!(lab.id(&vpn).await, id);
        lab.remove(&app).await;
        succeed!(lab, "recreate_container", {"container": vpn, "confirm": vpn});
    }
}

/// The engine describes another container in place of the new one.
#[tokio::test]
async fn new_container_is_compared_with_the_old_one() {
    let Some(lab) = lab().await else { return };
    let web = lab.sleep("web", json!({"StopTimeout": 0})).await;
    let id = lab.id(&web).await;
    let other = lab
        .create("other", &["true"], json!({"HostConfig": {"CpuShares": 7}}))
        .await;
    let paths = [web, other].map(|name| format!("/containers/{name}/json"));
    let proxy = Proxy::redirecting(&lab.host, [&paths[0], &paths[1]]).await;
    let server = in_front_of(&proxy.host, &[]).await;
    let error = fail!(server, "recreate_container", {"container": id, "confirm": lab.name("web")});
    assert_contains(&error, "would differ in more than was asked for");
    assert_contains(&error, "CpuShares");
    // It was not even stopped.
    assert_eq!(lab.state(&id).await, "running");
}

/// A new container that gets unhealthy after some seconds.
fn hopeless(web: &str) -> Value {
    json!({"container": web, "confirm": web, "timeout_seconds": 8, "changes":
        {"healthcheck": {"command": ["false"], "interval_seconds": 1, "retries": 4}}})
}

/// A health check whose first run ends with this command once the container has the file `/end`.
pub(super) fn held_check(result: &str) -> Value {
    let script = format!("until [ -e /end ]; do sleep 0.1; done; {result}");
    json!({"command": [script], "interval_seconds": 1, "timeout_seconds": 600, "retries": 1})
}

/// Starts a replacement, to which the user agrees.
pub(super) async fn replace(session: &mut StdioSession, arguments: Value) -> u64 {
    let call = session.start("recreate_container", arguments).await;
    let accept = json!({"action": "accept", "content": {"confirm": true}});
    session.reply(accept).await;
    call
}

/// Killed between two steps of the way back: the next server goes the rest of it.
#[tokio::test]
async fn way_back_is_finished_after_a_kill() {
    for lab in labs(&[]).await {
        for (number, step) in ["start", "rename"].into_iter().enumerate() {
            let name = format!("web{number}");
            let options = json!({"StopTimeout": 0});
            let web = lab.sleep(&name, options).await;
            let id = lab.id(&web).await;
            // The engine does not hear of this step.
            let held = match step {
                "start" => format!("/containers/{id}/start"),
                _ => format!("/containers/{id}/rename?name={web} "),
            };
            let proxy = Proxy::silent_about(&lab.host, &held).await;
            let mut session = StdioSession::open(&proxy.host, &[]).await;
            replace(&mut session, hopeless(&web)).await;
            wait_until("the way back", async || {
                let requests = proxy.requests();
                requests
                    .iter()
                    .any(|line| line.contains(held.trim()) && !line.contains(".before-"))
            })
            .await;
            assert!(lab.inspect(&web).await.is_null());
            let kept = lab.inspect(&id).await;
            assert_eq!(kept["State"]["Running"], step == "rename", "{kept}");
            // SIGKILL. From now on the servers of other tests may be the next ones, too.
            drop(session);
            let next = in_front_of(&lab.host, &[]).await;
            until_runs(&lab, &web, &id, true).await;
            drop(next);
            lab.remove(&web).await;
        }
        assert!(names(&lab).await.is_empty());
    }
}

#[tokio::test]
async fn replacement_ends_without_its_caller() {
    let Some(lab) = lab().await else { return };
    let options = json!({"StopTimeout": 0});
    let web = lab.sleep("web", options).await;
    let id = lab.id(&web).await;
    let mut session = StdioSession::open(&lab.host, &[]).await;
    let arguments = json!({"container": web, "timeout_seconds": 600,
        "changes": {"healthcheck": held_check("false")}});
    let call = replace(&mut session, arguments).await;
    until_runs(&lab, &web, &id, false).await;
    session.cancel(call).await;
    succeed!(lab, "copy_to_container", {"container": web, "path": "/end", "text": ""});
    until_runs(&lab, &web, &id, true).await;
    assert_eq!(names(&lab).await, [web]);
}

/// A server that was killed after it has stopped the old container: nothing is waited for. A replacement that another
/// server is at work with is left alone.
#[tokio::test]
async fn only_a_broken_replacement_is_rolled_back_and_at_once() {
    let Some(lab) = lab().await else { return };
    let mut sessions = Vec::new();
    let mut old = Vec::new();
    for name in ["broken", "alive"] {
        let options = json!({"StopTimeout": 0});
        let web = lab.sleep(name, options).await;
        let id = lab.id(&web).await;
        let arguments = json!({"container": web, "timeout_seconds": 600,
            "changes": {"healthcheck": held_check("true")}});
        let mut session = StdioSession::open(&lab.host, &[]).await;
        replace(&mut session, arguments).await;
        until_runs(&lab, &web, &id, false).await;
        sessions.push(session);
        old.push((web, id));
    }
    let (alive, _) = &old[1];
    fails_with!(lab, "recreate_container", {"container": alive, "confirm": alive}, "is being replaced");
    drop(sessions.remove(0));
    let next = in_front_of(&lab.host, &[]).await;
    let (broken, id) = &old[0];
    until_runs(&lab, broken, id, true).await;
    assert_ne!(lab.id(alive).await, old[1].1);
    assert_lacks(&next.log(), alive);
}
