//! What is lost is asked of the user where the client can.

use serde_json::json;

use super::lab;
use super::talk::Talk;
use crate::harness::assert_contains;

#[tokio::test]
async fn the_user_decides() {
    let Some(mut lab) = lab().await else { return };
    let mut talk = Talk::open(&lab.host, &[]).await;
    for (action, content) in [
        ("decline", json!(null)),
        ("cancel", json!(null)),
        ("accept", json!({"confirm": false})),
    ] {
        let name = lab
            .create(&format!("kept-{action}"), &["true"], json!({}))
            .await;
        // A model that fills in the argument does not decide for the user.
        let arguments = json!({"container": name, "confirm": name});
        let id = talk.start("remove_container", arguments).await;
        let mut answer = json!({"action": action});
        if !content.is_null() {
            answer["content"] = content;
        }
        let question = talk.reply(answer).await;
        assert_contains(&question, &name);
        assert_contains(&question, "log");
        let answer = talk.answer(id).await;
        assert_eq!(answer["result"]["isError"], true, "{answer}");
        assert_eq!(lab.state(&name).await, "created");
    }
    let name = lab.create("gone", &["true"], json!({})).await;
    let id = talk
        .start("remove_container", json!({"container": name}))
        .await;
    talk.reply(json!({"action": "accept", "content": {"confirm": true}}))
        .await;
    let answer = talk.answer(id).await;
    assert_has!(answer, {"result": {"structuredContent": {"after": "removed"}}});
    assert!(lab.docker.inspect_container(&name, None).await.is_err());
}

#[tokio::test]
async fn a_preview_is_part_of_the_question() {
    let Some(lab) = lab().await else { return };
    let volume = lab.name("data");
    let rule = format!("name={volume}");
    let mut talk = Talk::open(&lab.host, &[("DOCKER_MCP_ALLOW", &rule)]).await;
    let id = talk.start("create_volume", json!({"volume": volume})).await;
    talk.answer(id).await;
    let arguments = json!({"what": "volumes", "all": true, "apply": true});
    let id = talk.start("prune", arguments.clone()).await;
    let question = talk.reply(json!({"action": "decline"})).await;
    assert_contains(&question, "1 unused volumes");
    assert_contains(&question, &volume);
    assert_eq!(talk.answer(id).await["result"]["isError"], true);
    let id = talk.start("prune", arguments).await;
    talk.reply(json!({"action": "accept", "content": {"confirm": true}}))
        .await;
    let answer = talk.answer(id).await;
    assert_has!(answer, {"result": {"structuredContent": {"items": [volume]}}});
}
