//! `copy_from_container`.

use std::io::Read as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::prelude::*;
use crate::engine::{EngineError, within};

/// Bytes of the file without `max_bytes`, and of one that is no text.
const DEFAULT_BYTES: u32 = 7_000;
const DEFAULT_BINARY_BYTES: usize = 5_000;
/// Bytes of its text in an answer without `max_bytes`.
const MAX_TEXT: usize = 15_000;
/// Entries of a directory that are listed.
const MAX_ENTRIES: usize = 100;
/// Bytes of the archive in addition to the file itself: its headers, and those of other entries.
const MAX_ARCHIVE_OVERHEAD: usize = 256 << 10;
/// Bytes of the archive of a directory, which contains all of its files.
const MAX_DIRECTORY_BYTES: usize = 16 << 20;

/// Read a file of a container, or list a directory, also if it is stopped.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct CopyFromContainer {
    /// Name or id.
    container: ContainerName,
    /// Absolute.
    path: String,
    /// Bytes to read, from the beginning (default 7000).
    max_bytes: Option<Bounded<1, 1_000_000>>,
}

#[skip_serializing_none]
#[derive(Debug, Default, Serialize, JsonSchema)]
pub(super) struct File {
    container: String,
    path: String,
    /// `file`, `directory` or `link`.
    kind: &'static str,
    size_bytes: u64,
    /// Octal.
    mode: String,
    text: Option<String>,
    /// If it is no text.
    base64: Option<String>,
    /// Of a directory; its directories end in `/`.
    entries: Option<Vec<String>>,
    link_to: Option<String>,
    /// There is more than was read.
    truncated: bool,
    /// Values hidden as `***`.
    redacted: Option<u32>,
}

impl Tool for CopyFromContainer {
    const NAME: &'static str = "copy_from_container";
    const EFFECT: Effect = Effect::ReadOnly;
    const BOUNDS_ITS_RESULT: bool = true;
    type Service = Docker;
    type Output = File;

    async fn call(self, docker: &Docker, _: &Call) -> Result<File, ToolError> {
        check_path(&self.path)?;
        let details = docker.readable_container(&self.container).await?;
        let limit = self.max_bytes.map_or(DEFAULT_BYTES, Bounded::get) as usize;
        let id = details.container_id()?;
        let mut file = File::default();
        // Only the archive shows whether it is a directory, whose archive is long.
        for most in [limit + MAX_ARCHIVE_OVERHEAD, MAX_DIRECTORY_BYTES] {
            let bytes = match archive(docker, &id, &self.path, most).await {
                Ok(bytes) => bytes,
                Err(failure) => {
                    return Err(explain(docker, failure, &self.container, &self.path).await);
                }
            };
            file = self.read(&bytes, limit)?;
            if file.kind != "directory" || !file.truncated {
                break;
            }
        }
        details.display_name().clone_into(&mut file.container);
        let redactor = docker.redactor_of(&details);
        file.text = file.text.map(|text| redactor.text(&text));
        if let (Some(text), None) = (&mut file.text, self.max_bytes) {
            file.truncated |= shorten(text, MAX_TEXT);
        }
        file.redacted = redactor.hidden();
        Ok(file)
    }
}

impl CopyFromContainer {
    /// Reads the beginning of an archive, which may be truncated.
    fn read(&self, bytes: &[u8], limit: usize) -> Result<File, ToolError> {
        let unreadable = |error: std::io::Error| {
            ToolError::upstream("The archive cannot be read.").caused_by(error)
        };
        let mut archive = tar::Archive::new(bytes);
        let mut entries = archive.entries().map_err(unreadable)?;
        let first = entries.next().transpose().map_err(unreadable)?;
        let Some(mut entry) = first else {
            return Err(ToolError::upstream("The archive is empty."));
        };
        let mode = entry.header().mode().unwrap_or_default();
        let mut file = File {
            path: self.path.clone(),
            kind: "file",
            size_bytes: entry.size(),
            mode: format!("{:o}", mode & 0o7777),
            ..File::default()
        };
        let kind = entry.header().entry_type();
        if kind.is_dir() {
            file.kind = "directory";
            drop(entry);
            let (names, truncated) = list(entries);
            let (names, omitted) = fit(names);
            file.truncated = truncated || omitted.is_some();
            file.entries = Some(names);
        } else if kind.is_symlink() {
            file.kind = "link";
            let target = entry.link_name().ok().flatten();
            file.link_to = target.map(|path| path.to_string_lossy().into_owned());
        } else {
            let mut content = Vec::new();
            // In a truncated archive this fails after the available bytes were read.
            let _ = entry.by_ref().take(limit as u64).read_to_end(&mut content);
            file.truncated = (content.len() as u64) < file.size_bytes;
            match text(&content, file.truncated) {
                Some(text) => file.text = Some(text),
                None => {
                    if self.max_bytes.is_none() {
                        content.truncate(DEFAULT_BINARY_BYTES);
                        file.truncated = (content.len() as u64) < file.size_bytes;
                    }
                    file.base64 = Some(STANDARD.encode(&content));
                }
            }
        }
        Ok(file)
    }
}

