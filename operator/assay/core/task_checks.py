"""What makes a task impossible to freeze: files that are missing, and features that cannot be run."""

import posixpath
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from assay.api.ledgerfile import NetworkMode
from assay.core.archive import Entry, Kind, uploaded_but_not_in_digest
from assay.core.dockerfile import copied_sources, instructions
from assay.core.task_file import TaskFile

_COMPOSE = frozenset({"docker-compose.yaml", "docker-compose.yml", "compose.yaml", "compose.yml"})
_TESTS_PATH = re.compile(r"(?<![\w./$}-])/tests/([A-Za-z0-9][\w.-]*(?:/[\w.-]+)*)")
_WRITES = re.compile(r"(>>?|\btee\b|\bmkdir\b|\btouch\b|-o\b|\brm\b)[^|;&]*$")


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a task cannot be part of a ledger, and what to do about it."""

    task: str
    field: str
    problem: str
    fix: str

    def __str__(self) -> str:
        return f"{self.task}: {self.field}: {self.problem}. Fix: {self.fix}"


@dataclass(frozen=True, slots=True)
class TaskSource:
    """A task's folder: its name, its entries, and the facts of its `task.toml`."""

    folder: str
    entries: Mapping[str, Entry]
    file: TaskFile

    @property
    def id(self) -> str:
        """Id of the task: the name that task.toml gives, else the folder's."""
        return self.file.task.name if self.file.task else self.folder

    def text(self, path: str) -> str | None:
        """The text of a file, None if there is none; what is not UTF-8 is replaced."""
        entry = self.entries.get(path)
        if entry is None or entry.kind is not Kind.FILE:
            return None
        with entry.open() as content:
            return content.read().decode(errors="replace")

    def refuse(self, field: str, problem: str, fix: str) -> Refusal:
        """A refusal of this task."""
        return Refusal(self.id, field, problem, fix)


def check_task(task: TaskSource) -> Iterator[Refusal]:
    """Everything about a task's own files that keeps it out of a ledger."""
    yield from _unsupported(task)
    yield from _missing_parts(task)
    yield from _missing_copies(task)
    yield from _missing_tests(task)
    for path in uploaded_but_not_in_digest(list(task.entries.values())):
        yield task.refuse(
            path,
            "Harbor's digest leaves it out as ignored, yet Harbor copies it into the container",
            "delete it, or remove it from .gitignore, or name it in a .harborignore",
        )


def agent_network(file: TaskFile) -> NetworkMode | None:
    """What the agent's phase may reach, by Harbor's order of precedence; None for an allowlist."""
    stated = file.agent.network_mode or file.environment.network or "public"
    return {"no-network": NetworkMode.NONE, "public": NetworkMode.INTERNET}.get(stated)


def _unsupported(task: TaskSource) -> Iterator[Refusal]:
    environment = task.file.environment
    for path in task.entries:
        if path.startswith("environment/") and posixpath.basename(path) in _COMPOSE:
            yield task.refuse(
                path,
                "tasks of several containers cannot be run",
                "make it a task of one container, or leave it out",
            )
    if environment.os != "linux":
        yield task.refuse("[environment] os", f"{environment.os} cannot be run", "leave the task out")
    if environment.gpus or environment.tpu:
        yield task.refuse(
            "[environment] gpus", "accelerators cannot be given to a task", "leave the task out"
        )
    yield from _unsupported_network(task)


def _unsupported_network(task: TaskSource) -> Iterator[Refusal]:
    file = task.file
    agent = agent_network(file)
    verifier = file.verifier.network_mode or (
        file.verifier.environment.network if file.verifier.environment else None
    )
    if agent is None or verifier == "allowlist":
        yield task.refuse(
            "network_mode", "an allowlist cannot be enforced for one phase", 'set "no-network" or "public"'
        )
    elif agent is NetworkMode.NONE and verifier == "public":
        yield task.refuse(
            "[verifier] network_mode",
            "agent and verifier are in one pod, so the verifier cannot have a network that the agent lacks",
            'set "no-network" and bring what the verifier needs in its image',
        )


def _missing_parts(task: TaskSource) -> Iterator[Refusal]:
    steps = [step.name for step in task.file.steps]
    instruction = [f"steps/{name}/instruction.md" for name in steps] or ["instruction.md"]
    for path in instruction:
        if path not in task.entries:
            yield task.refuse(path, "the instruction is missing", "add the file")
    shared = "tests/test.sh"
    tests = [[f"steps/{name}/{shared}", shared] for name in steps] or [[shared]]
    for places in tests:
        if not any(path in task.entries for path in places):
            yield task.refuse(
                places[0], "the test script is missing, so nothing decides the reward", "add the file"
            )


def _missing_copies(task: TaskSource) -> Iterator[Refusal]:
    """Files of the build context that a Dockerfile copies and that are not there."""
    contexts = ["tests/", *(f"steps/{step.name}/tests/" for step in task.file.steps)]
    if not task.file.environment.docker_image:
        contexts.append("environment/")
    for context in contexts:
        for line, source in copied_sources(instructions(task.text(f"{context}Dockerfile") or "")):
            path = posixpath.normpath(context + source.lstrip("/"))
            if path + "/" != context and path not in task.entries:
                yield task.refuse(
                    path,
                    f"is missing, but {context}Dockerfile line {line} copies it",
                    "add the file, or correct the line",
                )


def _missing_tests(task: TaskSource) -> Iterator[Refusal]:
    """Files below /tests that the test script reads and that nobody puts there."""
    # An image with tests of its own may hold anything; its Dockerfile was checked already.
    if "tests/Dockerfile" in task.entries or task.file.steps:
        return
    for number, line in enumerate((task.text("tests/test.sh") or "").splitlines(), start=1):
        code = line.split(" #", 1)[0]
        if code.lstrip().startswith("#"):
            continue
        for match in _TESTS_PATH.finditer(code):
            path = f"tests/{match[1]}"
            if path not in task.entries and not _WRITES.search(code[: match.start()]):
                yield task.refuse(
                    path,
                    f"is missing, but tests/test.sh line {number} reads it",
                    "add the file, or correct the line",
                )
