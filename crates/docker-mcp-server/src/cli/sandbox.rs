//! A program that reads the text of a model can read no file outside of the allowed directories, reach no
//! address, and take no more memory than it needs: the kernel (Landlock) refuses it.

use std::io;
use std::path::PathBuf;

/// The text of the error where the system has no such sandbox.
pub(super) const MISSING: &str = "Compose files are only read by a program that the kernel keeps from all other files \
     (Landlock: Linux 5.13 or newer). This system has none; the operator of this server can allow compose without \
     it, with `privileged` in the policy file (--policy).";

/// Programs and their libraries.
#[cfg(target_os = "linux")]
const SYSTEM: [&str; 10] = [
    "/bin",
    "/lib",
    "/lib64",
    "/usr/bin",
    "/usr/lib",
    "/usr/lib64",
    "/usr/libexec",
    "/usr/local/lib",
    "/nix/store",
    "/etc/ld.so.cache",
];
/// Most bytes of memory; compose needs 30 MB for a usual project.
#[cfg(target_os = "linux")]
const MAX_MEMORY: u64 = 512 << 20;

/// Calls `spawn` in a thread that, with the programs which it starts, can only read what is below `directories`.
/// Errors with [`io::ErrorKind::Unsupported`] where the system has no sandbox.
#[cfg(target_os = "linux")]
pub(super) fn confined<T: Send>(
    directories: &[PathBuf],
    spawn: impl FnOnce() -> io::Result<T> + Send,
    id: impl FnOnce(&T) -> Option<u32> + Send,
) -> io::Result<T> {
    let runtime = tokio::runtime::Handle::current();
    let work = move || {
        let _runtime = runtime.enter();
        restrict(directories).map_err(|error| io::Error::new(io::ErrorKind::Unsupported, error))?;
        let child = spawn()?;
        if let Some(id) = id(&child) {
            limit_memory(id)?;
        }
        Ok(child)
    };
    std::thread::scope(|scope| {
        let thread = scope.spawn(work);
        let lost = |_| Err(io::Error::other("the thread of a program broke off"));
        thread.join().unwrap_or_else(lost)
    })
}

#[cfg(target_os = "linux")]
fn restrict(directories: &[PathBuf]) -> Result<(), landlock::RulesetError> {
    use landlock::{
        ABI, Access as _, AccessFs, AccessNet, CompatLevel, Compatible as _, PathBeneath, PathFd,
        Ruleset, RulesetAttr as _, RulesetCreatedAttr as _, path_beneath_rules,
    };

    let read = AccessFs::from_read(ABI::V1);
    let rules = Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(AccessFs::from_all(ABI::V1))?
        // Kernels since 6.7 also refuse connections.
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessNet::from_all(ABI::V4))?
        .create()?
        .add_rules(path_beneath_rules(SYSTEM, read))?
        .add_rules(path_beneath_rules(directories, read))?;
    let rules = match PathFd::new("/dev/null") {
        Ok(null) => rules.add_rule(PathBeneath::new(null, AccessFs::from_file(ABI::V1)))?,
        Err(_) => rules,
    };
    rules.restrict_self().map(drop)
}

#[cfg(target_os = "linux")]
fn limit_memory(id: u32) -> io::Result<()> {
    use rustix::process::{Pid, Resource, Rlimit, prlimit};

    let id = i32::try_from(id).ok().and_then(Pid::from_raw);
    let limit = Rlimit {
        current: Some(MAX_MEMORY),
        maximum: Some(MAX_MEMORY),
    };
    match prlimit(id, Resource::Data, limit) {
        // It may have ended already.
        Ok(_) | Err(rustix::io::Errno::SRCH) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

#[cfg(not(target_os = "linux"))]
pub(super) fn confined<T: Send>(
    _: &[PathBuf],
    _: impl FnOnce() -> io::Result<T> + Send,
    _: impl FnOnce(&T) -> Option<u32> + Send,
) -> io::Result<T> {
    Err(io::ErrorKind::Unsupported.into())
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[tokio::test]
    async fn confined_program_reads_and_writes_nothing_else() {
        let [inside, outside] = [(); 2].map(|()| tempfile::tempdir().unwrap());
        for dir in [&inside, &outside] {
            std::fs::write(dir.path().join("file"), "x").unwrap();
        }
        std::os::unix::fs::symlink(outside.path(), inside.path().join("link")).unwrap();
        let path = |dir: &tempfile::TempDir, name: &str| dir.path().join(name);
        let directories = [inside.path().to_owned()];
        for (program, file, expected) in [
            ("cat", path(&inside, "file"), true),
            ("cat", path(&inside, "link/file"), false),
            ("cat", path(&outside, "file"), false),
            ("cat", "/proc/self/environ".into(), false),
            ("cat", "/etc/passwd".into(), false),
            ("touch", path(&inside, "new"), false),
        ] {
            let spawn = || {
                let mut command = Command::new(program);
                command
                    .arg(&file)
                    .stdout(Stdio::null())
                    .stderr(Stdio::null());
                command.status()
            };
            let status = confined(&directories, spawn, |_| None).unwrap();
            assert_eq!(status.success(), expected, "{program} {}", file.display());
        }
    }
}
