//! What the operator lets through.

use serde_json::{Value, json};

use super::lab::Lab;
use crate::harness::{Server, assert_contains};
use crate::n8n::site::{Site, Workflow, echo, unique, webhook};
use crate::n8n::{SERVER, done, refused};

fn ids(page: &Value) -> Vec<&str> {
    let rows = page["workflows"].as_array().unwrap().iter();
    rows.map(|row| row["id"].as_str().unwrap()).collect()
}

/// Everything that could be done to a closed workflow is refused in the same words.
async fn is_closed(lab: &Lab, workflow: &Workflow, run: &Value) {
    for (tool, arguments) in [
        ("get_workflow", json!({"workflow_id": workflow.id})),
        (
            "get_workflow",
            json!({"workflow_id": workflow.id, "full": true}),
        ),
        ("run_workflow", json!({"workflow_id": workflow.id})),
        ("list_executions", json!({"workflow_id": workflow.id})),
        (
            "get_execution",
            json!({"execution_id": run["execution_id"]}),
        ),
        (
            "delete_execution",
            json!({"execution_id": run["execution_id"], "confirm": run["execution_id"]}),
        ),
    ] {
        let message = refused(lab, tool, arguments).await;
        assert!(
            message.contains("not open to this server"),
            "{tool}: {message}"
        );
    }
}

#[tokio::test]
async fn only_what_has_the_tag_is_there() {
    let Some(lab) = Lab::open().await else { return };
    let tag = unique("t")[..20].to_owned();
    let tag_id = lab.tag(&tag).await;
    let inside = lab.site.live(vec![webhook("lastNode"), echo()]).await;
    let outside = lab.site.live(vec![webhook("lastNode"), echo()]).await;
    lab.put_tags(&inside, &[&tag_id]).await;
    let run = lab.run(&outside, json!({"input": "x"})).await;
    let rule = format!("tag:{tag}");
    let guarded = Lab::with(&["--toolsets", "all", "--allow-workflows", &rule])
        .await
        .unwrap();
    is_closed(&guarded, &outside, &run).await;
    let listed = done(&guarded, "list_workflows", json!({"limit": 250})).await;
    assert_eq!(ids(&listed), [inside.id.as_str()], "{listed}");
    let own = guarded.run(&inside, json!({"input": "y"})).await;
    assert_eq!(own["output"], json!({"result": "y"}), "{own}");
    let executions = done(&guarded, "list_executions", json!({"limit": 50})).await;
    let rows = executions["executions"].as_array().unwrap();
    assert!(
        rows.iter()
            .all(|row| row["workflow_id"] == inside.id.as_str()),
        "{executions}"
    );
    lab.site.delete(&inside).await;
    lab.site.delete(&outside).await;
    lab.site
        .api("DELETE", &format!("/tags/{tag_id}"), None)
        .await;
}

#[tokio::test]
async fn what_is_denied_is_closed_by_id_and_by_project() {
    let Some(lab) = Lab::open().await else { return };
    let workflow = lab.site.live(vec![webhook("lastNode"), echo()]).await;
    let run = lab.run(&workflow, json!({})).await;
    let whole = lab
        .site
        .api("GET", &format!("/workflows/{}", workflow.id), None)
        .await;
    let project = whole["shared"][0]["projectId"].as_str().unwrap();
    for rule in [workflow.id.clone(), format!("project:{project}")] {
        let guarded = Lab::with(&["--toolsets", "all", "--deny-workflows", &rule])
            .await
            .unwrap();
        is_closed(&guarded, &workflow, &run).await;
        let listed = done(&guarded, "list_workflows", json!({"name": workflow.name})).await;
        assert!(ids(&listed).is_empty(), "{listed}");
        let uri = json!({"uri": format!("n8n://workflows/{}", workflow.id)});
        let read = guarded
            .server
            .post(
                json!({"jsonrpc": "2.0", "id": 1, "method": "resources/read", "params": uri})
                    .to_string(),
            )
            .await;
        assert!(!read.body.contains(&workflow.name), "{}", read.body);
    }
    let allowed = format!("project:{project}");
    let guarded = Lab::with(&["--allow-workflows", &allowed]).await.unwrap();
    done(
        &guarded,
        "get_workflow",
        json!({"workflow_id": workflow.id}),
    )
    .await;
    lab.site.delete(&workflow).await;
}

#[tokio::test]
async fn what_was_written_here_waits_for_a_person() {
    let Some(lab) = Lab::with(&["--toolsets", "all", "--require-review"]).await else {
        return;
    };
    let name = unique("review");
    let definition = json!({"name": name, "nodes": [webhook("lastNode")], "connections": {}});
    let made = done(&lab, "create_workflow", definition).await;
    let id = made["id"].as_str().unwrap_or_else(|| panic!("{made}"));
    let message = refused!(lab, "activate_workflow", {"workflow_id": id});
    assert_contains(&message, "mcp-review");
    assert_contains(&message, "reviewed");
    let message = refused!(lab, "run_workflow", {"workflow_id": id});
    assert!(message.contains("mcp-review"), "{message}");
    let whole = lab.site.api("GET", &format!("/workflows/{id}"), None).await;
    let tag = whole["tags"]
        .as_array()
        .unwrap()
        .iter()
        .find(|tag| tag["name"] == "mcp-review")
        .unwrap();
    let tag = tag["id"].as_str().unwrap();
    let message = refused!(lab, "delete_tag", {"tag_id": tag, "confirm": tag});
    assert!(message.contains("for people"), "{message}");
    // A person has looked at it.
    let workflow = Workflow {
        id: id.to_owned(),
        name,
    };
    lab.put_tags(&workflow, &[]).await;
    done!(lab, "activate_workflow", {"workflow_id": id});
    lab.site.delete(&workflow).await;
}

#[tokio::test]
async fn a_server_that_only_reads_offers_nothing_else() {
    let Some(lab) = Lab::with(&["--read-only", "--toolsets", "all"]).await else {
        return;
    };
    let listed = lab.server.result("tools/list", json!({})).await;
    let tools = listed["tools"].as_array().unwrap();
    assert!(tools.len() > 10);
    for tool in tools {
        assert_eq!(tool["annotations"]["readOnlyHint"], true, "{tool}");
    }
    let error = lab
        .server
        .error(
            "tools/call",
            json!({"name": "create_credential", "arguments": {}}),
        )
        .await;
    assert_eq!(error["data"]["kind"], "tool_not_found");
}

#[tokio::test]
async fn a_wrong_key_is_degraded_and_says_so() {
    let Some(site) = Site::new() else { return };
    let url = site.n8n.url.as_str();
    let env = [("N8N_URL", url), ("N8N_API_KEY", "not-a-key")];
    let server = Server::with_args(SERVER, &["--toolsets", "all"], &env).await;
    server.wait_for_status("degraded").await;
    let client = server.client().await;
    for (tool, arguments) in [
        ("list_executions", json!({})),
        ("explain_execution", json!({"execution_id": "1"})),
        ("list_tags", json!({})),
        ("audit_n8n", json!({})),
    ] {
        let message = refused(&client, tool, arguments).await;
        assert!(message.contains("refuses the API key"), "{tool}: {message}");
    }
}
