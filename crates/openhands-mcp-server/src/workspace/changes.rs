//! Changes that the agent made in its directory, read with git on the machine of the agent server. We
//! use a copy of the index, so the agent's staged changes stay untouched.

use mcp_core::tool::ToolError;
use upstream::redact::redacted_code;
use upstream::text::{fitting, one_line};

use super::file_name::FileName;
use crate::api::{AgentServer, ApiResult, Conversation, shell_quoted};
use crate::tags::ConversationTags;

/// Commands that make git use a copy of the index, with the current content of the directory.
const COPY_INDEX: &str = "\
repository=$(git rev-parse --absolute-git-dir) || exit 0
GIT_INDEX_FILE=$(mktemp -u) && export GIT_INDEX_FILE
trap 'rm -f -- \"$GIT_INDEX_FILE\"' EXIT
cp -- \"$repository/index\" \"$GIT_INDEX_FILE\" 2>/dev/null
timeout 8 git -c core.safecrlf=false add -A -- . 2>/dev/null
";

/// Commands that write the current content of the directory to git's store and print the tree id.
pub(crate) fn snapshot_script() -> String {
    format!("{COPY_INDEX}git write-tree\n")
}

/// The last line of a script's output, if it is a git object id.
pub(crate) fn printed_tree(printed: &str) -> Option<String> {
    let last = printed.trim_end().lines().next_back()?;
    let is_id = last.len() >= 40 && last.chars().all(|c| c.is_ascii_hexdigit());
    is_id.then(|| last.to_owned())
}

/// The tree of an empty directory.
const EMPTY_TREE: &str = "4b825dc642cb6eb9a060e54bf8d69288fbee4904";
/// Files in a list; a build directory may hold thousands.
const MAX_FILES: usize = 200;
/// Characters of one name in a list.
const MAX_NAME_CHARS: usize = 120;
/// Bytes of a secret that the end of a text could cut in two.
const MAX_SECRET_BYTES: usize = 4_096;

/// A file that was added, modified or deleted.
#[derive(Debug, PartialEq, Eq)]
struct FileChange {
    /// `A`, `M` or `D`.
    letter: char,
    /// Relative to the task's directory.
    path: String,
}

/// The files that changed since the task started, at most [`MAX_FILES`].
pub(crate) struct ChangedFiles {
    files: Vec<FileChange>,
    /// The number of all changed files.
    count: usize,
}

impl ChangedFiles {
    /// Reads the changed files from git.
    pub(crate) async fn read(server: &AgentServer, conversation: &Conversation) -> ApiResult<Self> {
        let list = format!(
            "git diff --cached --no-renames --relative --name-status -z {base} -- . > \"$GIT_INDEX_FILE.out\"\n\
             tr -cd '\\000' < \"$GIT_INDEX_FILE.out\" | wc -c\n\
             head -c 60000 -- \"$GIT_INDEX_FILE.out\"\n\
             rm -f -- \"$GIT_INDEX_FILE.out\"\n",
            base = base(conversation),
        );
        let printed = git(server, conversation, &list).await?;
        let (count, list) = printed.split_once('\n').unwrap_or_default();
        Ok(Self {
            files: parse(list),
            count: count.trim().parse::<usize>().unwrap_or_default() / 2,
        })
    }

    /// Returns true if nothing changed.
    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// One line for each change, such as `M src/a.py`: as many as fit into `budget` bytes, and the
    /// number of the others.
    pub(crate) fn lines(&self, budget: usize) -> Vec<String> {
        let name = |path: &str| one_line(path, MAX_NAME_CHARS);
        let line = |file: &FileChange| format!("{} {}", file.letter, name(&file.path));
        let mut lines = fitting(self.files.iter().map(line).collect(), budget).rows;
        if lines.len() < self.count {
            lines.push(format!("… and {} more", self.count - lines.len()));
        }
        lines
    }
}

