//! Files of containers, networks and volumes.

use crate::docker::prelude::*;

async fn read(lab: &Lab, container: &str, path: &str) -> Value {
    let arguments = json!({"container": container, "path": path});
    succeed(lab, "copy_from_container", arguments).await
}

/// Files that are written and read. What a file was allowed to do, it still is after it was overwritten; secrets are
/// hidden also in Latin-1 and in UTF-16, and in a file that is nothing but a secret.
const FILES: &str = r#"
copy_to_container | {"container": "P-web", "path": "/etc/app.conf", "text": "a=1\n", "mode": 600} | {"overwritten": false}
copy_from_container | {"container": "P-web", "path": "/etc/app.conf"} | {"text": "a=1\n", "mode": "600"}
copy_to_container | {"container": "P-web", "path": "/etc/app.conf", "text": "a=2\n", "mode": 600, "confirm": "/etc/app.conf"} | ? Overwrites
copy_to_container | {"container": "P-web", "path": "/etc/app.conf", "text": "a=2\n", "confirm": "/etc/app.conf"} | {"overwritten": true}
copy_from_container | {"container": "P-web", "path": "/etc/app.conf"} | {"text": "a=2\n", "mode": "600"}
copy_to_container | {"container": "P-web", "path": "/etc", "text": ""} | ! is a directory
copy_to_container | {"container": "P-web", "path": "/nowhere/x", "text": ""} | ! There is no "/nowhere"
copy_to_container | {"container": "P-web", "path": "/etc/blob", "base64": "AAH/"} | {"bytes": 3}
copy_from_container | {"container": "P-web", "path": "/etc/blob"} | {"base64": "AAH/"}
copy_from_container | {"container": "P-web", "path": "/"} | "kind":"directory" & "bin/"
copy_to_container | {"container": "P-web", "path": "/etc/env", "text": "API_TOKEN=canary-8\nPORT=80\n"} | bytes
copy_from_container | {"container": "P-web", "path": "/etc/env"} | {"text": "API_TOKEN=***\nPORT=80\n"}
copy_to_container | {"container": "P-web", "path": "/etc/latin", "base64": "QVBJX1RPS0VOPWNhbmFyeS04CiMgZvxyCg=="} | bytes
copy_from_container | {"container": "P-web", "path": "/etc/latin"} | API_TOKEN=***\n
copy_from_container | {"container": "P-web", "path": "/etc/latin"} | {"base64": null}
copy_to_container | {"container": "P-web", "path": "/etc/utf", "base64": "//5BAFAASQBfAFQATwBLAEUATgA9AGMAYQBuAGEAcgB5AC0AOAAKAA=="} | bytes
copy_from_container | {"container": "P-web", "path": "/etc/utf"} | API_TOKEN=***\n
copy_from_container | {"container": "P-web", "path": "/etc/utf"} | {"base64": null}
copy_to_container | {"container": "P-web", "path": "/etc/key", "text": "so be it"} | bytes
copy_from_container | {"container": "P-web", "path": "/etc/key"} | {"text": "***"}
copy_to_container | {"container": "P-web", "path": "/etc/secret", "text": "Wolkenbruch77\n"} | bytes
copy_from_container | {"container": "P-web", "path": "/etc/secret", "max_bytes": 12} | {"text": "***\n"}
copy_from_container | {"container": "P-web", "path": "/etc/key/x"} | ! leads through a file
copy_from_container | {"container": "P-web", "path": "/proc/self/environ"} | ! `/proc` & is in memory
copy_from_container | {"container": "P-web", "path": "/memory"} | ! `/memory` & is in memory
copy_to_container | {"container": "P-web", "path": "/etc/hosts", "text": ""} | ! is a mount of
copy_from_container | {"container": "P-web", "path": "/x?force=true&path=/etc#../../volumes"} | ! There is no
"#;

#[tokio::test]
async fn files_are_copied_in_and_out() {
    let Some(lab) = lab().await else { return };
    let options = json!({"Env": ["PASSWORD=Wolkenbruch77", "DB_PASSWORD_FILE=/etc/./key"],
        "HostConfig": {"Tmpfs": {"/memory": ""}}});
    let name = lab.create("web", &["true"], options).await;
    lab.steps(FILES, &[]).await;
    let long = "line\n".repeat(10_000);
    succeed!(lab, "copy_to_container", {"container": name, "path": "/etc/long", "text": long});
    let file = read(&lab, &name, "/etc/long").await;
    assert_has!(file, {"size_bytes": 50_000, "truncated": true});
    assert!(file["text"].as_str().unwrap().len() <= 7_000);
    let file = succeed!(lab, "copy_from_container", {"container": name, "path": "/etc/long", "max_bytes": 60_000});
    assert_eq!(file["text"], json!(long));
    for path in ["", "etc/passwd", "../x", "\0", "/etc/\0"] {
        fails_with!(lab, "copy_from_container", {"container": name, "path": path}, "absolute");
        fails_with!(lab, "copy_to_container", {"container": name, "path": path, "text": "x"}, "absolute");
    }
    for path in ["/", "/etc/", "/etc/.."] {
        fails_with!(lab, "copy_to_container", {"container": name, "path": path, "text": "x"}, "name of the file");
    }
}

