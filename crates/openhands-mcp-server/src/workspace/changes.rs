//! Changes that the agent made in its directory, by the agent server's git. Our index is a copy, so
//! nothing that the agent has staged is touched.

use mcp_core::tool::{ToolError, ToolErrorKind};

use upstream::redact::redacted_code;
use upstream::text::one_line;

use super::file_name::FileName;
use crate::api::{AgentServer, Conversation, Failure, quoted};
use crate::tags::ConversationTags;

/// From here on, git's index is a copy that holds the directory as it is.
const INDEX: &str = "\
repository=$(git rev-parse --absolute-git-dir) || exit 0
GIT_INDEX_FILE=$(mktemp -u) && export GIT_INDEX_FILE
trap 'rm -f -- \"$GIT_INDEX_FILE\"' EXIT
cp -- \"$repository/index\" \"$GIT_INDEX_FILE\" 2>/dev/null
timeout 8 git -c core.safecrlf=false add -A -- . 2>/dev/null
";

/// Commands that write the directory as it is into git's store and print the id of the tree.
pub(crate) fn snapshot_script() -> String {
    format!("{INDEX}git write-tree\n")
}

/// The last line that a script printed, where it is an id of git's.
pub(crate) fn printed_tree(printed: &str) -> Option<String> {
    let last = printed.trim_end().lines().next_back()?;
    let is_id = last.len() >= 40 && last.chars().all(|c| c.is_ascii_hexdigit());
    is_id.then(|| last.to_owned())
}

/// The tree of an empty directory.
const EMPTY: &str = "4b825dc642cb6eb9a060e54bf8d69288fbee4904";
/// Files that are listed; a build directory may hold thousands.
const MAX_FILES: usize = 200;
/// Characters of one name in a list.
const MAX_NAME: usize = 120;
/// Bytes of a secret that the end of a text could cut in two.
const MAX_SECRET: usize = 4_096;

/// A file that is not as it was.
#[derive(Debug, PartialEq, Eq)]
struct FileChange {
    /// From the task's directory.
    path: String,
    kind: ChangeKind,
}

/// The kind of a change to a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ChangeKind {
    /// It is new.
    Added,
    /// It has other content or another type.
    Modified,
    /// It is gone.
    Deleted,
}

/// The files that changed since the task began, at most [`MAX_FILES`].
pub(crate) struct ChangedFiles {
    files: Vec<FileChange>,
    /// How many there are.
    count: usize,
}

impl ChangedFiles {
    /// Reads them from the agent server's git.
    pub(crate) async fn read(
        server: &AgentServer,
        conversation: &Conversation,
    ) -> Result<Self, Failure> {
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

    /// A change a line, such as `M src/a.py`: as many as fit into `room` bytes, and how many do not.
    pub(crate) fn lines(&self, mut room: usize) -> Vec<String> {
        let mut lines = Vec::new();
        for file in &self.files {
            let letter = match file.kind {
                ChangeKind::Added => 'A',
                ChangeKind::Modified => 'M',
                ChangeKind::Deleted => 'D',
            };
            let line = format!("{letter} {}", one_line(&file.path, MAX_NAME));
            match room.checked_sub(line.len() + 3) {
                Some(left) => room = left,
                None => break,
            }
            lines.push(line);
        }
        if lines.len() < self.count {
            lines.push(format!("… and {} more", self.count - lines.len()));
        }
        lines
    }
}

/// The beginning of a difference, as git writes it, without secrets.
pub(crate) struct Diff {
    pub(crate) text: String,
    /// Bytes of the whole difference.
    pub(crate) size: usize,
    /// There is more than the text.
    pub(crate) is_cut: bool,
}

/// The first `limit` bytes of the difference since the task began; of one file or of all.
pub(crate) async fn diff(
    server: &AgentServer,
    conversation: &Conversation,
    file: Option<&FileName>,
    limit: usize,
) -> Result<Diff, ToolError> {
    // `:(literal)` keeps stars and colons of the name from meaning something.
    let of = file.map_or(".".to_owned(), |file| {
        quoted(&format!(":(literal){}", file.as_str()))
    });
    // A secret that the limit cuts in two must be recognised, too.
    let read = limit + MAX_SECRET;
    let diff = format!(
        "git diff --cached --no-renames --relative --no-color --no-ext-diff --no-textconv {base} -- {of} > \"$GIT_INDEX_FILE.out\"\n\
         wc -c < \"$GIT_INDEX_FILE.out\"\n\
         head -c {read} -- \"$GIT_INDEX_FILE.out\"\n\
         rm -f -- \"$GIT_INDEX_FILE.out\"\n",
        base = base(conversation),
    );
    let printed = git(server, conversation, &diff).await?;
    let Some((length, diff)) = printed.split_once('\n') else {
        return Err(ToolError::new(
            ToolErrorKind::Conflict,
            "The agent server has no git, or the task's directory is gone: what changed cannot be \
             said. Ask for single files with get_task_file.",
        ));
    };
    let size = length.trim().parse().unwrap_or_default();
    let mut text = redacted_code(diff).into_owned();
    let is_cut = text.len() > limit || size > read;
    text.truncate(text.floor_char_boundary(limit));
    Ok(Diff { text, size, is_cut })
}

/// The directory as it is, as an id of git's; `None` where there is no git.
pub(crate) async fn tree(
    server: &AgentServer,
    conversation: &Conversation,
) -> Result<Option<String>, Failure> {
    let printed = git(server, conversation, "git write-tree\n").await?;
    Ok(printed_tree(&printed))
}

/// Runs `script` where our index is that of the directory as it is.
async fn git(
    server: &AgentServer,
    conversation: &Conversation,
    script: &str,
) -> Result<String, Failure> {
    let directory = quoted(&conversation.workspace.working_dir);
    let script = format!("cd -P -- {directory} || exit 0\n{INDEX}{script}");
    Ok(server.execute(&script).await?.text().to_owned())
}

/// The commit or tree with which the directory is compared, for the shell. Where none was noted the
/// task was not prepared by us, and what is committed counts as what was there.
fn base(conversation: &Conversation) -> String {
    match ConversationTags::new(conversation.tags.clone()).base() {
        Some(base) => base.to_owned(),
        None => format!("\"$(git rev-parse -q --verify HEAD || echo {EMPTY})\""),
    }
}

/// Reads `A\0path\0M\0path\0…`, of which the last may be cut.
fn parse(list: &str) -> Vec<FileChange> {
    let mut changes = Vec::new();
    let mut words = list.split_inclusive('\0');
    while let (Some(letter), Some(path)) = (words.next(), words.next()) {
        let (Some(path), true) = (path.strip_suffix('\0'), changes.len() < MAX_FILES) else {
            break;
        };
        changes.push(FileChange {
            path: path.to_owned(),
            kind: match letter.trim_end_matches('\0') {
                "A" => ChangeKind::Added,
                "D" => ChangeKind::Deleted,
                _ => ChangeKind::Modified,
            },
        });
    }
    changes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_of_changes() {
        let change = |path: &str, kind| FileChange {
            path: path.into(),
            kind,
        };
        assert_eq!(
            parse("A\0ä b.txt\0M\0x\ny\0D\0c\0A\0cut"),
            [
                change("ä b.txt", ChangeKind::Added),
                change("x\ny", ChangeKind::Modified),
                change("c", ChangeKind::Deleted),
            ]
        );
        assert_eq!(parse(""), []);
    }
}
