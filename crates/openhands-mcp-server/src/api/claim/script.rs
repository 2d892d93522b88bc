//! The shell scripts of claims.
//!
//! A claim is a file with the fingerprint of a task and the nonce of its owner. Its time is that of the file.
//! The scripts exclude each other by `flock`, which ends with its process; a machine without it, such as a Mac,
//! has `ln` to create a file only once, and the nonce.

use crate::api::shell::shell_quoted;

/// Printed by a script if the claim is that of the caller.
pub(super) const OURS: &str = "ours";

/// The age of a file, in whole seconds, at which its claim was left behind by a server that crashed: more than
/// three renewals that time out, one second apart (9 s).
const STALE_SECONDS: u32 = 10;
/// … and that of a claim without a nonce: servers from before the nonce do not renew theirs.
const STALE_SECONDS_WITHOUT_NONCE: u32 = 120;

/// Creates the claim, or takes over one that was left behind. Prints `ours`, or the fingerprint of the owner's task.
pub(super) fn take(path: &str, fingerprint: &str, nonce: &str) -> String {
    let lock = lock(path);
    format!(
        "{lock}new=$file.{nonce}\n\
         echo {fingerprint} {nonce} 2>/dev/null > \"$new\" || {{ rm -f -- \"$new\"; exit 1; }}\n\
         if read -r _ owner < \"$file\"; then\n\
         stale={STALE_SECONDS}; [ \"$owner\" ] || stale={STALE_SECONDS_WITHOUT_NONCE}\n\
         age=$(($(date +%s) - $(date -r \"$file\" +%s)))\n\
         [ $age -ge $stale ] && grep -qs -- \"$owner\" \"$file\" && rm -f -- \"$file\"; fi 2>/dev/null\n\
         find \"$file\" -size 0 -mmin +1 -exec rm -f {{}} \\; 2>/dev/null\n\
         for attempt in 1 2; do\n\
         if ln -- \"$new\" \"$file\" 2>/dev/null; then rm -f -- \"$new\"; echo {OURS}; exit 0; fi\n\
         # Removed in between, or it cannot be created.\n\
         if [ -f \"$file\" ]; then rm -f -- \"$new\"; cut -d ' ' -f 1 -- \"$file\" 2>/dev/null; exit 0; fi\n\
         done; rm -f -- \"$new\"; exit 1\n"
    )
}

/// Renews the claim and prints `ours`, if it is that of `nonce`.
pub(super) fn renew(path: &str, nonce: &str) -> String {
    let lock = lock(path);
    format!("{lock}grep -qs -- {nonce} \"$file\" && touch -c -- \"$file\" && echo {OURS}\n")
}

/// Removes the claim, if it is that of `nonce`.
pub(super) fn remove(path: &str, nonce: &str) -> String {
    let lock = lock(path);
    format!("{lock}grep -qs -- {nonce} \"$file\" && rm -f -- \"$file\"\n")
}

/// The beginning of each script: it waits until no other one runs.
fn lock(path: &str) -> String {
    format!(
        "file={file}\n\
         mkdir -p -- \"${{file%/*}}\" || exit 1\n\
         if command -v flock > /dev/null; then exec 9> \"${{file%/*}}/.lock\" && flock 9 || exit 1; fi\n",
        file = shell_quoted(path),
    )
}

#[cfg(unix)]
#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};
    use std::process::{Command, Stdio};
    use std::time::{Duration, SystemTime};

    use super::*;

    struct Place(PathBuf);

    impl Place {
        fn new(name: &str) -> Self {
            let own = format!("mcp-claims-{name}-{}", std::process::id());
            let directory = std::env::temp_dir().join(own);
            std::fs::create_dir_all(&directory).unwrap();
            Self(directory)
        }

        fn claim(&self) -> PathBuf {
            self.0.join("claims").join("a key")
        }

        fn run(&self, script: fn(&str, &str) -> String, nonce: &str) -> String {
            run(&script(self.claim().to_str().unwrap(), nonce))
        }

        fn take(&self, nonce: &str) -> String {
            run(&take(self.claim().to_str().unwrap(), "task", nonce))
        }

        /// Writes a claim of another call, renewed `seconds` ago.
        fn leave(&self, content: &str, seconds: u64) {
            std::fs::create_dir_all(self.0.join("claims")).unwrap();
            std::fs::write(self.claim(), content).unwrap();
            let file = std::fs::File::options().append(true).open(self.claim());
            let then = SystemTime::now() - Duration::from_secs(seconds);
            file.unwrap().set_modified(then).unwrap();
        }
    }

    impl Drop for Place {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    fn run(script: &str) -> String {
        let output = Command::new("sh").arg("-c").arg(script).output().unwrap();
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    fn nonce_in(file: &Path) -> String {
        let text = std::fs::read_to_string(file).unwrap();
        text.split_whitespace().nth(1).unwrap().to_owned()
    }

    #[test]
    fn one_of_many_waiters_takes_over_a_claim_that_was_left_behind() {
        let place = Place::new("race");
        for round in 0..5 {
            place.leave("task crashed\n", 11);
            let waiters: Vec<_> = (0..8)
                .map(|waiter| {
                    let script = take(
                        place.claim().to_str().unwrap(),
                        "task",
                        &format!("n{round}{waiter}"),
                    );
                    let mut shell = Command::new("sh");
                    let shell = shell.arg("-c").arg(script).stdout(Stdio::piped());
                    shell.spawn().unwrap()
                })
                .collect();
            let printed = waiters.into_iter().map(|waiter| {
                let output = waiter.wait_with_output().unwrap();
                String::from_utf8(output.stdout).unwrap()
            });
            let printed: Vec<_> = printed.collect();
            let owners = printed.iter().filter(|text| text.trim() == OURS).count();
            assert_eq!(owners, 1, "{printed:?}");
        }
        let mut left: Vec<_> = std::fs::read_dir(place.0.join("claims"))
            .unwrap()
            .map(|file| file.unwrap().file_name())
            .collect();
        left.retain(|name| name != ".lock");
        assert_eq!(left, ["a key"]);
    }

    #[test]
    fn owner_whose_claim_was_taken_over_neither_renews_nor_removes_it() {
        let place = Place::new("old");
        assert_eq!(place.take("first"), OURS);
        assert_eq!(place.run(renew, "first"), OURS);
        assert_eq!(place.take("second"), "task");
        place.leave("task first\n", 11);
        assert_eq!(place.take("second"), OURS);
        assert_eq!(place.run(renew, "first"), "");
        place.run(remove, "first");
        assert_eq!(nonce_in(&place.claim()), "second");
        place.run(remove, "second");
        assert_eq!(place.run(renew, "second"), "");
        assert!(!place.claim().exists());
    }

    #[test]
    fn claim_of_an_older_release_counts_by_the_age_of_its_file() {
        let place = Place::new("release");
        place.leave("task\n", 100);
        assert_eq!(place.take("new"), "task");
        place.leave("task\n", 121);
        assert_eq!(place.take("new"), OURS);
    }

    #[test]
    fn claim_that_was_renewed_eight_seconds_ago_is_not_taken_over() {
        let place = Place::new("young");
        place.leave("task first\n", 8);
        assert_eq!(place.take("second"), "task");
    }
}
