//! Changes that the agent made in its directory, read with git on the machine of the agent server. Every
//! git repository in the directory is compared on its own.

use std::borrow::Cow;
use std::collections::HashMap;
use std::ops::Range;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use upstream::redact::redacted_part;
use upstream::text::{fitting, one_line, visible};

use super::program::reason;
use crate::api::{AgentServer, ApiFailure, ApiResult, FileName, ScriptOutput, shell_quoted};

const COMPARE: &str = include_str!("compare.sh");

/// The exit code of the script if the content is another one than expected.
const EXIT_OTHER_CONTENT: i32 = 79;
/// Characters of one name in a list.
const MAX_NAME_CHARS: usize = 120;

/// The directory whose changes are read. Others may work in it: changes after the start of a later one are theirs.
#[derive(Default)]
pub(crate) struct ChangedDirectory<'a> {
    /// Absolute, on the machine of the agent server.
    pub(crate) path: &'a str,
    /// The snapshot of its content before the work; `None` if there is none.
    pub(crate) base: Option<&'a str>,
    /// The directory with such snapshots.
    pub(crate) store: Option<&'a str>,
    /// The end of the work, if others came later: the agent server's local time.
    pub(crate) ended: Option<String>,
    /// The ids of the snapshots before the work of others, oldest first, with blanks between them.
    pub(crate) others: String,
    /// When others ended that had begun earlier: the agent server's local times, with blanks between them.
    pub(crate) earlier: String,
    /// Another one began earlier and has not ended yet, or its part of this one cannot be told apart.
    pub(crate) is_overlapping: bool,
}

impl<'a> ChangedDirectory<'a> {
    /// The variables of `range.sh`.
    pub(crate) fn variables(&'a self) -> Vec<(&'static str, &'a str)> {
        vec![
            ("base", self.base.unwrap_or_default()),
            ("store", self.store.unwrap_or_default()),
            ("ended", self.ended.as_deref().unwrap_or_default()),
            ("others", &self.others),
            ("earlier", &self.earlier),
        ]
    }
}

/// The part of the changes that a caller asks for.
#[derive(Default)]
pub(crate) struct ChangesQuery<'a> {
    /// Only this file or directory.
    pub(crate) file: Option<&'a FileName>,
    /// A patch of this repository, `.` for that of the directory itself, instead of a diff of all.
    pub(crate) patch_of: Option<&'a str>,
    /// The id of the content, if it must be that.
    pub(crate) content: Option<&'a str>,
    /// The start of the part of the diff or patch, in bytes.
    pub(crate) offset: u64,
    /// Its maximum, in bytes.
    pub(crate) length: usize,
}

/// The changes since the task started.
#[derive(Debug)]
pub(crate) struct Changes {
    /// The id of the content, for more parts of the same diff.
    pub(crate) content: String,
    /// One line for each of the first files, at most some thousands.
    files: Vec<String>,
    /// The number of all changed files.
    pub(crate) count: usize,
    /// The repositories in the directory that have changes.
    pub(crate) repositories: Vec<String>,
    /// The requested part of the diff or patch, with what is around it.
    diff: Vec<u8>,
    window: Window,
    /// Bytes of the whole diff or patch.
    pub(crate) size: u64,
    /// The repository of the patch does not exist.
    pub(crate) is_absent: bool,
    /// Warnings for the caller.
    pub(crate) warnings: Vec<&'static str>,
}

/// Warnings about changes.
pub(crate) const SHARED: &str =
    "Another task also worked in this directory: its changes are among these.";
const LOST: &str = "The agent removed or replaced .git, so the files are compared with the first \
    commit of the repository that is there now, or with nothing.";
const UNRECORDED: &str = "The state of the directory before the task is not known, so the files are \
    compared with the last commit: changes may be somebody else's.";
const LFS: &str = "Git LFS keeps the content of some of these files, of which the diff or patch has pointers only.";
const LARGE: &str = "Files larger than 20 MB are compared by size and hash (beyond 400 MB in all by size and time), \
    and their content is left out.";

