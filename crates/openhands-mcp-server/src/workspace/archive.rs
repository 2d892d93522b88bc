//! Archives of a directory. An archive stays in a file on the machine of the agent server while its
//! parts are read.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use mcp_core::tool::ToolError;
use uuid::Uuid;

use super::file_name::FileName;
use crate::api::{AgentServer, Conversation, shell_quoted};

/// Larger archives are refused.
const MAX_ARCHIVE_BYTES: u64 = 64 * 1024 * 1024;
/// Old archives are removed after this time.
const MAX_AGE_MINUTES: u32 = 60;

/// Exit codes of the script.
const EXIT_SYMLINK: i32 = 73;
const EXIT_NO_FILE: i32 = 74;
const EXIT_TOO_LARGE: i32 = 75;
const EXIT_EXPIRED: i32 = 76;

/// A part of an archive.
pub(crate) struct ArchivePart<'a> {
    pub(crate) id: Uuid,
    /// The archive is to be made.
    pub(crate) is_new: bool,
    /// Only this file or directory.
    pub(crate) file: Option<&'a FileName>,
    pub(crate) offset: u64,
    pub(crate) length: u64,
}

/// Reads a part of a tar.gz archive. Returns it and the size of the whole archive.
///
/// # Errors
/// The file does not exist, the archive is too large or was removed; the error says what to do.
pub(crate) async fn archive_part(
    server: &AgentServer,
    conversation: &Conversation,
    part: &ArchivePart<'_>,
) -> Result<(Vec<u8>, u64), ToolError> {
    let make = format!(
        "cd -P -- {directory} || exit {EXIT_NO_FILE}\n\
         file={file}\n\
         [ -e \"$file\" ] || [ -L \"$file\" ] || exit {EXIT_NO_FILE}\n\
         here=$(pwd)\n\
         case $(realpath -m -- \"$(dirname -- \"./$file\")\")/ in \"$here\"/*) ;; *) exit {EXIT_SYMLINK} ;; esac\n\
         find \"${{TMPDIR:-/tmp}}\" -maxdepth 1 -name 'mcp-archive-*' -mmin +{MAX_AGE_MINUTES} \
         -exec rm -f -- {{}} + 2>/dev/null\n\
         umask 077\n\
         tar -cf - --exclude=.git --exclude=node_modules --exclude=.venv --exclude=venv \
         --exclude=__pycache__ -- \"./$file\" 2>/dev/null | gzip | head -c {limit} > \"$archive\"\n",
        directory = shell_quoted(&conversation.workspace.working_dir),
        file = shell_quoted(part.file.map_or(".", FileName::as_str)),
        limit = MAX_ARCHIVE_BYTES + 1,
    );
    let script = format!(
        "archive=${{TMPDIR:-/tmp}}/mcp-archive-{id}\n{make}\
         [ -f \"$archive\" ] || exit {EXIT_EXPIRED}\n\
         size=$(wc -c < \"$archive\")\n\
         [ \"$size\" -le {MAX_ARCHIVE_BYTES} ] || {{ rm -f -- \"$archive\"; exit {EXIT_TOO_LARGE}; }}\n\
         echo \"$size\"\n\
         tail -c +{start} -- \"$archive\" | head -c {length} | base64 | tr -d '\\n'\n",
        id = part.id.simple(),
        make = if part.is_new { &make } else { "" },
        start = part.offset + 1,
        length = part.length,
    );
    let printed = server.run_script(&script).await?;
    let message = match printed.exit_code {
        Some(0) => {
            let (size, bytes) = printed.text().split_once('\n').unwrap_or_default();
            let read = size
                .trim()
                .parse()
                .ok()
                .zip(STANDARD.decode(bytes.trim()).ok());
            let unreadable = || ToolError::upstream("The archive could not be read. Try again.");
            return read
                .map(|(size, bytes)| (bytes, size))
                .ok_or_else(unreadable);
        }
        Some(EXIT_SYMLINK) => {
            return Err(ToolError::forbidden(
                "file leads out of the task's directory through a symbolic link, so it is not read.",
            ));
        }
        Some(EXIT_NO_FILE) => {
            return Err(ToolError::not_found(
                "file: there is no such file or directory in the task's directory. \
                 get_task_changes lists what the agent made.",
            ));
        }
        Some(EXIT_TOO_LARGE) => "The archive is larger than 64 MiB: name a directory with file.",
        Some(EXIT_EXPIRED) => "cursor is too old: call get_task_archive again without it.",
        _ => "The archive took too long: name a directory with file.",
    };
    Err(ToolError::conflict(message))
}
