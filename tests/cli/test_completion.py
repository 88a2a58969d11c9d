"""Completion in real shells, and the program as a plugin of a real kubectl."""

import os
import pty
import re
import select
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.cli.test_cluster_commands import api_server
from tests.cli.test_cluster_commands import environment as kubeconfig

BIN = Path(sys.executable).parent
WAIT_SECONDS = 60
SHELLS = {
    "bash": ["bash", "--norc", "--noprofile", "-i"],
    "zsh": ["zsh", "-f", "-i"],
}
PREPARE = {
    "bash": (
        "bind 'set enable-bracketed-paste off'",
        'eval "$(assay --show-completion bash)"',
    ),
    "zsh": (
        "unsetopt prompt_cr prompt_sp zle_bracketed_paste; bindkey -e",
        "autoload -Uz compinit; compinit -u -D",
        'eval "$(assay --show-completion zsh)"',
    ),
}
TO_START, TO_END = "\x01", "\x05"
"""Ctrl-A and Ctrl-E: the cursor goes to the start and to the end of the line."""


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """A user's: both programs on the path, a home of its own, no cluster."""
    return {
        "PATH": f"{BIN}:{os.environ['PATH']}",
        "HOME": str(tmp_path),
        "TERM": "dumb",
        "COLUMNS": "300",
        "LANG": "C.UTF-8",
    }


class Terminal:
    """A shell on a pseudo-terminal, and somebody who types."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._seen = ""

    def type(self, keys: str) -> None:
        os.write(self._descriptor, keys.encode())

    def await_output(self, pattern: str) -> str:
        """What first matches."""
        end = time.monotonic() + WAIT_SECONDS
        while not (found := re.search(pattern, self._seen)):
            left = end - time.monotonic()
            assert left > 0, self._seen
            if select.select([self._descriptor], [], [], left)[0]:
                self._seen += os.read(self._descriptor, 4096).decode(errors="replace")
        return found[0]


@contextmanager
def terminal(command: list[str], environment: dict[str, str]) -> Iterator[Terminal]:
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment, start_new_session=True
    ) as process:
        os.close(theirs)
        try:
            yield Terminal(ours)
        finally:
            process.kill()
            os.close(ours)


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize(
    ("typed", "line"),
    [
        ("assay traj\t", "assay trajectory"),
        ("assay show nightly --names\t", "assay show nightly --namespace"),
        ("assay ledger mani\t", "assay ledger manifest"),
    ],
)
def test_tab_completes_the_word(shell: str, typed: str, line: str, environment: dict[str, str]) -> None:
    with terminal(SHELLS[shell], environment) as user:
        # What is typed is echoed, too: only what printf makes of it has these signs.
        for line_of_settings in (*PREPARE[shell], "printf '<%s>' ready"):
            user.type(f"{line_of_settings}\n")
        user.await_output("<ready>")
        user.type(f"{typed}{TO_START}printf '<%s>' {TO_END} end\n")
        shown = user.await_output(r"<assay>.*<end>")
    assert shown == "".join(f"<{word}>" for word in (*line.split(), "end"))


def test_fish_lists_candidates_with_what_they_do(environment: dict[str, str]) -> None:
    script = 'assay --show-completion fish | source; complete --do-complete "assay s"'
    found = said("fish", "--no-config", "-c", script, environment=environment)
    assert [line.split("\t")[0] for line in found.splitlines()] == ["score", "show", "suites", "suspend"]
    assert "show\tShow one run: its vector" in found


def test_kubectl_finds_the_plugin(environment: dict[str, str]) -> None:
    listed = said("kubectl", "plugin", "list", environment=environment)
    assert str(BIN / "kubectl-assay") in listed
    version = said("kubectl", "assay", "--version", environment=environment)
    assert version == said("assay", "--version", environment=environment)
    helped = said("kubectl", "assay", "show", "--help", environment=environment)
    assert "kubectl assay show nightly -n evals" in helped


@pytest.mark.parametrize(
    ("words", "candidates"),
    [
        (["sh"], ["show"]),
        (["ledger", "mani"], ["manifest"]),
        (["show", "nightly", "--kube"], ["--kubeconfig"]),
        (["results", "nightly", "--format", ""], ["tsv", "csv", "json"]),
    ],
)
def test_kubectl_completes_what_follows_the_plugins_name(
    words: list[str], candidates: list[str], environment: dict[str, str]
) -> None:
    """`__complete` is what kubectl's completion scripts of every shell call."""
    found = said("kubectl", "__complete", "assay", *words, environment=environment).splitlines()
    assert found.pop().startswith(":"), "kubectl's directive to the shell"
    assert [line.split("\t")[0] for line in found] == candidates


def test_names_of_runs_are_completed(environment: dict[str, str], tmp_path: Path) -> None:
    runs = {"items": [{"metadata": {"name": name}} for name in ("nightly-1", "nightly-2", "weekly")]}
    with api_server(200, runs) as server:
        there = environment | kubeconfig(tmp_path, server)
        found = said("kubectl", "__complete", "assay", "show", "night", environment=there).splitlines()
    assert found[:-1] == ["nightly-1", "nightly-2"]


def test_without_a_cluster_there_are_no_names_and_no_complaints(
    environment: dict[str, str], tmp_path: Path
) -> None:
    away = environment | kubeconfig(tmp_path, "http://127.0.0.1:1")
    command = [str(BIN / "kubectl_complete-assay"), "show", ""]
    done = subprocess.run(command, env=away, capture_output=True, text=True, timeout=WAIT_SECONDS, check=True)
    assert (done.stdout.strip(), done.stderr) == ("", "")


def said(*command: str, environment: dict[str, str]) -> str:
    """Standard output of a command that must succeed."""
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=WAIT_SECONDS, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
