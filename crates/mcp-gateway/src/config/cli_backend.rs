//! Backends of the command line: `NAME=COMMAND` and `NAME=URL`.

use super::error::Problem;
use super::expand::Place;
use super::reader::Reader;
use super::{Backend, BackendKey, Child, Remote, Target};

/// Reads one `--backend`.
pub(super) fn parse(text: &str, place: &Place<'_>) -> Result<(BackendKey, Backend), Problem> {
    let wrong = |what: &str| Problem::new(&[], what);
    let (name, what) = text.split_once('=').ok_or_else(|| {
        wrong("is `NAME=COMMAND` or `NAME=URL`, like `files=npx -y @modelcontextprotocol/server-filesystem .`")
    })?;
    let (name, what) = (name.trim(), what.trim());
    let key = BackendKey::parse(name).map_err(|what| Problem::new(&[name], what))?;
    let mut reader = Reader::new(["backends", name], place);
    let target = if what.starts_with("http://") || what.starts_with("https://") {
        Target::Http(Remote {
            url: reader.url(what)?,
            ..Remote::default()
        })
    } else {
        let argv = shlex::split(what)
            .ok_or_else(|| Problem::new(&[name], "has a quote without its other half"))?;
        Target::Child(Child {
            argv: reader.command(argv)?,
            ..Child::default()
        })
    };
    let backend = Backend {
        disabled: reader.missing,
        ..Backend::new(target)
    };
    Ok((key, backend))
}

/// The three servers of this workspace, where they listen by default.
pub(super) fn local() -> Vec<(BackendKey, Backend)> {
    let servers = [("n8n", 3456), ("openhands", 3457), ("docker", 3458)];
    let backend = |(name, port): (&str, u16)| {
        let remote = Remote {
            url: format!("http://127.0.0.1:{port}/mcp"),
            ..Remote::default()
        };
        let key = BackendKey::parse(name).ok()?;
        Some((key, Backend::new(Target::Http(remote))))
    };
    servers.into_iter().filter_map(backend).collect()
}
