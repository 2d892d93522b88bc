//! `cargo xtask mutants`: shows that the unit tests of the modules that keep people out or apart notice
//! faults. cargo-mutants changes one expression of them at a time, and some test must then fail.
//! `.cargo/mutants.toml` lists the changes that change no behaviour.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, ensure};
use serde_json::Value;

use crate::args::Options;
use crate::cargo;
use crate::console;
use crate::install::Package;
use crate::layout::{Layout, on_path};
use crate::process::Program;

const VERSION: &str = "27.1.0";

/// Least share of viable mutants that the tests of each module catch.
const MIN_CAUGHT_PERCENT: usize = 90;

/// Paths below `crates`, without `.rs`; submodules belong to their module.
const MODULES: [&str; 18] = [
    "mcp-core/src/jsonrpc",
    "mcp-hosts/src/edit",
    "mcp-hosts/src/plan",
    "mcp-hosts/src/text",
    "mcp-serve/src/http/cors",
    "mcp-serve/src/http/guard",
    "mcp-serve/src/http/headers",
    "mcp-serve/src/http/rate",
    "mcp-serve/src/http/session",
    "mcp-serve/src/http/stream_slots",
    "mcp-serve/src/tokens",
    "upstream/src/redact",
    "n8n-mcp-server/src/policy",
    "docker-mcp-server/src/engine/name",
    "docker-mcp-server/src/policy",
    "gateway-access/src/filter",
    "mcp-gateway/src/names",
    "mcp-gateway/src/sanitise",
];

/// The mutants of one module.
#[derive(Debug, Default, PartialEq)]
struct Tally {
    caught: usize,
    missed: usize,
    /// Counted as caught: a mutant that makes its tests hang is noticed, too.
    timeouts: usize,
}

impl Tally {
    fn viable(&self) -> usize {
        self.caught + self.missed + self.timeouts
    }

    fn is_good(&self) -> bool {
        100 * (self.caught + self.timeouts) >= MIN_CAUGHT_PERCENT * self.viable()
    }
}

/// Runs cargo-mutants on the modules whose path contains one of the words, or on all.
pub(crate) fn run(layout: &Layout, options: &Options) -> anyhow::Result<ExitCode> {
    let is_meant = |module: &&str| {
        let words = &options.words;
        words.is_empty() || words.iter().any(|word| module.contains(&**word))
    };
    let modules: Vec<&str> = MODULES.into_iter().filter(is_meant).collect();
    ensure!(
        !modules.is_empty(),
        "no such module; there are:\n{}",
        MODULES.join("\n")
    );
    let outcomes = layout.target.join("mutants.out/outcomes.json");
    // Of an earlier run, which would be taken for this one's if it fails.
    let _ = fs::remove_file(&outcomes);
    let globs = modules
        .iter()
        .flat_map(|module| [format!("crates/{module}.rs"), format!("crates/{module}/**")]);
    // Fails if a mutant is missed.
    Program::new(program(layout)?)?
        .words("mutants --colors never --output")
        .args([&layout.target])
        .args(globs.map(|glob| format!("--file={glob}")))
        .dir(&layout.root)
        .succeeds(&layout.shutdown, None)?;
    let outcomes = fs::read(&outcomes).context("cargo-mutants did not run to its end")?;
    let outcomes: Value = serde_json::from_slice(&outcomes)?;
    let tallies: Vec<_> = modules
        .iter()
        .map(|module| tally(&outcomes, module))
        .collect();
    let mut rows = vec![["module", "viable", "caught", "missed", "timeouts"].map(str::to_owned)];
    rows.extend(modules.iter().zip(&tallies).map(|(module, tally)| {
        let counts = [tally.viable(), tally.caught, tally.missed, tally.timeouts];
        let [viable, caught, missed, timeouts] = counts.map(|count| count.to_string());
        [(*module).to_owned(), viable, caught, missed, timeouts]
    }));
    print_line!("{}", console::table(&rows));
    let is_good = tallies
        .iter()
        .all(|tally| tally.viable() > 0 && tally.is_good());
    Ok(cargo::exit_code(is_good))
}

/// Counts the mutants of a module.
fn tally(outcomes: &Value, module: &str) -> Tally {
    let mut tally = Tally::default();
    for outcome in outcomes["outcomes"].as_array().into_iter().flatten() {
        let file = outcome["scenario"]["Mutant"]["file"].as_str();
        if !file.is_some_and(|file| belongs_to(Path::new(file), module)) {
            continue;
        }
        match outcome["summary"].as_str() {
            Some("CaughtMutant") => tally.caught += 1,
            Some("MissedMutant") => tally.missed += 1,
            Some("Timeout") => tally.timeouts += 1,
            // It does not compile.
            _ => {}
        }
    }
    tally
}

fn belongs_to(file: &Path, module: &str) -> bool {
    let module = Path::new("crates").join(module);
    file.with_extension("").starts_with(module)
}

fn program(layout: &Layout) -> anyhow::Result<PathBuf> {
    if let Some(installed) = on_path("cargo-mutants") {
        return Ok(installed);
    }
    let package = Package::new(layout, "mutants", "cargo-mutants");
    package.install(VERSION, |_| {
        let words = format!("install cargo-mutants --version {VERSION} --locked --debug --root .");
        package.run(
            "building cargo-mutants (minutes)",
            Path::new("cargo"),
            &words,
        )
    })?;
    Ok(package.dir.join("bin/cargo-mutants"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn mutants_are_counted_for_their_module() {
        let outcome = |file: &str, summary: &str| json!({"scenario": {"Mutant": {"file": file}}, "summary": summary});
        let own = "crates/a/src/b";
        let outcomes = json!({"outcomes": [
            {"scenario": "Baseline", "summary": "Success"},
            outcome(&format!("{own}.rs"), "CaughtMutant"),
            outcome(&format!("{own}/c.rs"), "CaughtMutant"),
            outcome(&format!("{own}/c/d.rs"), "Timeout"),
            outcome(&format!("{own}.rs"), "MissedMutant"),
            outcome(&format!("{own}.rs"), "Unviable"),
            outcome(&format!("{own}c.rs"), "MissedMutant"),
        ]});
        let expected = Tally {
            caught: 2,
            missed: 1,
            timeouts: 1,
        };
        assert_eq!(tally(&outcomes, "a/src/b"), expected);
    }

    #[test]
    fn one_mutant_in_ten_may_be_missed() {
        let is_good = |caught, missed| {
            Tally {
                caught,
                missed,
                timeouts: 0,
            }
            .is_good()
        };
        assert!(is_good(9, 1) && is_good(10, 1) && !is_good(8, 1));
    }

    #[test]
    fn modules_exist() {
        for module in MODULES {
            let file = format!("{}/../crates/{module}.rs", env!("CARGO_MANIFEST_DIR"));
            assert!(Path::new(&file).is_file(), "{file}");
        }
    }
}
