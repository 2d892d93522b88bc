//! The files that a compose project reads, before the compose program reads them: it would put their
//! content into containers and into its error texts.

use std::fs;
use std::path::{Component, Path, PathBuf};

use mcp_core::tool::ToolError;
use saphyr_parser::{Event, Parser, StrInput};

use crate::policy::{Policy, forbidden};

/// The names of a project's file, in the order in which compose looks for them.
const NAMES: [&str; 4] = [
    "compose.yaml",
    "compose.yml",
    "docker-compose.yml",
    "docker-compose.yaml",
];
/// Files that a project may consist of.
const MAX_FILES: usize = 50;
const MAX_FILE_BYTES: u64 = 1 << 20;
/// Levels of a file that are read.
const MAX_DEPTH: usize = 64;

/// The compose files of the project in `directory`, of which the first has, or will have, this `text`.
/// Errors when there is none, or one of them reads a file that `policy` does not allow.
pub(crate) fn project_files(
    policy: &Policy,
    directory: &Path,
    text: Option<&str>,
) -> Result<Vec<PathBuf>, ToolError> {
    let exists = |path: &PathBuf| path.symlink_metadata().is_ok();
    let mut names = NAMES.iter().map(|name| directory.join(name));
    let found = names.find(exists);
    let Some(first) = found.or_else(|| text.map(|_| directory.join(NAMES[0]))) else {
        return Err(ToolError::not_found(
            "The directory has no compose file: write one there, or give `yaml`.",
        ));
    };
    let more = NAMES.map(|name| directory.join(name.replace('.', ".override.")));
    let files: Vec<_> = [first]
        .into_iter()
        .chain(more.into_iter().find(exists))
        .collect();
    // Compose gets the text; a reference to the file of its name means the one on the disk.
    let with_text = |(at, file): (usize, &PathBuf)| (file.clone(), text.filter(|_| at == 0));
    let mut open: Vec<_> = files.iter().enumerate().map(with_text).collect();
    let mut seen = Vec::new();
    while let Some((file, text)) = open.pop() {
        if text.is_none() && seen.contains(&file) {
            continue;
        }
        if seen.len() == MAX_FILES {
            return Err(ToolError::invalid_argument(
                "The project has more than 50 files.",
            ));
        }
        policy.file(&file)?;
        let base = file.parent().unwrap_or(directory).to_owned();
        policy.file(&base.join(".env"))?;
        for (key, path) in references(&file, text)? {
            let path = resolve(&base, &path)?;
            policy.file(&path)?;
            if matches!(key, "include" | "extends") {
                open.push((path, None));
            }
        }
        if text.is_none() {
            seen.push(file);
        }
    }
    Ok(files)
}

/// The path that `text` means in a file of `base`.
fn resolve(base: &Path, text: &str) -> Result<PathBuf, ToolError> {
    if text.contains(['$', '~']) || text.contains("://") || text.starts_with("git@") {
        return Err(forbidden(
            "A compose file may only name other files by plain paths: no variables, no addresses.",
        ));
    }
    let mut path = base.to_owned();
    for part in Path::new(text).components() {
        match part {
            Component::ParentDir => _ = path.pop(),
            Component::CurDir => {}
            part => path.push(part),
        }
    }
    Ok(path)
}

/// The files that a compose file names, with the key that names them; `text` is what it will contain.
fn references(file: &Path, text: Option<&str>) -> Result<Vec<(&'static str, String)>, ToolError> {
    let too_much = || unreadable(file, "it is no text, or has more than 1 MB");
    let length = file.metadata().map_or(0, |found| found.len());
    let text = match text {
        Some(text) if text.len() as u64 <= MAX_FILE_BYTES => text.to_owned(),
        None if length <= MAX_FILE_BYTES => match fs::read_to_string(file) {
            Ok(text) => text,
            // Compose says that it is missing.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(_) => return Err(too_much()),
        },
        _ => return Err(too_much()),
    };
    // Ends of lines for compose's parser only: it would read keys where this one reads a comment.
    if text.contains(['\u{85}', '\u{2028}', '\u{2029}']) {
        return Err(unreadable(file, "it has a line end of Unicode"));
    }
    let mut reader = Reader {
        events: Parser::new_from_str(&text),
        found: Vec::new(),
    };
    match reader.read() {
        Ok(()) => Ok(reader.found),
        Err(reason) => Err(unreadable(file, &reason)),
    }
}

fn unreadable(file: &Path, reason: &str) -> ToolError {
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    ToolError::invalid_argument(format!("{name} is not valid yaml: {reason}."))
}

struct Reader<'a> {
    events: Parser<'a, StrInput<'a>>,
    found: Vec<(&'static str, String)>,
}

impl<'a> Reader<'a> {
    fn read(&mut self) -> Result<(), String> {
        while let Some(event) = self.next()? {
            self.node(event, None, 0)?;
        }
        Ok(())
    }

