//! The directories of the host that builds and compose projects may be read from.

use std::path::{Component, Path, PathBuf};

use mcp_core::tool::ToolError;

use super::create::may_be_link;
use super::{Policy, allow_if, forbidden};

impl Policy {
    /// The directories that builds and compose projects may be read from.
    pub(crate) fn directories(&self) -> &[PathBuf] {
        &self.settings.directories
    }

    /// The directory at `path`, if builds and compose projects may be read from it.
    /// Errors when it is outside of the allowed directories, or does not exist.
    pub(crate) fn directory(&self, path: &str) -> Result<PathBuf, ToolError> {
        let roots = &self.settings.directories;
        let outside = || {
            forbidden(match roots.len() {
                0 => {
                    "No directory may be read. The operator of this server can allow some with \
                     --project-dir."
                }
                _ => "This directory is outside of those that --project-dir allows.",
            })
        };
        let climbs = |part| matches!(part, Component::CurDir | Component::ParentDir);
        let asked = Path::new(path);
        if !asked.is_absolute() || asked.components().any(climbs) {
            return Err(ToolError::invalid_argument(
                "The directory must be an absolute path without `..`.",
            ));
        }
        // Checked before it is resolved, so that an error does not reveal what exists outside.
        if !roots.iter().any(|root| asked.starts_with(root)) {
            return Err(outside());
        }
        let real = asked.canonicalize();
        let real = real.map_err(|_| ToolError::not_found("There is no such directory."))?;
        // Checked again after it is resolved: a symbolic link may lead outside.
        let mut real_roots = roots.iter().filter_map(|root| root.canonicalize().ok());
        match real_roots.any(|root| real.starts_with(root)) {
            true => Ok(plain(real)),
            false => Err(outside()),
        }
    }

    /// Errors when the file at `path` is outside of the allowed directories, or is a link, which may lead
    /// out of them.
    pub(crate) fn file(&self, path: &Path) -> Result<(), ToolError> {
        let directory = path.parent().unwrap_or(path);
        self.directory(&directory.to_string_lossy())?;
        allow_if(!may_be_link(path), || {
            "A file of the project is a symbolic link: put the file itself there.".to_owned()
        })
    }
}

/// A canonical path as the roots and other programs write it: on Windows without the prefix of long paths.
fn plain(path: PathBuf) -> PathBuf {
    let short = path.to_str().and_then(|path| path.strip_prefix(r"\\?\"));
    match short.filter(|short| !short.starts_with(r"UNC\")) {
        Some(short) => PathBuf::from(short),
        None => path,
    }
}

#[cfg(test)]
mod tests {
    use mcp_core::tool::ToolErrorKind;

    use super::super::tests::{assert_forbidden, policy};
    use super::*;

    #[test]
    fn directories_are_closed_unless_opened() {
        let dir = std::env::temp_dir().canonicalize().unwrap();
        let dir = dir.join(format!("docker-mcp-directories-{}", std::process::id()));
        std::fs::create_dir_all(dir.join("inner")).unwrap();
        std::os::unix::fs::symlink("/etc", dir.join("link")).unwrap();
        let text = dir.to_str().unwrap();
        let closed = Policy::default().directory(text).map(drop);
        assert_forbidden(closed, &["No directory may be read", "--project-dir"]);
        let policy = policy(&format!(r#"{{"directories":["/nowhere","{text}/."]}}"#));
        assert_eq!(policy.directory(text).unwrap(), dir);
        let inner = policy.directory(&format!("{text}/inner/.")).unwrap();
        assert_eq!(inner, dir.join("inner"));
        for (outside, kind) in [
            ("/", ToolErrorKind::Forbidden),
            ("/etc", ToolErrorKind::Forbidden),
            // What exists outside is not revealed.
            ("/no such folder", ToolErrorKind::Forbidden),
            (&*format!("{text}x"), ToolErrorKind::Forbidden),
            (&format!("{text}/link"), ToolErrorKind::Forbidden),
            (&format!("{text}/missing"), ToolErrorKind::NotFound),
            (&format!("{text}/../etc"), ToolErrorKind::InvalidArgument),
            (&text[1..], ToolErrorKind::InvalidArgument),
            ("", ToolErrorKind::InvalidArgument),
        ] {
            let error = policy.directory(outside).unwrap_err();
            assert_eq!(error.kind(), kind, "{outside}: {error}");
        }
        std::fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn paths_of_windows_lose_the_prefix_of_long_paths() {
        for (canonical, expected) in [
            (r"\\?\C:\a folder\x", r"C:\a folder\x"),
            (r"\\?\UNC\server\x", r"\\?\UNC\server\x"),
            ("/srv/x", "/srv/x"),
        ] {
            assert_eq!(plain(PathBuf::from(canonical)), Path::new(expected));
        }
    }

    #[test]
    fn file_of_a_project_is_no_link() {
        let dir = std::env::temp_dir().canonicalize().unwrap();
        let dir = dir.join(format!("docker-mcp-files-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        std::fs::write(dir.join("file"), "").unwrap();
        std::os::unix::fs::symlink(dir.join("file"), dir.join("link")).unwrap();
        let policy = policy(&format!(r#"{{"directories":[{dir:?}]}}"#));
        policy.file(&dir.join("file")).unwrap();
        policy.file(&dir.join("missing")).unwrap();
        for link in ["link", "link/", "link/.", "/link//"] {
            let link = format!("{}/{link}", dir.display());
            assert_forbidden(policy.file(Path::new(&link)), &["symbolic link"]);
        }
        assert_forbidden(policy.file(Path::new("/etc/passwd")), &["--project-dir"]);
        std::fs::remove_dir_all(&dir).unwrap();
    }
}
