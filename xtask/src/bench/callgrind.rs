//! valgrind: the installed one, or Debian's.

use std::path::Path;

use crate::install::debian::DebianPackages;
use crate::layout::{Layout, on_path};

const PACKAGES: DebianPackages = DebianPackages::new("valgrind", &["valgrind"]);

/// The words before the name of a program that callgrind is to count.
pub(super) struct Callgrind(Vec<String>);

impl Callgrind {
    /// Takes the installed valgrind, or unpacks Debian's.
    ///
    /// # Errors
    /// `Unavailable`, if it is neither installed nor can be.
    pub(super) fn install(layout: &Layout) -> anyhow::Result<Self> {
        let shown = |path: &Path| path.to_string_lossy().into_owned();
        let mut words = match on_path("valgrind") {
            Some(installed) => vec![shown(&installed)],
            None => {
                PACKAGES.install(layout)?;
                let root = PACKAGES.root(layout);
                let tools = shown(&root.join("usr/libexec/valgrind"));
                let valgrind = shown(&root.join("usr/bin/valgrind"));
                vec!["env".to_owned(), format!("VALGRIND_LIB={tools}"), valgrind]
            }
        };
        words.push("--tool=callgrind".to_owned());
        Ok(Self(words))
    }

    /// The command that counts a program of ours, and writes into a profile.
    pub(super) fn command(&self, profile: &Path, program: String) -> Vec<String> {
        let profile = format!("--callgrind-out-file={}", profile.display());
        let words = self.0.iter().cloned();
        words.chain([profile, program]).collect()
    }
}
