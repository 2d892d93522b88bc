//! The build context: the files that a build can copy, as the archive that the engine expects.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Component, Path};

use mcp_core::tool::ToolError;

use super::dockerignore::DockerIgnore;

/// The Dockerfile's name in the archive; no file of a project has this name.
pub(crate) const DOCKERFILE: &str = ".docker-mcp-server.Dockerfile";
/// Most bytes, and most files, of a directory.
const MAX_BYTES: u64 = 256 << 20;
const MAX_FILES: usize = 20_000;

/// The name of the file that keeps files out of the image.
const IGNORE_FILE: &str = ".dockerignore";

/// Packs the directory, additional files and the Dockerfile: the given one, or the directory's own.
/// Returns the archive and the text of the Dockerfile.
pub(crate) fn pack(
    directory: Option<&Path>,
    dockerfile: Option<&str>,
    files: &BTreeMap<String, String>,
) -> Result<(Vec<u8>, String), ToolError> {
    let unreadable =
        |error: io::Error| ToolError::invalid_argument("A file cannot be read.").caused_by(error);
    let mut pack = Pack {
        archive: tar::Builder::new(Vec::new()),
        ignore: None,
        bytes: 0,
        files: 0,
    };
    // A link is packed as a link: its target may be outside.
    pack.archive.follow_symlinks(false);
    let dockerfile = match (dockerfile, directory) {
        (Some(text), _) => text.to_owned(),
        (None, Some(directory)) => {
            let path = directory.join("Dockerfile");
            // A link may lead out of the directory.
            let is_file = fs::symlink_metadata(&path).is_ok_and(|found| found.is_file());
            let read = is_file.then(|| fs::read_to_string(path).ok()).flatten();
            read.ok_or_else(|| {
                ToolError::not_found("The directory has no Dockerfile: give dockerfile.")
            })?
        }
        (None, None) => String::new(),
    };
    let mut ignored = files.get(IGNORE_FILE).cloned();
    if let Some(directory) = directory {
        // If it cannot be read, the files that it excludes must not be sent.
        let path = directory.join(IGNORE_FILE);
        if fs::symlink_metadata(&path).is_ok_and(|found| !found.is_file()) {
            let text = "The .dockerignore of the directory is no file: it must not be a link.";
            return Err(ToolError::invalid_argument(text));
        }
        let ignore = match fs::read(path) {
            Ok(text) => Some(String::from_utf8_lossy(&text).into_owned()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(unreadable(error)),
        };
        pack.ignore = Some(DockerIgnore::parse(ignore.as_deref().unwrap_or_default())?);
        ignored = ignored.or(ignore);
        pack.directory(directory, "").map_err(unreadable)?;
    }
    for (name, text) in files {
        let inside = |part| matches!(part, Component::Normal(_));
        if name.is_empty() || !Path::new(name).components().all(inside) {
            return Err(ToolError::invalid_argument(
                "The names of files must be relative paths without `..`.",
            ));
        }
        pack.text(name, text).map_err(unreadable)?;
    }
    pack.text(DOCKERFILE, &dockerfile).map_err(unreadable)?;
    // The builder drops what this names after it has read it, so that `COPY .` does not copy it.
    let own = if ignored.is_none() { IGNORE_FILE } else { "" };
    let ignored = ignored.unwrap_or_default();
    let ignored = format!("{ignored}\n{DOCKERFILE}\n{own}\n");
    pack.text(IGNORE_FILE, &ignored).map_err(unreadable)?;
    if pack.bytes > MAX_BYTES || pack.files > MAX_FILES {
        return Err(ToolError::invalid_argument(format!(
            "The directory has more than {} MB or {MAX_FILES} files: leave some out with a \
             .dockerignore.",
            MAX_BYTES >> 20
        )));
    }
    let archive = pack.archive.into_inner().map_err(unreadable)?;
    Ok((archive, dockerfile))
}

struct Pack {
    archive: tar::Builder<Vec<u8>>,
    /// Does not apply to the Dockerfile, which is added separately.
    ignore: Option<DockerIgnore>,
    bytes: u64,
    files: usize,
}

impl Pack {
    fn text(&mut self, name: &str, text: &str) -> io::Result<()> {
        let mut header = tar::Header::new_gnu();
        header.set_size(text.len() as u64);
        header.set_mode(0o644);
        self.archive.append_data(&mut header, name, text.as_bytes())
    }

    /// Packs everything below `directory`, whose path in the archive is `prefix`.
    fn directory(&mut self, directory: &Path, prefix: &str) -> io::Result<()> {
        let mut entries: Vec<_> = fs::read_dir(directory)?.collect::<Result<_, _>>()?;
        // The same directory must make the same archive, or the engine's cache misses.
        entries.sort_by_key(fs::DirEntry::file_name);
        for entry in entries {
            let name = entry.file_name();
            let Some(name) = name.to_str() else { continue };
            let inside = match prefix {
                "" => name.to_owned(),
                prefix => format!("{prefix}/{name}"),
            };
            let kind = entry.file_type()?;
            if let Some(ignore) = &self.ignore
                && ignore.ignores(&inside)
            {
                if kind.is_dir() && ignore.may_include_below(&inside) {
                    self.directory(&entry.path(), &inside)?;
                }
                continue;
            }
            self.files += 1;
            if kind.is_file() {
                self.bytes += entry.metadata()?.len();
            }
            if self.bytes > MAX_BYTES || self.files > MAX_FILES {
                return Ok(());
            }
            // Sockets and devices cannot be copied.
            if kind.is_dir() {
                self.archive.append_dir(&inside, entry.path())?;
                self.directory(&entry.path(), &inside)?;
            } else if kind.is_file() || kind.is_symlink() {
                self.archive.append_path_with_name(entry.path(), &inside)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_cannot_leave_the_archive() {
        for name in ["../x", "/x", "a/../../x", ""] {
            let files = BTreeMap::from([(name.to_owned(), String::new())]);
            assert!(pack(None, Some("FROM scratch"), &files).is_err(), "{name}");
        }
        let files = BTreeMap::from([("a/b.txt".to_owned(), "x".to_owned())]);
        assert!(pack(None, Some("FROM scratch"), &files).is_ok());
    }
}
