//! Directories in which tasks may work. Pure: symbolic links are checked on the machine of the agent
//! server (see `setup`).

use crate::api::FileName;

/// A directory on the machine of the agent server below which tasks may work. A relative one is below
/// the agent server's home directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Root(String);

impl Root {
    /// # Errors
    /// `root` cannot hold other directories safely.
    pub(crate) fn new(root: &str) -> Result<Self, &'static str> {
        let root = root.trim_end_matches('/');
        let mut parts = root.split('/').skip_while(|part| part.is_empty());
        if root.is_empty() || parts.any(|part| matches!(part, "" | "." | "..")) {
            return Err("must be a directory without '.' or '..', and not '/'");
        }
        if root.chars().any(char::is_control) {
            return Err("must not contain control characters");
        }
        Ok(Self(root.to_owned()))
    }

    /// Returns true if the path depends on the agent server's home directory.
    pub(crate) fn is_relative(&self) -> bool {
        !self.0.starts_with('/')
    }

    /// The absolute path; `home` is the agent server's home directory.
    pub(crate) fn path(&self, home: &str) -> String {
        if self.is_relative() {
            format!("{}/{}", home.trim_end_matches('/'), self.0)
        } else {
            self.0.clone()
        }
    }
}

/// A directory from a caller. A relative one is below the root of tasks; an absolute one must be below
/// a root that the operator allows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Directory(String);

impl Directory {
    /// # Errors
    /// `name` could refer to another place than it seems to.
    pub(crate) fn new(name: &str) -> Result<Self, &'static str> {
        let trimmed = name.strip_suffix('/').unwrap_or(name);
        let relative = trimmed.strip_prefix('/').unwrap_or(trimmed);
        FileName::new(relative).map_err(|reason| match reason {
            "must be relative to the task's directory" => {
                "must not begin with '~', '//' or a drive"
            }
            reason => reason,
        })?;
        // Files of this server, and the directories of other principals.
        if relative.split('/').any(|part| part.starts_with(".mcp-")) {
            return Err("must not begin with .mcp-");
        }
        Ok(Self(trimmed.to_owned()))
    }

    /// The root that contains the directory, and its path below that root; `None` if no root does.
    /// `roots` are absolute; the first one is the root of tasks.
    pub(crate) fn below<'a>(&'a self, roots: &'a [String]) -> Option<(&'a str, &'a str)> {
        if !self.0.starts_with('/') {
            return roots.first().map(|root| (root.as_str(), self.0.as_str()));
        }
        let inside = |root: &'a String| {
            let rest = self.0.strip_prefix(root.as_str())?;
            // Whole path segments only: /srv/tasks does not allow /srv/tasks-old.
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
    fn root_is_a_plain_directory() {
        let root = Root::new("mcp-tasks/").unwrap();
        assert!(root.is_relative());
        assert_eq!(root.path("/home/a/"), "/home/a/mcp-tasks");
        assert_eq!(Root::new("/srv/tasks").unwrap().path(""), "/srv/tasks");
        for bad in ["", "/", "..", "/a/../b", "./a", "/a//b", "a\n"] {
            assert!(Root::new(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn directory_must_be_below_a_root() {
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
        for outside in "/etc /srv /srv/tasks-old /home/me/code2/x /home".split(' ') {
            assert_eq!(below(outside), None, "{outside}");
        }
    }
}
