//! Finds a file among the output of a node.

use std::collections::{BTreeMap, HashMap};

use serde::Deserialize;

use super::data::ResultData;

#[derive(Deserialize)]
struct FileRun {
    /// By kind of connection, then by output.
    data: Option<HashMap<String, Vec<Option<Vec<FileItem>>>>>,
}

#[derive(Deserialize)]
struct FileItem {
    binary: Option<BTreeMap<String, StoredFile>>,
}

/// A file that a node put out.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StoredFile {
    /// Its name, if it has one.
    pub file_name: Option<String>,
    /// Its media type, if that is known.
    pub mime_type: Option<String>,
    /// Its bytes in base64; the name of the store if the execution does not hold them.
    #[serde(default)]
    pub data: String,
    /// Its id in that store.
    pub id: Option<String>,
}

impl ResultData {
    /// The file in this `property` of an item of the last run of `node`; by default of the last node, and
    /// the only property.
    ///
    /// # Errors
    /// When there is none, and what there is.
    pub fn file(
        &self,
        node: Option<&str>,
        item: usize,
        property: Option<&str>,
    ) -> Result<StoredFile, String> {
        let node = node
            .or(self.last_node_executed.as_deref())
            .unwrap_or_default();
        let runs = self.run_data.get(node).ok_or_else(|| {
            let mut names: Vec<_> = self.run_data.keys().map(String::as_str).collect();
            names.sort_unstable();
            format!(
                "`node` {node:?} has no output in this execution. Nodes that have: {}.",
                names.join(", ")
            )
        })?;
        let runs: Vec<FileRun> = serde_json::from_str(runs.get()).unwrap_or_default();
        let outputs = runs.into_iter().next_back().and_then(|run| run.data);
        let items = outputs.into_iter().flat_map(HashMap::into_values);
        let items: Vec<FileItem> = items.flatten().flatten().flatten().collect();
        let count = items.len();
        let Some(found) = items.into_iter().nth(item) else {
            return Err(format!(
                "`item` {item} does not exist: the last run of {node:?} put out {count} items, counted \
                 from 0."
            ));
        };
        let mut files = found.binary.unwrap_or_default();
        let names: Vec<String> = files.keys().cloned().collect();
        let property = match (property, names.as_slice()) {
            (Some(name), _) => name,
            (None, [only]) => only,
            (None, _) => "",
        };
        files
            .remove(property)
            .ok_or_else(|| match names.as_slice() {
                [] => format!("Item {item} of {node:?} has no file."),
                _ => format!("`property` is one of: {}.", names.join(", ")),
            })
    }
}
