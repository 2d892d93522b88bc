//! Finds the file of a program as a shell of this system does.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

/// Extensions that may be left out in the name of a program: on Windows `npx` is `npx.cmd`, and `uvx` is
/// `uvx.exe`. Only those of `PATHEXT` that can be started without another program.
pub(super) const EXTENSIONS: &[&str] = match cfg!(windows) {
    true => &[".com", ".exe", ".bat", ".cmd"],
    false => &[],
};

/// Returns the file of `program`: at its path, relative to `directory`, or in a folder of `search_path`.
pub(super) fn find_program(
    program: &Path,
    directory: &Path,
    search_path: &OsStr,
    extensions: &[&str],
) -> Option<PathBuf> {
    let find = |path: PathBuf| file(&path, extensions);
    if program.components().count() > 1 {
        return find(directory.join(program));
    }
    let mut folders = std::env::split_paths(search_path);
    folders.find_map(|folder| {
        find(directory.join(folder).join(program)).filter(|file| is_executable(file))
    })
}

/// Returns the path, or one with an extension, that is a file. With extensions a name that has none is
/// not a program: beside `npx.cmd` is an `npx` for other systems.
fn file(path: &Path, extensions: &[&str]) -> Option<PathBuf> {
    let with = |extension: &&str| {
        let mut path = OsString::from(path);
        path.push(extension);
        PathBuf::from(path)
    };
    let is_complete = extensions.is_empty() || path.extension().is_some();
    let own = is_complete.then(|| path.to_owned());
    let mut files = own.into_iter().chain(extensions.iter().map(with));
    files.find(|file| file.is_file())
}

/// True for a file that may be executed. A shell passes over others in the search path.
#[cfg_attr(not(unix), expect(unused_variables, reason = "there is no such right"))]
fn is_executable(file: &Path) -> bool {
    #[cfg(unix)]
    return std::fs::metadata(file).is_ok_and(|file| {
        std::os::unix::fs::PermissionsExt::mode(&file.permissions()) & 0o111 != 0
    });
    #[cfg(not(unix))]
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    fn make_executable(file: &Path) {
        #[cfg(unix)]
        {
            let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
            std::fs::set_permissions(file, mode).unwrap();
        }
        #[cfg(not(unix))]
        let _ = file;
    }

    #[test]
    fn names_without_an_extension_are_found_as_on_the_system() {
        let folder = std::env::temp_dir().join(format!("find-program-{}", std::process::id()));
        let (first, second) = (folder.join("first"), folder.join("second"));
        for folder in [&first, &second] {
            std::fs::create_dir_all(folder).unwrap();
        }
        for file in ["npx", "npx.cmd", "npx.ps1", "python3.12.exe"] {
            std::fs::write(second.join(file), "").unwrap();
            make_executable(&second.join(file));
        }
        // A file of the same name that is no program.
        #[cfg(unix)]
        std::fs::write(first.join("npx"), "").unwrap();
        let path = std::env::join_paths([&first, &second]).unwrap();
        let windows = &[".exe", ".cmd"][..];
        for (name, extensions, expected) in [
            ("npx", &[][..], Some("npx")),
            ("npx", windows, Some("npx.cmd")),
            ("npx.cmd", windows, Some("npx.cmd")),
            ("python3.12", windows, Some("python3.12.exe")),
            ("python3.12", &[], None),
            ("uvx", windows, None),
        ] {
            let expected = expected.map(|file| second.join(file));
            let found = find_program(Path::new(name), Path::new("/"), &path, extensions);
            assert_eq!(found, expected, "{name} with {extensions:?}");
            let relative = Path::new("second").join(name);
            let found = find_program(&relative, &folder, OsStr::new(""), extensions);
            assert_eq!(found, expected, "{relative:?} with {extensions:?}");
        }
        std::fs::remove_dir_all(folder).unwrap();
    }
}
