//! Pages of lists that this server filters, since n8n knows neither its policy nor archived workflows.
//! They are filtered before they are cut, so that a page has rows as long as there are any.

use std::future::Future;

use mcp_core::tool::ToolError;

use super::collection::check_cursor;

/// Pages of n8n that one call reads.
const MAX_PAGES: usize = 8;
/// Between n8n's cursor and the number of its rows that were shown already; not in any cursor of n8n.
const SKIP_MARK: char = '~';

/// Rows for a caller, and the cursor of the next page.
pub(super) type FilteredPage<T> = (Vec<T>, Option<String>);

/// Returns at most `limit` rows. `fetch` returns a page of n8n by its cursor, with `None` for the rows
/// to leave out.
pub(super) async fn filtered_page<T, F>(
    limit: usize,
    cursor: Option<&str>,
    fetch: impl Fn(Option<String>) -> F,
) -> Result<FilteredPage<T>, ToolError>
where
    F: Future<Output = Result<FilteredPage<Option<T>>, ToolError>>,
{
    check_cursor(cursor)?;
    let (mut cursor, mut skip) = read_cursor(cursor.unwrap_or_default());
    let mut kept = Vec::new();
    for _ in 0..MAX_PAGES {
        let (rows, next) = fetch(cursor.clone()).await?;
        for (at, row) in rows.into_iter().enumerate().skip(skip) {
            if kept.len() == limit && row.is_some() {
                let cursor = cursor.unwrap_or_default();
                return Ok((kept, Some(format!("{cursor}{SKIP_MARK}{at}"))));
            }
            kept.extend(row);
        }
        (cursor, skip) = (next, 0);
        if cursor.is_none() || kept.len() == limit {
            break;
        }
    }
    Ok((kept, cursor))
}

/// n8n's cursor, and the number of rows of its page to skip.
fn read_cursor(text: &str) -> (Option<String>, usize) {
    let marked = text.rsplit_once(SKIP_MARK);
    let marked = marked.and_then(|(cursor, skip)| Some((cursor, skip.parse().ok()?)));
    let (cursor, skip) = marked.unwrap_or((text, 0));
    (
        Some(cursor.to_owned()).filter(|cursor| !cursor.is_empty()),
        skip,
    )
}

#[cfg(test)]
mod tests {
    use std::future::ready;

    use super::*;

    /// Ten pages of four rows each, of which `is_shown` are shown.
    async fn page(
        limit: usize,
        cursor: Option<&str>,
        is_shown: impl Fn(usize) -> bool,
    ) -> FilteredPage<usize> {
        let fetch = |cursor: Option<String>| {
            let page: usize = cursor.map_or(0, |cursor| cursor.parse().unwrap());
            let rows = (page * 4..page * 4 + 4).map(|row| is_shown(row).then_some(row));
            ready(Ok((
                rows.collect(),
                (page < 9).then(|| (page + 1).to_string()),
            )))
        };
        filtered_page(limit, cursor, fetch).await.unwrap()
    }

    #[tokio::test]
    async fn every_row_is_shown_once_and_pages_are_full() {
        for (step, limit) in [(1, 4), (2, 4), (3, 5), (7, 2), (1, 3)] {
            let (mut all, mut cursor) = (Vec::new(), None::<String>);
            loop {
                let (rows, next) = page(limit, cursor.as_deref(), |row| row % step == 0).await;
                let is_last = next.is_none();
                assert!(
                    is_last || rows.len() == limit.min(8 * 4),
                    "{step} {limit} {rows:?}"
                );
                all.extend(rows);
                cursor = next;
                if is_last {
                    break;
                }
            }
            let expected: Vec<_> = (0..40).filter(|row| row % step == 0).collect();
            assert_eq!(all, expected, "{step} {limit}");
        }
    }

    #[tokio::test]
    async fn pages_without_rows_are_bounded() {
        let (rows, next) = page(4, None, |row| row == 39).await;
        assert_eq!((rows, next.as_deref()), (Vec::new(), Some("8")));
        assert_eq!(page(4, Some("8"), |row| row == 39).await, (vec![39], None));
    }
}
