//! Checks of files: state, configuration and tokens.

use anyhow::ensure;
use serde_json::json;

use super::super::wine::{Command, TARGET, WINDOWS_FOLDER, Wine};
use super::{client, list_tools, request, wait_for_tool};

/// The folders of users, in the Debian, and that of the gateway for state in the one of root.
const USERS: &str = "/opt/wine/drive_c/users";
const STATE: [&str; 4] = ["root", "AppData", "Local", "mcp-gateway"];

/// The warning about a private file that others may read.
const WARNING: &str = "has the access rights of its folder";

const TOOL: &str = "docker__list_containers";
const LISTENS: &str = "listens on";

/// Returns a path in the folder of the check, as Windows programs call it.
pub(super) fn path(name: &str) -> String {
    format!(r"{WINDOWS_FOLDER}\{name}")
}

/// A backend with this name: a program at a path with backslashes, in a folder with a space.
pub(super) fn backend(name: &str) -> String {
    format!(
        "[backends.{name}]\ncommand = ['Z:\\work\\target\\{TARGET}\\debug\\docker-mcp-server.exe', '--stdio']\n\
         cwd = '{WINDOWS_FOLDER}'\nenv = {{ DOCKER_HOST = \"tcp://127.0.0.1:1\" }}\n"
    )
}

pub(super) fn state(wine: &Wine<'_>) -> anyhow::Result<()> {
    let users = wine.chroot.file(USERS);
    let folder = STATE.iter().fold(users, |path, name| path.join(name));
    if folder.exists() {
        std::fs::remove_dir_all(&folder)?;
    }
    let (server, _) = wine.serve("mcp-gateway", &[], &[])?;
    for name in ["session.key", "events.db"] {
        let file = folder.join(name);
        let exists = wine.wait_until(|| file.exists());
        ensure!(exists, "there is no {}", file.display());
    }
    ensure!(
        !server.log().contains(WARNING),
        "it warns of the user's own folder"
    );
    Ok(())
}

pub(super) fn shared_folder(wine: &Wine<'_>) -> anyhow::Result<()> {
    let (server, _) = wine.serve("mcp-gateway", &["--events", &path("events.db")], &[])?;
    let warns = wine.wait_until(|| server.log().contains(WARNING));
    ensure!(warns, "no warning");
    let file = path("tokens");
    let added = wine.run(Command {
        program: "docker-mcp-server",
        args: &["token", "add", "ann", "--token-file", &file],
        ..Command::default()
    })?;
    ensure!(
        added.log.contains(WARNING),
        "the command `token` does not warn"
    );
    Ok(())
}

pub(super) fn followed(wine: &Wine<'_>) -> anyhow::Result<()> {
    wine.write("gateway.toml", &backend("docker"))?;
    let args = ["--events", "memory", "--config", &path("gateway.toml")];
    let (_server, port) = wine.serve("mcp-gateway", &args, &[])?;
    let client = client(port, None);
    wait_for_tool(wine, &client, TOOL)?;
    wine.write("gateway.toml", &(backend("docker") + &backend("other")))?;
    wait_for_tool(wine, &client, "other__list_containers")
}

/// A mistake in a file, and one in the file of tokens. Exit codes are not looked at: wine exits with 0 now and then
/// if a program ends while it has threads.
pub(super) fn mistakes(wine: &Wine<'_>) -> anyhow::Result<()> {
    wine.write("gateway.toml", "# first\n\n[backends.x]\nurl = 5\n")?;
    let output = wine.run(Command {
        program: "mcp-gateway",
        args: &["--port", "0", "--config", &path("gateway.toml")],
        ..Command::default()
    })?;
    ensure!(!output.log.contains(LISTENS), "a wrong file is taken");
    let place = "gateway.toml:4";
    ensure!(output.log.contains(place), "no {place} in {:?}", output.log);
    wine.write(
        "tokens",
        "# first\nann s3cret-of-ann-which-is-long-enough\nann again\n",
    )?;
    let output = wine.run(Command {
        program: "mcp-gateway",
        args: &["--port", "0", "--token-file", &path("tokens")],
        ..Command::default()
    })?;
    ensure!(
        !output.log.contains(LISTENS),
        "a wrong file of tokens is taken"
    );
    ensure!(output.log.contains("line 3"), "no line in {:?}", output.log);
    Ok(())
}

pub(super) fn tokens(wine: &Wine<'_>) -> anyhow::Result<()> {
    let (file, ann) = (path("tokens"), "ann-has-a-token-of-32-characters-");
    wine.write("tokens", &format!("# the tokens\nann {ann}\n"))?;
    let (_server, port) = wine.serve("docker-mcp-server", &["--token-file", &file], &[])?;
    let lists = |token: Option<&str>| list_tools(&client(port, token)).is_ok();
    ensure!(lists(Some(ann)), "the token of the file is refused");
    ensure!(
        !lists(None) && !lists(Some("other")),
        "another token is taken"
    );
    let token = |action: &[&str]| {
        let args = [&["token"], action, &["--token-file", &file]].concat();
        let command = Command {
            program: "docker-mcp-server",
            args: &args,
            ..Command::default()
        };
        wine.run(command)?.success()
    };
    let bob = token(&["add", "bob", "--expires", "1h"])?;
    let bob = Some(bob.trim());
    ensure!(wine.wait_until(|| lists(bob)), "the new token is not taken");
    let listed = token(&["list"])?;
    let is_complete = listed.contains("ann plain") && listed.contains("bob hashed");
    ensure!(is_complete, "listed: {listed:?}");
    token(&["revoke", "bob"])?;
    ensure!(
        wine.wait_until(|| !lists(bob)),
        "the revoked token is taken"
    );
    ensure!(lists(Some(ann)), "the first token is refused");
    let text = wine.read("tokens")?;
    ensure!(text.contains("bob was revoked"), "the file is {text:?}");
    Ok(())
}

/// The directory is found below the allowed one, in the form that Windows gives it, and nothing else is.
pub(super) fn projects(wine: &Wine<'_>) -> anyhow::Result<()> {
    let args = ["--toolsets", "images", "--project-dir", WINDOWS_FOLDER];
    let (_server, port) = wine.serve("docker-mcp-server", &args, &[])?;
    for (directory, text) in [
        (path("missing"), "There is no such directory"),
        (WINDOWS_FOLDER.to_owned(), "has no Dockerfile"),
        (r"Z:\opt".to_owned(), "--project-dir"),
        (path(r"..\x"), "without `..`"),
    ] {
        let arguments = json!({"tag": "x:1", "directory": directory});
        let call = json!({"name": "build_image", "arguments": arguments});
        let answer = request(&client(port, None), "tools/call", call)?.to_string();
        ensure!(answer.contains(text), "{directory}: {answer}");
    }
    Ok(())
}
