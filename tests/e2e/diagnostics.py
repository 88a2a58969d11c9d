"""What a person would look at after a failure, gathered before the next test changes it."""

import re
import subprocess
import tempfile
from pathlib import Path

from demo.install import RUN_NAMESPACE, SYSTEM_NAMESPACE
from tests.e2e.bench import OPEN_NAMESPACE, RESTRICTED_NAMESPACE

_NAMESPACES = (SYSTEM_NAMESPACE, RUN_NAMESPACE, RESTRICTED_NAMESPACE, OPEN_NAMESPACE)


def saved(name: str) -> str:
    """Gathers, writes it all to a file, and returns its beginning with the file's path."""
    folder = Path(tempfile.gettempdir()) / "assay-e2e"
    folder.mkdir(exist_ok=True)
    file = folder / f"{re.sub(r'[^A-Za-z0-9_.-]+', '-', name)}.txt"
    text = gather()
    file.write_text(text)
    return "\n".join([*text.splitlines()[:60], f"… all of it: {file}"])


def gather() -> str:
    """Runs, Jobs, pods, events and logs of all namespaces of the tests; never raises."""
    parts = [_said("kubectl", "get", "ledgers,agentvariants,evaluationruns,jobs,pods", "-A")]
    parts.append(_said("kubectl", "get", "evaluationruns", "-A", "-o", "yaml", "--show-managed-fields=false"))
    for namespace in _NAMESPACES:
        parts.append(_said("kubectl", "get", "events", "-n", namespace, "--sort-by=.lastTimestamp"))
    parts.append(_said("kubectl", "logs", "-n", SYSTEM_NAMESPACE, "deployment/assay-operator", "--tail=150"))
    selector = "app.kubernetes.io/component=gateway"
    logs = ("kubectl", "logs", "-n", RUN_NAMESPACE, "-l", selector, "--tail=60", "--prefix")
    parts.append(_said(*logs))
    return "\n\n".join(parts)


def _said(*command: str) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=30)
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"$ {' '.join(command)}\n{error}"
    lines = (done.stdout + done.stderr).splitlines()
    return "\n".join([f"$ {' '.join(command)}", *lines[-400:]])
