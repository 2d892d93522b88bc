//! Tools that read and write files of containers.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io::{self, Read};
use std::time::SystemTime;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use tokio::runtime::Handle;
use tokio::time::{Instant, timeout_at};
use upstream::redact::HIDDEN;

use super::prelude::*;
use crate::engine::{ByteStream, within};

/// Bytes of the file without `max_bytes`, and of one that is no text.
const DEFAULT_BYTES: u32 = 7_000;
const DEFAULT_BINARY_BYTES: usize = 5_000;
/// Bytes of its text in an answer without `max_bytes`.
const MAX_TEXT: usize = 15_000;
const MAX_ENTRIES: usize = 100;
/// Bytes of an archive: that of a directory contains all of its files.
const MAX_ARCHIVE_BYTES: usize = 256 << 20;
const MORE_ENTRIES: &str = "There are more entries, which are not listed. Give the path of one to read it, or list them \
    by execute_command.";

/// Read a file of a container, or list a directory, also if it is stopped.
#[derive(Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct CopyFromContainer {
    /// Name or id.
    container: ContainerName,
    /// Give an absolute path.
    path: String,
    /// Reads so many bytes from the beginning; default 7000.
    max_bytes: Option<Bounded<1, 1_000_000>>,
}

#[skip_serializing_none]
#[derive(Debug, Default, Serialize, JsonSchema)]
pub(super) struct File {
    container: String,
    path: String,
    /// `file`, `directory`, `link`, `fifo` or `device`.
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
    note: Option<&'static str>,
    /// Values hidden as `***`.
    redacted: Option<u32>,
    /// The text lacks control or invisible characters of the file: do not write it back.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    cleaned: bool,
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
        let id = &details.id;
        let redactor = docker.redactor_of(&details);
        let real = resolve(docker, id, &self.path).await.unwrap_or_default();
        let archive = match Archive::open(docker, id, &self.path).await {
            Ok(archive) => archive,
            Err(failure) => {
                permit_read(docker, &details, &real).await?;
                return Err(explain(docker, failure, &self.container, &self.path).await);
            }
        };
        let (asked, probe) = (self.clone(), redactor.clone());
        let read = archive.read(move |archive| asked.read(archive, limit, &probe));
        let mut file = read.await?;
        if file.link_to.is_none() {
            permit_read(docker, &details, &real).await?;
        }
        details.display_name().clone_into(&mut file.container);
        for name in file.entries.iter_mut().flatten().chain(&mut file.link_to) {
            *name = redactor.text(name);
        }
        let is_content = file.text.is_some() || file.base64.is_some();
        if is_content && self.is_secret(&details, &redactor, real) {
            file.base64 = None;
            file.text = Some(HIDDEN.to_owned());
            file.redacted = Some(1);
            return Ok(file);
        }
        if let Some(text) = &mut file.text {
            let (shown, cleaned) = shown(text, &redactor);
            (*text, file.cleaned) = (shown, cleaned);
            file.truncated |= text.len() > limit;
            text.truncate(text.floor_char_boundary(limit));
            if self.max_bytes.is_none() {
                file.truncated |= shorten(text, MAX_TEXT);
            }
        }
        file.redacted = redactor.hidden();
        Ok(file)
    }
}

impl CopyFromContainer {
    /// True if the whole file is a secret: below the directory of secrets, or named by a variable such as
    /// `DB_PASSWORD_FILE`. Links lead to it at the path `real`.
    fn is_secret(&self, container: &ContainerDetails, redactor: &Redactor, real: String) -> bool {
        let is_secret = |name: &str| redactor.clone().named(name, "value1") == HIDDEN;
        if !is_secret("PASSWORD") {
            return false;
        }
        let env = container.config.env.iter();
        let env = env.filter_map(|assignment| assignment.split_once('='));
        let mut files = env.filter_map(|(name, file)| Some((name.strip_suffix("_FILE")?, file)));
        let paths = [normal(&self.path), real];
        let is_below = |path: &String| {
            path.starts_with("/run/secrets/") || path.starts_with("/var/run/secrets/")
        };
        paths.iter().any(is_below)
            || files.any(|(name, file)| is_secret(name) && paths.contains(&normal(file)))
    }

