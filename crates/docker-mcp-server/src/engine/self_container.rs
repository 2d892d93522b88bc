//! The container that this program runs in.

use std::sync::LazyLock;

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
    fn only_our_own_mounts_count() {
        let id = "f0badb8fffde1d7898b54324963c4a278bb5904a2c89bf1b53a05af23028374a";
        let ours =
            format!("1 2 8:1 /var/lib/docker/containers/{id}/hostname /etc/hostname rw - ext4");
        assert_eq!(id_in_mounts(&ours).as_deref(), Some(id));
        let others = format!("1 2 0:5 / /var/lib/docker/containers/{id}/mounts/shm rw - tmpfs shm");
        assert_eq!(id_in_mounts(&others), None);
    }

    #[test]
    fn a_hostname_of_12_hex_digits_is_an_id() {
        let id = id_in_hostname("f0badb8fffde\n");
        assert_eq!(id.as_deref(), Some("f0badb8fffde"));
        assert_eq!(id_in_hostname("web-1"), None);
    }
}
