//! `cargo xtask package`: packages of the programs in `target/dist`. The tools of each format make them, from files of
//! `xtask/packaging`, in which `@NAME@` and the like are filled in, and from what a program prints about itself.

mod debian;
mod formats;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context as _, bail, ensure};

use crate::args::Options;
use crate::cargo::exit_code;
use crate::console::Heartbeat;
use crate::install::REGISTRY_SETTINGS;
use crate::layout::{Layout, create_dir, path_with};
use crate::process::Program;
use crate::progress::Expected;
use formats::{CALLS, FORMATS, Format, STAGE, SUMS, Systems, VALUES};

/// The prefix of the lines on the terminal.
const WHO: &str = "package";

const PROGRAMS: [&str; 4] = [
    "docker-mcp-server",
    "n8n-mcp-server",
    "openhands-mcp-server",
    "mcp-gateway",
];

/// The time in which two cores build a program.
const MINUTES_OF_PROGRAM: u64 = 4;

/// The systems for which there are packages, as rustc names them, with the names of Go and Node.
const TARGETS: [[&str; 4]; 5] = [
    ["x86_64-unknown-linux-gnu", "amd64", "linux", "x64"],
    ["aarch64-unknown-linux-gnu", "arm64", "linux", "arm64"],
    ["aarch64-apple-darwin", "arm64", "darwin", "arm64"],
    ["x86_64-apple-darwin", "amd64", "darwin", "x64"],
    ["x86_64-pc-windows-msvc", "amd64", "win32", "x64"],
];

/// Makes the packages; with `--check` also installs each and calls the program there.
pub(crate) fn run(layout: &Layout, options: &Options) -> anyhow::Result<ExitCode> {
    let programs = chosen(&options.words, &PROGRAMS)?;
    let mut formats = chosen(&options.formats, &FORMATS.map(|format| format.name))?;
    if formats.contains(&"deb") || formats.contains(&"rpm") {
        // They hold the list of crates.
        formats.push("sbom");
    }
    let dist = layout.target.join("dist");
    create_dir(&dist)?;
    let rustc = output(Command::new("rustc").arg("-vV"))?;
    let host = rustc
        .lines()
        .find_map(|line| line.strip_prefix("host: "))
        .context("no host")?;
    let given = options
        .programs
        .as_ref()
        .map(|folder| layout.root.join(folder));
    if given.is_none() {
        build(layout, &programs)?;
    }
    // The folder with the programs of a system.
    let folder = |triple: &str| match &given {
        Some(folder) => folder.join(triple),
        None => layout.binaries(true),
    };
    let is_meant = |target: &&[&str; 4]| match given {
        Some(_) => folder(target[0]).is_dir(),
        None => target[0] == host,
    };
    let targets: Vec<_> = TARGETS.iter().filter(is_meant).collect();
    let last = targets
        .last()
        .context("no programs for a system of the releases")?;
    let mut is_good = true;
    for program in programs {
        for target in &targets {
            let work = Work::new(layout, program, target, [&folder(target[0]), &folder(host)])?;
            let is_wanted = |format: &&Format| {
                formats.contains(&format.name)
                    && match format.systems {
                        Systems::All => true,
                        Systems::Linux => target[2] == "linux",
                        Systems::BuiltHere => given.is_none(),
                        Systems::Together => {
                            target == last && (given.is_some() || !options.formats.is_empty())
                        }
                    }
            };
            for format in FORMATS.iter().filter(is_wanted) {
                let what = format!("{program}, {}", format.name);
                work.make(format).context(what.clone())?;
                print_as!(WHO, "{what}");
                if options.has("check")
                    && let Err(error) = work.check(format)
                {
                    print_as!(WHO, "FAIL  {what}: {error:#}");
                    is_good = false;
                }
            }
        }
    }
    print_line!(
        "{}",
        output(Command::new("sh").args(["-ec", SUMS]).current_dir(&dist))?
    );
    Ok(exit_code(is_good))
}

