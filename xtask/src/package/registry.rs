//! The names of packages in public registries, and the options that programs have there. Names without a
//! prefix belong to others: PyPI has a `docker-mcp-server`, an `n8n-mcp-server` and an `mcp-gateway`.

use super::{Product, product::ProductOption};

pub(crate) const REPOSITORY: &str = env!("CARGO_PKG_REPOSITORY");

pub(crate) const LICENSE: &str = env!("CARGO_PKG_LICENSE");

/// Options of every server that matter over stdio; the others are about HTTP or logs.
const COMMON: [&str; 3] = ["MCP_TOOLSETS", "MCP_READ_ONLY", "MCP_CALL_TIMEOUT"];

/// Options without which a program is of no use: n8n answers no request without a key, and a gateway has nothing to
/// offer without backends. The services of the other secrets may need none.
const NEEDED: [&str; 2] = ["N8N_API_KEY", "MCP_GATEWAY_CONFIG"];

/// Returns the owner of the repository, who owns the names in registries.
pub(crate) fn owner() -> &'static str {
    REPOSITORY.rsplit('/').nth(1).unwrap_or_default()
}

pub(crate) fn npm(program: &str) -> String {
    format!("@{}/{program}", owner())
}

pub(crate) fn pypi(program: &str) -> String {
    format!("{}-{program}", owner())
}

/// Returns the name in the registry of MCP, which is also the value of an image's label.
pub(crate) fn mcp(program: &str) -> String {
    format!("io.github.{}/{program}", owner())
}

pub(crate) fn image(program: &str) -> String {
    format!("ghcr.io/{}/{program}", owner())
}

/// Returns the address of a file of the release.
pub(crate) fn download(version: &str, file: &str) -> String {
    format!("{REPOSITORY}/releases/download/v{version}/{file}")
}

/// Returns the options for hosts that start the program and keep its secrets: files of secrets are not among
/// them.
pub(crate) fn options(product: &Product) -> impl Iterator<Item = &ProductOption> {
    let is_offered = |option: &&ProductOption| {
        let is_known = !option.is_common || COMMON.contains(&option.variable.as_str());
        is_known && option.file_of.is_none()
    };
    product.options.iter().filter(is_offered)
}

/// Returns true if the program is of no use without a value.
pub(crate) fn is_needed(option: &ProductOption) -> bool {
    option.is_required || NEEDED.contains(&option.variable.as_str())
}

/// Returns the label of an option for people: `--n8n-api-key` is `n8n API key`.
pub(crate) fn label(option: &ProductOption) -> String {
    let words = option.flag.trim_start_matches('-').split('-');
    let words = words.enumerate().map(|(at, word)| match word {
        "api" | "url" | "mcp" | "tls" => word.to_uppercase(),
        "n8n" => word.to_owned(),
        "openhands" => "OpenHands".to_owned(),
        _ if at == 0 => capitalized(word),
        _ => word.to_owned(),
    });
    words.collect::<Vec<_>>().join(" ")
}

fn capitalized(word: &str) -> String {
    let mut letters = word.chars();
    let first = letters.next().map(|first| first.to_ascii_uppercase());
    first.into_iter().chain(letters).collect()
}

/// Returns the text that pages of packages show.
pub(crate) fn readme(product: &Product, install: &str) -> String {
    let Product { name, summary, .. } = product;
    let mcp = mcp(name);
    format!(
        "# {name}\n\n{summary}.\n\n{install}\n\n`{name} connect HOST` writes it into the configuration of a \
         host, such as `claude-code` or `cursor`; `{name} --help` shows its options.\n\nDocumentation: \
         {REPOSITORY}\n\nmcp-name: {mcp}\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_the_owner_of_the_repository() {
        assert_eq!(npm("a-server"), format!("@{}/a-server", owner()));
        assert_eq!(mcp("a-server"), format!("io.github.{}/a-server", owner()));
        let file = download("1.2.3", "x.mcpb");
        assert!(file.starts_with("https://github.com/"), "{file}");
        assert!(file.ends_with("/releases/download/v1.2.3/x.mcpb"), "{file}");
    }
}