    /// Reads an archive as far as it is shown. What is no text and holds a secret becomes text, in which it can be
    /// hidden. Blocks.
    fn read(
        &self,
        archive: &mut tar::Archive<Archive>,
        limit: usize,
        redactor: &Redactor,
    ) -> io::Result<File> {
        let mut entries = archive.entries()?;
        let Some(mut entry) = entries.next().transpose()? else {
            return Err(io::ErrorKind::UnexpectedEof.into());
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
            file.note = file.truncated.then_some(MORE_ENTRIES);
            file.entries = Some(names);
        } else if kind.is_symlink() {
            file.kind = "link";
            let target = entry.link_name().ok().flatten();
            file.link_to = target.map(|path| path.to_string_lossy().into_owned());
        } else if kind.is_fifo() {
            file.kind = "fifo";
        } else if kind.is_character_special() || kind.is_block_special() {
            file.kind = "device";
        } else {
            let mut content = Vec::new();
            let most = (limit + SECRET_MARGIN_BYTES) as u64;
            entry.by_ref().take(most).read_to_end(&mut content)?;
            file.truncated = (content.len() as u64) < file.size_bytes;
            let text = text(&content, file.truncated).or_else(|| {
                let (text, probe) = (readable(&content), redactor.clone());
                probe.text(&text);
                probe.hidden().map(|_| text)
            });
            match text {
                Some(text) => file.text = Some(text),
                None => {
                    let most = self.max_bytes.map_or(DEFAULT_BINARY_BYTES, |_| limit);
                    content.truncate(most);
                    file.truncated = (content.len() as u64) < file.size_bytes;
                    file.base64 = Some(STANDARD.encode(&content));
                }
            }
        }
        Ok(file)
    }
}

/// The text of a file as it is shown, and whether it lacks characters of the file. Without a secret it has the line ends
/// and the byte order mark of the file, so that it can be written back.
fn shown(text: &str, redactor: &Redactor) -> (String, bool) {
    let shown = redactor.text(text);
    let marked = text.strip_prefix('\u{feff}').unwrap_or(text);
    match shown == marked.replace("\r\n", "\n") {
        true => (text.to_owned(), false),
        false => (shown, redactor.hidden().is_none()),
    }
}

/// The names directly in a directory, and whether there are more. Its archive also contains everything
/// below it.
fn list(entries: tar::Entries<'_, Archive>) -> (Vec<String>, bool) {
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

/// The text of a content that is not UTF-8: UTF-16, or else with a mark in the place of each wrong byte.
fn readable(content: &[u8]) -> String {
    let pairs = |unit: fn([u8; 2]) -> u16| {
        let (pairs, _) = content.as_chunks::<2>();
        let units: Vec<u16> = pairs.iter().map(|pair| unit(*pair)).collect();
        String::from_utf16_lossy(&units)
    };
    match content {
        [0xff, 0xfe, ..] => pairs(u16::from_le_bytes),
        [0xfe, 0xff, ..] => pairs(u16::from_be_bytes),
        _ => String::from_utf8_lossy(content).into_owned(),
    }
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
fn check_path(path: &str) -> Result<(), ToolError> {
    if !path.starts_with('/') || path.contains('\0') {
        return Err(ToolError::invalid_argument(
            "path must be absolute, such as `/etc/hosts`.",
        ));
    }
    Ok(())
}

/// The archive of what is at a path, which is read as it arrives.
struct Archive {
    reply: ByteStream,
    /// The part that has arrived and was not read yet.
    chunk: Bytes,
    /// Bytes that may still arrive, and the time until which they do.
    room: usize,
    deadline: Instant,
    runtime: Handle,
}

impl Archive {
    /// Errors when the engine does not send one.
    async fn open(docker: &Docker, id: &ContainerName, path: &str) -> Result<Self, EngineError> {
        let (limit, mut reply) = (docker.engine.timeout(), docker.engine.download(id, path));
        let chunk = within(limit, async { reply.next().await.transpose() }).await?;
        Ok(Self {
            reply,
            chunk: chunk.unwrap_or_default(),
            room: MAX_ARCHIVE_BYTES,
            deadline: Instant::now() + limit,
            runtime: Handle::current(),
        })
    }

    /// The result of `work`, which may block.
    async fn read<T: Send + 'static>(
        self,
        work: impl FnOnce(&mut tar::Archive<Self>) -> io::Result<T> + Send + 'static,
    ) -> Result<T, ToolError> {
        let read = tokio::task::spawn_blocking(move || work(&mut tar::Archive::new(self)));
        let read = read.await.map_err(io::Error::from).flatten();
        read.map_err(|error| ToolError::upstream("The archive cannot be read.").caused_by(error))
    }
}

impl Read for Archive {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.chunk.is_empty() {
            let next = async { timeout_at(self.deadline, self.reply.next()).await };
            let Some(chunk) = self.runtime.block_on(next)? else {
                return Ok(0);
            };
            self.chunk = chunk.map_err(io::Error::other)?;
            let room = self.room.checked_sub(self.chunk.len());
            self.room = room.ok_or(io::ErrorKind::FileTooLarge)?;
        }
        let length = self.chunk.len().min(buffer.len());
        buffer[..length].copy_from_slice(&self.chunk.split_to(length));
        Ok(length)
    }
}

