//! The engine itself: its description, its events, its unused objects.

use serde_json::{Value, json};

use super::super::super::lab::Lab;
use super::{cli_lab, confirmed, fail, lab, lab_with, succeed, texts};

/// An environment whose server sees only its own objects.
async fn isolated_lab() -> Option<Lab> {
    let lab = lab().await?;
    let rule = format!("name={}*", lab.name(""));
    let mut isolated = lab_with(&[("DOCKER_MCP_ALLOW", &rule)]).await?;
    isolated.prefix.clone_from(&lab.prefix);
    Some(isolated)
}

#[tokio::test]
async fn the_engine_is_described() {
    let Some(mut lab) = lab().await else { return };
    lab.run("web", &["sleep", "600"], json!({})).await;
    let info = succeed(&lab, "get_system_info", json!({})).await;
    assert!(info["running"].as_u64().unwrap() > 0, "{info}");
    assert!(info["disk"].is_null(), "{info}");
    assert!(info["api_version"].as_str().unwrap().starts_with("1."));
    let info = succeed(&lab, "get_system_info", json!({"disk_usage": true})).await;
    let images = &info["disk"]["images"];
    assert!(images["count"].as_u64().unwrap() > 0, "{info}");
    assert!(images["size_bytes"].as_i64().unwrap() > 1_000_000, "{info}");
}

#[tokio::test]
async fn events_are_listed() {
    let Some(mut lab) = lab().await else { return };
    let check = json!({"Healthcheck": {"Test": ["CMD-SHELL", "true # canary-11"], "Interval": 100_000_000}});
    let command = ["sh", "-c", "sleep 1; exit 3"];
    let name = lab.finish("web", &command, check).await;
    let events = succeed!(lab, "list_events", {"name": name, "kind": "container"});
    let rows = events["events"].as_array().unwrap();
    let actions: Vec<_> = rows.iter().map(|row| &row["action"]).collect();
    assert_eq!(actions[..2], ["create", "start"], "{events}");
    let died = rows.iter().find(|row| row["action"] == "die").unwrap();
    assert_eq!(died["details"]["exitCode"], "3");
    // No runs of the health check, whose command lines may hold secrets.
    assert!(!events.to_string().contains("exec_") && !events.to_string().contains("canary-11"));
    let none = succeed!(lab, "list_events", {"name": name, "until": "1h", "since": "2h"});
    assert_eq!(none["events"], json!([]));
}

#[tokio::test]
async fn prune_removes_exactly_the_preview() {
    let Some(mut lab) = isolated_lab().await else {
        return;
    };
    let ended = lab.finish("ended", &["true"], json!({})).await;
    let never = lab.create("never", &["true"], json!({})).await;
    let running = lab.run("running", &["sleep", "600"], json!({})).await;
    let preview = succeed(&lab, "prune", json!({"what": "containers"})).await;
    assert_eq!(preview["applied"], false);
    let mut items = texts(&preview["items"]);
    items.sort_unstable();
    assert_eq!(items, [ended.as_str(), never.as_str()]);
    let arguments = json!({"what": "containers", "apply": true});
    let (loss, pruned) = confirmed(&lab, "prune", arguments, "containers").await;
    assert!(loss.contains(&ended) && loss.contains(&never), "{loss}");
    assert_has!(pruned, {"applied": true, "count": 2});
    assert_eq!(lab.state(&running).await, "running");
    fails_with!(lab, "get_container", {"container": ended}, "There is no container");
}

#[tokio::test]
async fn unused_networks_and_volumes_are_pruned() {
    let Some(lab) = isolated_lab().await else {
        return;
    };
    let (network, volume) = (lab.name("net"), lab.name("data"));
    succeed(&lab, "create_network", json!({"network": network})).await;
    succeed(&lab, "create_volume", json!({"volume": volume})).await;
    let prune =
        |what: &str, all: bool| json!({"what": what, "all": all, "apply": true, "confirm": what});
    let pruned = succeed(&lab, "prune", prune("networks", false)).await;
    assert_eq!(texts(&pruned["items"]), [network.as_str()]);
    // A named volume is kept by default.
    let kept = succeed(&lab, "prune", prune("volumes", false)).await;
    assert_eq!(kept["count"], 0);
    let pruned = succeed(&lab, "prune", prune("volumes", true)).await;
    assert_eq!(texts(&pruned["items"]), [volume.as_str()]);
    let cache = succeed(&lab, "prune", json!({"what": "build_cache"})).await;
    assert_eq!(cache["applied"], false);
}

#[tokio::test]
async fn unused_images_are_shown() {
    let Some(lab) = cli_lab(&[]).await else {
        return;
    };
    let tag = format!("{}:1", lab.name("unused"));
    let arguments = json!({"tag": tag, "dockerfile": format!("FROM busybox:test\nLABEL a={tag}")});
    succeed(&lab, "build_image", arguments).await;
    let shown = async |all: bool| -> Value {
        succeed(&lab, "prune", json!({"what": "images", "all": all})).await["items"].clone()
    };
    assert!(texts(&shown(true).await).contains(&tag.as_str()));
    assert!(!texts(&shown(false).await).contains(&tag.as_str()));
    succeed!(lab, "remove_image", {"image": tag, "confirm": tag});
}
