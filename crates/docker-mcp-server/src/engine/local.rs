//! This machine: what it shows of a running container (counters of its control group, and the ports that it listens
//! on; read from `/proc` and `/sys`, without a command in the container), and the container that this program runs in.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use crate::engine::model::ContainerDetails;

/// Processes that are searched for one of the container.
const MAX_PROCESSES: usize = 50_000;

/// Facts of a running container. Counters are those since its start.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct LocalFacts {
    /// Processes that the kernel killed for lack of memory.
    pub(crate) oom_kills: u64,
    /// Processes that could not be started because of its limit.
    pub(crate) refused_forks: u64,
    /// TCP ports that something listens on, and whether only its loopback interface does.
    pub(crate) listening: Vec<(u16, bool)>,
}

impl LocalFacts {
    /// The facts of the container with this id; `None` if no process of it is visible here. Blocks.
    pub(super) fn read(id: &str) -> Option<Self> {
        let processes = fs::read_dir("/proc").ok()?.take(MAX_PROCESSES).flatten();
        let (process, groups) = processes.into_iter().find_map(|process| {
            process.file_name().to_str()?.parse::<u32>().ok()?;
            let groups = fs::read_to_string(process.path().join("cgroup")).ok()?;
            groups.contains(id).then(|| (process.path(), groups))
        })?;
        let [memory, pids] = ["memory", "pids"].map(|name| group(&groups, name));
        // The names in versions 1 and 2 of control groups.
        let oom_kills = ["memory.oom_control", "memory.events"];
        let oom_kills = oom_kills
            .into_iter()
            .find_map(|file| counter(&memory, file, "oom_kill"));
        let sockets = ["net/tcp", "net/tcp6"].map(|file| fs::read_to_string(process.join(file)));
        Some(Self {
            oom_kills: oom_kills.unwrap_or_default(),
            refused_forks: counter(&pids, "pids.events", "max").unwrap_or_default(),
            listening: sockets
                .iter()
                .flatten()
                .flat_map(|table| listening(table))
                .collect(),
        })
    }

    /// A published port of the container on which nothing listens, or only its loopback interface.
    pub(crate) fn dead_port(&self, container: &ContainerDetails) -> Option<u16> {
        let mut ports = container.published_tcp();
        ports.find(|port| self.listens(*port) != Some(false))
    }

    /// The ports that something listens on, in words.
    pub(crate) fn ports(&self) -> String {
        let ports = self.listening.iter().map(|(port, _)| port.to_string());
        match ports.collect::<Vec<_>>().join(", ") {
            none if none.is_empty() => "no port".to_owned(),
            ports => ports,
        }
    }

    /// Whether something listens on `port`: `None`, or whether only the loopback interface does.
    pub(crate) fn listens(&self, port: u16) -> Option<bool> {
        let on = self
            .listening
            .iter()
            .filter(|(listened, _)| *listened == port);
        on.map(|(_, only_loopback)| *only_loopback).min()
    }
}

/// The directory of the control group, from lines such as `5:memory:/docker/…` or `0::/docker/…`.
fn group(groups: &str, controller: &str) -> PathBuf {
    let root = Path::new("/sys/fs/cgroup");
    let lines = groups.lines().filter_map(|line| {
        line.splitn(3, ':')
            .skip(1)
            .collect::<Vec<_>>()
            .try_into()
            .ok()
    });
    let lines: Vec<[&str; 2]> = lines.collect();
    let of = |name: &str| {
        lines
            .iter()
            .find(|[names, _]| names.split(',').any(|one| one == name))
    };
    let (root, path) = match (of(controller), of("")) {
        (Some([_, path]), _) => (root.join(controller), *path),
        (None, Some([_, path])) => (root.to_owned(), *path),
        (None, None) => (root.to_owned(), ""),
    };
    root.join(path.trim_start_matches('/'))
}

fn counter(group: &Path, file: &str, name: &str) -> Option<u64> {
    let text = fs::read_to_string(group.join(file)).ok()?;
    let mut lines = text.lines().filter_map(|line| line.split_once(' '));
    lines.find(|(key, _)| *key == name)?.1.trim().parse().ok()
}

