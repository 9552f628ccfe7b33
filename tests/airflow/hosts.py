"""Brokers that are reached by ssh: an sshd on loopback where there is one, else an `ssh` that runs the command here."""

from __future__ import annotations

import getpass
import os
import shlex
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path

#: Takes the options of ssh that scripts give, and runs the command as its login shell would; of the host `down` nothing is heard.
_LOCAL_SSH = """#!/bin/sh
while [ "${1#-}" != "$1" ]; do
  if [ "$1" = -o ]; then shift; fi
  shift
done
if [ "$1" = down ]; then echo "ssh: connect to host down port 22: Connection refused" >&2; exit 255; fi
shift
PATH={path} exec sh -c "$*"
"""

_SUDO = '#!/bin/sh\n[ "$1 $2 $3" = "-n -u kafka" ] || exit 9\nshift 3\nexec "$@"\n'


class Hosts:
    """`tools` is a directory for PATH whose `ssh` knows the hosts `up` and, which does not answer, `down`.

    `program` is the sshd, if there is one, and `is_real` whether it is what answers.
    """

    def __init__(self, place: Path) -> None:
        self.tools = place / "tools"
        self.tools.mkdir(parents=True)
        self._place, self._sshd = place, None
        remote = place / "remote"
        remote.mkdir()
        _script(remote / "sudo", _SUDO)
        # The Python of the tests has a library for the checksums.
        self._path = f"{remote}:{Path(sys.executable).parent}:{os.environ['PATH']}"
        (place / "login").write_text(f'PATH={shlex.quote(self._path)} exec sh -c "$SSH_ORIGINAL_COMMAND"\n')
        self.program = shutil.which("sshd", path=f"{os.environ['PATH']}:/usr/sbin") if shutil.which("ssh") else None
        self.is_real = self.program is not None and self._start(self.program)
        if not self.is_real:
            _script(self.tools / "ssh", _LOCAL_SSH.replace("{path}", shlex.quote(self._path)))

    @property
    def log(self) -> str:
        """Output of the sshd so far."""
        return (self._place / "sshd.log").read_text()

    def close(self) -> None:
        """Stop the sshd."""
        if self._sshd is not None:
            self._sshd.terminate()
            self._sshd.wait(10)

    def _start(self, program: str) -> bool:
        place = self._place
        for name in ("host", "user"):
            key = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(place / name)]
            subprocess.run(key, check=True, stdin=subprocess.DEVNULL, timeout=60)
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        if os.getuid() == 0:
            Path("/run/sshd").mkdir(exist_ok=True)
        (place / "sshd_config").write_text(
            f"ListenAddress 127.0.0.1\nPort {port}\nHostKey {place}/host\nAuthorizedKeysFile {place}/user.pub\n"
            f"PidFile {place}/sshd.pid\nUsePAM no\nStrictModes no\nForceCommand . {place}/login\n"
        )
        common = f"  HostName 127.0.0.1\n  User {getpass.getuser()}\n  IdentityFile {place}/user\n"
        common += "  IdentitiesOnly yes\n  StrictHostKeyChecking no\n  UserKnownHostsFile /dev/null\n  LogLevel ERROR\n"
        (place / "ssh_config").write_text(f"Host up\n  Port {port}\n{common}Host down\n  Port 1\n{common}")
        _script(self.tools / "ssh", f'#!/bin/sh\nexec {shutil.which("ssh")} -F {place}/ssh_config "$@"\n')
        with (place / "sshd.log").open("w") as log:
            command = [program, "-D", "-e", "-f", str(place / "sshd_config")]
            self._sshd = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        command = [str(self.tools / "ssh"), "-T", "-o", "BatchMode=yes", "up", "python3 -c 'import google_crc32c'"]
        for _ in range(50):
            if self._sshd.poll() is not None:
                return False
            if subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=60).returncode == 0:
                return True
            time.sleep(0.1)
        self.close()
        return False


def _script(path: Path, text: str) -> None:
    path.write_text(text)
    path.chmod(0o755)