impl Changes {
    /// Reads the changes of a directory from git.
    ///
    /// # Errors
    /// git fails, or the agent server.
    pub(crate) async fn read(
        server: &AgentServer,
        changed: &ChangedDirectory<'_>,
        query: &ChangesQuery<'_>,
    ) -> ApiResult<Self> {
        let window = match query.length {
            0 => Window::default(),
            length => Window::new(query.offset, length as u64),
        };
        let (offset, length) = (window.start.to_string(), window.length.to_string());
        let mut variables = changed.variables();
        variables.extend([
            ("expected", query.content.unwrap_or_default()),
            ("file", query.file.map_or("", FileName::as_str)),
            ("patch_of", query.patch_of.unwrap_or_default()),
            ("offset", &offset),
            ("length", &length),
        ]);
        let printed = run(server, changed.path, &variables, &[RANGE, COMPARE]).await?;
        let unexpected = || {
            let reason = "Changes are not known: git printed something unexpected. Read single \
                          files with get_task_file.";
            ApiFailure::Git(reason.to_owned())
        };
        let mut changes = parse(printed.text()).ok_or_else(unexpected)?;
        changes.window = window;
        if changed.is_overlapping && !changes.warnings.contains(&SHARED) {
            changes.warnings.push(SHARED);
        }
        Ok(changes)
    }

    /// The requested part of the diff or patch: whole lines if they fit; and the start of the rest.
    pub(crate) fn part(&self) -> (Part<'_>, Option<u64>) {
        let part = self.window.part(&self.diff).lines(self.size);
        let end = part.end();
        (part, (end < self.size).then_some(end))
    }

    /// The requested part of the diff as text, with secrets redacted; and the start of the rest.
    pub(crate) fn diff_text(&self) -> (String, Option<u64>) {
        let (part, next) = self.part();
        let text = String::from_utf8_lossy(part.bytes());
        (visible(&part.redacted(&text)), next)
    }

    /// One line for each change, such as `M src/a.py`, from the file number `skip` on: as many as fit
    /// into `budget` bytes, and the number of the others.
    pub(crate) fn lines(&self, skip: usize, budget: usize) -> Vec<String> {
        let files = self.files.get(skip..).unwrap_or_default();
        lines(files, self.count.saturating_sub(skip), budget)
    }
}

/// As many of these lines as fit into `budget` bytes, and the number of the others of `count`.
pub(crate) fn lines(files: &[String], count: usize, budget: usize) -> Vec<String> {
    let mut lines = fitting(files.to_vec(), budget).rows;
    if lines.len() < count {
        lines.push(format!("… and {} more", count - lines.len()));
    }
    lines
}

/// Returns true if such lines are not all.
pub(crate) fn is_cut(lines: &[String]) -> bool {
    lines.last().is_some_and(|last| last.starts_with('…'))
}

/// Bytes that are read before and after a part of a text: a secret of which the part has a piece is known by them.
const CONTEXT_BYTES: u64 = 4_096;

/// The bytes that are read for a part of a text.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Window {
    pub(crate) start: u64,
    pub(crate) length: u64,
    /// The part itself.
    offset: u64,
    limit: u64,
}

impl Window {
    /// The window for at most `limit` bytes from `offset` on.
    pub(crate) fn new(offset: u64, limit: u64) -> Self {
        let start = offset.saturating_sub(CONTEXT_BYTES);
        let length = offset - start + limit + CONTEXT_BYTES;
        Self {
            start,
            length,
            offset,
            limit,
        }
    }

    /// The part in the bytes that were read.
    pub(crate) fn part(self, read: &[u8]) -> Part<'_> {
        let at = |offset: u64| {
            read.len()
                .min(usize::try_from(offset).unwrap_or(usize::MAX))
        };
        let start = self.offset - self.start;
        Part {
            read,
            range: at(start)..at(start + self.limit),
            offset: self.offset,
        }
    }
}

/// A part of a text, and what is around it.
#[derive(Clone)]
pub(crate) struct Part<'a> {
    read: &'a [u8],
    range: Range<usize>,
    offset: u64,
}

