#!/bin/sh
# The service is started by the administrator, who knows its options; an upgrade restarts it. A service that does not
# start leaves no half-installed package.
set -e
if [ -f /usr/lib/sysusers.d/@NAME@.conf ] && command -v systemd-sysusers >/dev/null; then
    systemd-sysusers @NAME@.conf
fi
if [ -d /run/systemd/system ]; then
    systemctl daemon-reload || true
    systemctl try-restart @NAME@.service ||
        echo "@NAME@ does not start: journalctl -u @NAME@ says why" >&2
fi
