//! Tells entries of this program from those of others.

use std::path::Path;

use crate::Listed;

/// The names and URLs by which an entry is one of this program.
#[derive(Default)]
pub struct Own {
    /// The names of the program, without `.exe`.
    pub programs: Vec<String>,
    /// The URLs at which it serves.
    pub urls: Vec<String>,
}

impl Own {
    /// True if the entry starts this program or the bridge of the gateway, or calls one of the URLs.
    pub fn has(&self, entry: &Listed) -> bool {
        let Some(command) = entry.command.first() else {
            return entry
                .url
                .as_ref()
                .is_some_and(|url| self.urls.contains(url));
        };
        let stem = Path::new(command)
            .file_stem()
            .and_then(|stem| stem.to_str());
        let bridges = entry.command.get(1).is_some_and(|arg| arg == "bridge");
        stem.is_some_and(|stem| {
            self.programs.iter().any(|program| program == stem) || stem == "mcp-gateway" && bridges
        })
    }
}
