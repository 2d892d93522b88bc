//! Networks and volumes.

use serde_json::json;

use super::{confirmed, fail, lab, open_lab, succeed, texts};

#[tokio::test]
async fn a_network_is_made_used_and_removed() {
    let Some(mut lab) = open_lab().await else {
        return;
    };
    let network = lab.name("net");
    let arguments = json!({"network": network, "labels": {"tier": "web"}});
    succeed(&lab.server, "create_network", arguments.clone()).await;
    let twice = fail(&lab.server, "create_network", arguments).await;
    assert!(twice.contains("already exists"), "{twice}");
    let server = lab.adopt("server");
    let arguments = json!({"image": "busybox:test", "name": server, "command": ["sleep", "600"], "network": network});
    succeed(&lab.server, "create_container", arguments).await;
    let client = lab.run("client", &["sleep", "600"], json!({})).await;
    let connect = json!({"network": network, "container": client, "aliases": ["caller"]});
    succeed(&lab.server, "connect_network", connect.clone()).await;
    let again = succeed(&lab.server, "connect_network", connect).await;
    assert_eq!(again["note"], "It was connected already.");
    // They find each other by name.
    let arguments = json!({"container": client, "command": ["nslookup", server]});
    let found = succeed(&lab.server, "execute_command", arguments).await;
    assert!(
        found["stdout"].as_str().unwrap().contains("Address"),
        "{found}"
    );
    let shown = succeed(&lab.server, "list_networks", json!({"network": network})).await;
    let inside = shown["networks"][0]["containers"].as_object().unwrap();
    assert!(
        inside.contains_key(&server) && inside.contains_key(&client),
        "{shown}"
    );

    let used = fail(&lab.server, "remove_network", json!({"network": network})).await;
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
    let gone = fail(&lab.server, "list_networks", json!({"network": network})).await;
    assert!(gone.contains("There is no network"), "{gone}");
}

#[tokio::test]
async fn networks_are_listed_and_near_names_told() {
    let Some(lab) = lab(&[]).await else {
        return;
    };
    let listed = succeed(&lab.server, "list_networks", json!({})).await;
    let names: Vec<_> = listed["networks"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| &row["name"])
        .collect();
    assert!(names.contains(&&json!("bridge")), "{listed}");
    let near = fail(&lab.server, "list_networks", json!({"network": "brigde"})).await;
    assert!(near.contains("Did you mean `bridge`"), "{near}");
    let wrong = json!({"network": lab.name("x"), "subnet": "nonsense"});
    fail(&lab.server, "create_network", wrong).await;
}

#[tokio::test]
async fn a_volume_is_made_used_and_removed() {
    let Some(mut lab) = lab(&[]).await else {
        return;
    };
    let volume = lab.name("data");
    let done = succeed(&lab.server, "create_volume", json!({"volume": volume})).await;
    assert_eq!(done["done"], "created");
    let done = succeed(&lab.server, "create_volume", json!({"volume": volume})).await;
    assert_eq!(done["done"], "kept");
    let user = lab.adopt("user");
    let arguments = json!({"image": "busybox:test", "name": user, "command": ["sh", "-c", "echo kept > /data/x"],
        "mounts": [format!("{volume}:/data")]});
    succeed(&lab.server, "create_container", arguments).await;
    let shown = succeed(&lab.server, "list_volumes", json!({"volume": volume})).await;
    assert_eq!(texts(&shown["volumes"][0]["used_by"]), [user.as_str()]);
    let used = fail(&lab.server, "remove_volume", json!({"volume": volume})).await;
    assert!(used.contains("in use by"), "{used}");
    lab.forget(&user).await;
    let unused = succeed(&lab.server, "list_volumes", json!({"unused": true})).await;
    assert!(unused.to_string().contains(&volume), "{unused}");
    let (loss, _) = confirmed(&lab, "remove_volume", json!({"volume": volume}), &volume).await;
    assert!(loss.contains("lost for good"), "{loss}");
    let gone = fail(&lab.server, "list_volumes", json!({"volume": volume})).await;
    assert!(gone.contains("There is no volume"), "{gone}");
}