/// The tool error of reading or writing `path`, without the engine's message, which contains paths of
/// the host.
async fn explain(
    docker: &Docker,
    failure: EngineError,
    container: &ContainerName,
    path: &str,
) -> ToolError {
    if let EngineError::Refused { status, message } = &failure {
        let has = |text: &str| message.contains(text);
        if *status == 404 && !failure.is_no_such_container() {
            return ToolError::not_found(format!(
                "There is no {path:?} in `{container}`; copy_from_container of a directory lists it."
            ));
        }
        if has("not a directory") || has("too many links") {
            let text = format!("{path:?} leads through a file, or through too many links.");
            return ToolError::not_found(text);
        }
        if has("read-only") {
            let text = format!("{path:?} is on a file system of `{container}` that is read-only.");
            return ToolError::conflict(text);
        }
    }
    let action = Action::reading(ObjectKind::Container, container.as_str());
    docker.explain(failure, action).await
}

const DEFAULT_MODE: u32 = 0o644;
/// Bytes of a file that tell it from a changed one, beside its size, its time and its mode.
const MAX_COMPARED_BYTES: u64 = 1 << 20;
const UPLOAD_CHECK: &str = "The file may be as before, new, or cut off, with its old content lost: compare its \
    size_bytes and its text by copy_from_container, and write it again if it is not whole.";
/// File systems in memory that every container has.
const IN_MEMORY: [&str; 3] = ["/dev", "/proc", "/sys"];
/// Files that the engine mounts into every container.
const MADE: [&str; 3] = ["/etc/hostname", "/etc/hosts", "/etc/resolv.conf"];

/// Write a file into a container; its directory must exist.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct CopyToContainer {
    /// Name or id.
    container: ContainerName,
    /// Give an absolute path with the file's name.
    path: String,
    /// Writes this text; or use `base64`.
    text: Option<String>,
    /// Writes content that is no text.
    base64: Option<String>,
    /// Sets permissions, octal digits such as 755; default: as before, or 644.
    mode: Option<Bounded<0, 7777>>,
    /// Pass the refusal's value once the user agrees.
    confirm: Option<String>,
}

#[derive(Serialize, JsonSchema)]
pub(super) struct Written {
    container: String,
    path: String,
    bytes: usize,
    /// There was a file before.
    overwritten: bool,
}

impl Tool for CopyToContainer {
    const NAME: &'static str = "copy_to_container";
    // A new file overwrites nothing.
    const EFFECT: Effect = Effect::PartlyDestructive;
    type Service = Docker;
    type Output = Written;

