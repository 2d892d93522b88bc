//! The packages that a release must have: each format of `cargo xtask package`, for each target of the workflow.

/// The targets of the workflow.
const TARGETS: [&str; 5] = [
    "x86_64-unknown-linux-gnu",
    "aarch64-unknown-linux-gnu",
    "aarch64-apple-darwin",
    "x86_64-apple-darwin",
    "x86_64-pc-windows-msvc",
];

/// The programs, each with packages of its own.
const PROGRAMS: usize = 4;

/// The ends of the names of packages, and for how many targets each program has one.
const PACKAGES: [(&str, usize); 9] = [
    (".deb", 2),
    (".rpm", 2),
    (".whl", 5),
    (".mcpb", 5),
    // One chooses among the others.
    (".tgz", 5 + 1),
    ("-image-linux-amd64.tar", 1),
    ("-image-linux-arm64.tar", 1),
    ("-server.json", 1),
    (".rb", 1),
];

/// Returns what is missing among the files with these names.
pub(super) fn faults(names: &[&str]) -> Vec<String> {
    let count = |ends: &[String]| {
        let is_one = |name: &&&str| ends.iter().any(|end| name.ends_with(end));
        names.iter().filter(is_one).count()
    };
    let mut faults = Vec::new();
    for target in TARGETS {
        let found = count(&[format!("-{target}.tar.gz"), format!("-{target}.zip")]);
        if found != PROGRAMS {
            faults.push(format!(
                "{target}: {found} of {PROGRAMS} archives; `cargo xtask package --target {target} --programs DIR` \
                 makes its packages"
            ));
        }
    }
    for (end, targets) in PACKAGES {
        let (found, expected) = (count(&[end.to_owned()]), PROGRAMS * targets);
        if found != expected {
            faults.push(format!("*{end}: {found} of {expected} packages"));
        }
    }
    faults
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_those_of_the_workflow() {
        let workflow = include_str!("../../../.github/workflows/release.yml");
        let built = workflow.lines().filter_map(|line| {
            let target = line.trim().strip_prefix("- target: ")?;
            Some(target.to_owned())
        });
        assert_eq!(built.collect::<Vec<_>>(), TARGETS);
    }

    #[test]
    fn target_without_packages_and_format_without_a_program_are_told() {
        let mut names = Vec::new();
        for program in 0..PROGRAMS {
            names.extend(TARGETS.map(|target| match target.contains("windows") {
                true => format!("{program}-{target}.zip"),
                false => format!("{program}-{target}.tar.gz"),
            }));
            for (end, targets) in PACKAGES {
                names.extend((0..targets).map(|target| format!("{program}-{target}{end}")));
            }
        }
        let told = |names: &[String]| {
            let names: Vec<_> = names.iter().map(String::as_str).collect();
            faults(&names).join("\n")
        };
        assert_eq!(told(&names), "");
        names.retain(|name| !name.ends_with("-aarch64-apple-darwin.tar.gz") && name != "0-0.rb");
        let told = told(&names);
        assert!(
            told.starts_with("aarch64-apple-darwin: 0 of 4 archives"),
            "{told}"
        );
        assert!(told.ends_with("*.rb: 3 of 4 packages"), "{told}");
        assert_eq!(told.lines().count(), 2, "{told}");
    }
}
