//! Calls of tools that have another name in a view: questions, progress, and people who are asked.

use mcp_client::{EraChoice, Options};
use serde_json::json;

use super::super::env::text;
use super::super::input_requests::call;
use super::Views;
use super::configuration::listener;
use crate::harness::assert_contains;

const TABLES: &str = r#"
[approvals]
confirm = ["b__test_simple_text"]
[views.v.tools]
b__test_elicitation.name = "ask"
b__test_simple_text.name = "plain"
b__test_tool_with_progress.name = "work"
"#;

#[tokio::test]
async fn renamed_tools_ask_and_report_progress() {
    let views = Views::start_with("", &format!("{}{TABLES}", super::ADMIN)).await;
    for era in [EraChoice::Newest, EraChoice::Legacy] {
        let (client, _messages) = listener(&views, "v", era).await;
        let (result, asked) = call(&client, "ask", json!({"message": "Who?"})).await;
        assert_eq!(asked, ["elicitation/create"], "{era:?}");
        assert_contains(text(&result), "e@x.org");
        // The rule is about the published name.
        let (result, asked) = call(&client, "plain", json!({})).await;
        assert_eq!(asked, ["elicitation/create"], "{era:?}");
        // Its user is told the published name; this answer does not confirm.
        assert_contains(text(&result), "the call of b__test_simple_text");
        let (reports, mut received) = tokio::sync::mpsc::channel(16);
        let work = json!({"name": "work", "arguments": {}});
        let options = Options::default().progress(reports);
        let called = client.request_with("tools/call", &work, options);
        called.await.unwrap();
        assert!(received.try_recv().is_ok(), "{era:?}");
    }
}
