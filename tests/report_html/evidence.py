"""The evidence of one try as files in a folder, as a copy of its prefix in S3."""

import io
import json
import tarfile
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from assay.api.evidence import EvidenceFile, Manifest, TryResult
from assay.core.canonical import digest_of_bytes
from tests.unit.report.samples import DIGEST, RUN_UID

POD_UID = "7be20000-0000-4000-8000-000000000000"
START = datetime(2026, 11, 30, 12, tzinfo=UTC)
INSTRUCTION = "Count the requests in access.log."
TRAJECTORY = "trial/agent/trajectory.json"


def trajectory(*steps: Mapping[str, Any]) -> bytes:
    """A trajectory in Harbor's format."""
    agent = {"name": "terminus-2", "version": "2.0", "model_name": "claude-opus-5-5"}
    return json.dumps({"schema_version": "ATIF-v1.4", "agent": agent, "steps": steps}).encode()


def agent_step(message: str, command: str, seen: str) -> dict[str, Any]:
    """A turn in which the agent calls a tool and sees what came of it."""
    return {
        "source": "agent",
        "message": message,
        "tool_calls": [{"function_name": "bash", "arguments": {"command": command}}],
        "observation": {"results": [{"content": seen}]},
        "metrics": {"prompt_tokens": 1200, "completion_tokens": 34},
    }


def call(sequence: int, **changes: Any) -> dict[str, Any]:
    """A line of calls/000001.jsonl."""
    return {
        "schemaVersion": 1,
        "sequence": sequence,
        "role": "main",
        "api": "AnthropicMessages",
        "path": "v1/messages",
        "startedAt": START.isoformat(),
        "latencySeconds": 2.5,
        "streamed": True,
        "status": 200,
        "modelAsked": "claude-opus-5-5",
        "modelAnswered": "claude-opus-5-5",
        "tokens": {"input": 1200, "cacheRead": 1000, "output": 34},
        "stopReason": "end_turn",
        **changes,
    }


def plain_files() -> dict[str, bytes]:
    """What an ordinary try leaves."""
    steps = [
        {"source": "user", "message": INSTRUCTION},
        agent_step("I count lines.", "wc -l access.log", "1234 access.log"),
    ]
    return {
        TRAJECTORY: trajectory(*steps),
        "trial/verifier/test-stdout.txt": b"1 passed in 0.01s\n",
        "trial/verifier/reward.txt": b"1\n",
        "calls/000001.jsonl": b"".join(json.dumps(call(one)).encode() + b"\n" for one in (1, 2)),
        "runner.log": b"agent started\n",
    }


def archive(instruction: str) -> bytes:
    """A task's archive with nothing but its instruction."""
    output = io.BytesIO()
    with tarfile.open(fileobj=output, mode="w") as tar:
        content = instruction.encode()
        member = tarfile.TarInfo("instruction.md")
        member.size = len(content)
        tar.addfile(member, io.BytesIO(content))
    return output.getvalue()


def write_try(
    folder: Path,
    files: Mapping[str, bytes],
    *,
    task: str = "count-requests",
    instruction: str = INSTRUCTION,
    **result: Any,
) -> Path:
    """The evidence of a graded try below `folder`, which stands for the bucket; answers the try's folder."""
    tar = archive(instruction)
    (folder / "tasks").mkdir(parents=True)
    (folder / "tasks" / f"{digest_of_bytes(tar).replace(':', '-')}.tar").write_bytes(tar)
    place = folder / "runs" / RUN_UID / "try-1" / POD_UID
    place.mkdir(parents=True)
    for path, content in files.items():
        (place / path).parent.mkdir(parents=True, exist_ok=True)
        (place / path).write_bytes(content)
    identity = {
        "run_name": "nightly",
        "run_uid": RUN_UID,
        "namespace": "evals",
        "ledger": "examples",
        "task": task,
        "variant": "candidate",
        "repetition": 0,
        "try_number": 1,
        "job_name": "count-requests-r0-t1",
    }
    outcome = {
        "outcome": "Graded",
        "reward": 1.0,
        "rewards": {"reward": 1.0},
        "agent_version": "terminus-2 2.0",
        "started_at": START,
        "finished_at": START + timedelta(seconds=90),
        "seconds": {"setup": 3.0, "agent": 60.0, "verifier": 12.5},
        "model_calls": 2,
        "harness": {"harbor": "0.26.0", "assay": "0.1.0"},
    }
    manifest = Manifest.model_validate(
        {
            "schema_version": 1,
            "identity": identity,
            "pod_uid": POD_UID,
            "ledger_digest": DIGEST,
            "variant_fingerprint": DIGEST,
            "archive_digest": digest_of_bytes(tar),
            "files": [
                EvidenceFile(path=path, size=len(content), sha256=digest_of_bytes(content))
                for path, content in files.items()
            ],
            "result": TryResult.model_validate({**outcome, **result}),
        }
    )
    (place / "manifest.json").write_text(manifest.model_dump_json(by_alias=True))
    return place
