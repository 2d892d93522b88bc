"""Starts @PROGRAM@, which this package installs beside the scripts of Python."""

import os
import subprocess
import sys
import sysconfig

PROGRAM = "@PROGRAM@" + (".exe" if os.name == "nt" else "")


def main():
    # This command lies beside the program, also where pipx has made a link to it.
    folders = [os.path.dirname(os.path.realpath(sys.argv[0])), sysconfig.get_path("scripts")]
    found = [os.path.join(folder, PROGRAM) for folder in folders]
    found = [file for file in found if os.path.isfile(file)]
    if not found:
        sys.exit(PROGRAM + ": the program is missing in " + " and ".join(folders))
    arguments = found[:1] + sys.argv[1:]
    if os.name == "nt":
        sys.exit(subprocess.call(arguments))
    os.execv(found[0], arguments)
