//! What a build can copy from, as the archive that the engine takes.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Component, Path};

use mcp_core::tool::ToolError;

/// The Dockerfile's name in the archive, which no file of a project has.
pub(super) const DOCKERFILE: &str = ".docker-mcp-server.Dockerfile";
/// Most bytes, and most files, of a directory.
const MAX_BYTES: u64 = 256 << 20;
const MAX_FILES: usize = 20_000;

/// Packs the directory, the files beside it and the Dockerfile: given, or the directory's own.
pub(super) fn pack(
    directory: Option<&Path>,
    dockerfile: Option<&str>,
    files: &BTreeMap<String, String>,
) -> Result<Vec<u8>, ToolError> {
    let unreadable =
        |error: io::Error| ToolError::invalid_argument("A file cannot be read.").caused_by(error);
    let mut pack = Pack {
        archive: tar::Builder::new(Vec::new()),
        ignored: Vec::new(),
        bytes: 0,
        files: 0,
    };
    // A link is packed as a link: what it points to may be outside.
    pack.archive.follow_symlinks(false);
    let own;
    let dockerfile = match (dockerfile, directory) {
        (Some(text), _) => text,
        (None, Some(directory)) => {
            let path = directory.join("Dockerfile");
            // A link may lead out of the directory.
            let is_file = fs::symlink_metadata(&path).is_ok_and(|found| found.is_file());
            let read = is_file.then(|| fs::read_to_string(path).ok()).flatten();
            own = read.ok_or_else(|| {
                ToolError::not_found("The directory has no Dockerfile: give dockerfile.")
            })?;
            &own
        }
        (None, None) => "",
    };
    if let Some(directory) = directory {
        let ignore = fs::read_to_string(directory.join(".dockerignore")).unwrap_or_default();
        pack.ignored = patterns(&ignore);
        pack.directory(directory, "").map_err(unreadable)?;
    }
    for (name, text) in files {
        let inside = |part| matches!(part, Component::Normal(_));
        if name.is_empty() || !Path::new(name).components().all(inside) {
            return Err(ToolError::invalid_argument(
                "The names of files are relative paths without `..`.",
            ));
        }
        pack.text(name, text).map_err(unreadable)?;
    }
    pack.text(DOCKERFILE, dockerfile).map_err(unreadable)?;
    if pack.bytes > MAX_BYTES || pack.files > MAX_FILES {
        return Err(ToolError::invalid_argument(format!(
            "The directory has more than {} MB or {MAX_FILES} files: leave some out with a \
             .dockerignore.",
            MAX_BYTES >> 20
        )));
    }
    pack.archive.into_inner().map_err(unreadable)
}

struct Pack {
    archive: tar::Builder<Vec<u8>>,
    ignored: Vec<String>,
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

    /// Everything below `directory`, which is called `prefix` in the archive.
    fn directory(&mut self, directory: &Path, prefix: &str) -> io::Result<()> {
        let mut entries: Vec<_> = fs::read_dir(directory)?.collect::<Result<_, _>>()?;
        // The same directory makes the same archive, so that the engine's cache is hit.
        entries.sort_by_key(fs::DirEntry::file_name);
        for entry in entries {
            let name = entry.file_name();
            let Some(name) = name.to_str() else { continue };
            let inside = match prefix {
                "" => name.to_owned(),
                prefix => format!("{prefix}/{name}"),
            };
            if self
                .ignored
                .iter()
                .any(|pattern| is_ignored(pattern, &inside))
            {
                continue;
            }
            self.files += 1;
            let kind = entry.file_type()?;
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

/// The patterns of a `.dockerignore`. Exceptions (`!`) are not known, so a file that has one leaves
/// nothing out but the repository's own data.
fn patterns(text: &str) -> Vec<String> {
    let lines = text.lines().map(str::trim);
    let lines = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
    let mut patterns: Vec<String> = lines
        .map(|line| line.trim_start_matches("./").trim_matches('/').to_owned())
        .collect();
    if patterns.iter().any(|pattern| pattern.starts_with('!')) {
        patterns.clear();
    }
    patterns.push(".git".to_owned());
    patterns
}

/// Whether `path` is what `pattern` names: by part, with `*` within a part and `**` over parts.
fn is_ignored(pattern: &str, path: &str) -> bool {
    fn parts(pattern: &[&str], path: &[&str]) -> bool {
        match (pattern, path) {
            ([], []) => true,
            (["**", rest @ ..], path) => (0..=path.len()).any(|skip| parts(rest, &path[skip..])),
            ([first, rest @ ..], [name, inside @ ..]) => {
                crate::policy::glob(first, name) && parts(rest, inside)
            }
            _ => false,
        }
    }
    let pattern: Vec<&str> = pattern.split('/').collect();
    let path: Vec<&str> = path.split('/').collect();
    parts(&pattern, &path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_ignored() {
        for (pattern, path, expected) in [
            ("target", "target", true),
            ("target", "src/target", false),
            ("**/target", "src/target", true),
            ("**/target", "target", true),
            ("*.log", "a.log", true),
            ("*.log", "x/a.log", false),
            ("a/*/c", "a/b/c", true),
        ] {
            assert_eq!(is_ignored(pattern, path), expected, "{pattern} {path}");
        }
        assert_eq!(patterns("# x\n./a/\n\nb"), ["a", "b", ".git"]);
        assert_eq!(patterns("*\n!src"), [".git"]);
    }

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
