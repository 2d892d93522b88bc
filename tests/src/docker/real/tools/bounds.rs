//! The operator's bounds hold for everything that a call touches, under each of its names: a table of
//! tools, objects and options.

use std::collections::BTreeSet;

use crate::docker::prelude::*;
use crate::surface;

/// Tools that name no object; that they list no hidden one is checked with all others.
const LISTS: [&str; 6] = [
    "list_containers",
    "list_events",
    "get_system_info",
    "list_compose_projects",
    "diagnose_host",
    "prune",
];

/// Objects that another program has made, by all names that they have, and others that have to do with them.
struct Theirs {
    container: Vec<String>,
    volume: Vec<String>,
    network: Vec<String>,
    image: Vec<String>,
    project: Vec<String>,
    /// A container in their network that mounts their volume, and the volume and the network of theirs.
    visible: [String; 3],
    /// The port that their container publishes.
    port: String,
}

/// The rules that hide the objects of another program: their container by its label, and the others by their names.
fn hiding(lab: &Lab) -> String {
    let names = lab.name("hidden-");
    let label = format!("com.docker.compose.project={names}project");
    format!("name={names}net,name={names}vol,label={label}")
}

/// All calls of the table, with the object's name in each of its forms.
fn calls(theirs: &Theirs, own: &str) -> Vec<Row> {
    let kinds = [
        ("container", &theirs.container[..]),
        ("volume", &theirs.volume),
        ("network", &theirs.network),
        ("image", &theirs.image),
        ("name", &theirs.image[..1]),
        ("new", &theirs.volume[..1]),
        ("project", &theirs.project),
    ];
    let mut calls = Vec::new();
    for (kind, names) in kinds {
        for name in names {
            calls.extend(rows_on(&[kind], name, own));
        }
    }
    calls
}

/// Makes the objects of another program, whose names contain `-hidden-`, and those that have to do with them.
async fn plant(lab: &Lab) -> Theirs {
    let base = lab.create("base", &["true"], json!({})).await;
    let (picture, image) = (lab.name("picture"), lab.image("picture", &base).await);
    let (net, id_of_net) = (lab.name("hidden-net"), lab.network("hidden-net").await);
    lab.network("net").await;
    let vol = lab.volume("hidden-vol", json!({})).await;
    let visible_vol = lab.volume("vol", json!({})).await;
    let project = lab.name("hidden-project");
    let more = json!({"Image": image, "Volumes": {"/anonymous": {}},
        "Labels": {"com.docker.compose.config-hash": "1", "com.docker.compose.project": project},
        "HostConfig": {"NetworkMode": lab.name("net"), "Binds": [format!("{visible_vol}:/d")]}});
    let container = lab.sleep("hidden-web", merged(published("0"), more)).await;
    let address = lab.address(&container).await;
    let mounts = lab.inspect(&container).await["Mounts"].take();
    let mut mounts = mounts.as_array().unwrap().iter();
    let anonymous = mounts.find(|mount| mount["Destination"] == "/anonymous");
    let anonymous = anonymous.unwrap()["Name"].as_str().unwrap().to_owned();
    // Its log names the hidden service, as a message about a failed connection does.
    let script = "echo 'dial tcp: lookup web: connection refused' >&2; exec sleep 600";
    let more = json!({"HostConfig": {"NetworkMode": net, "Binds": [format!("{vol}:/d:ro")]}});
    let web = lab.run("web", &["sh", "-c", script], more).await;
    let id = lab.id(&container).await;
    let hex = image.trim_start_matches("sha256:").to_owned();
    Theirs {
        container: vec![container, id.clone(), id[..12].to_owned()],
        volume: vec![vol, anonymous],
        network: vec![net, id_of_net],
        image: vec![
            format!("{picture}:1"),
            format!("docker.io/library/{picture}:1"),
            image,
            hex[..12].to_owned(),
        ],
        project: vec![project],
        visible: [web, visible_vol, lab.name("net")],
        port: address.rsplit(':').next().unwrap().to_owned(),
    }
}

