"""The two pages about ledgers, typed as they stand: an owner freezes a benchmark, a visitor verifies it."""

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
import yaml

from assay.api.attempt_record import AttemptRecord
from assay.core.ledger import LedgerFile, parse_ledger
from tests.cli.conftest import RegistryServer, write_task
from tests.fixtures.s3 import S3Server, new_bucket
from tests.unit.ledger_tasks import DIGEST, task

DOCS = Path(__file__).resolve().parents[2] / "docs"
IDENTITY = {
    "GIT_CONFIG_GLOBAL": os.devnull,
    **{f"GIT_{who}_NAME": "Owner" for who in ("AUTHOR", "COMMITTER")},
    **{f"GIT_{who}_EMAIL": "owner@bench.example" for who in ("AUTHOR", "COMMITTER")},
}


def blocks(page: str, language: str) -> list[str]:
    """The page's code blocks of a language, in order."""
    text = (DOCS / page).read_text()
    return [block.partition("```")[0] for block in text.split(f"```{language}\n")[1:]]


class Guide:
    """Types the commands of a page in a folder, with the names of this machine in place of the page's."""

    def __init__(self, folder: Path, names: Mapping[str, str], storage: S3Server) -> None:
        self.folder, self.names, self.storage = folder, names, storage
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        self.environment = {**os.environ, **IDENTITY, **storage.environment, "PATH": path}

    def type(self, commands: str) -> str:
        """Standard output; a command that fails fails the test with its words."""
        for name, here in self.names.items():
            commands = commands.replace(name, here)
        # These need what this test has not: a cluster, and the runner's image.
        kept = [line for line in commands.splitlines() if not line.startswith(("buildah", "kubectl"))]
        script = "\n".join(kept).replace("| kubectl apply -f -", "> resource.yaml")
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", script],
            cwd=self.folder, env=self.environment, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, f"{script}\n{done.stdout}{done.stderr}"
        return done.stdout

    @property
    def ledger(self) -> LedgerFile:
        return parse_ledger((self.folder / "ledger.jsonl").read_bytes())


def proof(ledger: LedgerFile) -> str:
    """Records of the agents oracle and nop on every task of a ledger."""
    lines = [
        AttemptRecord.model_validate(
            {
                "run": "proof", "ledger": "my-bench", "ledger_digest": ledger.digest, "task": line.id,
                "archive_digest": line.archive_digest, "variant": agent, "repetition": repetition,
                "retained": True, "outcome": "Graded", "reward": float(agent == "oracle"),
                "images": {"environment": line.images.environment},
            }
        ).model_dump_json(by_alias=True)
        for line in ledger.tasks
        for agent in ("oracle", "nop")
        for repetition in range(3)
    ]  # fmt: skip
    return "\n".join(lines) + "\n"


@pytest.fixture
def owner(tmp_path: Path, registry: RegistryServer, s3_server: S3Server) -> Guide:
    """A repository with the tasks and the code that the page speaks of, and the page's build file."""
    folder = tmp_path / "my-bench"
    for name in ("flaky", "hard-one"):
        write_task(folder / "tasks" / name, task(f"org/{name}"))
    write_task(folder, {"harness/run.py": "print('run')\n"})
    (folder / "build.toml").write_text(blocks("ledger.md", "toml")[0].replace("sha256:…", DIGEST))
    subprocess.run(["git", "init", "-q", "-b", "main", folder], check=True)
    names = {
        "sha256:…": DIGEST,
        "--registry registry.example": f"--registry {registry.address}",
        "--bucket evidence": f"--bucket {new_bucket(s3_server)}",
        "--endpoint https://s3.example": "",
        "--oracle-runs jobs/2026-11-30__12-00-00": "",
        "git clone https://git.example/my-bench": f"git clone -q {folder}",
    }
    return Guide(folder, names, s3_server)


def test_the_pages_lead_from_a_folder_of_tasks_to_a_ledger_that_a_third_party_verifies(
    owner: Guide, tmp_path: Path
) -> None:
    build, prove, commit, publish = blocks("ledger.md", "sh")
    owner.type(build)
    assert owner.ledger.without_proof == ["org/flaky", "org/hard-one"]
    (owner.folder / "attempts.jsonl").write_text(proof(owner.ledger))
    owner.type(prove)
    assert owner.ledger.without_proof == []
    assert "pin, harness and tasks are the frozen ones" in owner.type(commit)
    owner.type(publish)
    resource = yaml.safe_load((owner.folder / "resource.yaml").read_text())
    assert resource["spec"]["digest"] == owner.ledger.digest
    owner.type("git tag v1.0")

    digest, clone, by_git, stored, *_ = blocks("verify-a-ledger.md", "sh")
    visitor = tmp_path / "visitor"
    visitor.mkdir()
    names = {**owner.names, "sha256:…": owner.ledger.digest, "/tmp/index": f"{visitor}/index"}
    third = Guide(visitor, names, owner.storage)
    (visitor / "ledger.jsonl").write_bytes((owner.folder / "ledger.jsonl").read_bytes())
    said = third.type(digest) + third.type(clone) + third.type(stored)
    assert "WRONG" not in said
    assert {"digest", "file", "clusters", "pin", "harness", "copy", "archives"} <= set(said.split())
    assert owner.ledger.header.harness is not None
    assert third.type(by_git).strip() == owner.ledger.header.harness.tree
