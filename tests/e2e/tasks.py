"""Small tasks in Harbor's format, written for one test each."""

import textwrap
from dataclasses import dataclass
from pathlib import Path

PASS = "mkdir -p /logs/verifier && echo 1 > /logs/verifier/reward.txt"
LEAVE_ANSWER = "mkdir -p /logs/artifacts && echo done > /logs/artifacts/answer.txt"
CHECK_ANSWER = (
    "mkdir -p /logs/verifier\n"
    "if grep -q done /logs/artifacts/answer.txt; then echo 1; else echo 0; fi > /logs/verifier/reward.txt"
)


@dataclass(frozen=True)
class Task:
    """A task whose oracle runs `solve` as a bash script in `image`, and whose verifier runs `test`.

    Without an image it has the one of the examples. By default an answer file crosses over to a pristine
    verifier: the oracle scores 1 and no change scores 0.
    """

    name: str
    solve: str = LEAVE_ANSWER
    test: str = CHECK_ANSWER
    image: str = ""
    separate: bool = True
    cpus: int = 1
    memory_mb: int = 256
    agent_seconds: int = 120
    compose: bool = False
    network: str = "no-network"

    def write(self, folder: Path, default_image: str) -> Path:
        """The task's own folder below `folder`."""
        root = folder / self.name
        files = {
            "task.toml": self._settings(self.image or default_image),
            "instruction.md": "Write an answer.\n",
            "environment/Dockerfile": f"FROM {self.image or default_image}\n",
            "solution/solve.sh": f"#!/bin/bash\n{textwrap.dedent(self.solve)}\n",
            "tests/test.sh": f"#!/bin/bash\n{textwrap.dedent(self.test)}\n",
        }
        if self.compose:
            files["environment/docker-compose.yaml"] = "services: {main: {}}\n"
        for path, text in files.items():
            target = root / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text)
            target.chmod(0o755 if path.endswith(".sh") else 0o644)
        return root

    def _settings(self, image: str) -> str:
        network = f"network_mode = '{self.network}'\n"
        mode = "separate" if self.separate else "shared"
        resources = f"cpus = {self.cpus}\nmemory_mb = {self.memory_mb}\nstorage_mb = 1024\n"
        verifier = f"[verifier.environment]\n{network}{resources}" if self.separate else ""
        return "\n".join(
            (
                'schema_version = "1.3"',
                "artifacts = ['/logs/artifacts/answer.txt']" if self.separate else "",
                f"[task]\nname = 'assay-tests/{self.name}'\ndescription = 'of one end-to-end test'",
                f"[environment]\ndocker_image = '{image}'\n{network}{resources}",
                f"[agent]\ntimeout_sec = {self.agent_seconds}.0",
                f"[verifier]\nenvironment_mode = '{mode}'\ntimeout_sec = 60.0",
                verifier,
            )
        )
