//! The execution that one request has started.
//!
//! n8n tells no execution id in the reply of a trigger. But the trigger node keeps what it received,
//! and with it our unique request id, from the first moment on: the execution that holds it is ours.

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::api::{Api, Execution, Failure, Listing};
use crate::id::Id;

/// Executions that are looked at in each listing: (per page, pages). The second try is for
/// workflows whose executions are so large that a page of them is too large to read.
const TRIES: [(u32, usize); 2] = [(20, 50), (1, 200)];
/// The same, where it is not known where the new ones begin.
const BLIND_TRIES: [(u32, usize); 2] = [(20, 5), (1, 20)];

/// What is looked for.
pub(super) struct Search<'a> {
    pub(super) api: &'a Api,
    pub(super) workflow: &'a Id,
    pub(super) request_id: &'a str,
    /// The newest execution before ours, where that is known: n8n counts upwards.
    pub(super) after: Option<u64>,
}

#[derive(Deserialize)]
pub(super) struct Row {
    id: Id,
}

impl Search<'_> {
    /// The number of the workflow's newest execution; 0 if there is none.
    pub(super) async fn newest(api: &Api, workflow: &Id) -> Result<u64, Failure> {
        #[derive(Deserialize)]
        struct Page {
            data: Vec<Row>,
        }
        let query = [("workflowId", workflow.as_str()), ("limit", "1")];
        let page: Page = api.get(&["executions"], &query).await?;
        Ok(page.data.first().and_then(Row::number).unwrap_or(0))
    }

    /// The execution that holds the id, with its data.
    pub(super) async fn find(&self, listings: [Listing; 2]) -> Result<Option<Execution>, Failure> {
        for listing in listings {
            if let Some(found) = self.find_in(listing).await? {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    /// The only execution that has begun since: ours, if it is certain that ours has begun.
    pub(super) async fn only_new(&self) -> Option<Id> {
        let mut new = Vec::new();
        for status in [Some("running"), None] {
            let query = [("workflowId", self.workflow.as_str()), ("limit", "2")];
            let query: Vec<_> = query
                .into_iter()
                .chain(status.map(|status| ("status", status)))
                .collect();
            #[derive(Deserialize)]
            struct Page {
                data: Vec<Row>,
            }
            let page: Page = self.api.get(&["executions"], &query).await.ok()?;
            new.extend(page.data.into_iter().filter(|row| row.is_after(self.after)));
        }
        new.dedup_by(|a, b| a.id == b.id);
        match <[Row; 1]>::try_from(new) {
            Ok([row]) if self.after.is_some() => Some(row.id),
            _ => None,
        }
    }

    async fn find_in(&self, listing: Listing) -> Result<Option<Execution>, Failure> {
        let tries = if self.after.is_some() {
            TRIES
        } else {
            BLIND_TRIES
        };
        for (limit, pages) in tries {
            match self.walk(listing, limit, pages).await {
                Err(Failure::TooLarge(_)) => {}
                found => return found,
            }
        }
        Ok(None)
    }

    async fn walk(
        &self,
        listing: Listing,
        limit: u32,
        pages: usize,
    ) -> Result<Option<Execution>, Failure> {
        let mut cursor = None;
        for _ in 0..pages {
            let page = self
                .api
                .executions(self.workflow, listing, limit, cursor.as_deref())
                .await?;
            if let Some(row) = ours(&page.data, self.request_id) {
                return serde_json::from_str(row.get())
                    .map(Some)
                    .map_err(Failure::Unreadable);
            }
            let all_new = page.data.iter().all(|row| {
                let row = serde_json::from_str::<Row>(row.get());
                row.is_ok_and(|row| row.is_after(self.after))
            });
            cursor = match page.next_cursor {
                Some(next) if all_new => Some(next),
                _ => break,
            };
        }
        Ok(None)
    }
}

impl Row {
    pub(super) fn number(&self) -> Option<u64> {
        self.id.as_str().parse().ok()
    }

    fn is_after(&self, after: Option<u64>) -> bool {
        match (self.number(), after) {
            (Some(number), Some(after)) => number > after,
            _ => true,
        }
    }
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
