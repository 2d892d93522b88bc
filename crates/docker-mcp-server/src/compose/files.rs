//! The files that a compose project reads, before the compose program reads them: it would put their
//! content into containers and into its error texts.

use std::collections::HashMap;
use std::fs;
use std::path::{Component, Path, PathBuf};

use mcp_core::tool::ToolError;
use saphyr_parser::{Event, Parser, StrInput, Tag};

use crate::policy::{Policy, forbidden};

/// The names of a project's file, in the order in which compose looks for them.
const NAMES: [&str; 4] = [
    "compose.yaml",
    "compose.yml",
    "docker-compose.yml",
    "docker-compose.yaml",
];
/// Files that a project may load, each as often as it is included or extended: compose takes 6 ms for one.
const MAX_LOADS: usize = 500;
/// Keys and values that a project may have once more, by aliases and by files that are loaded again:
/// compose takes up to 60 µs for one, and a few lines of nested aliases make billions.
const MAX_REPEATED: usize = 20_000;
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
    let mut seen: HashMap<PathBuf, FileFacts> = HashMap::new();
    let (mut loads, mut repeated) = (0, 0);
    while let Some((file, text)) = open.pop() {
        loads += 1;
        let mut facts = match (text, seen.get(&file)) {
            (None, Some(facts)) => {
                repeated += facts.nodes;
                facts.clone()
            }
            _ => {
                policy.file(&file)?;
                let base = file.parent().unwrap_or(directory);
                policy.file(&base.join(".env"))?;
                let facts = facts(&file, text)?;
                if text.is_none() {
                    seen.insert(file.clone(), facts.clone());
                }
                facts
            }
        };
        repeated += facts.repeated;
        if loads > MAX_LOADS || repeated > MAX_REPEATED {
            return Err(ToolError::invalid_argument(
                "The project repeats too much by aliases, `include` or `extends`: write it out.",
            ));
        }
        for (key, path) in facts.references.drain(..) {
            let path = resolve(file.parent().unwrap_or(directory), &path)?;
            policy.file(&path)?;
            if matches!(key, "include" | "extends") {
                open.push((path, None));
            }
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

/// The size of a compose file, and the other files that it names.
#[derive(Clone, Default)]
struct FileFacts {
    /// The files that it names, with the keys that name them.
    references: Vec<(&'static str, String)>,
    /// Its keys and values.
    nodes: usize,
    /// The nodes that its aliases repeat.
    repeated: usize,
}

/// Reads a compose file; `text` is what it will contain.
fn facts(file: &Path, text: Option<&str>) -> Result<FileFacts, ToolError> {
    let too_much = || unreadable(file, "it is no text, or has more than 1 MB");
    let length = file.metadata().map_or(0, |found| found.len());
    let text = match text {
        Some(text) if text.len() as u64 <= MAX_FILE_BYTES => text.to_owned(),
        None if length <= MAX_FILE_BYTES => match fs::read_to_string(file) {
            Ok(text) => text,
            // Compose says that it is missing.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Ok(FileFacts::default());
            }
            Err(_) => return Err(too_much()),
        },
        _ => return Err(too_much()),
    };
    let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
    // What compose's parser may read in another way than this one: ends of lines, by which it would read
    // keys where this one reads a comment, marks of the byte order, and the end of the text.
    let is_odd = |c: char| {
        let is_space = matches!(c, '\t' | '\n' | '\r');
        matches!(c, '\u{85}' | '\u{2028}' | '\u{2029}' | '\u{feff}') || c.is_control() && !is_space
    };
    if text.contains(is_odd) {
        let reason = "it has a line end of Unicode, or a control character";
        return Err(unreadable(file, reason));
    }
    // They give tags other meanings.
    if text.split(['\n', '\r']).any(|line| line.starts_with('%')) {
        return Err(unreadable(file, "it has a directive (a line with `%`)"));
    }
    let mut reader = Reader {
        events: Parser::new_from_str(text),
        found: FileFacts::default(),
        anchors: HashMap::new(),
    };
    match reader.read() {
        Ok(()) => Ok(reader.found),
        Err(reason) => Err(unreadable(file, &reason)),
    }
}

fn unreadable(file: &Path, reason: &str) -> ToolError {
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    ToolError::invalid_argument(format!("{name} is not valid for this server: {reason}."))
}

struct Reader<'a> {
    events: Parser<'a, StrInput<'a>>,
    found: FileFacts,
    /// The keys and values of each anchor, with those that its aliases repeat.
    anchors: HashMap<usize, usize>,
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
                event => {
                    self.found.nodes += 1;
                    return Ok(Some(event));
                }
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
        let before = self.found.nodes + self.found.repeated;
        let anchor = match &event {
            Event::Scalar(_, _, anchor, tag)
            | Event::SequenceStart(anchor, tag)
            | Event::MappingStart(anchor, tag) => {
                permit_tag(tag.as_deref(), key)?;
                *anchor
            }
            _ => 0,
        };
        match (event, key) {
            (Event::Scalar(path, ..), Some(key)) => {
                self.found.references.push((key, path.into_owned()));
            }
            (Event::Alias(_), Some(key)) => return Err(format!("{key} must not be an alias")),
            (Event::Alias(anchor), None) => {
                let size = self.anchors.get(&anchor).copied().unwrap_or(1);
                self.found.repeated = self.found.repeated.saturating_add(size);
                if self.found.repeated > MAX_REPEATED {
                    return Err("its aliases repeat too much: write it out".to_owned());
                }
            }
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
                        Event::Scalar(name, _, _, None) => name,
                        Event::Scalar(..) => return Err(TAG_OF_KEY.to_owned()),
                        _ => return Err("a key is no plain text".to_owned()),
                    };
                    let inner = inner_key(key, &name)?;
                    let value = self.next()?.ok_or("it ends early")?;
                    // The service of the same file that is extended.
                    let is_service = inner == Some("extends") && key.is_none();
                    match value {
                        Event::Scalar(_, _, _, None) if is_service => {}
                        value => self.node(value, inner, depth + 1)?,
                    }
                }
            }
            _ => {}
        }
        if anchor != 0 {
            let size = self.found.nodes + self.found.repeated - before;
            self.anchors.insert(anchor, size + 1);
        }
        Ok(())
    }
}

