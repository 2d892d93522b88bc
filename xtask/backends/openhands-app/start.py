"""Starts the V1 app server of OpenHands on loopback, with its sandboxes as processes of this machine.

usage: start.py PORT

OpenHands means RUNTIME=process for development, and it starts no task without these changes. They
change how sandboxes are started, not the API:
- in a container it looks for its sandboxes at host.docker.internal;
- it takes a process for ready only while that is on the processor ("running", not "sleeping");
- it waits 30 s for an agent server, which takes longer on a busy machine;
- its sandboxes listen on all interfaces.
Its agents also need a program `chromium` on the search path, which may be a stub: they start it only
for web pages.
"""

import sys

import psutil
import uvicorn
from openhands.app_server.sandbox import process_sandbox_service as sandboxes
from openhands.app_server.sandbox.sandbox_models import SandboxStatus
from openhands.app_server.utils import docker_utils


def status(_service, info):
    try:
        state = psutil.Process(info.pid).status()
    except (psutil.NoSuchProcess, psutil.AccessDenied):
        return SandboxStatus.MISSING
    if state in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD):
        return SandboxStatus.MISSING
    return SandboxStatus.PAUSED if state == psutil.STATUS_STOPPED else SandboxStatus.RUNNING


docker_utils.is_running_in_docker = lambda: False
sandboxes.ProcessSandboxService._get_process_status = status
sandboxes.ProcessSandboxService._wait_for_server_ready.__defaults__ = (60,)
# `python -m agent_server_on_loopback`, beside this file.
field = sandboxes.ProcessSandboxServiceInjector.model_fields["agent_server_module"]
field.default = "agent_server_on_loopback"
sandboxes.ProcessSandboxServiceInjector.model_rebuild(force=True)

uvicorn.run("openhands.app_server.app:app", host="127.0.0.1", port=int(sys.argv[1]))
