//! Work of users and others stays: in files that are read and written back, in a replacement that has proved
//! itself, beside a call that fails half way.

use std::time::Duration;

use super::recreate::{held_check, locked, replace, until_runs};
use crate::docker::prelude::*;

/// As a call leaves it that is killed after it has started the new container.
#[tokio::test]
async fn replacement_that_has_proved_itself_is_not_taken_back() {
    let Some(lab) = lab().await else { return };
    let web = lab.sleep("web", json!({"StopTimeout": 0})).await;
    let old = lab.id(&web).await;
    let lock = locked(&old);
    let kept = format!("{web}.before-{}.up", &old[..12]);
    lab.rename(&web, &kept).await;
    lab.docker.stop_container(&old, None).await.unwrap();
    let label = json!({"Labels": {"docker-mcp-server.replaces": old}});
    let new = lab.sleep("new", label).await;
    lab.rename(&new, &web).await;
    let new = lab.id(&web).await;
    // Longer than the call would have watched it.
    tokio::time::sleep(Duration::from_secs(7)).await;
    drop(lock);
    let _next = in_front_of(&lab.host, &[]).await;
    wait_until("the old one to go", async || {
        lab.inspect(&old).await.is_null()
    })
    .await;
    let now = lab.inspect(&web).await;
    assert_has!(now, {"Id": new, "State": {"Running": true}});
}

/// A new container that stays up is not kept once the call has said that the old one comes back, by no other process
/// either.
#[tokio::test]
async fn old_container_comes_back_as_the_call_has_said() {
    let Some(lab) = lab().await else { return };
    let web = lab.sleep("web", json!({"StopTimeout": 0})).await;
    let old = lab.id(&web).await;
    let proxy = Proxy::start(&lab.host).await;
    let server = in_front_of(&proxy.host, &[]).await;
    let arguments = json!({"container": web, "changes": {"healthcheck": held_check("true")},
        "timeout_seconds": 600, "confirm": web});
    let replacement = fail(&server, "recreate_container", arguments);
    let outage = async {
        until_runs(&lab, &web, &old, false).await;
        proxy.go_down();
        // It gets healthy, unless the server of another test was faster.
        let end = json!({"container": web, "path": "/end", "text": ""});
        call(&lab, "copy_to_container", end).await;
        wait_until("it is healthy, or the old one is back", async || {
            let now = lab.inspect(&web).await;
            now["Id"] == *old || now["State"]["Health"]["Status"] == "healthy"
        })
        .await;
    };
    let (told, ()) = tokio::join!(replacement, outage);
    assert_contains(&told, "was not replaced");
    assert_contains(&told, &format!("{web}.before-"));
    drop(server);
    let _next = in_front_of(&lab.host, &[]).await;
    until_runs(&lab, &web, &old, true).await;
}

/// It broke off while the engine was away, under a server that ran all the time.
#[tokio::test]
async fn engine_that_comes_back_brings_back_the_old_container() {
    let Some(lab) = lab().await else { return };
    let web = lab.sleep("web", json!({"StopTimeout": 0})).await;
    let id = lab.id(&web).await;
    // Other servers leave it alone; this one has other locks.
    let (_lock, locks) = (locked(&id), Folder::new());
    let proxy = Proxy::start(&lab.host).await;
    let server = in_front_of(&proxy.host, &[("TMPDIR", locks.str())]).await;
    server.wait_for_status("online").await;
    wait_until("the events", async || proxy.streams() > 0).await;
    proxy.go_down();
    lab.rename(&web, &format!("{web}.before-{}.up", &id[..12]))
        .await;
    lab.docker.stop_container(&id, None).await.unwrap();
    proxy.go_up();
    until_runs(&lab, &web, &id, true).await;
}

#[tokio::test]
async fn old_container_that_a_stop_under_way_ends_is_started_again() {
    let Some(lab) = lab().await else { return };
    let deaf = "trap '' TERM; while :; do sleep 1; done";
    let options = json!({"StopTimeout": 6});
    let web = lab.run("web", &["sh", "-c", deaf], options).await;
    let before = lab.inspect(&web).await;
    let proxy = Proxy::start(&lab.host).await;
    let mut session = StdioSession::open(&proxy.host, &[]).await;
    let arguments = json!({"container": web, "changes": {"labels": {"new": "1"}}});
    replace(&mut session, arguments).await;
    wait_until("the stop", async || {
        proxy.requests().iter().any(|line| line.contains("/stop?"))
    })
    .await;
    drop(session);
    let _next = in_front_of(&lab.host, &[]).await;
    wait_until("it runs again", async || {
        let now = lab.inspect(&web).await;
        let is_new_run = now["State"]["StartedAt"] != before["State"]["StartedAt"];
        now["Id"] == before["Id"] && now["State"]["Running"] == true && is_new_run
    })
    .await;
}