impl<'a> Part<'a> {
    pub(crate) fn bytes(&self) -> &'a [u8] {
        self.read.get(self.range.clone()).unwrap_or_default()
    }

    /// The offset at which the rest of the text begins.
    pub(crate) fn end(&self) -> u64 {
        self.offset + self.range.len() as u64
    }

    /// The whole lines of it, if there are any, in a text of `size` bytes.
    pub(crate) fn lines(&self, size: u64) -> Self {
        let length = part_end(self.bytes(), size.saturating_sub(self.offset));
        Self {
            range: self.range.start..self.range.start + length,
            ..self.clone()
        }
    }

    /// The text before the part, and the text after it.
    pub(crate) fn context(&self) -> (Cow<'a, str>, Cow<'a, str>) {
        let text = |bytes: Option<&'a [u8]>| String::from_utf8_lossy(bytes.unwrap_or_default());
        let (before, after) = (..self.range.start, self.range.end..);
        (text(self.read.get(before)), text(self.read.get(after)))
    }

    /// `text`, which is the part, with secrets redacted.
    pub(crate) fn redacted<'t>(&self, text: &'t str) -> Cow<'t, str> {
        let (before, after) = self.context();
        redacted_part(&before, text, &after)
    }
}

/// The length of the next part of a text of which `left` bytes are left: whole lines, otherwise whole
/// characters, but never nothing.
fn part_end(part: &[u8], left: u64) -> usize {
    if part.len() as u64 >= left {
        return part.len();
    }
    let line = part.iter().rposition(|byte| *byte == b'\n');
    let is_start = |at: &usize| part.get(*at).is_some_and(|byte| byte & 0xc0 != 0x80);
    // A character has at most four bytes.
    let cut = || {
        (part.len().saturating_sub(4)..part.len())
            .rev()
            .find(is_start)
    };
    let cut = line.map(|at| at + 1).or_else(cut);
    cut.filter(|end| *end > 0).unwrap_or(part.len())
}

/// An id of the directory's current content, which is another one after every change.
pub(crate) async fn content_id(server: &AgentServer, directory: &str) -> ApiResult<Option<String>> {
    let script = "snapshot && content_id \"$work/end\"\n";
    match run(server, directory, &[], &[script]).await {
        Ok(printed) => Ok(printed_id(printed.text())),
        Err(ApiFailure::Git(_)) => Ok(None),
        Err(failure) => Err(failure),
    }
}

/// Runs a script in the directory, with the functions of `snapshot.sh`.
async fn run(
    server: &AgentServer,
    directory: &str,
    variables: &[(&str, &str)],
    parts: &[&str],
) -> ApiResult<ScriptOutput> {
    let printed = run_in(server, directory, variables, parts).await?;
    let reason = match printed.exit_code {
        Some(0) => return Ok(printed),
        Some(EXIT_OTHER_CONTENT) => {
            return Err(ApiFailure::Git(
                "The files have changed since the first part: call this tool again without cursor."
                    .to_owned(),
            ));
        }
        code => failure_reason(code, printed.error()),
    };
    Err(ApiFailure::Git(format!(
        "Changes are not known: {reason}. Read single files with get_task_file."
    )))
}

/// The reason for which a script with git failed.
pub(crate) fn failure_reason(exit_code: Option<i32>, error: &str) -> String {
    match exit_code {
        Some(EXIT_NO_DIRECTORY) => "the task's directory is gone from the agent server".to_owned(),
        Some(EXIT_NO_GIT) => "the agent server has no git".to_owned(),
        None | Some(-1 | EXIT_TIMEOUT) => "git took too long".to_owned(),
        Some(_) => format!("git failed ({})", reason(error)),
    }
}

/// Parses the output of `compare.sh`.
fn parse(printed: &str) -> Option<Changes> {
    let mut lines = printed.lines();
    let content = lines.next().filter(|id| is_object_id(id))?.to_owned();
    let notes = lines.next()?;
    let has = |note: &str| notes.split(' ').any(|word| word == note);
    let warnings = [
        ("shared", SHARED),
        ("lost", LOST),
        ("unrecorded", UNRECORDED),
        ("lfs", LFS),
    ];
    let warnings = warnings.into_iter().filter(|(note, _)| has(note));
    let mut warnings: Vec<_> = warnings.map(|(_, warning)| warning).collect();
    let count = lines.next()?.trim().parse().ok()?;
    let list = decoded(lines.next()?)?;
    let large = decoded(lines.next()?)?;
    let large = String::from_utf8_lossy(&large);
    let mut sizes: HashMap<&str, u64> = HashMap::new();
    for (size, path) in large.lines().filter_map(|line| line.split_once(' ')) {
        if let Ok(size) = size.parse() {
            // The size at the end comes first.
            sizes.entry(path).or_insert(size);
        }
    }
    let size = lines.next()?.trim().parse().ok()?;
    let diff = decoded(lines.next().unwrap_or_default())?;
    let (files, repositories, has_large) = parse_list(&String::from_utf8_lossy(&list), &sizes);
    warnings.extend(has_large.then_some(LARGE));
    Some(Changes {
        content,
        files,
        count,
        repositories,
        diff,
        window: Window::default(),
        size,
        is_absent: has("absent"),
        warnings,
    })
}

