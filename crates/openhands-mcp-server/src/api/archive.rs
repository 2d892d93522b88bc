//! Archives of a directory. An archive stays in a file on the machine of the agent server while its
//! parts are read.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use mcp_core::tool::ToolError;
use uuid::Uuid;

use crate::api::agent_server::AgentServer;
use crate::api::conversations::Conversation;
use crate::api::file_name::FileName;
use crate::api::shell::shell_quoted;

/// Larger archives are refused.
pub(crate) const MAX_ARCHIVE_BYTES: u64 = 64 * 1024 * 1024;
/// Old archives are removed after this time.
const MAX_AGE_MINUTES: u32 = 60;

/// Exit codes of the script.
const EXIT_SYMLINK: i32 = 73;
const EXIT_NO_FILE: i32 = 74;
const EXIT_TOO_LARGE: i32 = 75;
const EXIT_EXPIRED: i32 = 76;
const EXIT_TAR: i32 = 77;

/// Options for the archive of a whole directory.
const EXCLUDES: &str = "--exclude=.git --exclude=node_modules --exclude=.venv --exclude=venv \
    --exclude=__pycache__";

/// A part of an archive.
pub(crate) struct ArchivePart<'a> {
    /// Names its file.
    pub(crate) id: Uuid,
    /// The archive is to be made.
    pub(crate) is_new: bool,
    /// Only this file or directory.
    pub(crate) file: Option<&'a FileName>,
    /// Its start in the archive, in bytes.
    pub(crate) offset: u64,
    pub(crate) length: u64,
}

/// A part that was read.
#[derive(Debug)]
pub(crate) struct ReadPart {
    pub(crate) bytes: Vec<u8>,
    /// Of the whole archive.
    pub(crate) size: u64,
    /// `tar` could not read all files while it made the archive.
    pub(crate) is_incomplete: bool,
}

/// Reads a part of a tar.gz archive.
///
/// # Errors
/// The file does not exist, the archive is too large or was removed; the error says what to do.
pub(crate) async fn archive_part(
    server: &AgentServer,
    conversation: &Conversation,
    part: &ArchivePart<'_>,
) -> Result<ReadPart, ToolError> {
    let script = script(&conversation.workspace.working_dir, part);
    let printed = server.run_script(&script).await?;
    let message = match printed.exit_code {
        Some(0) => {
            return parse(printed.text())
                .ok_or_else(|| ToolError::upstream("The archive could not be read. Try again."));
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
        Some(EXIT_TAR) => {
            "tar or gzip failed on the agent server: read single files with get_task_file."
        }
        _ => "The archive took too long: name a directory with file.",
    };
    Err(ToolError::conflict(message))
}

fn script(directory: &str, part: &ArchivePart<'_>) -> String {
    let make = format!(
        "cd -P -- {directory} || exit {EXIT_NO_FILE}\n\
         file={file}\n\
         [ -e \"$file\" ] || [ -L \"$file\" ] || exit {EXIT_NO_FILE}\n\
         here=$(pwd)\n\
         case $(realpath -m -- \"$(dirname -- \"./$file\")\")/ in \"$here\"/*) ;; *) exit {EXIT_SYMLINK} ;; esac\n\
         find \"${{TMPDIR:-/tmp}}\" -maxdepth 1 -name 'mcp-archive-*' -mmin +{MAX_AGE_MINUTES} \
         -exec rm -f -- {{}} + 2>/dev/null\n\
         umask 077\n\
         code=$({{ {{ tar -cf - {excludes} -- \"./$file\" 2>/dev/null; echo $? >&3; }} | gzip | \
         head -c {limit} > \"$archive\"; }} 3>&1)\n",
        directory = shell_quoted(directory),
        excludes = if part.file.is_none() { EXCLUDES } else { "" },
        file = shell_quoted(part.file.map_or(".", FileName::as_str)),
        limit = MAX_ARCHIVE_BYTES + 1,
    );
    format!(
        "archive=${{TMPDIR:-/tmp}}/mcp-archive-{id}\ncode=0\n{make}\
         [ -f \"$archive\" ] || exit {EXIT_EXPIRED}\n\
         size=$(wc -c < \"$archive\")\n\
         [ \"$size\" -le {MAX_ARCHIVE_BYTES} ] || {{ rm -f -- \"$archive\"; exit {EXIT_TOO_LARGE}; }}\n\
         case $code in [012]) ;; *) rm -f -- \"$archive\"; exit {EXIT_TAR} ;; esac\n\
         echo \"$size $code\"\n\
         tail -c +{start} -- \"$archive\" | head -c {length} | base64 | tr -d '\\n'\n",
        id = part.id.simple(),
        make = if part.is_new { &make } else { "" },
        start = part.offset + 1,
        length = part.length,
    )
}

/// Parses the size, the exit code of `tar` and the part.
fn parse(printed: &str) -> Option<ReadPart> {
    let (first, bytes) = printed.split_once('\n')?;
    let (size, code) = first.trim().split_once(' ')?;
    Some(ReadPart {
        bytes: STANDARD.decode(bytes.trim()).ok()?,
        size: size.parse().ok()?,
        is_incomplete: code != "0",
    })
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    /// Makes an archive of `file` in `directory` and returns it and the names in it.
    fn archive(directory: &str, file: Option<&str>) -> (ReadPart, Vec<String>) {
        let file = file.map(|name| FileName::new(name).unwrap());
        let part = ArchivePart {
            id: Uuid::new_v4(),
            is_new: true,
            file: file.as_ref(),
            offset: 0,
            length: 100_000,
        };
        let made = shell(&script(directory, &part));
        let listed = format!(
            "tar -tzf \"${{TMPDIR:-/tmp}}/mcp-archive-{}\"",
            part.id.simple()
        );
        let listed = shell(&listed);
        let names = listed.lines().map(str::to_owned).collect();
        (parse(&made).unwrap(), names)
    }

    fn shell(script: &str) -> String {
        let ran = Command::new("sh").args(["-c", script]).output().unwrap();
        String::from_utf8(ran.stdout).unwrap()
    }

    #[test]
    fn named_directory_is_archived_even_if_it_is_left_out_by_default() {
        let directory = std::env::temp_dir().join(format!("archive-{}", Uuid::new_v4()));
        std::fs::create_dir_all(directory.join("venv/bin")).unwrap();
        std::fs::write(directory.join("venv/bin/x"), "x").unwrap();
        let place = directory.to_str().unwrap();
        let (whole, names) = archive(place, None);
        assert_eq!(
            (names, whole.is_incomplete),
            (vec!["././".to_owned()], false)
        );
        let (one, names) = archive(place, Some("venv"));
        assert!(names.contains(&"./venv/bin/x".to_owned()), "{names:?}");
        assert_eq!(one.size, one.bytes.len() as u64);
        std::fs::remove_dir_all(directory).unwrap();
    }

    #[test]
    fn exit_code_of_tar_tells_that_files_are_missing() {
        assert!(parse("0 2\n").unwrap().is_incomplete);
        assert!(!parse("3 0\nYWJj").unwrap().is_incomplete);
        assert!(parse("").is_none());
    }
}
