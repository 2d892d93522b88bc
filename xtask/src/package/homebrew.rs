//! Formulae for a tap of Homebrew, from the archives in the folder, which may come from builds for several
//! targets.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::ensure;

use super::archive::sha256;
use super::{Build, Product, registry};

/// The systems and processors of Homebrew, with their targets.
const PLATFORMS: [(&str, [(&str, &str); 2]); 2] = [
    (
        "on_macos",
        [
            ("on_arm", "aarch64-apple-darwin"),
            ("on_intel", "x86_64-apple-darwin"),
        ],
    ),
    (
        "on_linux",
        [
            ("on_arm", "aarch64-unknown-linux-gnu"),
            ("on_intel", "x86_64-unknown-linux-gnu"),
        ],
    ),
];

/// An archive in the folder: its target, name and sum.
struct Archive {
    target: &'static str,
    file: String,
    sum: String,
}

pub(crate) fn build(
    products: &[Product],
    build: &Build,
    dist: &Path,
) -> anyhow::Result<Vec<PathBuf>> {
    let write = |product: &Product| {
        let archives = archives(product.name, &build.version, dist)?;
        ensure!(
            !archives.is_empty(),
            "{}: make its archives (tar) before",
            product.name
        );
        let file = dist.join(format!("{}.rb", product.name));
        fs::write(&file, formula(product, &build.version, &archives))?;
        Ok(file)
    };
    products.iter().map(write).collect()
}

fn archives(name: &str, version: &str, dist: &Path) -> anyhow::Result<Vec<Archive>> {
    let targets = PLATFORMS.iter().flat_map(|(_, processors)| processors);
    let mut archives = Vec::new();
    for (_, target) in targets {
        let file = format!("{name}-{version}-{target}.tar.gz");
        let path = dist.join(&file);
        if path.exists() {
            let sum = sha256(&fs::read(path)?);
            archives.push(Archive { target, file, sum });
        }
    }
    Ok(archives)
}

fn formula(product: &Product, version: &str, archives: &[Archive]) -> String {
    let Product { name, summary, .. } = product;
    let (class, repository) = (class(name), registry::REPOSITORY);
    let licenses = registry::LICENSE
        .split(" OR ")
        .map(|license| format!("{license:?}"));
    let licenses = licenses.collect::<Vec<_>>().join(", ");
    let sources = sources(version, archives);
    format!(
        r##"class {class} < Formula
  desc "{summary}"
  homepage "{repository}"
  version "{version}"
  license any_of: [{licenses}]

{sources}
  def install
    bin.install "{name}"
    man1.install Dir["man/*.1"]
    bash_completion.install "completions/{name}"
    zsh_completion.install "completions/_{name}"
    fish_completion.install "completions/{name}.fish"
  end

  service do
    run opt_bin/"{name}"
    keep_alive true
  end

  test do
    assert_match version.to_s, shell_output("#{{bin}}/{name} --version")
  end
end
"##
    )
}

/// Returns the name of the class, which Homebrew derives from that of the file.
pub(crate) fn class(name: &str) -> String {
    let words = name.split('-').map(|word| {
        let (first, rest) = word.split_at(1);
        first.to_uppercase() + rest
    });
    words.collect()
}

fn sources(version: &str, archives: &[Archive]) -> String {
    let mut text = String::new();
    for (system, processors) in PLATFORMS {
        let mut blocks = Vec::new();
        for (processor, target) in processors {
            let found = archives.iter().find(|archive| archive.target == target);
            blocks.extend(found.map(|Archive { file, sum, .. }| {
                let url = registry::download(version, file);
                format!(
                    "    {processor} do\n      url \"{url}\"\n      sha256 \"{sum}\"\n    end\n"
                )
            }));
        }
        if !blocks.is_empty() {
            let _ = write!(text, "  {system} do\n{}  end\n\n", blocks.join("\n"));
        }
    }
    text.truncate(text.trim_end().len());
    text + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::package::product::tests::example;

    #[test]
    fn classes_are_named_as_homebrew_derives_them() {
        assert_eq!(class("n8n-mcp-server"), "N8nMcpServer");
        assert_eq!(class("mcp-gateway"), "McpGateway");
    }

    #[test]
    fn only_archives_that_are_there_are_sources() {
        let archives = [Archive {
            target: "x86_64-unknown-linux-gnu",
            file: "a.tar.gz".into(),
            sum: "0123".into(),
        }];
        let text = formula(&example(), "1.2.3", &archives);
        assert!(
            !text.contains("on_macos") && !text.contains("on_arm"),
            "{text}"
        );
        let expected = format!(
            "\n\n  on_linux do\n    on_intel do\n      url \"{}\"\n      sha256 \"0123\"\n    end\n  end\n\n",
            registry::download("1.2.3", "a.tar.gz")
        );
        assert!(text.contains(&expected), "{text}");
        assert!(
            text.contains(r##"("#{bin}/docker-mcp-server --version")"##),
            "{text}"
        );
    }
}