/// The names directly in a directory, and whether there are more. Its archive also contains everything
/// below it.
fn list<'a>(
    entries: impl Iterator<Item = std::io::Result<tar::Entry<'a, &'a [u8]>>>,
) -> (Vec<String>, bool) {
    let mut names = Vec::new();
    for entry in entries {
        let Ok(entry) = entry else {
            return (names, true);
        };
        let path = String::from_utf8_lossy(&entry.path_bytes()).into_owned();
        let end = match entry.header().entry_type().is_dir() {
            true => "/",
            false => "",
        };
        match path.trim_end_matches('/').split_once('/') {
            Some((_, inside)) if !inside.contains('/') => {
                if names.len() == MAX_ENTRIES {
                    return (names, true);
                }
                names.push(format!("{inside}{end}"));
            }
            _ => {}
        }
    }
    (names, false)
}

/// `content` as text, if it is UTF-8; drops an incomplete character at the end if it was truncated.
fn text(content: &[u8], truncated: bool) -> Option<String> {
    let text = match std::str::from_utf8(content) {
        Err(error) if truncated && error.error_len().is_none() => {
            std::str::from_utf8(&content[..error.valid_up_to()]).ok()?
        }
        text => text.ok().filter(|text| !text.contains('\0'))?,
    };
    Some(text.to_owned())
}

/// Drops the end of a text that takes more than `max` bytes of an answer. Returns whether it did.
fn shorten(text: &mut String, max: usize) -> bool {
    let length = text.len();
    while weight(text) > max {
        text.truncate(text.floor_char_boundary(text.len() * 7 / 8));
    }
    text.len() < length
}

/// Errors when `path` is not a valid path in a container.
pub(super) fn check_path(path: &str) -> Result<(), ToolError> {
    if !path.starts_with('/') || path.contains('\0') {
        return Err(ToolError::invalid_argument(
            "path must be absolute, such as `/etc/hosts`.",
        ));
    }
    Ok(())
}

/// The first `limit` bytes of the archive of `path`.
pub(super) async fn archive(
    docker: &Docker,
    id: &ContainerName,
    path: &str,
    limit: usize,
) -> Result<Vec<u8>, EngineError> {
    let mut reply = docker.engine.download(id, path);
    let read = async {
        let mut bytes = Vec::new();
        while bytes.len() < limit
            && let Some(chunk) = reply.next().await
        {
            bytes.extend_from_slice(&chunk?);
        }
        bytes.truncate(limit);
        Ok(bytes)
    };
    within(docker.engine.timeout(), read).await
}

/// The tool error of reading or writing `path`, without the engine's message, which contains paths of
/// the host.
pub(super) async fn explain(
    docker: &Docker,
    failure: EngineError,
    container: &ContainerName,
    path: &str,
) -> ToolError {
    if let EngineError::Refused { status, message } = &failure {
        let has = |text: &str| message.contains(text);
        if *status == 404 && !failure.is_no_such_container() {
            return ToolError::not_found(format!("There is no {path:?} in `{container}`."));
        }
        if has("read-only") {
            let text = format!("{path:?} is on a file system of `{container}` that is read-only.");
            return conflict(text);
        }
    }
    let object = (ObjectKind::Container, container.as_str());
    docker.explain_about(failure, object, None).await
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A control character has 13 bytes in an answer.
    #[test]
    fn text_is_shortened_by_what_an_answer_takes() {
        for (text, is_shorter) in [
            ("a line of text\n".repeat(400), false),
            ("\u{1}".repeat(7_000), true),
        ] {
            let mut short = text.clone();
            assert_eq!(shorten(&mut short, MAX_TEXT), is_shorter);
            assert!(text.starts_with(&short) && short.len() > 900 && weight(&short) <= MAX_TEXT);
        }
    }

    #[test]
    fn text_and_binary_content_are_distinguished() {
        assert_eq!(text("añb".as_bytes(), false).as_deref(), Some("añb"));
        assert_eq!(text(&"añ".as_bytes()[..2], true).as_deref(), Some("a"));
        assert_eq!(text(&[1, 0xff, 2], true), None);
        assert_eq!(text(b"a\0b", false), None);
    }
}
