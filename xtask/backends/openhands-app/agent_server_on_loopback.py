"""The agent server of a sandbox, on loopback. Ends with the app server, also if that is killed."""

import ctypes
import os
import signal
import sys

from openhands.agent_server.__main__ import main

PR_SET_PDEATHSIG = 1
ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
if os.getppid() == 1:
    sys.exit(1)
sys.argv += ["--host", "127.0.0.1"]
main()