/// Neither what others have written since the question is lost, nor is another text written in place of this one.
#[tokio::test]
async fn agreement_to_overwrite_counts_for_both_contents() {
    let Some(lab) = lab().await else { return };
    let name = lab.create("web", &["true"], json!({})).await;
    let write = |text: &str| json!({"container": name, "path": "/note", "text": text});
    succeed(&lab, "copy_to_container", write("first")).await;
    let asked = call(&lab, "copy_to_container", write("mine")).await;
    let agreed = json!({"confirm": asked_for(&asked)});
    let other = merged(write("other"), agreed.clone());
    fails_with!(lab, "copy_to_container", other, "another state or target");
    let theirs = merged(write("their"), json!({"confirm": "/note"}));
    succeed(&lab, "copy_to_container", theirs).await;
    let mine = merged(write("mine"), agreed);
    fails_with!(lab, "copy_to_container", mine, "another state or target");
    assert_eq!(read(&lab, &name, "/note").await["text"], "their");
}

#[tokio::test]
async fn entries_of_a_directory_are_listed_behind_a_large_file() {
    let Some(lab) = lab().await else { return };
    let write = "mkdir /d; dd if=/dev/zero of=/d/big bs=1M count=24; mkfifo /d/pipe; mkdir /d/sub; \
        touch /d/sub/x; ln -s /Wolkenbruch77 /d/link; touch /d/Wolkenbruch77.txt /d/text; sleep 600";
    let options = json!({"StopTimeout": 0, "Env": ["PASSWORD=Wolkenbruch77"]});
    let name = lab.run("web", &["sh", "-c", write], options).await;
    wait_until("the files", async || {
        let file = json!({"container": name, "path": "/d/text"});
        call(&lab.server, "copy_from_container", file).await["isError"] == false
    })
    .await;
    let listed = read(&lab, &name, "/d").await;
    let entries = ["***.txt", "big", "link", "pipe", "sub/", "text"];
    assert_has!(listed, {"entries": entries, "truncated": false, "redacted": 1});
    assert_has!(read(&lab, &name, "/d/link").await, {"kind": "link", "link_to": "/***"});
    let pipe = read(&lab, &name, "/d/pipe").await;
    assert_has!(pipe, {"kind": "fifo", "text": null});
}

/// A network and two containers in it, which find each other by name.
const NETWORK: &str = r#"
create_network | {"network": "P-net", "labels": {"tier": "web"}} | created
create_network | {"network": "P-net", "labels": {"tier": "web"}} | ! already exists
create_container | {"image": "busybox:test", "name": "P-server", "command": ["sleep", "600"], "network": "P-net", "aliases": ["served"]} | running
create_container | {"image": "busybox:test", "name": "P-client", "command": ["sleep", "600"]} | running
connect_network | {"network": "P-net", "container": "P-client", "aliases": ["caller"]} | connected
connect_network | {"network": "P-net", "container": "P-client"} | {"note": "It was connected already."}
execute_command | {"container": "P-client", "command": ["nslookup", "P-server"]} | "exit_code":0 & Address
execute_command | {"container": "P-client", "command": ["nslookup", "served"]} | "exit_code":0 & Address
list_networks | {"network": "P-net"} | "P-server": & "P-client":
remove_network | {"network": "P-net"} | ! in use by
connect_network | {"network": "P-net", "container": "P-client", "disconnect": true, "confirm": "P-client"} | ? Breaks all connections
remove_container | {"container": "P-server", "force": true, "confirm": "P-server"} | removed
create_container | {"image": "busybox:test", "name": "P-stopped", "only_create": true, "network": "P-net"} | created
remove_network | {"network": "P-net"} | ! in use by & P-stopped
"#;
const NETWORK_REMOVED: &str = r#"
remove_container | {"container": "P-stopped", "confirm": "P-stopped"} | removed
remove_network | {"network": "P-net", "confirm": "P-net"} | ? Removes the network
list_networks | {"network": "P-net"} | ! There is no network
list_networks | {} | "name":"bridge"
remove_network | {"network": "bridge"} | ! cannot be removed
list_networks | {"network": "brigde"} | ! Did you mean `bridge`
"#;

#[tokio::test]
async fn network_is_created_used_and_removed() {
    let Some(lab) = lab().await else { return };
    lab.steps(NETWORK, &[]).await;
    let unused = succeed!(lab, "prune", {"what": "networks"});
    assert!(
        !texts(&unused["items"]).contains(&&*lab.name("net")),
        "{unused}"
    );
    lab.steps(NETWORK_REMOVED, &[]).await;
}

const VOLUME_USED: &str = r#"
create_volume | {"volume": "P-data"} | {"done": "created"}
create_volume | {"volume": "P-data"} | {"done": "kept"}
create_container | {"image": "busybox:test", "name": "P-user", "mounts": ["P-data:/data"], "only_create": true} | created
list_volumes | {"volume": "P-data"} | "used_by":["P-user"]
remove_volume | {"volume": "P-data"} | ! in use by
remove_container | {"container": "P-user", "confirm": "P-user"} | removed
"#;
const VOLUME_REMOVED: &str = r#"
remove_volume | {"volume": "P-data", "confirm": "P-data"} | ? permanently lost
list_volumes | {"volume": "P-data"} | ! There is no volume
"#;

#[tokio::test]
async fn volume_is_created_used_and_removed() {
    let Some(lab) = lab().await else { return };
    lab.steps(VOLUME_USED, &[]).await;
    // Other tests leave so many for a moment that one page does not hold them.
    let (volume, mut offset) = (lab.name("data"), 0);
    loop {
        let unused = succeed!(lab, "list_volumes", {"unused": true, "offset": offset});
        let shown = unused["volumes"].as_array().unwrap();
        if shown.iter().any(|shown| shown["name"] == volume.as_str()) {
            break;
        }
        assert!(!shown.is_empty(), "{unused}");
        offset += shown.len();
    }
    lab.steps(VOLUME_REMOVED, &[]).await;
}
