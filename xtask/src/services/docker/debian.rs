//! Packages of one release of Debian, unpacked in a folder of their own: the lists and archives of
//! this machine's own packages are left alone.

use std::fs;
use std::path::Path;

use anyhow::{Context, bail};

use crate::console::Heartbeat;
use crate::layout::{Layout, create_dir, on_path};
use crate::process::Program;

const KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";

/// Fetches `packages` of a `suite`, once, and unpacks them in the folder `engine` of `dir`.
///
/// # Errors
/// On a machine without Debian's package manager or without a way to its archive.
pub(super) fn unpack(
    layout: &Layout,
    who: &'static str,
    dir: &Path,
    suite: &str,
    packages: &[&str],
) -> anyhow::Result<()> {
    if on_path("apt-get").is_none() || !Path::new(KEYRING).exists() {
        bail!("it is unpacked from Debian's packages, and this is no Debian");
    }
    layout.install_once(who, dir, || {
        let log = layout.fresh_log(&format!("{who}-install"))?;
        let (lists, archives) = (dir.join("lists"), dir.join("archives"));
        for folder in [
            lists.join("partial"),
            archives.join("partial"),
            dir.join("engine"),
        ] {
            create_dir(&folder)?;
        }
        let sources = dir.join("sources.list");
        let source =
            format!("deb [signed-by={KEYRING}] http://deb.debian.org/debian {suite} main\n");
        fs::write(&sources, source)?;
        let own = [
            format!("Dir::Etc::SourceList={}", sources.display()),
            "Dir::Etc::SourceParts=/dev/null".to_owned(),
            format!("Dir::State::Lists={}", lists.display()),
            format!("Dir::Cache={}", archives.display()),
            "APT::Sandbox::User=root".to_owned(),
        ];
        let own = own.iter().flat_map(|option| ["-o", option]);
        let run = |step: &str, program: &str, args: Vec<&str>| {
            Program::new(program)?
                .args(args)
                .dir(&archives)
                .log_to(&log)?
                .run(&layout.stop, &mut Heartbeat::start(who, step))
                .with_context(|| format!("{step}: see {}", layout.shown(&log)))
        };
        let update = own.clone().chain(["update"]).collect();
        run("reading Debian's list", "apt-get", update)?;
        let download = own.chain(["download"]).chain(packages.iter().copied());
        run("fetching the packages", "apt-get", download.collect())?;
        let unpack = "for archive in *.deb; do dpkg -x \"$archive\" ../engine || exit 1; done";
        run("unpacking them", "sh", vec!["-c", unpack])?;
        fs::remove_dir_all(&archives)?;
        fs::remove_dir_all(&lists)?;
        Ok(())
    })
}
