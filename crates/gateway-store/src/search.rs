//! Full-text search over tools, ranked by BM25.
//!
//! Uses FTS5 of SQLite, which is linked for the event log anyway; the crates for full-text search have
//! unmaintained dependencies.

use std::sync::Arc;

use mcp_core::tool::ToolDefinition;
use parking_lot::Mutex;
use rusqlite::{Connection, InterruptHandle, params};

use crate::events::StoreError;

/// Stems English words, so that `containers` finds `container`.
const TABLE: &str =
    "create virtual table tools using fts5(name, description, tokenize = 'porter unicode61')";

/// A word in the name counts four times as much as one in the description; equal matches stay in the
/// order of the names.
const SEARCH: &str =
    "select rowid from tools where tools match ?1 order by bm25(tools, 4.0, 1.0), rowid";

/// Words of a query that are looked for; the work grows with their number.
const MAX_WORDS: usize = 32;

/// An index of tools, in memory.
pub struct ToolIndex(Mutex<Connection>);

/// Stops one search: before it begins, or while it runs.
#[derive(Clone, Default)]
pub struct SearchStop(Arc<Mutex<StopState>>);

#[derive(Default)]
struct StopState {
    is_stopped: bool,
    /// That of the search while it runs.
    running: Option<InterruptHandle>,
}

/// Stops a search when it is dropped.
pub struct StopOnDrop(SearchStop);

impl SearchStop {
    /// Returns what stops the search when it is dropped.
    pub fn stop_when_dropped(self) -> StopOnDrop {
        StopOnDrop(self)
    }

    /// Notes that the search runs with this handle. Returns false if it has been stopped.
    fn begin(&self, handle: InterruptHandle) -> bool {
        let mut state = self.0.lock();
        state.running = Some(handle);
        !state.is_stopped
    }

    /// Notes that the search has ended: another one may use its connection.
    fn end(&self) {
        self.0.lock().running = None;
    }
}

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        let SearchStop(state) = &self.0;
        let mut state = state.lock();
        state.is_stopped = true;
        if let Some(running) = &state.running {
            running.interrupt();
        }
    }
}

impl ToolIndex {
    /// Indexes the names and descriptions of `tools`.
    pub fn new<'a>(tools: impl Iterator<Item = &'a ToolDefinition>) -> Result<Self, StoreError> {
        let mut connection = Connection::open_in_memory()?;
        let add = connection.transaction()?;
        add.execute_batch(TABLE)?;
        {
            let insert = "insert into tools (rowid, name, description) values (?1, ?2, ?3)";
            let mut insert = add.prepare(insert)?;
            for (at, tool) in tools.enumerate() {
                insert.execute(params![at as i64, tool.name, tool.description])?;
            }
        }
        add.commit()?;
        Ok(Self(Mutex::new(connection)))
    }

    /// Returns the positions of the tools that have a word of `query`, or a word that starts with
    /// one; the best match first. A position counts the tools in the order of [`Self::new`]. Only the first 32 words
    /// count. A search that is stopped finds nothing. Blocks.
    pub fn search(&self, query: &str, stop: &SearchStop) -> Result<Vec<usize>, StoreError> {
        let words = query.split(|letter: char| !letter.is_alphanumeric());
        let words: Vec<String> = words
            .filter(|word| !word.is_empty())
            .take(MAX_WORDS)
            .map(|word| format!("\"{word}\"*"))
            .collect();
        if words.is_empty() {
            return Ok(Vec::new());
        }
        let connection = self.0.lock();
        let found = match stop.begin(connection.get_interrupt_handle()) {
            true => positions(&connection, &words.join(" OR ")),
            false => Ok(Vec::new()),
        };
        // Before the connection is unlocked, so that no other search is interrupted.
        stop.end();
        found
    }
}

fn positions(connection: &Connection, expression: &str) -> Result<Vec<usize>, StoreError> {
    let mut search = connection.prepare_cached(SEARCH)?;
    let found = search.query_map([expression], |row| row.get::<_, i64>(0))?;
    found
        .map(|at| Ok(usize::try_from(at?).unwrap_or(usize::MAX)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn best_match_comes_first() {
        let tool = |(name, description): (&str, &str)| {
            let json = format!(
                r#"{{"name":"{name}","description":"{description}","inputSchema":{{"type":"object"}}}}"#
            );
            let json = serde_json::value::RawValue::from_string(json).unwrap();
            ToolDefinition::from_backend(name.to_owned(), name.to_owned(), &json).unwrap()
        };
        let tools = [
            ("docker__get_container", "One container, with its state."),
            ("docker__list_containers", "Containers, running ones first."),
            (
                "docker__list_images",
                "Images, and the containers that use them.",
            ),
            ("web__search", "Finds pages."),
        ]
        .map(tool);
        let index = ToolIndex::new(tools.iter()).unwrap();
        let search = |query: &str| index.search(query, &SearchStop::default()).unwrap();
        assert_eq!(search("list containers")[0], 1);
        assert_eq!(search("web search"), [3]);
        assert_eq!(search("imag"), [2], "the start of a word");
        assert_eq!(search("CONTAINER").len(), 3);
        assert_eq!(search("docker").len(), 3, "a backend");
        for nothing in ["", "\" or * --", "rowid", "nonsense"] {
            assert!(search(nothing).is_empty(), "{nothing}");
        }
    }

    fn tool(name: &str) -> ToolDefinition {
        let json = format!(r#"{{"name":"{name}","inputSchema":{{"type":"object"}}}}"#);
        let json = serde_json::value::RawValue::from_string(json).unwrap();
        ToolDefinition::from_backend(name.to_owned(), name.to_owned(), &json).unwrap()
    }

    #[test]
    fn words_after_the_first_ones_do_not_count() {
        let tools = ["first", "last"].map(tool);
        let index = ToolIndex::new(tools.iter()).unwrap();
        let long = format!("first {} last", "a ".repeat(MAX_WORDS));
        let found = index.search(&long, &SearchStop::default()).unwrap();
        assert_eq!(found, [0]);
    }

    /// A search that is dropped ends while it runs, or does not begin; the next one is not disturbed.
    #[test]
    fn stopped_search_ends() {
        let tools: Vec<ToolDefinition> = (0..200).map(|n| tool(&format!("tool_{n}"))).collect();
        let index = ToolIndex::new(tools.iter()).unwrap();
        let stop = SearchStop::default();
        drop(stop.clone().stop_when_dropped());
        assert!(index.search("tool", &stop).unwrap().is_empty());
        let running = SearchStop::default();
        let endless = "with recursive n(x) as (select 1 union all select x + 1 from n) select count(*) from n";
        let ended = std::thread::scope(|scope| {
            let query = scope.spawn(|| {
                let connection = index.0.lock();
                running.begin(connection.get_interrupt_handle());
                let ended = connection.query_row(endless, [], |row| row.get::<_, i64>(0));
                running.end();
                ended
            });
            while !query.is_finished() {
                drop(running.clone().stop_when_dropped());
                std::thread::yield_now();
            }
            query.join().unwrap()
        });
        assert!(ended.is_err(), "{ended:?}");
        let found = index.search("tool", &SearchStop::default()).unwrap();
        assert_eq!(found.len(), tools.len());
    }
}
