//! Full-text search over tools, ranked by BM25.
//!
//! Uses FTS5 of SQLite, which is linked for the event log anyway; the crates for full-text search have
//! unmaintained dependencies.

use mcp_core::tool::ToolDefinition;
use parking_lot::Mutex;
use rusqlite::{Connection, params};

use crate::database::StoreError;

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
    /// count. Blocks.
    pub fn search(&self, query: &str) -> Result<Vec<usize>, StoreError> {
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
        let mut search = connection.prepare_cached(SEARCH)?;
        let found = search.query_map([words.join(" OR ")], |row| row.get::<_, i64>(0))?;
        found
            .map(|at| Ok(usize::try_from(at?).unwrap_or(usize::MAX)))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tool((name, description): (&str, &str)) -> ToolDefinition {
        let json = format!(
            r#"{{"name":"{name}","description":"{description}","inputSchema":{{"type":"object"}}}}"#
        );
        let json = serde_json::value::RawValue::from_string(json).unwrap();
        ToolDefinition::from_backend(name.to_owned(), name.to_owned(), &json).unwrap()
    }

    #[test]
    fn best_match_comes_first() {
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
        let search = |query: &str| index.search(query).unwrap();
        assert_eq!(search("list containers")[0], 1);
        assert_eq!(search("web search"), [3]);
        assert_eq!(search("imag"), [2], "the start of a word");
        assert_eq!(search("CONTAINER").len(), 3);
        assert_eq!(search("docker").len(), 3, "a backend");
        for nothing in ["", "\" or * --", "rowid", "nonsense"] {
            assert!(search(nothing).is_empty(), "{nothing}");
        }
    }

    #[test]
    fn words_after_the_first_ones_do_not_count() {
        let tools = ["first", "last"].map(|name| tool((name, "")));
        let index = ToolIndex::new(tools.iter()).unwrap();
        let long = format!("first {} last", "a ".repeat(MAX_WORDS));
        let found = index.search(&long).unwrap();
        assert_eq!(found, [0]);
    }
}