const TAG_OF_KEY: &str = "a key has a tag (`!…`): leave it out";

/// Refuses tags, by which compose's parser makes another value of a text than is read here. Compose itself
/// knows `!reset` and `!override`, which are of use only where no file is named.
fn permit_tag(tag: Option<&Tag>, key: Option<&str>) -> Result<(), String> {
    match (tag, key) {
        (None, _) => Ok(()),
        (Some(tag), None) if tag.handle == "!" && matches!(&*tag.suffix, "reset" | "override") => {
            Ok(())
        }
        (Some(_), None) => Err(
            "a value has a tag (`!…`) other than `!reset` and `!override`: leave it out".to_owned(),
        ),
        (Some(_), Some(key)) => Err(format!("{key} must not have a tag (`!…`): leave it out")),
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
        let found = facts(Path::new("x"), Some(text)).map_err(|e| e.to_string())?;
        let found = found
            .references
            .iter()
            .map(|(key, path)| format!("{key}={path}"));
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
            "a: 1\n\u{feff}env_file: x",
            "a: 1 \0\nenv_file: x",
        ] {
            assert!(found(text).is_err(), "{text}");
        }
    }

    /// A tag would let compose's parser read another text than this one.
    #[test]
    fn tags_are_refused_but_those_of_compose() {
        for text in [
            "env_file: !!binary x",
            "env_file: [!!binary x]",
            "env_file: !!str x",
            "env_file: !<tag:yaml.org,2002:binary> x",
            "env_file: !reset x",
            "env_file: &a !override [x]",
            "env_file: ! x",
            "extends: !!binary x",
            "extends: {file: !!binary x, service: y}",
            "extends: {!!binary x: x, service: y}",
            "include: !!seq [x]",
            "include: [!!map {path: x}]",
            "!!binary aW5jbHVkZQ==: [x]",
            "!!str include: [x]",
            "!reset include: [x]",
            "a: !!binary eA==",
            "a: !<!reset> x",
            "a: &b !!binary x\nc: *b",
            "a: {!!merge b: *c}",
            "%TAG ! tag:yaml.org,2002:\n---\na: !reset x",
            "%TAG !r! tag:yaml.org,2002:\n---\na: !r!binary x",
            "%YAML 1.1\n---\na: x",
            "a: 1\r%TAG ! x\r---\ra: x",
        ] {
            let error = found(text).unwrap_err();
            assert!(
                error.contains("tag") || error.contains("directive"),
                "{text}: {error}"
            );
        }
        for text in [
            "a: !reset null",
            "a: !override [x]",
            "a: &b !override {c: d}",
        ] {
            assert_eq!(found(text).as_deref(), Ok(""), "{text}");
        }
    }

    /// Nine anchors, each of nine aliases of the one before, are 387 million values.
    #[test]
    fn aliases_are_counted_with_what_they_repeat() {
        let nested = |levels: usize, width: usize| {
            let level = |at: usize| {
                let part = match at {
                    0 => "x".to_owned(),
                    at => format!("*a{}", at - 1),
                };
                format!("x-{at}: &a{at} [{}]\n", vec![part; width].join(","))
            };
            (0..levels).map(level).collect::<String>()
        };
        for (levels, width, is_permitted) in [(1, 20_000, true), (4, 9, true), (5, 9, false)] {
            let text = nested(levels, width);
            assert_eq!(found(&text).is_ok(), is_permitted, "{levels} {width}");
        }
        for (levels, width) in [(9, 9), (60, 2), (3, 200)] {
            let error = found(&nested(levels, width)).unwrap_err();
            assert!(error.contains("repeat too much"), "{error}");
        }
        let services = |count: usize| {
            let service = |at| format!("  s{at}: {{image: x, environment: *e}}\n");
            let rows: String = (0..count).map(service).collect();
            let common: String = (0..50).map(|at| format!("E{at}: v, ")).collect();
            format!("x-e: &e {{{common}}}\nservices:\n{rows}")
        };
        assert!(found(&services(100)).is_ok());
        // An alias within its own anchor: compose refuses it.
        assert!(found("a: &a [*a, *a]").is_ok());
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