/// Decodes a line that `encoded` of `range.sh` has printed.
pub(crate) fn decoded(line: &str) -> Option<Vec<u8>> {
    STANDARD.decode(line).ok()
}

/// Parses `@.\0A\0path\0R100\0from\0to\0+repository\0…`. The last entry may be truncated. Returns one line for each file
/// that was added, modified, deleted or renamed, or repository that was added; the repositories; and whether one of the
/// files is large, whose `sizes` are shown.
pub(crate) fn parse_list(
    list: &str,
    sizes: &HashMap<&str, u64>,
) -> (Vec<String>, Vec<String>, bool) {
    let (mut lines, mut repositories, mut has_large) = (Vec::new(), Vec::new(), false);
    let shown = |path: &str| one_line(&visible(path), MAX_NAME_CHARS);
    let mut prefix = String::new();
    let mut words = list
        .split_inclusive('\0')
        .map_while(|word| word.strip_suffix('\0'));
    while let Some(word) = words.next() {
        if let Some(repository) = word.strip_prefix(['@', '+']) {
            prefix = match repository {
                "." => String::new(),
                nested => format!("{nested}/"),
            };
            if repository != "." && !repositories.iter().any(|known| known == repository) {
                repositories.push(repository.to_owned());
            }
            if word.starts_with('+') {
                lines.push(format!("A {}", shown(&prefix)));
            }
            continue;
        }
        // Other content, or another type, is a modification.
        let letter = word.chars().next().filter(|c| "ADR".contains(*c));
        let letter = letter.unwrap_or('M');
        let mut line = format!("{letter} ");
        if letter == 'R' {
            let Some(from) = words.next() else { break };
            line += &format!("{} -> ", shown(&format!("{prefix}{from}")));
        }
        let Some(name) = words.next() else { break };
        let path = format!("{prefix}{name}");
        line += &shown(&path);
        if let Some(size) = sizes.get(&*path) {
            line += &format!(" ({} MB)", size / 1_000_000);
            has_large = true;
        }
        lines.push(line);
    }
    (lines, repositories, has_large)
}

/// Files of OpenHands and of this server in a workspace. In a sandbox the agent server itself may run in
/// the workspace.
const OWN_FILES: &str = ".mcp-servers/** .openhands-agent-server.log \
                         workspace/bash_events/*_Bash* workspace/conversations/*/base_state.json \
                         workspace/conversations/*/events/* workspace/conversations/*/meta.json \
                         workspace/conversations/*/owner_lease.json \
                         workspace/conversations/*/.owner_lease.lock";

/// Larger files are compared by size and hash, and their content is left out.
const LARGE_BYTES: u64 = 20_000_000;
/// Bytes of such files that an initial snapshot reads, which takes about a second.
const HASHED_BYTES: u64 = 400_000_000;

/// The timeout of a script with git. It ends by itself, and so removes what it has written: less than the
/// time after which the agent server kills it.
pub(crate) const SNAPSHOT_SECONDS: u64 = 8;

/// The exit code of a script that cannot use the directory.
pub(crate) const EXIT_NO_DIRECTORY: i32 = 74;
/// The exit codes for a machine without git, and of `timeout`.
pub(crate) const EXIT_NO_GIT: i32 = 75;
pub(crate) const EXIT_TIMEOUT: i32 = 124;

const FUNCTIONS: &str = include_str!("snapshot.sh");
/// The functions that find what a task changed.
pub(crate) const RANGE: &str = include_str!("range.sh");