/// The listening sockets of a table such as `/proc/net/tcp`.
fn listening(table: &str) -> impl Iterator<Item = (u16, bool)> {
    table.lines().filter_map(|line| {
        let mut fields = line.split_whitespace().skip(1);
        let (address, port) = fields.next()?.rsplit_once(':')?;
        let is_listening = fields.nth(1)? == "0A";
        // 127.x.x.x and ::1, in the byte order of the machine; the last is IPv4 in IPv6.
        let is_loopback = address.len() == 8 && address.ends_with("7F")
            || address == "00000000000000000000000001000000"
            || address.starts_with("0000000000000000FFFF0000") && address.ends_with("7F");
        let port = u16::from_str_radix(port, 16).ok()?;
        is_listening.then_some((port, is_loopback))
    })
}

/// The id of our container, or its beginning; `None` outside of a container.
static OWN_ID: LazyLock<Option<String>> = LazyLock::new(|| {
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let hostname = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    id_in_mounts(&mounts).or_else(|| id_in_hostname(&hostname))
});

/// Whether stopping `id` would stop this program.
pub(crate) fn is_self(id: &str) -> bool {
    OWN_ID.as_deref().is_some_and(|own| id.starts_with(own))
}

/// Whether this program runs in a container, where it sees other files than the engine.
pub(crate) fn in_container() -> bool {
    OWN_ID.is_some()
}

/// The id in our own mounts: the engine mounts `/etc/hostname` and similar files from the directory of
/// the container. On a host, the mounts of other containers are listed too; they do not count.
fn id_in_mounts(mountinfo: &str) -> Option<String> {
    mountinfo.lines().find_map(|line| {
        let mut fields = line.split(' ').skip(3);
        let (root, mount_point) = (fields.next()?, fields.next()?);
        if !matches!(
            mount_point,
            "/etc/hostname" | "/etc/hosts" | "/etc/resolv.conf"
        ) {
            return None;
        }
        let id = root.split_once("/containers/")?.1.split('/').next()?;
        (id.len() == 64 && is_hex(id)).then(|| id.to_owned())
    })
}

/// The id in the hostname, which is by default the beginning of the container's id.
fn id_in_hostname(hostname: &str) -> Option<String> {
    let hostname = hostname.trim();
    (hostname.len() == 12 && is_hex(hostname)).then(|| hostname.to_owned())
}

fn is_hex(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_of_the_kernel_are_parsed() {
        let tcp = "  sl  local_address rem_address   st\n   0: 0100007F:1F90 00000000:0000 0A 0\n   1: 00000000:0050 00000000:0000 0A 0\n   2: 0100007F:0050 0100007F:9999 01 0\n";
        let listening = listening(tcp).collect();
        assert_eq!(listening, [(8080, true), (80, false)]);
        let facts = LocalFacts {
            listening,
            ..LocalFacts::default()
        };
        assert_eq!(
            [8080, 80, 81].map(|port| facts.listens(port)),
            [Some(true), Some(false), None]
        );
        let v1 = "12:pids:/docker/ab\n3:cpu,memory:/docker/ab\n0::/x\n";
        assert_eq!(
            group(v1, "pids"),
            Path::new("/sys/fs/cgroup/pids/docker/ab")
        );
        assert_eq!(
            group("0::/docker/ab\n", "memory"),
            Path::new("/sys/fs/cgroup/docker/ab")
        );
    }

    #[test]
    fn only_our_own_mounts_count() {
        let id = "f0badb8fffde1d7898b54324963c4a278bb5904a2c89bf1b53a05af23028374a";
        let ours =
            format!("1 2 8:1 /var/lib/docker/containers/{id}/hostname /etc/hostname rw - ext4");
        assert_eq!(id_in_mounts(&ours).as_deref(), Some(id));
        let others = format!("1 2 0:5 / /var/lib/docker/containers/{id}/mounts/shm rw - tmpfs shm");
        assert_eq!(id_in_mounts(&others), None);
    }
}
