//! Networks and volumes.

use serde_json::json;

use super::{confirmed, fail, lab, lab_with, succeed, texts};
use crate::harness::assert_contains;

#[tokio::test]
async fn network_is_created_used_and_removed() {
    let Some(mut lab) = lab_with(&[("DOCKER_MCP_ALLOW_EXEC", "1")]).await else {
        return;
    };
    let network = lab.name("net");
    let arguments = json!({"network": network, "labels": {"tier": "web"}});
    succeed(&lab, "create_network", arguments.clone()).await;
    fails_with!(lab, "create_network", arguments, "already exists");
    let server = lab.adopt("server");
    let arguments = json!({"image": "busybox:test", "name": server, "command": ["sleep", "600"], "network": network});
    succeed(&lab, "create_container", arguments).await;
    let client = lab.run("client", &["sleep", "600"], json!({})).await;
    let connect = json!({"network": network, "container": client, "aliases": ["caller"]});
    succeed(&lab, "connect_network", connect.clone()).await;
    let again = succeed(&lab, "connect_network", connect).await;
    assert_eq!(again["note"], "It was connected already.");
    // They find each other by name.
    let arguments = json!({"container": client, "command": ["nslookup", server]});
    let found = succeed(&lab, "execute_command", arguments).await;
    assert_contains(&found["stdout"], "Address");
    let shown = succeed(&lab, "list_networks", json!({"network": network})).await;
    let inside = shown["networks"][0]["containers"].as_object().unwrap();
    assert!(inside.contains_key(&server), "{shown}");
    assert!(inside.contains_key(&client), "{shown}");

    fails_with!(lab, "remove_network", {"network": network}, "in use by");
    let arguments = json!({"network": network, "container": client});
    let (loss, _) = confirmed(&lab, "disconnect_network", arguments, &client).await;
    assert!(loss.contains("Breaks all connections"), "{loss}");
    lab.remove(&server).await;
    let arguments = json!({"network": network});
    confirmed(&lab, "remove_network", arguments, &network).await;
    fails_with!(lab, "list_networks", {"network": network}, "There is no network");
}

#[tokio::test]
async fn networks_are_listed_and_unknown_names_get_suggestions() {
    let Some(lab) = lab().await else { return };
    let listed = succeed(&lab, "list_networks", json!({})).await;
    let mut rows = listed["networks"].as_array().unwrap().iter();
    assert!(rows.any(|row| row["name"] == "bridge"), "{listed}");
    fails_with!(lab, "list_networks", {"network": "brigde"}, "Did you mean `bridge`");
    fail!(lab, "create_network", {"network": lab.name("x"), "subnet": "nonsense"});
}

#[tokio::test]
async fn volume_is_created_used_and_removed() {
    let Some(mut lab) = lab().await else { return };
    let volume = lab.name("data");
    let done = succeed(&lab, "create_volume", json!({"volume": volume})).await;
    assert_eq!(done["done"], "created");
    let done = succeed(&lab, "create_volume", json!({"volume": volume})).await;
    assert_eq!(done["done"], "kept");
    let user = lab.adopt("user");
    succeed!(lab, "create_container", {"image": "busybox:test", "name": user,
        "command": ["sh", "-c", "echo kept > /data/x"], "mounts": [format!("{volume}:/data")]});
    let shown = succeed(&lab, "list_volumes", json!({"volume": volume})).await;
    assert_eq!(texts(&shown["volumes"][0]["used_by"]), [user.as_str()]);
    fails_with!(lab, "remove_volume", {"volume": volume}, "in use by");
    lab.remove(&user).await;
    // Other tests leave so many for a moment that one page does not hold them.
    let mut offset = 0;
    loop {
        let arguments = json!({"unused": true, "offset": offset});
        let unused = succeed(&lab, "list_volumes", arguments).await;
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
