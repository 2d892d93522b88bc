//! The `.dockerignore` of a build, with the rules of the docker CLI.
//!
//! A pattern matches a path from the top of the directory, and everything below it. The last match
//! decides; a pattern with `!` in front includes the path again.

use globset::{GlobBuilder, GlobMatcher};
use mcp_core::tool::ToolError;

/// The repository's own data, unless an exception includes it.
const DEFAULT_PATTERN: &str = ".git";

/// The patterns of a file, in its order.
#[derive(Debug)]
pub(super) struct DockerIgnore(Vec<Pattern>);

#[derive(Debug)]
struct Pattern {
    is_exception: bool,
    glob: GlobMatcher,
    /// The leading parts without wildcards.
    literal: Vec<String>,
}

impl DockerIgnore {
    /// Parses the text of a `.dockerignore`.
    /// Errors when a pattern is invalid: skipping it could send a secret.
    pub(super) fn parse(text: &str) -> Result<Self, ToolError> {
        let text = text.trim_start_matches('\u{feff}');
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        let patterns = std::iter::once(DEFAULT_PATTERN)
            .chain(lines)
            .filter_map(|line| {
                let line = line.trim();
                let (is_exception, path) = match line.strip_prefix('!') {
                    Some(path) => (true, path.trim()),
                    None => (false, line),
                };
                let parts = parts(path);
                (!parts.is_empty()).then(|| Pattern::new(is_exception, &parts))
            });
        Ok(Self(patterns.collect::<Result<_, _>>()?))
    }

    /// Whether `path` is excluded, by a pattern that matches it or one of its parent directories.
    pub(super) fn ignores(&self, path: &str) -> bool {
        let matches = |pattern: &&Pattern| {
            let parents = path.match_indices('/').map(|(end, _)| &path[..end]);
            let mut paths = parents.chain([path]);
            paths.any(|path| pattern.glob.is_match(path))
        };
        let last = self.0.iter().rfind(matches);
        last.is_some_and(|pattern| !pattern.is_exception)
    }

    /// Whether an exception may include something below the directory `path`.
    pub(super) fn may_include_below(&self, path: &str) -> bool {
        let mut exceptions = self.0.iter().filter(|pattern| pattern.is_exception);
        exceptions.any(|pattern| {
            let mut both = pattern.literal.iter().zip(path.split('/'));
            both.all(|(part, name)| part == name)
        })
    }
}

impl Pattern {
    fn new(is_exception: bool, parts: &[&str]) -> Result<Self, ToolError> {
        // Braces are plain characters in these patterns, and `**name` means `**/name`.
        let parts: Vec<String> = (parts.iter())
            .map(|part| part.replace('{', "[{]").replace('}', "[}]"))
            .map(|part| match part.strip_prefix("**") {
                Some(name) if !name.is_empty() => format!("**/{}", name.trim_start_matches('*')),
                _ => part,
            })
            .collect();
        let glob = GlobBuilder::new(&parts.join("/"))
            .literal_separator(true)
            .backslash_escape(true)
            .build()
            .map_err(|error| {
                let text = "The .dockerignore has a line that is not a valid pattern.";
                ToolError::invalid_argument(text).caused_by(error)
            })?;
        let is_literal = |part: &&String| !part.contains(['*', '?', '[', '\\']);
        Ok(Self {
            is_exception,
            glob: glob.compile_matcher(),
            literal: parts.iter().take_while(is_literal).cloned().collect(),
        })
    }
}

/// The parts of a path, with `.` and `..` resolved.
fn parts(path: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => _ = parts.pop(),
            part => parts.push(part),
        }
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_ignored_as_by_docker() {
        for (text, ignored, sent) in [
            ("target", "target,target/a/b", "src/target,target2"),
            ("/target/", "target,target/a", "src/target"),
            ("./a//b/../c/", "a/c,a/c/d", "a/b,a"),
            ("**/target", "target,src/target/x", "targets"),
            ("**target", "target,src/target", "src/atarget"),
            ("*.log", "a.log", "x/a.log"),
            ("**/*.log", "a.log,x/y/a.log", "a.logs"),
            ("a/*/c", "a/b/c", "a/c,a/b/x/c"),
            ("a/**/c", "a/c,a/b/x/c", "b/c"),
            ("a/**", "a/b,a/b/c", "a"),
            ("temp?", "tempa", "temp,temp/x"),
            ("[ab].txt", "a.txt", "c.txt"),
            ("{a-b}", "{a-b}", "a,b"),
            ("\\*", "*", "a"),
            ("# a\n #b\n\n  c  ", "#b,c", "a,# a"),
            (".\n", ".git,.git/config", "a,.gitignore"),
            ("!.git", "", ".git/config"),
        ] {
            let ignore = DockerIgnore::parse(text).unwrap();
            for (paths, expected) in [(ignored, true), (sent, false)] {
                for path in paths.split(',').filter(|path| !path.is_empty()) {
                    assert_eq!(ignore.ignores(path), expected, "{text:?} {path}");
                }
            }
        }
        let braces = DockerIgnore::parse("{a,b}").unwrap();
        assert!(braces.ignores("{a,b}") && !braces.ignores("a"));
    }

    #[test]
    fn the_last_matching_pattern_decides() {
        let ignore = DockerIgnore::parse("*\n!src\nsrc/*.key\n! src/public.key\n").unwrap();
        for path in [".env", "secret/x", "src/a.key", "Dockerfile"] {
            assert!(ignore.ignores(path), "{path}");
        }
        for path in ["src", "src/main.rs", "src/public.key"] {
            assert!(!ignore.ignores(path), "{path}");
        }
        assert!(!DockerIgnore::parse("!a\na\n!a").unwrap().ignores("a"));
        assert!(DockerIgnore::parse("!a\na").unwrap().ignores("a/b"));
    }

    #[test]
    fn directories_are_entered_for_exceptions_only() {
        let ignore = DockerIgnore::parse("*\n!a/b/*.txt\n").unwrap();
        assert!(ignore.may_include_below("a") && ignore.may_include_below("a/b/c"));
        assert!(!ignore.may_include_below("node_modules"));
        let anywhere = DockerIgnore::parse("*\n!**/x").unwrap();
        assert!(anywhere.may_include_below("a/b"));
        let nothing = DockerIgnore::parse("*").unwrap();
        assert!(!nothing.may_include_below("a"));
    }

    #[test]
    fn invalid_pattern_is_an_error() {
        assert!(DockerIgnore::parse("[").is_err());
    }
}