    async fn call(self, docker: &Docker, call: &Call) -> Result<Written, ToolError> {
        check_path(&self.path)?;
        if let Some("" | "." | "..") = self.path.rsplit('/').next() {
            return Err(ToolError::invalid_argument(
                "path must end with the name of the file, such as `/tmp/notes.txt`.",
            ));
        }
        let content = self.content()?;
        let text = std::str::from_utf8(&content).ok();
        refuse_hidden(docker, text.map(|text| ("text", text)))?;
        let details = docker.writable_container(&self.container).await?;
        let id = &details.id;
        let container = details.display_name();
        // Links of the container may lead to another place.
        let path = match resolve(docker, id, &self.path).await {
            Ok(path) => path,
            Err(failure) => {
                // That reply had no text.
                let told = Archive::open(docker, id, &self.path).await.err();
                let failure = told.unwrap_or(failure);
                return Err(explain(docker, failure, &self.container, &self.path).await);
            }
        };
        permit_place(docker, &details, &path).await?;
        let look = async || match Archive::open(docker, id, &path).await {
            Ok(archive) => archive.read(first_entry).await.map(Some),
            Err(EngineError::Refused { status: 404, .. }) => Ok(None),
            Err(failure) => Err(explain(docker, failure, &self.container, &path).await),
        };
        let before = look().await?;
        if let Some((before, state)) = &before {
            let kind = before.entry_type();
            if !kind.is_file() {
                let text = match kind.is_dir() {
                    true => "is a directory: add the file's name.",
                    false => "is no file with content, and would be replaced by one.",
                };
                return Err(ToolError::conflict(format!(
                    "{path:?} in `{container}` {text}"
                )));
            }
            let loss =
                format!("Overwrites {path:?} in `{container}`: its present content is lost.");
            let mode = self.mode.map(|mode| mode.get().to_string());
            let new = [&self.text, &self.base64, &mode].map(Option::as_deref);
            let [text, base64, mode] = new.map(Option::unwrap_or_default);
            let facts = [&**state, text, base64, mode];
            let about = (&[Object::container(id)][..], &facts[..]);
            docker
                .confirm_all(call, &loss, &self.path, about, &self.confirm)
                .await?;
            // The user may have taken minutes.
            docker.writable_container(id).await?;
            if !matches!(look().await?, Some((_, now)) if now == *state) {
                return Err(ToolError::conflict(format!(
                    "{path:?} in `{container}` was changed meanwhile. Nothing was done: call again."
                )));
            }
        }
        let before = before.map(|(header, _)| header);
        let (directory, name) = path.rsplit_once('/').unwrap_or_default();
        let directory = if directory.is_empty() { "/" } else { directory };
        let archive = self.tar(name, &content, before.as_ref())?;
        // A file must not replace a directory.
        let upload = Path::container(id, "/archive").query("path", directory);
        let upload = upload.query("noOverwriteDirNonDir", true);
        match docker.engine.try_put(upload, archive).await {
            Ok(()) => Ok(Written {
                container: container.to_owned(),
                path: self.path,
                bytes: content.len(),
                overwritten: before.is_some(),
            }),
            Err(failure @ EngineError::Unconfirmed(_)) => {
                let action = Action::on_container("write a file in", self.container.as_str());
                let action = action.with_check(UPLOAD_CHECK);
                Err(docker.explain(failure, action).await)
            }
            Err(failure) => Err(explain(docker, failure, &self.container, directory).await),
        }
    }
}

impl CopyToContainer {
    fn content(&self) -> Result<Vec<u8>, ToolError> {
        match (&self.text, &self.base64) {
            (Some(text), None) => Ok(text.clone().into_bytes()),
            (None, Some(base64)) => STANDARD
                .decode(base64)
                .map_err(|_| ToolError::invalid_argument("base64 is not valid base64.")),
            _ => Err(ToolError::invalid_argument("Give either text or base64.")),
        }
    }

    /// An archive of the file, which keeps the owner and, by default, the permissions of the one `before`.
    fn tar(
        &self,
        name: &str,
        content: &[u8],
        before: Option<&tar::Header>,
    ) -> Result<Vec<u8>, ToolError> {
        let mut header = tar::Header::new_gnu();
        header.set_size(content.len() as u64);
        let kept = before.map(|before| (before.mode(), before.uid(), before.gid()));
        let (mut mode, mut owner) = (DEFAULT_MODE, (0, 0));
        if let Some((Ok(old), Ok(uid), Ok(gid))) = kept {
            (mode, owner) = (old & 0o7777, (uid, gid));
        }
        if let Some(given) = self.mode {
            mode = u32::from_str_radix(&given.get().to_string(), 8)
                .map_err(|_| ToolError::invalid_argument("mode must be octal, such as 644."))?;
        }
        header.set_mode(mode);
        header.set_uid(owner.0);
        header.set_gid(owner.1);
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        header.set_mtime(now.unwrap_or_default().as_secs());
        let mut archive = tar::Builder::new(Vec::new());
        let written = archive.append_data(&mut header, name, content);
        let written = written.and_then(|()| archive.into_inner());
        written.map_err(|error| {
            ToolError::invalid_argument("This path cannot be written.").caused_by(error)
        })
    }
}