#[tokio::test]
async fn bounds_hold_for_every_tool_and_every_name() {
    let Some(lab) = lab().await else { return };
    let theirs = plant(&lab).await;
    let own = lab.name("own");
    succeed!(lab, "create_container", {"image": "busybox:test", "name": own, "command": ["sleep", "600"]});
    let (deny, allow) = (hiding(&lab), format!("name={own}"));
    let names = lab.name("hidden-");
    let by_name = format!("name={names}web,name={names}net,name={names}vol");
    let shop = Folder::new();
    let file = shop.write("compose.yml", &web_project("", ""));
    // Builds would be refused for another reason.
    let policy = shop.write("policy.json", r#"{"create": {"host_namespaces": true}}"#);
    for (option, value) in [
        ("DOCKER_MCP_DENY", &*deny),
        ("DOCKER_MCP_DENY", &by_name),
        ("DOCKER_MCP_ALLOW", &allow),
        ("DOCKER_MCP_ONLY_CREATED", "1"),
        ("DOCKER_MCP_NO_DESTRUCTIVE", "1"),
        ("MCP_READ_ONLY", "1"),
    ] {
        let env = [
            (option, value),
            ("DOCKER_MCP_POLICY", policy.to_str().unwrap()),
            ("DOCKER_MCP_PROJECT_DIR", shop.str()),
        ];
        let bounded = lab_with(&env).await.unwrap();
        for (kind, tool, what, mut arguments) in calls(&theirs, &own) {
            let is_refused = match option {
                // Images are visible.
                "DOCKER_MCP_DENY" | "DOCKER_MCP_ALLOW" => !matches!(kind, "image" | "name"),
                "DOCKER_MCP_ONLY_CREATED" => what != Use::Reads && kind != "new",
                "DOCKER_MCP_NO_DESTRUCTIVE" => what == Use::Loses,
                _ => what != Use::Reads,
            };
            if arguments["directory"].is_string() {
                arguments["directory"] = json!(shop.path());
            }
            // Of what is allowed only that is done which makes nothing: the objects are still needed. A project is
            // shown whatever would be refused.
            let makes_nothing = ["get_", "list_", "diagnose_", "copy_from_"]
                .iter()
                .any(|begin| tool.starts_with(begin));
            let is_harmless = what == Use::Reads && makes_nothing;
            if tool == "compose_config" || !is_refused && !is_harmless {
                continue;
            }
            let text = refusal(&bounded, tool, &arguments).await;
            if !is_refused {
                assert_eq!(text, "", "{option} {tool} {arguments}");
                continue;
            }
            let reasons: &[&str] = match option {
                "DOCKER_MCP_DENY" | "DOCKER_MCP_ALLOW" => {
                    &["not accessible", "There is no compose project"]
                }
                "DOCKER_MCP_ONLY_CREATED" => &["was not created by this server"],
                "DOCKER_MCP_NO_DESTRUCTIVE" => &["--no-destructive", "not found", "Unknown tool"],
                _ => &["This server is read-only"],
            };
            let expected = reasons.iter().any(|reason| text.contains(reason));
            assert!(expected, "{option} {tool} {arguments}: {text}");
        }
        succeed!(bounded, "get_container", {"container": own});
        if option == "DOCKER_MCP_ALLOW" {
            fails_with!(bounded, "create_container", {"image": "busybox:test"}, "give a name");
        }
    }
    let [name, id, _] = &theirs.container[..] else {
        panic!("{:?}", theirs.container);
    };
    assert_has!(lab.inspect(name).await, {"Id": id, "State": {"Running": true}});
    assert_eq!(fs::read_to_string(file).unwrap(), web_project("", ""));
}

/// Calls with names that are nearly those of hidden objects, or that meet one of them.
const NEAR: &str = r#"
compose_service | {"project": "P-hidde-project", "action": "start"}
list_compose_projects | {"project": "P-hidde-project"}
create_container | {"image": "busybox:test", "pid": "container:P-hidde-web"}
create_container | {"image": "busybox:test", "name": "P-taken", "command": ["true"], "ports": ["PORT:80"]}
create_network | {"network": "P-net"}
diagnose_container | {"container": "P-taken"}
get_container | {"container": "HIDDEN"}
list_images | {}
list_networks | {}
list_volumes | {}
prune | {"what": "containers", "all": true}
prune | {"what": "images", "all": true}
prune | {"what": "networks", "all": true}
prune | {"what": "volumes", "all": true}
prune | {"what": "build_cache", "all": true}
"#;

/// Calls of all tools, with names that are nearly those of hidden objects, and with visible objects.
fn calls_near(lab: &Lab, theirs: &Theirs) -> Vec<(&'static str, Value)> {
    let near = |name: &str| lab.name(&format!("hidde-{name}"));
    let [container, volume, network] = &theirs.visible;
    let mut calls = Vec::new();
    for (kind, names) in [
        ("container", [near("web"), container.clone()]),
        ("volume", [near("vol"), volume.clone()]),
        ("network", [near("net"), network.clone()]),
        ("image", [near("image:1"), near("image:2")]),
        ("name", [near("image:1"), near("image:2")]),
        ("project", [near("project"), lab.name("nope")]),
    ] {
        for name in names {
            for (_, tool, _, mut arguments) in rows_on(&[kind], &name, container) {
                if tool == "create_container" {
                    arguments["name"] = json!(lab.name("taken"));
                }
                calls.push((tool, arguments.clone()));
                arguments["confirm"] = json!(name);
                calls.push((tool, arguments));
            }
        }
    }
    let prefix = lab.name("");
    let words = [
        ("P-", &*prefix),
        ("HIDDEN", &theirs.container[1]),
        ("PORT", &theirs.port),
    ];
    calls.extend(calls_of(NEAR, &words));
    calls.extend(LISTS.map(|tool| (tool, json!({}))));
    calls
}

/// No tool, resource or prompt mentions a name that its caller did not.
#[tokio::test]
async fn names_of_hidden_objects_are_not_mentioned() {
    let Some(lab) = lab().await else { return };
    let theirs = plant(&lab).await;
    let bounded = lab_with(&[("DOCKER_MCP_DENY", &hiding(&lab))])
        .await
        .unwrap();
    let hidden = lab.name("hidden-");
    let taken = lab.name("taken");
    for (tool, arguments) in calls_near(&lab, &theirs) {
        if tool == "create_container" && !lab.inspect(&taken).await.is_null() {
            lab.remove(&taken).await;
        }
        let mut call = json!({"name": tool, "arguments": arguments});
        for _ in 0..2 {
            let answer = post(&bounded, "tools/call", call.clone()).await;
            assert_lacks(&answer.body, &hidden);
            if !confirms(&answer.json()["result"], &mut call["arguments"]) {
                break;
            }
        }
    }
    bounded.wait_for_status("online").await;
    let listed = bounded.result("resources/list", json!({})).await;
    assert_lacks(&listed, &hidden);
    let web = &theirs.container[0];
    for end in ["", "/logs", "/stats"] {
        let uri = json!({"uri": format!("docker://containers/{web}{end}")});
        bounded.error("resources/read", uri).await;
    }
    let prompt = json!({"name": "troubleshoot_container", "arguments": {"container": web}});
    bounded.error("prompts/get", prompt).await;
}

/// Calls that reach the volume of a container.
const THROUGH: &str = r#"
execute_command | {"container": "@", "command": ["ls", "/d"]}
copy_to_container | {"container": "@", "path": "/d/x", "text": "x"}
copy_from_container | {"container": "@", "path": "/d"}
"#;

/// The data of another program's volume, which a container of this server must not write to either.
#[tokio::test]
async fn volumes_of_others_are_neither_read_nor_written_through_a_container() {
    let Some(lab) = lab().await else { return };
    let volume = lab.volume("theirs", json!({})).await;
    let user = lab.name("user");
    succeed!(lab, "create_container", {"image": "busybox:test", "name": user,
        "command": ["sleep", "600"], "mounts": [format!("{volume}:/d")]});
    let deny = format!("name={volume}");
    let denying = lab_with(&[("DOCKER_MCP_DENY", &deny)]).await.unwrap();
    let only_created = lab_with(&[("DOCKER_MCP_ONLY_CREATED", "1")]).await.unwrap();
    for (tool, arguments) in calls_of(THROUGH, &[("@", &user)]) {
        fails_with!(denying.server, tool, arguments, "not accessible");
        if tool != "copy_from_container" {
            let server = &only_created.server;
            fails_with!(server, tool, arguments, "was not created by this server");
        }
    }
    // Its own volume, which the engine would create without a mark.
    let (other, own) = (lab.name("other"), lab.name("own"));
    for _ in 0..2 {
        succeed!(only_created, "create_container", {"image": "busybox:test", "name": other,
            "command": ["touch", "/d/x"], "mounts": [format!("{own}:/d")]});
        lab.until(&other, "exited").await;
        succeed!(only_created, "remove_container", {"container": other, "confirm": other});
    }
    succeed!(only_created, "remove_volume", {"volume": own, "confirm": own});
}

/// Calls that would reach more than their container, and some that do not.
const REACHES: &str = r#"
create_container | {"image": "busybox:test", "mounts": ["P-host:/h:ro"]} | ! of the host: that
create_container | {"image": "busybox:test", "name": "P-remote", "mounts": ["P-remote:/h:ro"], "only_create": true} | created
recreate_container | {"container": "P-plain", "confirm": "P-plain", "changes": {"mounts": ["P-host:/h"]}} | ! of the host: that
create_container | {"image": "busybox:test", "mounts": ["P-joined:/h:ro"]} | ! of the host: that
copy_to_container | {"container": "P-plain", "path": "/host/x", "text": ""} | ! read-only
copy_to_container | {"container": "P-plain", "path": "/link/x", "text": ""} | ! read-only
copy_to_container | {"container": "P-plain", "path": "/etc/out", "text": ""} | ! read-only
copy_to_container | {"container": "P-plain", "path": "/etc/app.conf", "text": ""} | ! is a mount of
copy_to_container | {"container": "P-plain", "path": "/hostess", "text": ""} | bytes
copy_to_container | {"container": "P-plain", "path": "/memory/x", "text": ""} | ! is in memory
copy_to_container | {"container": "P-plain", "path": "/memory/disk/x", "text": ""} | bytes
copy_to_container | {"container": "P-plain", "path": "/dev/shm/x", "text": ""} | ! is in memory
copy_to_container | {"container": "P-plain", "path": "/proc/x", "text": ""} | ! is in memory
copy_to_container | {"container": "P-plain", "path": "/loop/x", "text": ""} | ! too many
copy_to_container | {"container": "P-plain", "path": "/m/x", "text": ""} | ! is in memory
copy_to_container | {"container": "P-plain", "path": "/etc/x", "text": ""} | bytes
copy_to_container | {"container": "P-linked", "path": "/var/run/app/x", "text": ""} | ! a file of the host
copy_to_container | {"container": "P-linked", "path": "/run/x", "text": ""} | ! a file of the host
copy_to_container | {"container": "P-shared", "path": "/volume/x", "text": ""} | ! a file of the host
copy_to_container | {"container": "P-shared", "path": "/etc/x", "text": ""} | ! a file of the host
copy_to_container | {"container": "P-onefile", "path": "/etc/app.conf", "text": "", "confirm": "/etc/app.conf"} | ! a file of the host
copy_to_container | {"container": "P-onefile", "path": "/x", "text": ""} | ! a file of the host
"#;

#[tokio::test]
async fn nothing_beside_a_container_is_reached_through_it() {
    let Some(lab) = lab().await else { return };
    let dir = Folder::new();
    dir.write("below/file", "");
    let bind = json!({"type": "none", "o": "bind", "device": dir.str()});
    lab.volume("host", bind).await;
    let share = json!({"type": "cifs", "device": "//server/share"});
    lab.volume("remote", share).await;
    let layers = format!("lowerdir=/etc,upperdir={0},workdir={0}", dir.str());
    let joined = json!({"type": "overlay", "o": layers, "device": "overlay"});
    lab.volume("joined", joined).await;
    let file = format!("{}/below/file:/etc/app.conf", dir.str());
    let binds = [
        format!("{}:/host:ro", dir.str()),
        format!("{file}:ro"),
        "/memory/disk".to_owned(),
    ];
    let mounts = json!({"HostConfig": {"Binds": binds, "Tmpfs": {"/memory": ""}}});
    let links = "mkdir -p /etc /run /var; ln -s /host /link; ln -s /link/x /etc/out; ln -s loop /loop; \
        ln -s /memory /m; [ -e /var/run ] || ln -s /run /var/run";
    let plain = lab.finish("plain", &["sh", "-c", links], mounts).await;
    // A folder behind a link of its image, a volume that is a folder of the host, and a single file.
    let image = lab.image("linked", &plain).await;
    let mounting = async |name: &str, bind: String| {
        let more = json!({"Image": image, "HostConfig": {"Binds": [bind]}});
        lab.create(name, &["true"], more).await
    };
    mounting("linked", format!("{}:/var/run/app", dir.str())).await;
    mounting("shared", format!("{}:/volume", lab.name("host"))).await;
    mounting("onefile", file).await;
    lab.steps(REACHES, &[]).await;
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    assert_eq!(fs::read_dir(dir.path().join("below")).unwrap().count(), 1);
    assert_eq!(fs::read(dir.path().join("below/file")).unwrap(), b"");
}

/// Images and containers that others have made of those of this server have its label, too.
#[tokio::test]
async fn what_others_make_of_our_objects_is_theirs() {
    let Some(lab) = lab_with(&[("DOCKER_MCP_ONLY_CREATED", "1")]).await else {
        return;
    };
    let ours = format!("{}:1", lab.name("ours"));
    let build = |tag: &str| json!({"tag": tag, "dockerfile": "FROM busybox:test\nLABEL a=b"});
    for _ in 0..2 {
        succeed(&lab, "build_image", build(&ours)).await;
    }
    let web = lab.name("web");
    succeed!(lab, "create_container", {"image": ours, "name": web, "only_create": true});
    let base = lab.create("base", &["true"], json!({"Image": ours})).await;
    for (number, container) in [&web, &base].into_iter().enumerate() {
        let name = format!("theirs{number}");
        lab.image(&name, container).await;
        let image = format!("{}:1", lab.name(&name));
        let container = json!({"Image": image});
        let other = format!("other{number}");
        let other = lab.create(&other, &["true"], container).await;
        let refused = "was not created by this server";
        let again = build(&image);
        fails_with!(lab, "build_image", again, refused);
        fails_with!(lab, "tag_image", {"image": "busybox:test", "new_name": image}, refused);
        fails_with!(lab, "remove_image", {"image": image, "confirm": image}, refused);
        fails_with!(lab, "remove_container", {"container": other, "confirm": other}, refused);
        for (what, name) in [("images", &image), ("containers", &other)] {
            let shown = succeed!(lab, "prune", {"what": what, "all": true});
            assert!(!texts(&shown["items"]).contains(&name.as_str()), "{shown}");
        }
    }
    succeed!(lab, "remove_container", {"container": web, "confirm": web});
    lab.remove(&base).await;
    succeed!(lab, "remove_image", {"image": ours, "confirm": ours});
}

#[tokio::test]
async fn only_what_this_server_created_is_changed() {
    let Some(lab) = lab_with(&[("DOCKER_MCP_ONLY_CREATED", "1")]).await else {
        return;
    };
    for (name, mark, is_refused) in [("theirs", "shop:1", true), ("ours", "true", false)] {
        let labels = json!({"Labels": {"docker-mcp-server.created": mark}});
        let container = lab.create(name, &["true"], labels).await;
        let arguments = json!({"container": container, "confirm": container});
        let text = refusal(&lab, "remove_container", &arguments).await;
        assert_eq!(!text.is_empty(), is_refused, "{text}");
    }
}

/// A container with a name in a network gets what others send to that name: also the name of a host elsewhere.
#[tokio::test]
async fn names_in_networks_of_others_are_not_taken() {
    let Some(lab) = lab_with(&[("DOCKER_MCP_ONLY_CREATED", "1")]).await else {
        return;
    };
    let refused = "was not created by this server";
    let [ours, theirs, web] = [lab.name("ours"), lab.name("theirs"), lab.name("web")];
    succeed!(lab, "create_network", {"network": ours});
    let id = lab.network("theirs").await;
    let new = |network: &str, names: Value| {
        let new = json!({"image": "busybox:test", "only_create": true, "network": network});
        merged(new, names)
    };
    let all = json!({"name": web, "aliases": ["db"], "hostname": "db"});
    for (name, value) in all.as_object().unwrap() {
        for network in [&theirs, &id] {
            let error = fail(&lab, "create_container", new(network, json!({name: value}))).await;
            assert_contains(&error, refused);
        }
    }
    // Its own container can go at any time.
    let in_theirs = json!({"HostConfig": {"NetworkMode": theirs}});
    let db = lab.create("db", &["true"], in_theirs).await;
    fails_with!(
        lab,
        "create_container",
        (new(&theirs, json!({"name": db}))),
        refused
    );
    succeed(&lab, "create_container", new(&ours, all)).await;
    let connection = json!({"network": theirs, "container": web});
    fails_with!(lab, "connect_network", connection, refused);
    succeed!(lab, "connect_network", {"network": "bridge", "container": web});
    let renamed = lab.name("renamed");
    succeed!(lab, "update_container", {"container": web, "new_name": renamed});

    // The engine has chosen its name, which it keeps.
    let nameless = succeed(&lab, "create_container", new(&theirs, json!({}))).await;
    let nameless = &nameless["name"];
    let rename = json!({"container": nameless, "new_name": lab.name("web2")});
    let rename = call(&lab, "update_container", rename).await.to_string();
    let recreation = json!({"container": nameless, "confirm": nameless});
    let recreated = refusal(&lab, "recreate_container", &recreation).await;
    // It has no prefix, by which it would be removed.
    lab.remove(nameless.as_str().unwrap()).await;
    assert_contains(&rename, refused);
    assert_eq!(recreated, "");
}

/// Words that are modes of Podman, in which a container joins no network.
#[tokio::test]
async fn hidden_network_is_not_joined_by_the_name_of_a_mode() {
    let hidden = [("DOCKER_MCP_DENY", "label=hidden=PREFIX")];
    let Some(lab) = lab_with(&hidden).await else {
        return;
    };
    let request = json!({"Name": "slirp4netns", "Labels": {"hidden": lab.prefix}});
    let request = serde_json::from_value(request).unwrap();
    // Its name has no prefix, by which it would be removed.
    let network = lab.docker.create_network(request).await.unwrap().id;
    let new = json!({"image": "busybox:test", "name": lab.name("web"), "network": "slirp4netns", "only_create": true});
    let result = call(&lab, "create_container", new).await.to_string();
    lab.docker.remove_network(&network).await.unwrap();
    assert_contains(&result, "not accessible");
}

/// A new tool has rows in the table.
#[test]
fn every_tool_has_a_row() {
    let mut covered: BTreeSet<(&str, String)> = BTreeSet::new();
    for (_, tool, _, arguments) in rows() {
        let named = arguments.as_object().unwrap().iter();
        let named = named.filter(|(_, value)| value.to_string().contains('@'));
        covered.extend(named.map(|(argument, _)| (tool, argument.clone())));
    }
    let arguments =
        "container containers image network networks volume volumes mounts tag new_name";
    for tool in surface::tools("docker-mcp-server", "all") {
        let name = tool["name"].as_str().unwrap();
        if LISTS.contains(&name) {
            continue;
        }
        let has_row = covered.iter().any(|(tool, _)| *tool == name);
        assert!(has_row, "{name} has no row");
        for argument in arguments.split(' ') {
            let schema = &tool["inputSchema"]["properties"][argument];
            let names_an_object = !schema.is_null() && schema["type"] != "boolean";
            let has_row = covered.contains(&(name, argument.to_owned()));
            assert!(
                !names_an_object || has_row,
                "{argument} of {name} has no row"
            );
        }
    }
}
