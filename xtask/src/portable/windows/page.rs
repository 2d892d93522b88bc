//! The page of a server, as a browser gets it.

use anyhow::{Context as _, ensure};

use super::super::wine::Wine;

/// The page names its files, which the program has in itself.
pub(super) fn page(wine: &Wine<'_>) -> anyhow::Result<()> {
    let (_server, port) = wine.serve("docker-mcp-server", &[], &[])?;
    let html = get(port, "/")?;
    let files = html.split('"').filter(|part| part.starts_with("/page/"));
    let files: Vec<&str> = files.collect();
    ensure!(files.len() >= 2, "a page without files: {html}");
    for file in files {
        ensure!(!get(port, file)?.is_empty(), "{file} is empty");
    }
    Ok(())
}

fn get(port: u16, path: &str) -> anyhow::Result<String> {
    let request = ureq::get(format!("http://127.0.0.1:{port}{path}")).header("accept", "text/html");
    let mut response = request.call().with_context(|| path.to_owned())?;
    Ok(response.body_mut().read_to_string()?)
}
