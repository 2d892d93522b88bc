//! `cargo xtask replicas`: three gateways on one PostgreSQL behind nginx, as a table of real clients and of every fault,
//! each `ok` or `FAILED` with its figures.

mod client;
mod cluster;
mod failover;
mod faults;
mod load;
mod manifests;
mod proxy;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use anyhow::ensure;

use crate::args::Options;
use crate::cargo;
use crate::clients;
use crate::layout::Layout;
use cluster::Cluster;

/// A row of the table.
struct Row {
    name: &'static str,
    /// Returns the figures.
    check: fn(&mut Cluster<'_>) -> anyhow::Result<String>,
}

impl Row {
    const fn new(
        name: &'static str,
        check: fn(&mut Cluster<'_>) -> anyhow::Result<String>,
    ) -> Self {
        Self { name, check }
    }
}

/// The official SDKs, in both eras.
const SDKS: [Row; 2] = [
    Row::new("SDK for TypeScript, both eras, through nginx", |cluster| {
        sdk(cluster, "typescript")
    }),
    Row::new("SDK for Python, both eras, through nginx", |cluster| {
        sdk(cluster, "python")
    }),
];

const FILES: [Row; 1] = [Row::new(
    "files for compose and Kubernetes",
    manifests::check,
)];

pub(crate) fn run(layout: &Layout, options: &Options) -> anyhow::Result<ExitCode> {
    let is_chosen = |row: &&Row| {
        options.words.is_empty() || options.words.iter().any(|word| row.name.contains(word))
    };
    // Each has a cluster of its own; the last one a second server for its database.
    let rows = FILES.iter().chain(&SDKS).chain(&faults::FAULTS);
    let groups: [(bool, Vec<&Row>); 2] = [
        (false, rows.filter(is_chosen).collect()),
        (true, failover::FAILOVER.iter().filter(is_chosen).collect()),
    ];
    ensure!(
        groups.iter().any(|(_, rows)| !rows.is_empty()),
        "no row has such a name"
    );
    let Some(programs) = programs(layout, options)? else {
        return Ok(ExitCode::FAILURE);
    };
    let mut failed = 0;
    for (has_standby, rows) in groups {
        if rows.is_empty() {
            continue;
        }
        let mut cluster = Cluster::start(layout, programs.clone(), has_standby)?;
        for row in rows {
            ensure!(!layout.shutdown.requested(), "stopped");
            let started = Instant::now();
            let result = (row.check)(&mut cluster);
            let (verdict, shown) = match &result {
                Ok(shown) => ("ok", shown.clone()),
                Err(error) => ("FAILED", format!("{error:#.300}")),
            };
            failed += usize::from(result.is_err());
            let seconds = started.elapsed().as_secs_f32();
            print_line!("{verdict:<8} {} ({seconds:.1} s): {shown}", row.name);
            cluster.repair()?;
        }
    }
    print_line!("{failed} rows failed");
    Ok(cargo::exit_code(failed == 0))
}

/// Builds the programs, or finds those that were built before. `None` if they do not compile.
fn programs(layout: &Layout, options: &Options) -> anyhow::Result<Option<PathBuf>> {
    if let Some(programs) = &options.programs {
        return Ok(Some(PathBuf::from(programs).canonicalize()?));
    }
    let is_release = options.profile.as_deref() != Some("dev");
    let profile = if is_release { " --release" } else { "" };
    let is_built = cargo::run(layout, &format!("{}{profile}", cargo::BUILD), &[])?;
    Ok(is_built.then(|| layout.binaries(is_release)))
}

fn sdk(cluster: &mut Cluster<'_>, name: &str) -> anyhow::Result<String> {
    let counts = clients::run_at(cluster.layout, name, cluster.nginx_port)?;
    ensure!(counts.failed == 0 && counts.passed > 0, "{counts}");
    Ok(counts.to_string())
}
