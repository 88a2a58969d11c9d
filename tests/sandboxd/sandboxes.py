"""Starts sandboxd: in a bare pid namespace, and in a container as a pod has it."""

import asyncio
import json
import os
import shutil
import stat
import subprocess
import uuid
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

from assay.runner.sandbox import SandboxClient

# Those that containerd gives a container which asks for none.
POD_CAPABILITIES = [
    *(
        "CAP_AUDIT_WRITE",
        "CAP_CHOWN",
        "CAP_DAC_OVERRIDE",
        "CAP_FOWNER",
        "CAP_FSETID",
        "CAP_KILL",
        "CAP_MKNOD",
    ),
    *("CAP_NET_BIND_SERVICE", "CAP_NET_RAW", "CAP_SETFCAP", "CAP_SETGID", "CAP_SETPCAP", "CAP_SETUID"),
    "CAP_SYS_CHROOT",
]


async def eventually(condition: Callable[[], Awaitable[bool]]) -> None:
    """Wait for something in another process, until the test's own timeout."""
    while not await condition():  # noqa: ASYNC110
        await asyncio.sleep(0.02)


class Sandbox:
    """A running sandboxd and a client of it."""

    client: SandboxClient
    process: subprocess.Popen[bytes]

    def wait(self) -> int:
        """The exit code of sandboxd."""
        return self.process.wait(60)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(60)


class NamespaceSandbox(Sandbox):
    """PID 1 of a pid namespace; all else is this machine's."""

    def __init__(self, program: Path, socket: Path, options: Sequence[str]) -> None:
        socket.parent.mkdir()
        uid = [] if "--runner-uid" in options else ["--runner-uid", str(os.geteuid())]
        self.socket = socket
        self.client = SandboxClient(socket)
        self.process = subprocess.Popen(
            [
                *("unshare", "--pid", "--fork", "--kill-child", "--mount-proc"),
                *(str(program), "serve", "--socket", str(socket), *uid, *options),
            ],
            env={"PATH": os.environ["PATH"], "FROM_CONTAINER": "yes", "HOME": "/root"},
            cwd=socket.parent,
        )


class Container(Sandbox):
    """PID 1 of a runc container: read-only program, own socket folder, a pod's capabilities."""

    def __init__(self, program: Path, folder: Path, resources: dict[str, Any]) -> None:
        self.name = f"assay-test-{uuid.uuid4().hex[:12]}"
        self.folder = folder
        self.program_folder = folder / "bin"
        self.socket_folder = folder / "sock"
        for made in (self.program_folder, self.socket_folder):
            made.mkdir()
        subprocess.run([program, "install", self.program_folder], check=True)
        self.client = SandboxClient(self.socket_folder / "s")
        (folder / "config.json").write_text(json.dumps(self._config(resources)))
        self.process = subprocess.Popen(["runc", "run", "--no-pivot", "--bundle", folder, self.name])

    def kill(self) -> None:
        subprocess.run(["runc", "delete", "--force", self.name], check=False, capture_output=True)
        super().kill()

    def _config(self, resources: dict[str, Any]) -> dict[str, Any]:
        subprocess.run(["runc", "spec", "--bundle", self.folder], check=True)
        config: dict[str, Any] = json.loads((self.folder / "config.json").read_text())
        config["process"] |= {
            "terminal": False,
            "args": ["/assay/bin/sandboxd", "serve", "--socket", "/assay/sock/s", "--runner-uid", "0"],
            "env": ["PATH=/usr/local/bin:/usr/bin:/bin"],
            "capabilities": dict.fromkeys(("bounding", "effective", "permitted"), POD_CAPABILITIES),
        }
        config["root"] = {"path": "rootfs", "readonly": False}
        config["mounts"] += [
            _bind(self.program_folder, "/assay/bin", "ro"),
            _bind(self.socket_folder, "/assay/sock", "rw"),
        ]
        config["linux"]["resources"] |= resources
        config["linux"]["cgroupsPath"] = f"/{self.name}"
        return config


def _bind(source: Path, destination: str, mode: str) -> dict[str, Any]:
    return {
        "destination": destination,
        "source": str(source),
        "type": "bind",
        "options": ["rbind", mode],
    }


def build_rootfs(root: Path, kind: str) -> None:
    """A root file system of one kind: "busybox" is Alpine-like, "bare" has no shell and no accounts."""
    for folder in ("proc", "sys", "dev", "tmp", "assay/bin", "assay/sock"):
        (root / folder).mkdir(parents=True)
    (root / "tmp").chmod(0o777 | stat.S_ISVTX)
    busybox = shutil.which("busybox")
    assert busybox, "busybox-static is missing: apt-get install busybox-static"
    (root / "bin").mkdir()
    if kind == "bare":
        # A program like those in distroless images: one file, no shell.
        shutil.copy(busybox, root / "bin/cat")
        return
    shutil.copy(busybox, root / "bin/busybox")
    names = subprocess.run([busybox, "--list"], check=True, capture_output=True, text=True).stdout.split()
    for name in names:
        if name != "busybox":
            (root / "bin" / name).symlink_to("busybox")
    (root / "etc").mkdir()
    (root / "etc/passwd").write_text(
        "root:x:0:0:root:/root:/bin/sh\nagent:x:1000:1000::/home/agent:/bin/sh\n"
    )
    (root / "etc/group").write_text("root:x:0:\nagent:x:1000:\naudio:x:29:agent\n")
    (root / "home/agent").mkdir(parents=True)
    (root / "root").mkdir()
