//! The execution that one request has started.
//!
//! n8n tells no execution id in the reply of a trigger. But the trigger node keeps what it received,
//! and with it our unique request id, from the first moment on: the execution that holds it is ours.

use serde_json::value::RawValue;

use crate::api::{Api, Execution, Failure, Listing};
use crate::id::Id;

/// Executions that are looked at in each listing: (per page, pages). The second try is for
/// workflows whose executions are so large that a page of them is too large to read.
const TRIES: [(u32, usize); 2] = [(20, 5), (1, 20)];

/// The execution of `workflow` that holds `request_id`, with its data.
pub(super) async fn find(
    api: &Api,
    workflow: &Id,
    request_id: &str,
    listings: [Listing; 2],
) -> Result<Option<Execution>, Failure> {
    for listing in listings {
        if let Some(found) = find_in(api, workflow, request_id, listing).await? {
            return Ok(Some(found));
        }
    }
    Ok(None)
}

async fn find_in(
    api: &Api,
    workflow: &Id,
    request_id: &str,
    listing: Listing,
) -> Result<Option<Execution>, Failure> {
    for (limit, pages) in TRIES {
        match walk(api, workflow, request_id, listing, limit, pages).await {
            Err(Failure::TooLarge(_)) => {}
            found => return found,
        }
    }
    Ok(None)
}

async fn walk(
    api: &Api,
    workflow: &Id,
    request_id: &str,
    listing: Listing,
    limit: u32,
    pages: usize,
) -> Result<Option<Execution>, Failure> {
    let mut cursor = None;
    for _ in 0..pages {
        let page = api
            .executions(workflow, listing, limit, cursor.as_deref())
            .await?;
        if let Some(row) = ours(&page.data, request_id) {
            return serde_json::from_str(row.get())
                .map(Some)
                .map_err(Failure::Unreadable);
        }
        cursor = match page.next_cursor {
            Some(next) => Some(next),
            None => break,
        };
    }
    Ok(None)
}

/// The oldest row that holds the id: a younger one that does was started by ours, or repeats it.
fn ours<'a>(newest_first: &'a [Box<RawValue>], request_id: &str) -> Option<&'a RawValue> {
    let mut rows = newest_first.iter().rev();
    rows.find(|row| row.get().contains(request_id))
        .map(|row| &**row)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_that_holds_the_id_is_ours() {
        let row = |text: &str| RawValue::from_string(text.to_owned()).unwrap();
        let rows = [
            row(r#"[4,"b"]"#),
            row(r#"[3,"a"]"#),
            row(r#"[2,"a"]"#),
            row(r#"[1,"c"]"#),
        ];
        assert_eq!(ours(&rows, "a").unwrap().get(), r#"[2,"a"]"#);
        assert!(ours(&rows, "d").is_none());
    }
}
