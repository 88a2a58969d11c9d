"""Tiny tasks in Harbor's format, and their archives."""

import hashlib
import io
import tarfile
from dataclasses import dataclass, field

CHECK_ANSWER = """#!/bin/bash
mkdir -p /logs/verifier
[ "$(cat {answer} 2>/dev/null)" = 42 ]
echo $((1 - $?)) > /logs/verifier/reward.txt
"""
SOLVE = "#!/bin/bash\necho 42 > /app/answer.txt\n"

DOCKERFILE = "FROM example.test/task:1\nCOPY test.sh /tests/test.sh\nRUN chmod +x /tests/test.sh\n"


@dataclass
class TaskFolder:
    """Files of a task by path; a path that ends in .sh is a program."""

    toml: str
    files: dict[str, str] = field(default_factory=dict)

    def archive(self) -> bytes:
        """The deterministic archive that a ledger would name."""
        out = io.BytesIO()
        with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as tar:
            for path, text in sorted({"task.toml": self.toml, **self.files}.items()):
                info = tarfile.TarInfo(path)
                info.size = len(text.encode())
                info.mode = 0o755 if path.endswith(".sh") else 0o644
                tar.addfile(info, io.BytesIO(text.encode()))
        return out.getvalue()

    @property
    def digest(self) -> str:
        return f"sha256:{hashlib.sha256(self.archive()).hexdigest()}"


def shared_task(test: str | None = None, extra_toml: str = "", **files: str) -> TaskFolder:
    """A task whose verifier runs in the agent's own container."""
    toml = f"""schema_version = "1.3"
[task]
name = "tests/shared"
{extra_toml}
[environment]
workdir = "/app"
"""
    base = {
        "instruction.md": "Write the number 42 into /app/answer.txt.\n",
        "environment/Dockerfile": "FROM example.test/task:1\n",
        "solution/solve.sh": SOLVE,
        "tests/test.sh": test or CHECK_ANSWER.format(answer="/app/answer.txt"),
    }
    return TaskFolder(toml, base | files)


def separate_task(test: str | None = None, dockerfile: str = DOCKERFILE, **files: str) -> TaskFolder:
    """A task in DeepSWE's form: a collect hook, one artifact, a verifier image that only copies files."""
    toml = """schema_version = "1.3"
artifacts = ["/logs/artifacts/answer.txt"]
[task]
name = "tests/separate"
[agent]
network_mode = "no-network"
[verifier]
network_mode = "no-network"
environment_mode = "separate"
[verifier.environment]
[[verifier.collect]]
command = "mkdir -p /logs/artifacts && cp /app/answer.txt /logs/artifacts/"
[environment]
docker_image = "example.test/task:1"
workdir = "/app"
"""
    base = {
        "instruction.md": "Write the number 42 into /app/answer.txt.\n",
        "environment/Dockerfile": "FROM example.test/task:1\n",
        "solution/solve.sh": SOLVE,
        "tests/Dockerfile": dockerfile,
        "tests/test.sh": test or CHECK_ANSWER.format(answer="/logs/artifacts/answer.txt"),
    }
    return TaskFolder(toml, base | files)


def stepped_task() -> TaskFolder:
    """Two steps, judged one after the other in the agent's container; the reward is their mean."""
    toml = """schema_version = "1.3"
[task]
name = "tests/stepped"
[agent]
timeout_sec = 60
[environment]
workdir = "/app"
[[steps]]
name = "first"
[[steps]]
name = "second"
"""
    files = {"environment/Dockerfile": "FROM example.test/task:1\n"}
    for step, answer in (("first", "one"), ("second", "two")):
        files[f"steps/{step}/instruction.md"] = f"Write {answer} into /app/{step}.txt.\n"
        files[f"steps/{step}/solution/solve.sh"] = f"#!/bin/bash\necho {answer} > /app/{step}.txt\n"
        files[f"steps/{step}/tests/test.sh"] = (
            f'#!/bin/bash\nif [ "$(cat /app/{step}.txt 2>/dev/null)" = {answer} ]; '
            "then echo 1 > /logs/verifier/reward.txt; else echo 0 > /logs/verifier/reward.txt; fi\n"
        )
    return TaskFolder(toml, files)
