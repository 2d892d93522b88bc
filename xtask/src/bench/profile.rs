//! The profile of a program, as callgrind writes it.

use std::collections::HashSet;
use std::fs;
use std::ops::{Div, Sub};
use std::path::Path;

use anyhow::Context;

/// The functions of mimalloc, which our code allocates with, and of libc, with which SQLite does.
const ALLOCATORS: [&str; 6] = [
    "mi_malloc_aligned",
    "mi_zalloc_aligned",
    "mi_realloc_aligned",
    "malloc",
    "calloc",
    "realloc",
];

/// The cost of a run of a program.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Counts {
    pub(super) instructions: f64,
    /// The calls to allocate, or to allocate more. Too few for a program without symbols.
    pub(super) allocations: f64,
}

impl Counts {
    pub(super) fn read(profile: &Path) -> anyhow::Result<Self> {
        let profile = fs::read_to_string(profile)?;
        Self::parse(&profile).context("no sum in the profile")
    }

    fn parse(profile: &str) -> Option<Self> {
        let sum = |line: &str| {
            ["summary: ", "totals: "]
                .iter()
                .find_map(|prefix| line.strip_prefix(prefix)?.trim().parse().ok())
        };
        Some(Self {
            instructions: profile.lines().find_map(sum)?,
            allocations: allocations(profile),
        })
    }
}

/// Sums the calls of the allocators. A function is named once, `cfn=(7) malloc` or `fn=(7) malloc`, and is `cfn=(7)`
/// in the lines after that; a line `calls=3 0` follows.
fn allocations(profile: &str) -> f64 {
    let mut allocators = HashSet::new();
    let mut allocates = false;
    let mut sum = 0.0;
    for line in profile.lines() {
        if let Some((key, function)) = line.split_once("fn=") {
            let (id, name) = function.split_once(' ').unwrap_or((function, ""));
            if ALLOCATORS.contains(&name) {
                allocators.insert(id);
            }
            allocates = key == "c" && allocators.contains(id);
        } else if let Some(calls) = line.strip_prefix("calls=")
            && allocates
        {
            let count = calls.split(' ').next().and_then(|count| count.parse().ok());
            sum += count.unwrap_or(0.0);
        }
    }
    sum
}

impl Sub for Counts {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        Self {
            instructions: self.instructions - other.instructions,
            allocations: self.allocations - other.allocations,
        }
    }
}

impl Div<f64> for Counts {
    type Output = Self;

    fn div(self, requests: f64) -> Self {
        Self {
            instructions: self.instructions / requests,
            allocations: self.allocations / requests,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_of_the_allocator_are_summed_by_its_number() {
        let profile = "events: Ir\nfn=(1) main\n1 5\ncfn=(7) malloc\ncalls=3 0\n1 90\ncfn=(8) free\ncalls=9 0\n\
                       fn=(7)\n2 30\ncfn=(9) sysmalloc\ncalls=1 0\nfn=(2) send\ncob=(3)\ncfn=(7)\ncalls=4 0x5\n\
                       totals: 240\n";
        let counts = Counts {
            instructions: 240.0,
            allocations: 7.0,
        };
        assert_eq!(Counts::parse(profile), Some(counts));
        assert_eq!(Counts::parse("events: Ir\n"), None);
    }
}
