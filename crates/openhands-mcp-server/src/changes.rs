//! What the agent changed in its directory, by the agent server's git. Our index is a copy, so
//! nothing that the agent has staged is touched.

use mcp_core::tool::{ToolError, ToolErrorKind};
use serde::Serialize;

use crate::OpenHands;
use crate::api::{AgentServer, Conversation, Failure, quoted};
use crate::file_name::FileName;
use crate::task_id::TaskId;

/// From here on, git's index is a copy that holds the directory as it is.
const INDEX: &str = "\
repository=$(git rev-parse --absolute-git-dir) || exit 0
GIT_INDEX_FILE=$(mktemp -u) && export GIT_INDEX_FILE
trap 'rm -f -- \"$GIT_INDEX_FILE\"' EXIT
cp -- \"$repository/index\" \"$GIT_INDEX_FILE\" 2>/dev/null
timeout 8 git -c core.safecrlf=false add -A -- . 2>/dev/null
";

/// Commands that write the directory as it is into git's store and print the id of the tree.
pub(crate) fn snapshot() -> String {
    format!("{INDEX}git write-tree\n")
}

/// The tree of an empty directory.
const EMPTY: &str = "4b825dc642cb6eb9a060e54bf8d69288fbee4904";
/// Files that are listed; a build directory may hold thousands.
pub(crate) const MAX_FILES: usize = 200;

/// A file that is not as it was.
#[derive(Debug, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub(crate) struct Change {
    /// From the task's directory.
    pub(crate) path: String,
    pub(crate) change: ChangeKind,
}

/// What happened to a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ChangeKind {
    /// It is new.
    Added,
    /// It has other content or another type.
    Modified,
    /// It is gone.
    Deleted,
}

impl OpenHands {
    /// The files that changed since the task began, at most [`MAX_FILES`], and how many there are.
    pub(crate) async fn changed_files(
        &self,
        id: TaskId,
        conversation: &Conversation,
    ) -> Result<(Vec<Change>, usize), Failure> {
        let list = format!(
            "git diff --cached --no-renames --relative --name-status -z {base} -- . > \"$GIT_INDEX_FILE.out\"\n\
             tr -cd '\\000' < \"$GIT_INDEX_FILE.out\" | wc -c\n\
             head -c 60000 -- \"$GIT_INDEX_FILE.out\"\n\
             rm -f -- \"$GIT_INDEX_FILE.out\"\n",
            base = base(conversation),
        );
        let printed = git(&self.at(id).await?, conversation, &list).await?;
        let (count, list) = printed.split_once('\n').unwrap_or_default();
        let count = count.trim().parse::<usize>().unwrap_or_default() / 2;
        Ok((parse(list), count))
    }

    /// The first `limit` bytes of the difference since the task began, as git writes it, and how
    /// long it is; of one file or of all.
    pub(crate) async fn diff(
        &self,
        id: TaskId,
        conversation: &Conversation,
        file: Option<&FileName>,
        limit: usize,
    ) -> Result<(String, usize), ToolError> {
        // `:(literal)` keeps stars and colons of the name from meaning something.
        let of = file.map_or(".".to_owned(), |file| {
            quoted(&format!(":(literal){}", file.as_str()))
        });
        let diff = format!(
            "git diff --cached --no-renames --relative --no-color --no-ext-diff --no-textconv {base} -- {of} > \"$GIT_INDEX_FILE.out\"\n\
             wc -c < \"$GIT_INDEX_FILE.out\"\n\
             head -c {limit} -- \"$GIT_INDEX_FILE.out\"\n\
             rm -f -- \"$GIT_INDEX_FILE.out\"\n",
            base = base(conversation),
        );
        let printed = git(&self.at(id).await?, conversation, &diff).await?;
        let Some((length, diff)) = printed.split_once('\n') else {
            return Err(ToolError::new(
                ToolErrorKind::Conflict,
                "The agent server has no git, or the task's directory is gone: what changed cannot \
                 be said. Ask for single files with get_task_file.",
            ));
        };
        Ok((diff.to_owned(), length.trim().parse().unwrap_or_default()))
    }
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
    match conversation.notes.base() {
        Some(base) => base.to_owned(),
        None => format!("\"$(git rev-parse -q --verify HEAD || echo {EMPTY})\""),
    }
}

/// Reads `A\0path\0M\0path\0…`, of which the last may be cut.
fn parse(list: &str) -> Vec<Change> {
    let mut changes = Vec::new();
    let mut words = list.split_inclusive('\0');
    while let (Some(letter), Some(path)) = (words.next(), words.next()) {
        let (Some(path), true) = (path.strip_suffix('\0'), changes.len() < MAX_FILES) else {
            break;
        };
        changes.push(Change {
            path: path.to_owned(),
            change: match letter.trim_end_matches('\0') {
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
        let change = |path: &str, change| Change {
            path: path.into(),
            change,
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
