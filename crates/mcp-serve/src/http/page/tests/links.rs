//! Tests of the sign-in by a link, where no token is needed.

use super::*;

struct Linked {
    page: Page,
    guard: Guard,
}

impl Linked {
    fn new() -> Self {
        let signer = crate::Key::load("x", Some("k")).unwrap().signer();
        let page = Page::new(
            "page-test",
            Some(ORIGIN.into()),
            signer,
            PageContent::default(),
        );
        let guard = Guard::new(Tokens::default(), &[]);
        page.announce(&guard);
        Self { page, guard }
    }

    async fn sign_in(&self, link: &str) -> Option<Parts> {
        let given = serde_json::from_value::<SignIn>(json!({"link": link})).unwrap();
        let sent = head(&[]);
        let signed = self.page.sessions.sign_in(&self.guard, &sent, given).await;
        let (cookie, answer) = signed.ok()?;
        let key = serde_json::from_str::<Value>(&answer).unwrap()["key"].clone();
        let cookie = cookie.unwrap();
        let cookie = cookie.to_str().unwrap().split(';').next().unwrap();
        Some(head(&[
            ("cookie", cookie),
            ("x-page-key", key.as_str().unwrap()),
        ]))
    }

    async fn is_open(&self, head: &Parts) -> bool {
        self.page.sessions.open(&self.guard, head).await.is_some()
    }
}

fn head(headers: &[(&str, &str)]) -> Parts {
    let mut request = Request::builder().header("host", HOST);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    request.body(()).unwrap().into_parts().0
}

#[tokio::test]
async fn link_works_once_and_where_no_token_is_needed() {
    let site = Site::new("");
    let linked = Linked::new();
    let link = linked.page.sessions.links().last();
    assert!(linked.sign_in("0").await.is_none());
    assert!(linked.sign_in(&link).await.is_some());
    assert!(linked.sign_in(&link).await.is_none());
    // One in a while, so that the log is not filled.
    assert!(!linked.page.sessions.new_link(&linked.guard));
    // A token does not sign in there, and without a sign-in nothing is answered.
    let token = site
        .post("/page/sign-in", None, &[], r#"{"token":"x"}"#)
        .await;
    assert_eq!(token.status, 401);
    assert_eq!(site.post("/page/mcp", None, &[], LIST).await.status, 401);
    let secured = Linked {
        guard: Guard::new(Tokens::parse("ada s3cret-of-16-chars").unwrap(), &[]),
        ..Linked::new()
    };
    assert!(
        secured
            .sign_in(&secured.page.sessions.links().last())
            .await
            .is_none()
    );
}

/// Every local process can ask for a link.
#[tokio::test]
async fn link_that_works_is_not_replaced_and_an_old_one_does_not_work() {
    let linked = Linked::new();
    let sessions = &linked.page.sessions;
    let link = sessions.links().last();
    assert!(sessions.new_link(&linked.guard));
    sessions.links().age(Duration::from_secs(60));
    assert!(sessions.new_link(&linked.guard));
    assert_eq!(sessions.links().last(), link);
    sessions.links().age(Duration::from_secs(600));
    assert!(linked.sign_in(&link).await.is_none());
    assert!(sessions.new_link(&linked.guard));
    assert_ne!(sessions.links().last(), link);
    assert!(linked.sign_in(&sessions.links().last()).await.is_some());
}

#[tokio::test]
async fn sign_out_ends_the_sign_ins_by_link_and_another_process_has_its_own() {
    let linked = Linked::new();
    let signed = linked
        .sign_in(&linked.page.sessions.links().last())
        .await
        .unwrap();
    assert!(linked.is_open(&signed).await);
    assert!(!Linked::new().is_open(&signed).await);
    let sessions = &linked.page.sessions;
    let found = sessions.open(&linked.guard, &signed).await.unwrap();
    sessions.end_link(&found);
    assert!(!linked.is_open(&signed).await);
}
