//! The `.dockerignore` of a build, read as the docker CLI reads it.
//!
//! A pattern is about a path from the top of the directory, and about all below it. The last one
//! that is about a path decides; one with `!` in front takes it in again.

use globset::{GlobBuilder, GlobMatcher};
use mcp_core::tool::ToolError;

/// The repository's own data, unless an exception takes it in.
const BY_DEFAULT: &str = ".git";

/// The patterns of a file, in its order.
#[derive(Debug)]
pub(super) struct DockerIgnore(Vec<Pattern>);

#[derive(Debug)]
struct Pattern {
    is_exception: bool,
    glob: GlobMatcher,
    /// The leading parts that have no wildcard.
    literal: Vec<String>,
}

impl DockerIgnore {
    /// Reads the text of a `.dockerignore`.
    /// Errors names a pattern that is none: leaving it out could send a secret.
    pub(super) fn parse(text: &str) -> Result<Self, ToolError> {
        let text = text.trim_start_matches('\u{feff}');
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        let patterns = std::iter::once(BY_DEFAULT).chain(lines).filter_map(|line| {
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

    /// Whether `path` is left out, by a pattern about it or about a directory that it is in.
    pub(super) fn ignores(&self, path: &str) -> bool {
        let about = |pattern: &&Pattern| {
            let above = path.match_indices('/').map(|(end, _)| &path[..end]);
            above.chain([path]).any(|path| pattern.glob.is_match(path))
        };
        let last = self.0.iter().rfind(about);
        last.is_some_and(|pattern| !pattern.is_exception)
    }

    /// Whether an exception may take in something below the directory `path`.
    pub(super) fn takes_in_below(&self, path: &str) -> bool {
        let mut exceptions = self.0.iter().filter(|pattern| pattern.is_exception);
        exceptions.any(|pattern| {
            let mut both = pattern.literal.iter().zip(path.split('/'));
            both.all(|(part, name)| part == name)
        })
    }
}

impl Pattern {
    fn new(is_exception: bool, parts: &[&str]) -> Result<Self, ToolError> {
        // Braces have no meaning in these patterns, and `**name` means `**/name`.
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
                let text = "The .dockerignore has a line that is no pattern.";
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

/// The parts of a path, without those that lead nowhere.
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
    fn paths_are_ignored_as_docker_ignores_them() {
        for (text, ignored, sent) in [
            (
                "target",
                vec!["target", "target/a/b"],
                vec!["src/target", "target2"],
            ),
            ("/target/", vec!["target", "target/a"], vec!["src/target"]),
            ("./a//b/../c/", vec!["a/c", "a/c/d"], vec!["a/b", "a"]),
            ("**/target", vec!["target", "src/target/x"], vec!["targets"]),
            (
                "**target",
                vec!["target", "src/target"],
                vec!["src/atarget"],
            ),
            ("*.log", vec!["a.log"], vec!["x/a.log"]),
            ("**/*.log", vec!["a.log", "x/y/a.log"], vec!["a.logs"]),
            ("a/*/c", vec!["a/b/c"], vec!["a/c", "a/b/x/c"]),
            ("a/**/c", vec!["a/c", "a/b/x/c"], vec!["b/c"]),
            ("a/**", vec!["a/b", "a/b/c"], vec!["a"]),
            ("temp?", vec!["tempa"], vec!["temp", "temp/x"]),
            ("[ab].txt", vec!["a.txt"], vec!["c.txt"]),
            ("{a,b}", vec!["{a,b}"], vec!["a", "b"]),
            ("\\*", vec!["*"], vec!["a"]),
            ("# a\n #b\n\n  c  ", vec!["#b", "c"], vec!["a", "# a"]),
            (".\n", vec![".git", ".git/config"], vec!["a", ".gitignore"]),
            ("!.git", vec![], vec![".git/config"]),
        ] {
            let ignore = DockerIgnore::parse(text).unwrap();
            for path in ignored {
                assert!(ignore.ignores(path), "{text:?} {path}");
            }
            for path in sent {
                assert!(!ignore.ignores(path), "{text:?} {path}");
            }
        }
    }

    #[test]
    fn the_last_pattern_about_a_path_decides() {
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
        assert!(ignore.takes_in_below("a") && ignore.takes_in_below("a/b/c"));
        assert!(!ignore.takes_in_below("node_modules"));
        assert!(
            DockerIgnore::parse("*\n!**/x")
                .unwrap()
                .takes_in_below("a/b")
        );
        assert!(!DockerIgnore::parse("*").unwrap().takes_in_below("a"));
    }

    #[test]
    fn what_is_no_pattern_is_an_error() {
        assert!(DockerIgnore::parse("[").is_err());
    }
}
