//! Questions to the user before a loss of data, with clients that support elicitation.

use serde_json::json;

use super::lab;
use super::stdio_session::StdioSession;
use crate::harness::assert_contains;

#[tokio::test]
async fn user_confirms_or_declines() {
    let Some(mut lab) = lab().await else { return };
    let mut session = StdioSession::open(&lab.host, &[]).await;
    for (action, content) in [
        ("decline", json!(null)),
        ("cancel", json!(null)),
        ("accept", json!({"confirm": false})),
    ] {
        let name = format!("kept-{action}");
        let name = lab.create(&name, &["true"], json!({})).await;
        // The model's own `confirm` does not replace the user's answer.
        let arguments = json!({"container": name, "confirm": name});
        let id = session.start("remove_container", arguments).await;
        let mut answer = json!({"action": action});
        if !content.is_null() {
            answer["content"] = content;
        }
        let question = session.reply(answer).await;
        assert_contains(&question, &name);
        assert_contains(&question, "log");
        let answer = session.answer(id).await;
        assert_eq!(answer["result"]["isError"], true, "{answer}");
        assert_eq!(lab.state(&name).await, "created");
    }
    let name = lab.create("gone", &["true"], json!({})).await;
    let arguments = json!({"container": name});
    let id = session.start("remove_container", arguments).await;
    let accept = json!({"action": "accept", "content": {"confirm": true}});
    session.reply(accept).await;
    let answer = session.answer(id).await;
    assert_has!(answer, {"result": {"structuredContent": {"after": "removed"}}});
    assert!(lab.docker.inspect_container(&name, None).await.is_err());
}

#[tokio::test]
async fn question_contains_the_preview() {
    let Some(lab) = lab().await else { return };
    let volume = lab.name("data");
    let rule = format!("name={volume}");
    let mut session = StdioSession::open(&lab.host, &[("DOCKER_MCP_ALLOW", &rule)]).await;
    let id = session
        .start("create_volume", json!({"volume": volume}))
        .await;
    session.answer(id).await;
    let arguments = json!({"what": "volumes", "all": true, "apply": true});
    let id = session.start("prune", arguments.clone()).await;
    let question = session.reply(json!({"action": "decline"})).await;
    assert_contains(&question, "1 unused volumes");
    assert_contains(&question, &volume);
    assert_eq!(session.answer(id).await["result"]["isError"], true);
    let id = session.start("prune", arguments).await;
    let accept = json!({"action": "accept", "content": {"confirm": true}});
    session.reply(accept).await;
    let answer = session.answer(id).await;
    assert_has!(answer, {"result": {"structuredContent": {"items": [volume]}}});
}
