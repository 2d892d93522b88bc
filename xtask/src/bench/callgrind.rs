//! valgrind: the installed one, or Debian's.

use std::path::Path;

use anyhow::ensure;
use nix::unistd::Pid;

use crate::install::debian::DebianPackages;
use crate::layout::{Layout, on_path};
use crate::process::{Program, last_line};

const PACKAGES: DebianPackages = DebianPackages::new("valgrind", &["valgrind"]);

pub(super) struct Callgrind {
    /// The words before the name of a program that is to be counted.
    words: Vec<String>,
    /// The program that gives commands to a running one.
    vgdb: String,
}

impl Callgrind {
    /// Takes the installed valgrind, or unpacks Debian's.
    ///
    /// # Errors
    /// `Unavailable`, if it is neither installed nor can be.
    pub(super) fn install(layout: &Layout) -> anyhow::Result<Self> {
        let shown = |path: &Path| path.to_string_lossy().into_owned();
        let installed = on_path("valgrind").zip(on_path("vgdb"));
        let (mut words, vgdb) = match installed {
            Some((valgrind, vgdb)) => (vec![shown(&valgrind)], shown(&vgdb)),
            None => {
                PACKAGES.install(layout)?;
                let root = PACKAGES.root(layout);
                let tools = shown(&root.join("usr/libexec/valgrind"));
                let programs = root.join("usr/bin");
                let valgrind = shown(&programs.join("valgrind"));
                let words = vec!["env".to_owned(), format!("VALGRIND_LIB={tools}"), valgrind];
                (words, shown(&programs.join("vgdb")))
            }
        };
        words.push("--tool=callgrind".to_owned());
        Ok(Self { words, vgdb })
    }

    /// The command that counts a program of ours, and writes into a profile.
    pub(super) fn command(&self, profile: &Path, program: String) -> Vec<String> {
        let profile = format!("--callgrind-out-file={}", profile.display());
        let words = self.words.iter().cloned();
        words.chain([profile, program]).collect()
    }

    /// Gives a command to a running program: `zero`, or `dump`, which writes what was counted since the last of both
    /// into a file with the name of the profile and a number, from 1 on.
    pub(super) fn control(&self, layout: &Layout, pid: Pid, command: &str) -> anyhow::Result<()> {
        let log = layout.fresh_log("bench-vgdb")?;
        let vgdb = Program::new(&self.vgdb)?.args([&format!("--pid={pid}"), command]);
        let is_done = vgdb.log_to(&log)?.succeeds(&layout.shutdown, None)?;
        ensure!(is_done, "vgdb failed: {}", last_line(&log));
        Ok(())
    }
}
