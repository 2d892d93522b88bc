//! A server with a tool, a resource and an option of its own: `CONTRIBUTING.md` explains it.

use std::path::PathBuf;
use std::process::ExitCode;

use mcp_serve::mcp_core::resource::{Resource, ResourceContents, ResourceSet};
use mcp_serve::mcp_core::tool::{Call, Effect, Tool, ToolError, Toolset};
use mcp_serve::schemars::{self, JsonSchema};
use mcp_serve::{Product, Service, clap};
use serde::{Deserialize, Serialize};

/// The options beside those of every server.
#[derive(clap::Args)]
#[command(next_help_heading = "Memos")]
struct MemoOptions {
    /// Folder of the memos, a file each.
    #[arg(long, env = "MEMO_FOLDER", value_name = "DIR", default_value = "memos")]
    memo_folder: PathBuf,
}

/// The service that the tools use: here a folder, otherwise a client of an API.
struct Memos {
    folder: PathBuf,
}

impl Memos {
    fn file(&self, name: &str) -> Result<PathBuf, ToolError> {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '-';
        if name.is_empty() || !name.chars().all(is_plain) {
            let reason = "must be letters, digits and `-`";
            return Err(ToolError::invalid_field("name", reason));
        }
        Ok(self.folder.join(name))
    }
}

/// A server runs whether or not its service is up; `probe` says whether it would serve a call now.
impl Service for Memos {
    async fn probe(&self) -> Result<(), ToolError> {
        match self.folder.is_dir() {
            true => Ok(()),
            false => Err(ToolError::unavailable(format!(
                "{} is not a folder. Make it, or set MEMO_FOLDER.",
                self.folder.display()
            ))),
        }
    }
}

/// Write a memo, over one of the same name.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct WriteMemo {
    /// Letters, digits and `-`.
    name: String,
    /// Its whole content.
    text: String,
}

#[derive(Serialize, JsonSchema)]
struct Written {
    /// The resource with the text.
    uri: String,
}

impl Tool for WriteMemo {
    const NAME: &'static str = "write_memo";
    const EFFECT: Effect = Effect::Destructive;
    type Service = Memos;
    type Output = Written;

    async fn call(self, memos: &Memos, _: &Call) -> Result<Written, ToolError> {
        memos.probe().await?;
        let written = std::fs::write(memos.file(&self.name)?, self.text);
        written
            .map_err(|error| ToolError::upstream("The memo cannot be written.").caused_by(error))?;
        Ok(Written {
            uri: format!("memo://{}", self.name),
        })
    }
}

/// The text of a memo.
#[derive(Deserialize, JsonSchema)]
struct Memo {
    name: String,
}

impl Resource for Memo {
    const URI: &'static str = "memo://{name}";
    const NAME: &'static str = "memo";
    const MIME_TYPE: &'static str = "text/plain";
    type Service = Memos;

    async fn read(self, memos: &Memos, _: &Call) -> Result<ResourceContents, ToolError> {
        let text = std::fs::read_to_string(memos.file(&self.name)?);
        let missing = |_| ToolError::not_found(format!("There is no memo {}.", self.name));
        text.map(ResourceContents::Text).map_err(missing)
    }
}

fn main() -> ExitCode {
    let version = env!("CARGO_PKG_VERSION");
    let connect = |MemoOptions { memo_folder }| {
        Ok(Memos {
            folder: memo_folder,
        })
    };
    Product::with_service("memo-mcp-server", version, "Memos in a folder", connect)
        .instructions("Memos of the user. write_memo writes one; memo://NAME is its text.")
        .port(3459)
        .tools(|_| Toolset::new().with::<WriteMemo>())
        .resources(ResourceSet::new().with::<Memo>())
        .run()
}
