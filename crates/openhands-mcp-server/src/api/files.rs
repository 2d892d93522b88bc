//! Files on the agent server's side, which may be another machine.

use std::time::Duration;

use serde::Deserialize;
use upstream::http::header::{CONTENT_RANGE, RANGE};
use upstream::http::multipart::{Form, Part};

use super::agent_server::AgentServer;
use super::failure::Failure;
use super::task_id::TaskId;

/// A file has at most the size of a request to us, 4 MiB.
const UPLOAD_TIMEOUT: Duration = Duration::from_secs(10);

/// Some bytes of a file.
pub(crate) struct FilePart {
    pub(crate) bytes: Vec<u8>,
    /// Of the whole file.
    pub(crate) size: u64,
}

impl AgentServer {
    /// The home directory of the agent server, absolute.
    pub(crate) async fn home(&self) -> Result<String, Failure> {
        #[derive(Deserialize)]
        struct Answer {
            home: String,
        }
        let answer: Answer = self.get(&["api", "file", "home"], &[]).send().await?;
        Ok(answer.home)
    }

    /// At most `length` bytes of a file of the conversation's workspace, from `offset` on, and the
    /// size of the whole file; `file` is relative. The agent server follows links and refuses what
    /// is outside.
    pub(crate) async fn workspace_file(
        &self,
        id: TaskId,
        file: &str,
        offset: u64,
        length: u64,
    ) -> Result<FilePart, Failure> {
        let id = id.to_string();
        let mut path = vec!["api", "conversations", &*id, "workspace"];
        path.extend(file.split('/'));
        let range = format!("bytes={offset}-{}", offset + length - 1);
        let request = self.get(&path, &[]);
        let request = request.with(|request| request.header(RANGE, range));
        let response = match request.send_for_bytes().await {
            // An empty file has no first byte.
            Err(failure) if failure.is_beyond() => {
                return Ok(FilePart {
                    bytes: Vec::new(),
                    size: offset,
                });
            }
            answer => answer?,
        };
        // `bytes 0-9/200`; an agent server that knows no ranges sends the whole file.
        let size = response.headers.get(CONTENT_RANGE).and_then(|range| {
            let (_, size) = range.to_str().ok()?.split_once('/')?;
            size.parse().ok()
        });
        let size = size.unwrap_or(response.body.len() as u64);
        Ok(FilePart {
            bytes: response.body,
            size,
        })
    }

    /// Writes a file; `path` is absolute and its directories are made.
    pub(crate) async fn upload(&self, path: &str, content: String) -> Result<(), Failure> {
        // The name is required and ignored: `path` decides.
        let form = Form::new().part("file", Part::text(content).file_name("file"));
        let request = self.post(&["api", "file", "upload"], &[("path", path)]);
        let request = request.with(|request| request.multipart(form));
        request.within(UPLOAD_TIMEOUT).run().await
    }
}