/// The beginning of a diff, with secrets redacted.
pub(crate) struct Diff {
    pub(crate) text: String,
    /// Bytes of the whole diff.
    pub(crate) size: usize,
    pub(crate) is_truncated: bool,
}

/// The first `limit` bytes of the diff since the task started, of one file or of all.
pub(crate) async fn diff(
    server: &AgentServer,
    conversation: &Conversation,
    file: Option<&FileName>,
    limit: usize,
) -> Result<Diff, ToolError> {
    // `:(literal)` stops git from interpreting stars and colons in the name.
    let path = file.map_or(".".to_owned(), |file| {
        shell_quoted(&format!(":(literal){}", file.as_str()))
    });
    // A secret that the limit cuts in two must be redacted, too.
    let read = limit + MAX_SECRET_BYTES;
    let diff = format!(
        "git diff --cached --no-renames --relative --no-color --no-ext-diff --no-textconv {base} -- {path} > \"$GIT_INDEX_FILE.out\"\n\
         wc -c < \"$GIT_INDEX_FILE.out\"\n\
         head -c {read} -- \"$GIT_INDEX_FILE.out\"\n\
         rm -f -- \"$GIT_INDEX_FILE.out\"\n",
        base = base(conversation),
    );
    let printed = git(server, conversation, &diff).await?;
    let Some((length, diff)) = printed.split_once('\n') else {
        return Err(ToolError::conflict(
            "The agent server has no git, or the task's directory is gone, so changes are not \
             known. Read single files with get_task_file.",
        ));
    };
    let size = length.trim().parse().unwrap_or_default();
    let mut text = redacted_code(diff).into_owned();
    let is_truncated = text.len() > limit || size > read;
    text.truncate(text.floor_char_boundary(limit));
    Ok(Diff {
        text,
        size,
        is_truncated,
    })
}

/// The git tree id of the directory's current content; `None` without git.
pub(crate) async fn tree(
    server: &AgentServer,
    conversation: &Conversation,
) -> ApiResult<Option<String>> {
    let printed = git(server, conversation, "git write-tree\n").await?;
    Ok(printed_tree(&printed))
}

/// Runs `script` in the directory, with a copy of the index that holds the current content.
async fn git(server: &AgentServer, conversation: &Conversation, script: &str) -> ApiResult<String> {
    let directory = shell_quoted(&conversation.workspace.working_dir);
    let script = format!("cd -P -- {directory} || exit 0\n{COPY_INDEX}{script}");
    Ok(server.run_script(&script).await?.text().to_owned())
}

/// The commit or tree that the directory is compared with, for the shell. If it is not in a tag,
/// another client has created the conversation, and the last commit counts as the initial state.
fn base(conversation: &Conversation) -> String {
    match ConversationTags::new(conversation.tags.clone()).base() {
        Some(base) => base.to_owned(),
        None => format!("\"$(git rev-parse -q --verify HEAD || echo {EMPTY_TREE})\""),
    }
}

/// Parses `A\0path\0M\0path\0…`. The last entry may be truncated.
fn parse(list: &str) -> Vec<FileChange> {
    let mut changes = Vec::new();
    let mut words = list.split_inclusive('\0');
    while let (Some(letter), Some(path)) = (words.next(), words.next()) {
        let (Some(path), true) = (path.strip_suffix('\0'), changes.len() < MAX_FILES) else {
            break;
        };
        let letter = match letter.trim_end_matches('\0') {
            "A" => 'A',
            "D" => 'D',
            // Other content, or another type.
            _ => 'M',
        };
        let path = path.to_owned();
        changes.push(FileChange { letter, path });
    }
    changes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn truncated_list_of_changes_is_parsed() {
        let changes = parse("A\0ä b.txt\0M\0x\ny\0D\0c\0T\0link\0A\0cut");
        let changes = changes.iter().map(|file| (file.letter, file.path.as_str()));
        let expected = [('A', "ä b.txt"), ('M', "x\ny"), ('D', "c"), ('M', "link")];
        assert!(changes.eq(expected));
        assert_eq!(parse(""), []);
    }
}
