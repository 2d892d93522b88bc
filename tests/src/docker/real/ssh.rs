//! Engines behind ssh: a real sshd, the system's ssh and the docker command. The sshd serves each
//! connection as a process of its own, as inetd starts it, so that it needs no fixed port.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::future::join_all;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use crate::docker::prelude::*;

/// sshd wants an unprivileged user and a folder in `/run`: it gets both in mounts of its own.
const SSHD: &str = r#"
    mount --bind "$1/passwd" /etc/passwd && mount -t tmpfs none /run && mkdir /run/sshd &&
    exec "$0" -i -f "$1/sshd_config" 2>> "$1/log"
"#;

/// A machine with an engine, on a free port of loopback.
struct Machine {
    dir: Folder,
    /// Connections that are open.
    open: Arc<AtomicUsize>,
    task: JoinHandle<()>,
}

impl Machine {
    /// In front of the engine at `unix://…`; `None` without the programs.
    async fn start(engine: &str) -> Option<Self> {
        let (root, docker) = real::ssh()?;
        let dir = Folder::new();
        let path = dir.path();
        for key in ["host", "client"] {
            let mut keygen = Command::new("ssh-keygen");
            keygen.args(["-q", "-t", "ed25519", "-N", "", "-f"]);
            assert!(keygen.arg(path.join(key)).status().unwrap().success());
        }
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (dir_text, bin) = (dir.str(), Path::new(&docker).parent().unwrap().display());
        let passwd = fs::read_to_string("/etc/passwd").unwrap();
        let user = "sshd:x:65533:65534::/run/sshd:/usr/sbin/nologin";
        dir.write("passwd", &format!("{passwd}{user}\n"));
        dir.write("sshd_config", &format!(
            "HostKey {dir_text}/host\nAuthorizedKeysFile {dir_text}/client.pub\nStrictModes no\nUsePAM no\n\
             PermitRootLogin yes\nSetEnv PATH={bin}:/usr/bin:/bin DOCKER_HOST={engine}\n"));
        let key = fs::read_to_string(path.join("host.pub")).unwrap();
        dir.write("known_hosts", &format!("[127.0.0.1]:{port} {key}"));
        dir.write("ssh_config", &format!(
            "Host box\n  HostName 127.0.0.1\n  Port {port}\n  User root\n  IdentityFile {dir_text}/client\n  \
             UserKnownHostsFile {dir_text}/known_hosts\n  StrictHostKeyChecking yes\n"));
        // The real ssh reads the configuration of its user, whatever HOME is.
        let script =
            format!("#!/bin/sh\nPATH=${{PATH#*:}}\nexec ssh -F {dir_text}/ssh_config \"$@\"\n");
        let script = dir.write("bin/ssh", &script);
        fs::set_permissions(script, fs::Permissions::from_mode(0o755)).unwrap();
        let open = Arc::new(AtomicUsize::new(0));
        let (count, folder) = (Arc::clone(&open), dir.str().to_owned());
        let arch = std::env::consts::ARCH;
        let libraries = format!("{root}/usr/lib/{arch}-linux-gnu:{root}/lib/{arch}-linux-gnu");
        let task = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let client = client.into_std().unwrap();
                client.set_nonblocking(false).unwrap();
                let mut sshd = tokio::process::Command::new("unshare");
                sshd.args([
                    "--mount",
                    "sh",
                    "-c",
                    SSHD,
                    &format!("{root}/usr/sbin/sshd"),
                    &folder,
                ]);
                sshd.env("LD_LIBRARY_PATH", &libraries).kill_on_drop(true);
                let copy = client.try_clone().unwrap();
                sshd.stdin(Stdio::from(std::os::fd::OwnedFd::from(client)));
                sshd.stdout(Stdio::from(std::os::fd::OwnedFd::from(copy)));
                let mut child = sshd.spawn().unwrap();
                let count = Arc::clone(&count);
                count.fetch_add(1, Ordering::Relaxed);
                tokio::spawn(async move {
                    let _ = child.wait().await;
                    count.fetch_sub(1, Ordering::Relaxed);
                });
            }
        });
        Some(Self { dir, open, task })
    }

    async fn server(&self, host: &str) -> Server {
        let path = format!("{}/bin:/usr/bin:/bin", self.dir.str());
        in_front_of(host, &[("PATH", &path)]).await
    }

    fn log(&self) -> String {
        fs::read_to_string(self.dir.path().join("log")).unwrap_or_default()
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        self.task.abort();
    }
}

#[tokio::test]
async fn engine_behind_ssh_is_used_as_a_local_one() {
    let Some(lab) = lab().await else { return };
    let Some(machine) = Machine::start(&lab.host).await else {
        return;
    };
    let mut server = machine.server("ssh://box").await;
    let name = lab.run_script("web", "echo hello; exec sleep 600").await;
    let log = succeed!(server, "get_container_logs", {"container": name, "until_match": "hello",
        "tail": 10, "follow_seconds": 120});
    assert_contains(&log["log"], "hello");
    // More calls at once than sshd lets in unauthenticated.
    let calls = (0..12).map(|_| succeed(&server, "get_container", json!({"container": name})));
    for shown in join_all(calls).await {
        assert_eq!(shown["state"]["status"], "running", "{}", machine.log());
    }
    let done = succeed!(server, "execute_command", {"container": name, "command": ["cat", "/etc/hostname"]});
    assert_eq!(done["exit_code"], 0, "{done}");
    let stopped = succeed!(server, "stop_container", {"container": name, "timeout_seconds": 0});
    assert_eq!(stopped["after"], "exited");
    // Only the stream of events stays open, and nothing once the server has ended.
    wait_until("one connection", async || {
        machine.open.load(Ordering::Relaxed) == 1
    })
    .await;
    let pid = nix::unistd::Pid::from_raw(server.pid().cast_signed());
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM).unwrap();
    server.wait_for_exit().await;
    wait_until("no connection", async || {
        machine.open.load(Ordering::Relaxed) == 0
    })
    .await;
}

#[tokio::test]
async fn failures_of_ssh_are_explained() {
    let Some(lab) = lab().await else { return };
    let Some(machine) = Machine::start(&lab.host).await else {
        return;
    };
    let server = machine.server("ssh://stranger@box").await;
    let reason = "Permission denied";
    fails_with!(
        server,
        "list_containers",
        {},
        "There is no connection",
        "ssh said",
        reason
    );
}
