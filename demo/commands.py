"""Runs the command-line tools that a user would run: kubectl, helm, assay."""

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from demo.errors import DemoError


def run(
    command: Sequence[str],
    *,
    stdin: str | None = None,
    environment: Mapping[str, str] | None = None,
    advice: str = "",
    timeout: float = 600,
) -> str:
    """The standard output of a command. Raises DemoError with the end of what it wrote when it fails."""
    try:
        done = subprocess.run(
            list(command),
            input=stdin,
            env=dict(environment) if environment is not None else None,
            capture_output=True,
            text=True,
            check=False,
            timeout=timeout,
        )
    except FileNotFoundError:
        raise DemoError(
            f"{command[0]} was not found", advice or f"install {command[0]}, or use `make`"
        ) from None
    except subprocess.TimeoutExpired:
        raise DemoError(f"`{_shown(command)}` did not end within {timeout:.0f} s", advice) from None
    if done.returncode != 0:
        said = "\n".join((done.stderr or done.stdout).strip().splitlines()[-15:])
        raise DemoError(f"`{_shown(command)}` failed with status {done.returncode}:\n{said}", advice)
    return done.stdout


def run_module(module: str, *arguments: str, **options: Any) -> str:
    """Like `run`, for a Python module of this checkout."""
    return run([sys.executable, "-m", module, *arguments], **options)


def apply(manifests: Sequence[Mapping[str, Any]], *, advice: str = "") -> None:
    """Server-side apply, as `kubectl apply` of a file with these documents."""
    document = {"apiVersion": "v1", "kind": "List", "items": list(manifests)}
    command = [
        "kubectl",
        "apply",
        "--server-side",
        "--force-conflicts",
        "--field-manager=assay-demo",
        "-f",
        "-",
    ]
    run(command, stdin=json.dumps(document), advice=advice)


def _shown(command: Sequence[str]) -> str:
    words = " ".join(command)
    return words if len(words) <= 160 else words[:159] + "…"
