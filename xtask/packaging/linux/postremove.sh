#!/bin/sh
set -e
if [ "$1" = purge ]; then
    rm -rf /var/lib/@NAME@ /var/lib/private/@NAME@
fi
if [ -d /run/systemd/system ]; then
    systemctl daemon-reload || true
fi
