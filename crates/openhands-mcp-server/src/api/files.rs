//! Files on the machine of the agent server.

use std::time::Duration;

use serde::Deserialize;
use upstream::http::header::{CONTENT_RANGE, RANGE};
use upstream::http::multipart::{Form, Part};

use crate::api::agent_server::AgentServer;
use crate::api::failure::ApiResult;
use crate::api::task_id::TaskId;

/// A file is at most as large as a request to us, 4 MiB.
const UPLOAD_TIMEOUT: Duration = Duration::from_secs(10);

/// A range of bytes of a file.
pub(crate) struct FilePart {
    pub(crate) bytes: Vec<u8>,
    /// Bytes of the whole file.
    pub(crate) size: u64,
}

impl AgentServer {
    /// The home directory of the agent server, absolute.
    pub(crate) async fn home(&self) -> ApiResult<String> {
        #[derive(Deserialize)]
        struct HomeDirectory {
            home: String,
        }
        let found: HomeDirectory = self.get(&["api", "file", "home"]).send().await?;
        Ok(found.home)
    }

    /// Reads at most `length` bytes of a file in the conversation's workspace, starting at `offset`.
    /// `file` is relative. The agent server follows links and refuses files outside of the workspace.
    pub(crate) async fn workspace_file(
        &self,
        id: TaskId,
        file: &str,
        offset: u64,
        length: u64,
    ) -> ApiResult<FilePart> {
        let id = id.to_string();
        let mut path = vec!["api", "conversations", &*id, "workspace"];
        path.extend(file.split('/'));
        let range = format!("bytes={offset}-{}", offset + length - 1);
        let request = self.get(&path);
        let request = request.with(|request| request.header(RANGE, range));
        let response = match request.send_for_bytes().await {
            // An empty file has no first byte.
            Err(failure) if failure.is_range_not_satisfiable() => {
                let (bytes, size) = (Vec::new(), offset);
                return Ok(FilePart { bytes, size });
            }
            response => response?,
        };
        // `bytes 0-9/200`. An agent server without support for ranges sends the whole file.
        let size = response.headers.get(CONTENT_RANGE).and_then(|range| {
            let (_, size) = range.to_str().ok()?.split_once('/')?;
            size.parse().ok()
        });
        Ok(FilePart {
            size: size.unwrap_or(response.body.len() as u64),
            bytes: response.body,
        })
    }

    /// Writes a file. `path` is absolute; missing directories are created.
    pub(crate) async fn upload(&self, path: &str, content: Vec<u8>) -> ApiResult<()> {
        // A file name is required, but ignored: `path` decides.
        let form = Form::new().part("file", Part::bytes(content).file_name("file"));
        let request = self.post(&["api", "file", "upload"]);
        let request = request.query(&[("path", path)]);
        let request = request.with(|request| request.multipart(form));
        request.timeout(UPLOAD_TIMEOUT).run().await
    }
}
