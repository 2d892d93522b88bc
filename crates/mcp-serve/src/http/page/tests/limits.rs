//! Tests of the page's limits, and of its stream.

use futures_util::future::BoxFuture;
use mcp_core::server::Principal;

use super::*;

/// A service whose events are counted.
struct Counted;

impl PageData for Counted {
    fn revision(&self, _: Option<&Arc<Principal>>) -> (u64, u64) {
        (777, 3)
    }

    fn answer<'a>(
        &'a self,
        topic: &'a str,
        _: Option<&'a Arc<Principal>>,
        _: &'a [u8],
    ) -> BoxFuture<'a, (u16, String)> {
        Box::pin(async move { (200, topic.to_owned()) })
    }
}

fn limited(limits: Limits) -> Site {
    Site::with("ada s3cret-of-16-chars", limits, Some(Arc::new(Counted)))
}

#[tokio::test]
async fn body_of_a_request_of_the_page_is_small() {
    let site = Site::new("ada s3cret-of-16-chars");
    for (bytes, status) in [(16 * 1024, 200), (64 * 1024, 400)] {
        let body = json!({"more": "x".repeat(bytes)}).to_string();
        let got = site.post("/page/me", ADA, &[], &body).await;
        assert_eq!(got.status, status, "{bytes}");
    }
}

#[tokio::test]
async fn answers_of_the_service_count_as_requests_in_flight() {
    let site = limited(Limits {
        max_in_flight: 0,
        ..Limits::default()
    });
    let me = site.post("/page/me", ADA, &[], "{}").await;
    let data = site.post("/page/data/x", ADA, &[], "{}").await;
    assert_eq!((me.status, data.status), (200, 503));
}

#[tokio::test]
async fn what_the_page_asks_by_itself_leaves_the_limit_of_calls_alone() {
    let site = limited(Limits {
        max_requests_per_second: Some(1),
        ..Limits::default()
    });
    let post = async |path| site.post(path, ADA, &[], LIST).await.status;
    assert_eq!(post("/page/data/x").await, 200);
    assert_eq!(post("/page/data/x").await, 429);
    assert_eq!(post("/page/mcp").await, 200);
    assert_eq!(post("/page/mcp").await, 429);
}

#[tokio::test]
async fn stream_of_changes_ends_with_the_server_and_counts_for_itself() {
    let site = limited(Limits::default());
    let close = async {
        tokio::time::sleep(Duration::from_millis(50)).await;
        site.server.close();
    };
    let live = site.post("/page/live", ADA, &[], "{}");
    let both = async { tokio::join!(live, close).0 };
    let live = tokio::time::timeout(Duration::from_secs(5), both).await;
    let body = live.unwrap().body;
    assert!(body.contains(r#""lists":3"#), "{body}");
    assert!(!body.contains(":777"), "{body}");
}
