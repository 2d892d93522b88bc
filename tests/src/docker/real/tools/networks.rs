//! Networks and volumes.

use serde_json::json;

use super::{confirmed, fail, lab, open_lab, succeed, texts};
use crate::harness::assert_contains;

#[tokio::test]
async fn a_network_is_made_used_and_removed() {
    let Some(mut lab) = open_lab().await else {
        return;
    };
    let network = lab.name("net");
    let arguments = json!({"network": network, "labels": {"tier": "web"}});
    succeed(&lab, "create_network", arguments.clone()).await;
    let twice = fail(&lab, "create_network", arguments).await;
    assert!(twice.contains("already exists"), "{twice}");
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
    assert!(
        inside.contains_key(&server) && inside.contains_key(&client),
        "{shown}"
    );

    let used = fail(&lab, "remove_network", json!({"network": network})).await;
    assert!(used.contains("in use by"), "{used}");
    let arguments = json!({"network": network, "container": client});
    let (loss, _) = confirmed(&lab, "disconnect_network", arguments, &client).await;
    assert!(loss.contains("Breaks all connections"), "{loss}");
    lab.forget(&server).await;
    confirmed(
        &lab,
        "remove_network",
        json!({"network": network}),
        &network,
    )
    .await;
    let gone = fail(&lab, "list_networks", json!({"network": network})).await;
    assert!(gone.contains("There is no network"), "{gone}");
}

#[tokio::test]
async fn networks_are_listed_and_near_names_told() {
    let Some(lab) = lab().await else { return };
    let listed = succeed(&lab, "list_networks", json!({})).await;
    let names: Vec<_> = listed["networks"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| &row["name"])
        .collect();
    assert!(names.contains(&&json!("bridge")), "{listed}");
    let near = fail(&lab, "list_networks", json!({"network": "brigde"})).await;
    assert!(near.contains("Did you mean `bridge`"), "{near}");
    fail!(lab, "create_network", {"network": lab.name("x"), "subnet": "nonsense"});
}

#[tokio::test]
async fn a_volume_is_made_used_and_removed() {
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
    let used = fail(&lab, "remove_volume", json!({"volume": volume})).await;
    assert!(used.contains("in use by"), "{used}");
    lab.forget(&user).await;
    let unused = succeed(&lab, "list_volumes", json!({"unused": true})).await;
    assert!(unused.to_string().contains(&volume), "{unused}");
    let (loss, _) = confirmed(&lab, "remove_volume", json!({"volume": volume}), &volume).await;
    assert!(loss.contains("lost for good"), "{loss}");
    let gone = fail(&lab, "list_volumes", json!({"volume": volume})).await;
    assert!(gone.contains("There is no volume"), "{gone}");
}
