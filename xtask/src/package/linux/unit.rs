//! The systemd unit, and what happens to it when a package comes and goes.

use super::{HOMEPAGE, config};
use crate::package::Product;

/// Settings of every unit: nothing that the server does not need to serve HTTP and to call another service.
const SANDBOX: &str = "\
DynamicUser=yes
CapabilityBoundingSet=
AmbientCapabilities=
NoNewPrivileges=yes
DevicePolicy=closed
PrivateDevices=yes
PrivateTmp=yes
ProtectClock=yes
ProtectControlGroups=yes
ProtectHome=yes
ProtectHostname=yes
ProtectKernelLogs=yes
ProtectKernelModules=yes
ProtectKernelTunables=yes
ProtectProc=invisible
ProtectSystem=strict
RemoveIPC=yes
RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX
RestrictNamespaces=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
LockPersonality=yes
SystemCallArchitectures=native
SystemCallFilter=@system-service
SystemCallFilter=~@privileged @resources
SystemCallErrorNumber=EPERM
UMask=0077
";

/// Returns the group whose members reach the service of this program.
pub(super) fn group(product: &Product) -> Option<&'static str> {
    (product.name == "docker-mcp-server").then_some("docker")
}

/// Returns the unit.
pub(super) fn service(product: &Product) -> String {
    let Product { name, title, .. } = product;
    let (variable, file) = (config::variable(product), config::path(product));
    let secrets = config::environment_path(product);
    // Backends of the gateway are programs of all kinds: interpreters make code while they run, and many see
    // only their own processes.
    let extra = match *name {
        "mcp-gateway" => "",
        _ => "MemoryDenyWriteExecute=yes\nProcSubset=pid\n",
    };
    let group = group(product).map_or_else(String::new, |group| {
        format!("SupplementaryGroups={group}\n")
    });
    format!(
        "[Unit]\nDescription={title}\nDocumentation=man:{name}(1) {HOMEPAGE}\nWants=network-online.target\n\
         After=network-online.target\n\
         # A wrong configuration does not mend itself, and the exit code of ExecStartPre prevents no restart.\n\
         StartLimitIntervalSec=60\nStartLimitBurst=5\n\n\
         [Service]\nType=exec\nEnvironment={variable}={file}\n\
         # State, such as the key of session ids; a backend of the gateway has it as its home.\n\
         Environment=XDG_STATE_HOME=%S/{name} HOME=%S/{name}\nEnvironmentFile=-{secrets}\nStateDirectory={name}\n\
         WorkingDirectory=%S/{name}\nExecStartPre=/usr/bin/{name} check\nExecStart=/usr/bin/{name}\n\
         Restart=on-failure\nRestartSec=2s\n\
         RestartPreventExitStatus=2 78\n\
         TimeoutStopSec=30s\n\n{SANDBOX}{extra}{group}\n\
         [Install]\nWantedBy=multi-user.target\n"
    )
}

/// Returns the scripts of the package. The service is started by the administrator, who knows its options; an
/// upgrade restarts it. A service that does not start, or stop, leaves no half-installed package.
pub(super) fn scripts(product: &Product, is_deb: bool) -> [(&'static str, String); 3] {
    let name = product.name;
    let groups = match group(product) {
        Some(_) => format!(
            "if command -v systemd-sysusers >/dev/null; then\n    systemd-sysusers {name}.conf\nfi\n"
        ),
        None => String::new(),
    };
    // dpkg names the step, rpm the number of versions that stay.
    let is_removed = match is_deb {
        true => r#"[ "$1" = remove ]"#,
        false => r#"[ "$1" = 0 ]"#,
    };
    let is_purged = match is_deb {
        true => r#"[ "$1" = purge ]"#,
        false => "false",
    };
    let script = |body: String| format!("#!/bin/sh\nset -e\n{body}");
    let with_systemd = |line: &str| format!("if [ -d /run/systemd/system ]; then\n{line}fi\n");
    let reload = "    systemctl daemon-reload || true\n";
    [
        (
            "postinstall",
            script(
                groups
                    + &with_systemd(&format!(
                        "{reload}    systemctl try-restart {name}.service ||\n        \
                         echo \"{name} does not start: journalctl -u {name} says why\" >&2\n"
                    )),
            ),
        ),
        (
            "preremove",
            script(format!(
                "if {is_removed} && [ -d /run/systemd/system ]; then\n    systemctl disable --now {name}.service || true\nfi\n"
            )),
        ),
        (
            "postremove",
            script(format!(
                "if {is_purged}; then\n    rm -rf /var/lib/{name} /var/lib/private/{name}\nfi\n{}",
                with_systemd(reload)
            )),
        ),
    ]
}