/// The path where a file is written to this one, without the links of the container.
async fn resolve(docker: &Docker, id: &ContainerName, path: &str) -> Result<String, EngineError> {
    let path = normal(path);
    let mut real = String::new();
    for part in path.split('/').skip(1) {
        real = format!("{}/{part}", real.trim_end_matches('/'));
        if let Some(target) = docker.engine.link_target(id, &real).await? {
            let parent = real.rsplit_once('/').map_or("", |(parent, _)| parent);
            real = match target.starts_with('/') {
                true => normal(&target),
                false => normal(&format!("{parent}/{target}")),
            };
        }
    }
    Ok(real)
}

/// The header of the first entry, and a text that is another one once the entry has changed: its header and the beginning
/// of its content decide. Blocks.
fn first_entry(archive: &mut tar::Archive<Archive>) -> io::Result<(tar::Header, String)> {
    let Some(entry) = archive.entries()?.next().transpose()? else {
        return Err(io::ErrorKind::UnexpectedEof.into());
    };
    let header = entry.header().clone();
    let mut content = Vec::new();
    entry.take(MAX_COMPARED_BYTES).read_to_end(&mut content)?;
    let mut state = DefaultHasher::new();
    (header.as_bytes(), content).hash(&mut state);
    Ok((header, format!("{:x}", state.finish())))
}

/// The mount or the file system in memory of a container that holds what is at `path`, and whether it is in memory. Looks
/// at `all` mounts, or only at those in memory.
async fn place(
    docker: &Docker,
    container: &ContainerDetails,
    path: &str,
    all: bool,
) -> Result<Option<(String, bool)>, ToolError> {
    let is_at = |place: &str| {
        let rest = path.strip_prefix(place.trim_end_matches('/'));
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    let mounts = container.mounts.iter();
    let mounts = mounts.map(|mount| (&*mount.destination, mount.kind == "tmpfs"));
    let tmpfs = container.host_config.tmpfs.keys();
    let tmpfs = tmpfs.map(|place| (place.as_str(), true));
    let mut places: Vec<_> = IN_MEMORY.map(|place| (place.to_owned(), true)).into();
    places.extend(MADE.map(|place| (place.to_owned(), false)));
    for (place, in_memory) in mounts
        .chain(tmpfs)
        .filter(|(_, in_memory)| all || *in_memory)
    {
        // Links of the container may lead to another place, as in `/var/run`, and the engine follows them.
        match resolve(docker, &container.id, place).await {
            Ok(place) => places.push((place, in_memory)),
            Err(failure) => return Err(docker.engine.explain(failure)),
        }
    }
    let nearest = places.into_iter().filter(|(place, _)| is_at(place));
    Ok(nearest.max_by_key(|(place, _)| place.len()))
}

/// Errors when the file would not be seen in the container, since the engine writes below a file system in memory, or
/// would take the place of a mount.
async fn permit_place(
    docker: &Docker,
    container: &ContainerDetails,
    path: &str,
) -> Result<(), ToolError> {
    let name = container.display_name();
    match place(docker, container, path, true).await? {
        Some((place, _)) if place == path => Err(ToolError::conflict(format!(
            "`{place}` is a mount of `{name}`, which the engine does not replace: add the file's name if it is a \
             directory, or write to the file by execute_command."
        ))),
        Some((place, true)) => Err(ToolError::conflict(format!(
            "`{place}` of `{name}` is in memory: the engine would write below it, where the container does not \
             see the file. Choose another directory, or write it by execute_command."
        ))),
        _ => Ok(()),
    }
}

/// Errors when the container has something else at `path` than the engine, which reads below a file system in memory.
async fn permit_read(
    docker: &Docker,
    container: &ContainerDetails,
    path: &str,
) -> Result<(), ToolError> {
    // Podman reads it in the running container.
    if container.host_config.runtime == "oci" {
        return Ok(());
    }
    // Most files are not in memory, and then the other mounts need no look.
    if let Some((_, true)) = place(docker, container, path, false).await?
        && let Some((place, true)) = place(docker, container, path, true).await?
    {
        let start = match container.state.runs() {
            true => "",
            false => "start it, and ",
        };
        return Err(ToolError::conflict(format!(
            "`{place}` of `{}` is in memory, where the engine does not see its files: {start}read them by \
             execute_command.",
            container.display_name()
        )));
    }
    Ok(())
}

/// The path without `.`, `..` and repeated slashes.
fn normal(path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => _ = parts.pop(),
            part => parts.push(part),
        }
    }
    format!("/{}", parts.join("/"))
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