/// Returns the named ones of `all`, or all if there are no names.
fn chosen(names: &[String], all: &[&'static str]) -> anyhow::Result<Vec<&'static str>> {
    if let Some(unknown) = names.iter().find(|name| !all.contains(&name.as_str())) {
        bail!("there is no `{unknown}`: {}", all.join(", "));
    }
    let is_chosen = |name: &&&str| names.is_empty() || names.iter().any(|chosen| chosen == **name);
    Ok(all.iter().filter(is_chosen).copied().collect())
}

/// Builds the programs for this machine, all in one run of cargo.
fn build(layout: &Layout, programs: &[&str]) -> anyhow::Result<()> {
    let cargo = Program::new("cargo")?
        .words("build --release --locked")
        .dir(&layout.root);
    let cargo = cargo.args(programs.iter().flat_map(|program| ["--package", program]));
    let minutes = MINUTES_OF_PROGRAM * programs.len() as u64;
    let step = format!(
        "building {}, about {minutes} minutes on two cores",
        programs.join(", ")
    );
    let heartbeat = Heartbeat::start(WHO, step).expecting(Expected::minutes(minutes));
    cargo
        .run(&layout.shutdown, heartbeat)
        .context("cargo build")
}

/// The packages of a program for a system.
struct Work<'a> {
    layout: &'a Layout,
    /// The values of keys such as `@NAME@`.
    values: Vec<(&'static str, String)>,
    /// The folder of what the archive holds.
    stage: PathBuf,
}

impl<'a> Work<'a> {
    /// Collects what the archive holds; the program is in the first of the folders, and that for this machine, which is
    /// asked for its pages, in the second.
    fn new(
        layout: &'a Layout,
        program: &'static str,
        [triple, go, system, processor]: &[&str; 4],
        [folder, native]: [&Path; 2],
    ) -> anyhow::Result<Self> {
        let version = env!("CARGO_PKG_VERSION");
        let stage = layout
            .target
            .join(format!("package/{program}-{version}-{triple}"));
        let shown = |path: &Path| path.display().to_string();
        let class = program
            .split('-')
            .map(|word| word[..1].to_uppercase() + &word[1..]);
        let values = vec![
            ("PREPARE", formats::PREPARE.to_owned()),
            ("INSTALLED", formats::INSTALLED.to_owned()),
            ("NAME", program.to_owned()),
            ("CLASS", class.collect()),
            ("VERSION", version.to_owned()),
            (
                "END",
                if *system == "win32" {
                    ".exe".to_owned()
                } else {
                    String::new()
                },
            ),
            ("TRIPLE", (*triple).to_owned()),
            (
                "ARCH",
                triple.split('-').next().unwrap_or_default().to_owned(),
            ),
            ("GOARCH", (*go).to_owned()),
            ("SYSTEM", (*system).to_owned()),
            ("PROCESSOR", (*processor).to_owned()),
            ("ROOT", shown(&layout.root)),
            ("DIST", shown(&layout.target.join("dist"))),
            ("STAGE", shown(&stage)),
            ("FOLDER", shown(folder)),
            ("NATIVE", shown(&native.join(program))),
        ];
        let mut work = Self {
            layout,
            values,
            stage,
        };
        for (key, script) in VALUES {
            let value = work
                .script(&layout.root, script, None)
                .with_context(|| format!("{program}: {key}"))?;
            work.values.push((key, value.trim().to_owned()));
        }
        clear(&work.stage)?;
        work.script(&work.stage, STAGE, None).context(program)?;
        Ok(work)
    }

    fn make(&self, format: &Format) -> anyhow::Result<()> {
        let folder = self.folder(format.name);
        clear(&folder)?;
        for (from, to) in format.files {
            let from = self
                .layout
                .root
                .join("xtask/packaging")
                .join(self.fill(from)?);
            let text = fs::read_to_string(&from).with_context(|| from.display().to_string())?;
            let to = folder.join(self.fill(to)?);
            create_dir(to.parent().unwrap_or(&folder))?;
            fs::write(to, self.fill(&text)?)?;
        }
        let tool = (format.tool)(self.layout)?;
        self.script(&folder, format.make, tool.as_deref()).map(drop)
    }

    /// Installs the package and calls the program.
    fn check(&self, format: &Format) -> anyhow::Result<()> {
        let script = CALLS.to_owned() + format.check;
        if let Systems::Linux = format.systems {
            return debian::run(self.layout, &self.fill(&script)?);
        }
        let folder = self.folder("check");
        clear(&folder)?;
        let tool = (format.tool)(self.layout)?;
        self.script(&folder, &script, tool.as_deref()).map(drop)
    }

    /// Runs a script of `sh` in a folder and returns its output; `tool` is a folder of programs.
    fn script(&self, folder: &Path, script: &str, tool: Option<&Path>) -> anyhow::Result<String> {
        let mut sh = Command::new("sh");
        sh.args(["-ec", &self.fill(script)?]).current_dir(folder);
        sh.envs(REGISTRY_SETTINGS)
            .env("LC_ALL", "C")
            .env("PATH", path_with(tool.map(Path::to_owned))?);
        let epoch = self.values.iter().find(|(key, _)| *key == "EPOCH");
        output(sh.envs(epoch.map(|(_, epoch)| ("SOURCE_DATE_EPOCH", epoch))))
    }

    /// Returns the folder of a format.
    fn folder(&self, format: &str) -> PathBuf {
        let stage = self.stage.file_name().unwrap_or_default().display();
        self.stage.with_file_name(format!("{stage}.{format}"))
    }

    fn fill(&self, text: &str) -> anyhow::Result<String> {
        fill(text, &self.values, &self.layout.target.join("dist"))
    }
}

/// Replaces each `@KEY@` by its value, and `@SHA256 FILE@` by the sum of a package.
///
/// # Errors
/// For an unknown key or a missing package.
fn fill(text: &str, values: &[(&str, String)], dist: &Path) -> anyhow::Result<String> {
    let replace =
        |text: String, (key, value): &(&str, String)| text.replace(&format!("@{key}@"), value);
    let mut filled = values.iter().fold(text.to_owned(), replace);
    while let Some((before, rest)) = filled.split_once("@SHA256 ") {
        let (file, after) = rest.split_once('@').context("no end of @SHA256")?;
        let sum = output(Command::new("sha256sum").arg(file).current_dir(dist))?;
        filled = format!(
            "{before}{}{after}",
            sum.split(' ').next().unwrap_or_default()
        );
    }
    let is_key = |part: &&str| part.len() > 2 && part.bytes().all(|byte| byte.is_ascii_uppercase());
    let left = filled.split('@').find(is_key);
    ensure!(
        left.is_none(),
        "@{}@ has no value",
        left.unwrap_or_default()
    );
    Ok(filled)
}

/// Runs a program that must succeed, and returns its output.
fn output(command: &mut Command) -> anyhow::Result<String> {
    let output = command
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("{command:?}"))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let error = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{}: {error}{text}", output.status);
    Ok(text)
}

/// Makes a folder empty.
fn clear(folder: &Path) -> anyhow::Result<()> {
    let _ = fs::remove_dir_all(folder);
    create_dir(folder)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_those_of_the_workflow() {
        let workflow = include_str!("../../.github/workflows/release.yml");
        let built = workflow
            .lines()
            .filter_map(|line| line.trim().strip_prefix("- target: "));
        assert_eq!(built.collect::<Vec<_>>(), TARGETS.map(|target| target[0]));
    }

    #[test]
    fn keys_are_filled_and_unknown_ones_told() {
        let values = [("NAME", "x".to_owned())];
        let fill = |text| fill(text, &values, Path::new("/")).map_err(|error| error.to_string());
        assert_eq!(fill("@owner/@NAME@-@NAME@ a@b").unwrap(), "@owner/x-x a@b");
        assert_eq!(fill("@NAMES@").unwrap_err(), "@NAMES@ has no value");
        assert!(fill("@SHA256 no-such-file@").is_err());
    }
}