/// Calls that write, or run, what a tool has shown with a hidden value.
const WITH_HIDDEN: &str = r#"
copy_to_container | {"container": "WEB", "path": "/env", "text": "SHOWN", "confirm": "/env"}
copy_to_container | {"container": "WEB", "path": "/env", "base64": "S0VZPSoqKgo=", "confirm": "/env"}
create_container | {"image": "busybox:test", "env": {"PASSWORD": "***"}}
create_container | {"image": "busybox:test", "command": ["app", "--password=***"]}
create_container | {"image": "busybox:test", "healthcheck": {"command": ["app --password=***"]}}
recreate_container | {"container": "WEB", "confirm": "WEB", "changes": {"env": {"PASSWORD": "***"}}}
compose_up | {"directory": "/nowhere", "yaml": "services: {web: {image: 'busybox:test', environment: {KEY: '***'}}}"}
build_image | {"tag": "mcp-test-never:1", "dockerfile": "FROM busybox:test\nENV API_KEY=***\n"}
build_image | {"tag": "mcp-test-never:1", "dockerfile": "FROM busybox:test", "files": {"env": "API_KEY=***\n"}}
build_image | {"tag": "mcp-test-never:1", "dockerfile": "FROM busybox:test", "build_args": {"API_KEY": "***"}}
create_network | {"network": "mcp-test-never", "labels": {"token": "***"}}
create_volume | {"volume": "mcp-test-never", "labels": {"token": "***"}}
execute_command | {"container": "WEB", "command": ["app", "--password=***"]}
execute_command | {"container": "WEB", "command": ["env"], "env": {"PASSWORD": "***"}}
"#;

#[tokio::test]
async fn values_that_were_hidden_are_not_written() {
    let Some(lab) = lab().await else { return };
    let web = lab.create("web", &["true"], json!({})).await;
    let text = "API_KEY=Wolkenbruch77\nPORT=80\n";
    let file = json!({"container": web, "path": "/env", "text": text});
    succeed(&lab, "copy_to_container", file).await;
    let shown = succeed!(lab, "copy_from_container", {"container": web, "path": "/env"});
    let shown = shown["text"].as_str().unwrap().replace("80", "81");
    let words = [
        ("WEB", &*web),
        ("SHOWN", &shown.escape_default().to_string()),
    ];
    for (tool, arguments) in calls_of(WITH_HIDDEN, &words) {
        let refused = refusal(&lab.server, tool, &arguments).await;
        assert_contains(&refused, "the secret there would be lost");
    }
    succeed!(lab, "copy_to_container", {"container": web, "path": "/env", "text": "API_KEY=x\n", "confirm": "/env"});
    // Neither is a text that lacks characters taken for the file.
    for (text, expected, cleaned) in [
        ("\u{feff}a\r\nb\r\n", "\u{feff}a\r\nb\r\n", false),
        ("a\tb\n", "a\tb\n", false),
        ("\u{1b}[1mbold\u{1b}[0m", "bold", true),
        ("a\u{200b}b", "ab", true),
        ("line1\rline3", "line3", true),
        ("PASSWORD=hunter2x\r\n", "PASSWORD=***\n", false),
    ] {
        succeed!(lab, "copy_to_container", {"container": web, "path": "/env", "text": text, "confirm": "/env"});
        let read = succeed!(lab, "copy_from_container", {"container": web, "path": "/env"});
        assert_eq!(read["text"], expected);
        assert_eq!(read["cleaned"] == true, cleaned);
    }
}

#[tokio::test]
async fn compose_file_is_overwritten_only_by_the_text_that_was_agreed_to() {
    let shop = Folder::new();
    let text = |host: &str| web_project(&format!("hostname: {host}"), "");
    let labs = project_labs(&shop).await;
    let Some(lab) = labs.first() else { return };
    let project = lab.name("shop");
    let file = shop.write("compose.yml", &text("web"));
    let mut arguments = json!({"directory": shop.path(), "project": project, "yaml": text("api")});
    let refused = call(lab, "compose_up", arguments.clone()).await;
    assert_contains(&refused, "compose.yml.bak");
    arguments["confirm"] = json!(asked_for(&refused));
    // Another text, and a change by somebody else in between.
    let mut other = arguments.clone();
    other["yaml"] = json!(text("db"));
    fails_with!(lab, "compose_up", other, "Nothing was done");
    let edited = format!("# mine\n{}", text("web"));
    fs::write(&file, &edited).unwrap();
    let refused = call(lab, "compose_up", arguments.clone()).await;
    assert_eq!(fs::read_to_string(&file).unwrap(), edited);
    arguments["confirm"] = json!(asked_for(&refused));
    let up = succeed(lab, "compose_up", arguments.clone()).await;
    assert_eq!(up["written"], file.to_str().unwrap());
    // The copy that the user has agreed to, also after the next text.
    arguments["yaml"] = json!(format!("# again\n{}", text("api")));
    let refused = call(lab, "compose_up", arguments.clone()).await;
    assert_contains(&refused, "compose.yml.bak.1.");
    arguments["confirm"] = json!(asked_for(&refused));
    succeed(lab, "compose_up", arguments).await;
    for (copy, expected) in [("bak", edited), ("bak.1", text("api"))] {
        let copy = format!("{}.{copy}", file.display());
        assert_eq!(fs::read_to_string(copy).unwrap(), expected);
    }
}

#[tokio::test]
async fn image_that_others_are_made_of_loses_only_its_name() {
    let Some(lab) = lab().await else { return };
    let web = lab.create("web", &["true"], json!({})).await;
    lab.image("app", &web).await;
    let tag = format!("{}:1", lab.name("app"));
    let user = lab.name("user");
    succeed!(lab, "create_container", {"image": tag, "name": user, "only_create": true});
    lab.image("child", &user).await;
    let removed = succeed!(lab, "remove_image", {"image": tag, "confirm": tag, "force": true});
    assert_contains(&removed["note"], "Only the name was removed");
}
