//! Files of containers, networks and volumes.

use crate::docker::prelude::*;

async fn read(lab: &Lab, container: &str, path: &str) -> Value {
    let arguments = json!({"container": container, "path": path});
    succeed(lab, "copy_from_container", arguments).await
}

#[tokio::test]
async fn files_are_copied_in_and_out() {
    let Some(lab) = lab().await else { return };
    let secret = json!({"Env": ["PASSWORD=Wolkenbruch77", "DB_PASSWORD_FILE=/etc/./key"]});
    let name = lab.create("web", &["true"], secret).await;
    let mut arguments =
        json!({"container": name, "path": "/etc/app.conf", "text": "a=1\n", "mode": 600});
    let written = succeed(&lab, "copy_to_container", arguments.clone()).await;
    assert_eq!(written["overwritten"], false);
    let file = read(&lab, &name, "/etc/app.conf").await;
    assert_has!(file, {"text": "a=1\n", "mode": "600"});
    arguments["text"] = json!("a=2\n");
    let (loss, written) = confirmed(&lab, "copy_to_container", arguments, "/etc/app.conf").await;
    assert_contains(&loss, "Overwrites");
    assert_eq!(written["overwritten"], true);
    // What the file was allowed to do, it still is.
    succeed!(lab, "copy_to_container", {"container": name, "path": "/etc/app.conf", "text": "a=2\n",
        "confirm": "/etc/app.conf"});
    let file = read(&lab, &name, "/etc/app.conf").await;
    assert_has!(file, {"text": "a=2\n", "mode": "600"});
    fails_with!(lab, "copy_to_container", {"container": name, "path": "/etc", "text": ""}, "is a directory");
    fails_with!(lab, "copy_to_container", {"container": name, "path": "/nowhere/x", "text": ""},
        "There is no \"/nowhere\"");

    succeed!(lab, "copy_to_container", {"container": name, "path": "/etc/blob", "base64": "AAH/"});
    assert_eq!(read(&lab, &name, "/etc/blob").await["base64"], "AAH/");
    let long = "line\n".repeat(10_000);
    succeed!(lab, "copy_to_container", {"container": name, "path": "/etc/long", "text": long});
    let file = read(&lab, &name, "/etc/long").await;
    assert_has!(file, {"size_bytes": 50_000, "truncated": true});
    assert!(file["text"].as_str().unwrap().len() <= 7_000);
    let file = succeed!(lab, "copy_from_container", {"container": name, "path": "/etc/long", "max_bytes": 60_000});
    assert_eq!(file["text"], json!(long));

    let root = read(&lab, &name, "/").await;
    assert_eq!(root["kind"], "directory");
    assert!(texts(&root["entries"]).contains(&"bin/"), "{root}");
    succeed!(lab, "copy_to_container", {"container": name, "path": "/etc/env",
        "text": "API_TOKEN=canary-8\nPORT=80\n"});
    let file = read(&lab, &name, "/etc/env").await;
    assert_eq!(file["text"], "API_TOKEN=***\nPORT=80\n");
    // Also in Latin-1 and in UTF-16, and a file that is nothing but a secret.
    for text in [
        "QVBJX1RPS0VOPWNhbmFyeS04CiMgZvxyCg==",
        "//5BAFAASQBfAFQATwBLAEUATgA9AGMAYQBuAGEAcgB5AC0AOAAKAA==",
    ] {
        succeed!(lab, "copy_to_container", {"container": name, "path": "/etc/env", "base64": text,
            "confirm": "/etc/env"});
        let file = read(&lab, &name, "/etc/env").await;
        assert_contains(&file["text"], "API_TOKEN=***\n");
        assert!(file["base64"].is_null(), "{file}");
    }
    succeed!(lab, "copy_to_container", {"container": name, "path": "/etc/key", "text": "so be it"});
    assert_eq!(read(&lab, &name, "/etc/key").await["text"], "***");
    succeed!(lab, "copy_to_container", {"container": name, "path": "/etc/secret", "text": "Wolkenbruch77\n"});
    let file = succeed!(lab, "copy_from_container", {"container": name, "path": "/etc/secret", "max_bytes": 12});
    assert_eq!(file["text"], "***\n");

    for path in ["", "etc/passwd", "../x", "\0", "/etc/\0"] {
        fails_with!(lab, "copy_from_container", {"container": name, "path": path}, "absolute");
        fails_with!(lab, "copy_to_container", {"container": name, "path": path, "text": "x"}, "absolute");
    }
    for path in ["/", "/etc/", "/etc/.."] {
        fails_with!(lab, "copy_to_container", {"container": name, "path": path, "text": "x"}, "name of the file");
    }
    // A text like another parameter or endpoint is a plain path in the container.
    fails_with!(lab, "copy_from_container", {"container": name, "path": "/x?force=true&path=/etc#../../volumes"},
        "There is no");
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

#[tokio::test]
async fn network_is_created_used_and_removed() {
    let Some(lab) = lab().await else { return };
    let network = lab.name("net");
    let arguments = json!({"network": network, "labels": {"tier": "web"}});
    succeed(&lab, "create_network", arguments.clone()).await;
    fails_with!(lab, "create_network", arguments, "already exists");
    let server = lab.name("server");
    succeed!(lab, "create_container", {"image": "busybox:test", "name": server, "command": ["sleep", "600"],
        "network": network, "aliases": ["served"]});
    let client = lab.sleep("client", json!({})).await;
    let connect = json!({"network": network, "container": client, "aliases": ["caller"]});
    succeed(&lab, "connect_network", connect.clone()).await;
    let again = succeed(&lab, "connect_network", connect).await;
    assert_eq!(again["note"], "It was connected already.");
    // They find each other by name.
    for name in [&*server, "served"] {
        let found =
            succeed!(lab, "execute_command", {"container": client, "command": ["nslookup", name]});
        assert_has!(found, {"exit_code": 0});
        assert_contains(&found["stdout"], "Address");
    }
    let shown = succeed(&lab, "list_networks", json!({"network": network})).await;
    let inside = shown["networks"][0]["containers"].as_object().unwrap();
    assert!(inside.contains_key(&server), "{shown}");
    assert!(inside.contains_key(&client), "{shown}");

    fails_with!(lab, "remove_network", {"network": network}, "in use by");
    let arguments = json!({"network": network, "container": client, "disconnect": true});
    let (loss, _) = confirmed(&lab, "connect_network", arguments, &client).await;
    assert!(loss.contains("Breaks all connections"), "{loss}");
    lab.remove(&server).await;
    let in_network = json!({"HostConfig": {"NetworkMode": network}});
    let stopped = lab.create("stopped", &["true"], in_network).await;
    fails_with!(lab, "remove_network", {"network": network}, "in use by", &stopped);
    let unused = succeed!(lab, "prune", {"what": "networks"});
    assert!(!texts(&unused["items"]).contains(&&*network), "{unused}");
    lab.remove(&stopped).await;
    let arguments = json!({"network": network});
    confirmed(&lab, "remove_network", arguments, &network).await;
    fails_with!(lab, "list_networks", {"network": network}, "There is no network");
    let listed = succeed(&lab, "list_networks", json!({})).await;
    assert!(member_texts(&listed["networks"], "name").contains(&"bridge"));
    fails_with!(lab, "list_networks", {"network": "brigde"}, "Did you mean `bridge`");
}

#[tokio::test]
async fn volume_is_created_used_and_removed() {
    let Some(lab) = lab().await else { return };
    let volume = lab.name("data");
    let done = succeed(&lab, "create_volume", json!({"volume": volume})).await;
    assert_eq!(done["done"], "created");
    let done = succeed(&lab, "create_volume", json!({"volume": volume})).await;
    assert_eq!(done["done"], "kept");
    let user = lab.name("user");
    succeed!(lab, "create_container", {"image": "busybox:test", "name": user,
        "command": ["sh", "-c", "echo kept > /data/x"], "mounts": [format!("{volume}:/data")]});
    let shown = succeed(&lab, "list_volumes", json!({"volume": volume})).await;
    assert_eq!(texts(&shown["volumes"][0]["used_by"]), [user.as_str()]);
    fails_with!(lab, "remove_volume", {"volume": volume}, "in use by");
    lab.remove(&user).await;
    // Other tests leave so many for a moment that one page does not hold them.
    let mut offset = 0;
    loop {
        let unused = succeed!(lab, "list_volumes", {"unused": true, "offset": offset});
        let shown = unused["volumes"].as_array().unwrap();
        if shown.iter().any(|shown| shown["name"] == volume.as_str()) {
            break;
        }
        assert!(!shown.is_empty(), "{unused}");
        offset += shown.len();
    }
    let (loss, _) = confirmed(&lab, "remove_volume", json!({"volume": volume}), &volume).await;
    assert!(loss.contains("permanently lost"), "{loss}");
    fails_with!(lab, "list_volumes", {"volume": volume}, "There is no volume");
}
