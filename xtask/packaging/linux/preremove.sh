#!/bin/sh
# dpkg names the step, rpm the number of versions that stay.
set -e
if { [ "$1" = remove ] || [ "$1" = 0 ]; } && [ -d /run/systemd/system ]; then
    systemctl disable --now @NAME@.service || true
fi
