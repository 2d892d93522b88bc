//! Parses the backends of the command line: `NAME=COMMAND` and `NAME=URL`.

use std::borrow::Cow;

use super::error::Problem;
use super::expand::Environment;
use super::reader::FieldReader;
use super::{BackendConfig, BackendKey, Child, Remote, Target};

/// Parses one `--backend`.
pub(super) fn parse(
    text: &str,
    environment: &Environment<'_>,
) -> Result<(BackendKey, BackendConfig), Problem> {
    let (name, target) = text.split_once('=').ok_or_else(|| {
        let expected = "must be `NAME=COMMAND` or `NAME=URL`, such as `files=npx -y @modelcontextprotocol/server-filesystem .`";
        Problem::new(&[], expected)
    })?;
    let (name, target) = (name.trim(), target.trim());
    let key = BackendKey::parse(name).map_err(|text| Problem::new(&[name], text))?;
    let mut reader = FieldReader::new(["backends", name], environment);
    let target = if target.starts_with("http://") || target.starts_with("https://") {
        Target::Http(Remote {
            url: reader.url(target)?,
            written: target.to_owned(),
            ..Remote::default()
        })
    } else {
        // In paths of Windows a backslash escapes nothing.
        let target = match cfg!(windows) {
            true => Cow::Owned(target.replace('\\', r"\\")),
            false => Cow::Borrowed(target),
        };
        let argv = shlex::split(&target)
            .ok_or_else(|| Problem::new(&[name], "has a quote that is not closed"))?;
        Target::Child(Child {
            written: argv.clone(),
            argv: reader.command(argv)?,
            ..Child::default()
        })
    };
    let backend = BackendConfig {
        disabled: reader.missing,
        ..BackendConfig::new(target)
    };
    Ok((key, backend))
}

/// The three servers of this workspace, at their default ports.
pub(super) fn local() -> Vec<(BackendKey, BackendConfig)> {
    let servers = [("n8n", 3456), ("openhands", 3457), ("docker", 3458)];
    let backend = |(name, port): (&str, u16)| {
        let url = format!("http://127.0.0.1:{port}/mcp");
        let remote = Remote {
            written: url.clone(),
            url,
            ..Remote::default()
        };
        let key = BackendKey::parse(name).ok()?;
        Some((key, BackendConfig::new(Target::Http(remote))))
    };
    servers.into_iter().filter_map(backend).collect()
}