    /// The next event that belongs to a value, or ends one.
    fn next(&mut self) -> Result<Option<Event<'a>>, String> {
        for event in self.events.by_ref() {
            match event.map_err(|error| error.to_string())?.0 {
                Event::Nothing | Event::StreamStart | Event::StreamEnd => {}
                Event::DocumentStart(_) | Event::DocumentEnd => {}
                event => return Ok(Some(event)),
            }
        }
        Ok(None)
    }

    /// Reads the value that begins with `event`; all of its texts are paths if `key` names files.
    fn node(
        &mut self,
        event: Event<'a>,
        key: Option<&'static str>,
        depth: usize,
    ) -> Result<(), String> {
        if depth > MAX_DEPTH {
            return Err("it is nested too deeply".to_owned());
        }
        match (event, key) {
            (Event::Scalar(path, ..), Some(key)) => self.found.push((key, path.into_owned())),
            (Event::Alias(_), Some(key)) => return Err(format!("{key} must not be an alias")),
            (Event::SequenceStart(..), _) => {
                while let Some(event) = self.next()? {
                    if event == Event::SequenceEnd {
                        break;
                    }
                    self.node(event, key, depth + 1)?;
                }
            }
            (Event::MappingStart(..), _) => {
                while let Some(event) = self.next()? {
                    let name = match event {
                        Event::MappingEnd => break,
                        Event::Scalar(name, ..) => name,
                        _ => return Err("a key is no plain text".to_owned()),
                    };
                    let inner = inner_key(key, &name)?;
                    let value = self.next()?.ok_or("it ends early")?;
                    // The service of the same file that is extended.
                    let is_service = inner == Some("extends") && key.is_none();
                    match value {
                        Event::Scalar(..) if is_service => {}
                        value => self.node(value, inner, depth + 1)?,
                    }
                }
            }
            _ => {}
        }
        Ok(())
    }
}

/// The key by which the value of the member `name` names files; `outer` is that of its mapping.
fn inner_key(outer: Option<&'static str>, name: &str) -> Result<Option<&'static str>, String> {
    let known = ["include", "extends", "env_file", "label_file"];
    Ok(match (outer, name) {
        (Some("include"), "project_directory") => {
            return Err("project_directory of include is not supported".to_owned());
        }
        (Some(_), "env_file") => Some("env_file"),
        (Some(outer), "path" | "file") => Some(outer),
        // Compose resolves it, and with it a path that is written elsewhere.
        (Some(outer), "<<") => return Err(format!("{outer} must not have a merge key")),
        (Some(_), _) => None,
        (None, name) => known.into_iter().find(|key| *key == name),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Result<String, String> {
        let found = references(Path::new("x"), Some(text)).map_err(|e| e.to_string())?;
        let found = found.iter().map(|(key, path)| format!("{key}={path}"));
        Ok(found.collect::<Vec<_>>().join(" "))
    }

    #[test]
    fn files_are_found_in_every_syntax() {
        for row in [
            "include: [a.yml, {path: [b.yml], env_file: c}]|include=a.yml include=b.yml env_file=c",
            "services:\n  a:\n    env_file: x\n    image: y|env_file=x",
            "services: {a: {env_file: [{path: x, required: false}]}}|env_file=x",
            "services:\n  a: {extends: {file: /etc/x, service: y}}\n  b: {extends: a}|extends=/etc/x",
            "\"incl\\x75de\": [x]|include=x",
            "x-a: &a {label_file: x}\nservices: {b: {<<: *a}}|label_file=x",
            "a: 1\n---\nenv_file: x|env_file=x",
        ] {
            let (text, expected) = row.split_once('|').unwrap();
            assert_eq!(found(text).as_deref(), Ok(expected), "{text}");
        }
        for text in [
            "a: &a x\nenv_file: *a",
            "x-a: &a {file: /etc/x}\nservices: {b: {extends: {<<: *a, service: y}}}",
            "? [a]\n: b",
            "include: [{path: x, project_directory: /}]",
            "a: [",
            "a: 1 # x\u{85}env_file: x",
            "a: 1 # x\u{2028}env_file: x",
            "a: 1 # x\u{2029}env_file: x",
        ] {
            assert!(found(text).is_err(), "{text}");
        }
    }

    #[test]
    fn paths_are_plain() {
        let base = Path::new("/srv/shop");
        for (text, expected) in [("./x", "/srv/shop/x"), ("../x", "/srv/x"), ("/x", "/x")] {
            assert_eq!(resolve(base, text).unwrap(), Path::new(expected));
        }
        for text in ["$X", "${X}/a", "~/x", "https://h/x", "oci://h/x", "git@h:x"] {
            assert!(resolve(base, text).is_err(), "{text}");
        }
    }
}
