//! Formulae, run by Ruby with the part of Homebrew's language that they use, into a fresh prefix.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context as _;

use super::{Context, answers, output};
use crate::install::debian::{self, DebianPackages};
use crate::layout::on_path;
use crate::package::homebrew;

const RUBY: DebianPackages = DebianPackages::new("ruby", &["ruby"]);

/// The part of Homebrew that formulae use here. It installs the archive of this machine, takes it from the
/// folder of the packages, and compares its sum.
const HOMEBREW: &str = include_str!("homebrew.rb");

pub(crate) fn check(context: &Context<'_>) -> anyhow::Result<()> {
    let ruby = || -> anyhow::Result<Command> {
        if let Some(ruby) = on_path("ruby") {
            return Ok(Command::new(ruby));
        }
        RUBY.install(context.layout)?;
        let root = RUBY.root(context.layout);
        let mut ruby = Command::new(root.join("usr/bin/ruby"));
        ruby.arg("--disable-gems")
            .env("RUBYLIB", std::env::join_paths(libraries(&root)?)?);
        ruby.envs(debian::environment(&[root])?);
        Ok(ruby)
    };
    let root = context.fresh("homebrew")?;
    let simulator = root.join("homebrew.rb");
    std::fs::write(&simulator, HOMEBREW)?;
    for (product, formula) in context.products.iter().zip(context.files) {
        output(ruby()?.arg("-cw").arg(formula))?;
        let prefix = root.join(product.name);
        let mut install = ruby()?;
        install
            .arg(&simulator)
            .arg(formula)
            .arg(homebrew::class(product.name))
            .arg(&prefix);
        install
            .arg(formula.parent().context("no folder")?)
            .arg(context.build.arch);
        output(&mut install)?;
        let mut command = Command::new(prefix.join("bin").join(product.name));
        let command = command.arg("--stdio").env("HOME", &*root);
        answers(command, product, &context.build.version)?;
    }
    Ok(())
}

/// Returns the folders of Ruby's own library in a root.
fn libraries(root: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let arch = format!("usr/lib/{}-linux-gnu/ruby", std::env::consts::ARCH);
    let mut found = Vec::new();
    for folder in [root.join("usr/lib/ruby"), root.join(arch)] {
        for version in std::fs::read_dir(folder)? {
            found.push(version?.path());
        }
    }
    Ok(found)
}