/// Commands that take a snapshot of the current directory, keep it in the directory `store`, and print its id.
pub(crate) fn snapshot_script(store: &str, seconds: u64) -> String {
    script(&[("store", store)], &["initial_snapshot\n"], seconds)
}

/// A script with these variables and the functions of `snapshot.sh`. It has a temporary directory.
pub(crate) fn script(variables: &[(&str, &str)], parts: &[&str], seconds: u64) -> String {
    let variables = variables.iter();
    let variables = variables.map(|(name, value)| format!(" {name}={}", shell_quoted(value)));
    format!(
        "(\n\
         work=$(mktemp -d) || exit 76\n\
         trap 'rm -rf -- \"$work\" || {{ sleep 1; rm -rf -- \"$work\"; }}' EXIT\n\
         export work own_files='{OWN_FILES}' large={LARGE_BYTES} hashed={HASHED_BYTES}{}\n\
         timeout -k 1 {seconds} sh -c {}\n\
         )\n",
        variables.collect::<String>(),
        shell_quoted(&format!("{FUNCTIONS}{}", parts.concat())),
    )
}

/// Runs a script with these variables and the functions of `snapshot.sh` in `directory`.
pub(crate) async fn run_in(
    server: &AgentServer,
    directory: &str,
    variables: &[(&str, &str)],
    parts: &[&str],
) -> ApiResult<ScriptOutput> {
    let script = format!(
        "cd -P -- {} || exit {EXIT_NO_DIRECTORY}\n\
         command -v git >/dev/null || exit {EXIT_NO_GIT}\n{}",
        shell_quoted(directory),
        script(variables, parts, SNAPSHOT_SECONDS)
    );
    server.run_script(&script).await
}

/// The last line of a script's output, if it is a git object id.
pub(crate) fn printed_id(printed: &str) -> Option<String> {
    let last = printed.trim_end().lines().next_back()?;
    is_object_id(last).then(|| last.to_owned())
}

/// The id of the snapshot that a script has taken, or the reason why there is none; `None` on a machine without git.
pub(crate) fn snapshot_or_reason(printed: &ScriptOutput) -> Option<String> {
    let has_failed = printed.exit_code != Some(0) || !printed.error().trim().is_empty();
    let failure = || has_failed.then(|| failure_reason(printed.exit_code, printed.error()));
    printed_id(printed.text()).or_else(failure)
}

/// Returns true for the id of a git object.
pub(crate) fn is_object_id(text: &str) -> bool {
    matches!(text.len(), 40..=64) && text.chars().all(|c| c.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn truncated_list_of_changes_is_parsed() {
        let list = "@.\0A\0ä b.txt\0R100\0x\0z\0T\0link\0+cl\0M\0a\0@deep/er\0D\0b\0A\0cut";
        let sizes = HashMap::from([("z", 25_000_000)]);
        let (files, repositories, has_large) = parse_list(list, &sizes);
        assert!(has_large);
        let changes = Changes {
            content: String::new(),
            count: files.len() + 3,
            files,
            repositories,
            diff: vec![],
            window: Window::default(),
            size: 0,
            is_absent: false,
            warnings: vec![],
        };
        let expected = "A ä b.txt|R x -> z (25 MB)|M link|A cl/|M cl/a|D deep/er/b|… and 3 more";
        assert_eq!(changes.lines(0, 900).join("|"), expected);
        assert_eq!(changes.lines(5, 900)[0], "D deep/er/b");
        assert_eq!(changes.repositories, ["cl", "deep/er"]);
        assert_eq!(parse_list("", &sizes), (vec![], vec![], false));
    }

    #[test]
    fn part_of_a_diff_has_whole_lines_and_always_advances() {
        for (text, limit, size, expected) in [
            (&b"a\nb\nc"[..], 4, 100, 4),
            (b"a\nbcd", 4, 100, 2),
            ("aä".as_bytes(), 2, 100, 1),
            ("ä".as_bytes(), 1, 100, 1),
            (b"a\nbcd", 10, 5, 5),
            (&[0x80; 8], 5, 100, 5),
        ] {
            let part = Window::new(0, limit).part(text).lines(size);
            assert_eq!(part.end(), expected);
        }
        let part = Window::new(9, 4).part(b"short");
        assert_eq!((part.bytes(), part.lines(5).end()), (&b""[..], 9));
    }
}
