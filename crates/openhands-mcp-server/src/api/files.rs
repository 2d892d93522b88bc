//! Files on the agent server's side, which may be another machine.

use std::time::Duration;

use reqwest::multipart::{Form, Part};
use serde::Deserialize;
use serde::de::IgnoredAny;

use super::failure::Failure;
use super::http::AgentServer;

/// A file has at most the size of a request to us, 4 MiB.
const UPLOAD_TIMEOUT: Duration = Duration::from_secs(10);

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

    /// Writes a file; `path` is absolute and its directories are made.
    pub(crate) async fn upload(&self, path: &str, content: String) -> Result<(), Failure> {
        // The name is required and ignored: `path` decides.
        let form = Form::new().part("file", Part::text(content).file_name("file"));
        let request = self.post(&["api", "file", "upload"], &[("path", path)]);
        let request = request.body(|request| request.multipart(form));
        request
            .within(UPLOAD_TIMEOUT)
            .send::<IgnoredAny>()
            .await
            .map(drop)
    }
}
