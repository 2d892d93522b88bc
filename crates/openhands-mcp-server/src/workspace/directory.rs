//! Directories in which tasks may work. Pure: what only the agent server's file system knows, such
//! as links, is checked there (see `setup`).

use super::file_name::FileName;

/// A directory on the agent server's side below which tasks may work: absolute, or below the agent
/// server's home directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Root(String);

impl Root {
    /// # Errors
    /// When `root` is no directory to put anything under.
    pub(crate) fn new(root: &str) -> Result<Self, &'static str> {
        let root = root.trim_end_matches('/');
        let mut parts = root.split('/').skip_while(|part| part.is_empty());
        if root.is_empty() || parts.any(|part| matches!(part, "" | "." | "..")) {
            return Err("must be a directory without '.' or '..', and not '/'");
        }
        if root.chars().any(char::is_control) {
            return Err("must not hold control characters");
        }
        Ok(Self(root.to_owned()))
    }

    /// Whether the agent server's home directory is needed to find it.
    pub(crate) fn is_relative(&self) -> bool {
        !self.0.starts_with('/')
    }

    /// Its absolute path; `home` is the agent server's home directory.
    pub(crate) fn path(&self, home: &str) -> String {
        if self.is_relative() {
            format!("{}/{}", home.trim_end_matches('/'), self.0)
        } else {
            self.0.clone()
        }
    }
}

/// A directory that a caller names: a relative one is below the root of tasks, an absolute one must
/// be below a root that the operator allows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Directory(String);

impl Directory {
    /// # Errors
    /// Why `name` could lead somewhere else than it seems to.
    pub(crate) fn new(name: &str) -> Result<Self, &'static str> {
        let trimmed = name.strip_suffix('/').unwrap_or(name);
        let relative = trimmed.strip_prefix('/').unwrap_or(trimmed);
        FileName::new(relative).map_err(|reason| match reason {
            "must be relative to the task's directory" => {
                "must not begin with '~', '//' or a drive"
            }
            reason => reason,
        })?;
        Ok(Self(trimmed.to_owned()))
    }

    /// The root that it is below, and its path from there; none where no root allows it. `roots`
    /// are absolute, that of the tasks first.
    pub(crate) fn below<'a>(&'a self, roots: &'a [String]) -> Option<(&'a str, &'a str)> {
        if !self.0.starts_with('/') {
            return roots.first().map(|root| (root.as_str(), self.0.as_str()));
        }
        let inside = |root: &'a String| {
            let rest = self.0.strip_prefix(root.as_str())?;
            // The root itself, or a part of its own: /srv/tasks does not allow /srv/tasks-old.
            let rest = match rest.strip_prefix('/') {
                Some(rest) => rest,
                None if rest.is_empty() => ".",
                None => return None,
            };
            Some((root.as_str(), rest))
        };
        roots.iter().find_map(inside)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_root_is_a_directory() {
        let root = Root::new("mcp-tasks/").unwrap();
        assert!(root.is_relative());
        assert_eq!(root.path("/home/a/"), "/home/a/mcp-tasks");
        assert_eq!(Root::new("/srv/tasks").unwrap().path(""), "/srv/tasks");
        for bad in ["", "/", "..", "/a/../b", "./a", "/a//b", "a\n"] {
            assert!(Root::new(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_directory_is_below_a_root() {
        let roots = ["/srv/tasks".to_owned(), "/home/me/code".to_owned()];
        let below = |name: &str| {
            let directory = Directory::new(name).unwrap();
            let found = directory.below(&roots);
            found.map(|(root, rest)| (root.to_owned(), rest.to_owned()))
        };
        let at = |root: &str, rest: &str| Some((root.to_owned(), rest.to_owned()));
        assert_eq!(below("a/b"), at("/srv/tasks", "a/b"));
        assert_eq!(below("/home/me/code/x/"), at("/home/me/code", "x"));
        assert_eq!(below("/home/me/code"), at("/home/me/code", "."));
        for outside in [
            "/etc",
            "/srv",
            "/srv/tasks-old",
            "/home/me/code2/x",
            "/home",
        ] {
            assert_eq!(below(outside), None, "{outside}");
        }
    }

    #[test]
    fn hostile_directories_are_no_names() {
        for name in [
            "",
            "/",
            "//",
            "..",
            "../x",
            "a/..",
            "/srv/tasks/../x",
            ".",
            "./a",
            "a//b",
            "//srv",
            "~",
            "~root",
            "~/x",
            "c:/x",
            "a\\b",
            "a\0",
            "a\nb",
            "a\u{202e}b",
            ".git",
            "a/.git/hooks",
        ] {
            assert!(Directory::new(name).is_err(), "{name:?}");
        }
    }
}
