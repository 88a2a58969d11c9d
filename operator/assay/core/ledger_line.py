"""From one task's own files and the build file to its line in the ledger."""

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from assay.api.base import ImageByDigest
from assay.api.ledger_build_file import LedgerBuildFile, StatedVerifier, TaskFacts
from assay.api.ledgerfile import (
    UNKNOWN,
    LabelledFact,
    NetworkMode,
    Oracle,
    OracleKind,
    OracleProof,
    TaskImages,
    TaskLine,
    TaskResources,
    TaskTimeouts,
    VerifierMode,
)
from assay.core.archive import ArchiveFacts, Entry, harbor_digest, write_archive
from assay.core.assertions import failing_assertions
from assay.core.dockerfile import base_image, first_that_needs_a_build, instructions
from assay.core.oracle import OracleRuns, ProvedTask, oracle_digest
from assay.core.task_checks import Refusal, TaskSource, agent_network
from assay.core.task_file import DEFAULT_VERIFIER_SECONDS

ImageResolver = Callable[[str], ImageByDigest | None]
"""From a published image name to the same image by digest; None if it is not known."""
ArchiveWriter = Callable[[Iterable[Entry]], ArchiveFacts]

_PENDING = "sha256:" + "0" * 64
_DATE_FIX = 'set task_labels_date = "YYYY-MM-DD" in the build file: since when the tasks\' own labels stand'


class TaskRefused(Exception):
    """A task cannot become a line; `refusals` say why."""

    def __init__(self, *refusals: Refusal) -> None:
        super().__init__(*map(str, refusals))
        self.refusals = refusals


class TaskReader:
    """Turns one task into its line; its cluster follows when all tasks are known."""

    def __init__(
        self, task: TaskSource, build: LedgerBuildFile, resolve: ImageResolver, runs: OracleRuns | None
    ) -> None:
        self._task, self._file, self._build, self._resolve = task, task.file, build, resolve
        self._oracle_runs = runs
        self._own = build.tasks.get(task.id) or build.tasks.get(task.folder) or TaskFacts()
        self._defaults = build.defaults

    def line(self, archive: ArchiveWriter) -> TaskLine:
        """The task's line. Raises TaskRefused with all that is wrong before an archive is written."""
        task, file = self._task, self._file
        entries = list(task.entries.values())
        stated = self._stated()
        harbor = harbor_digest(entries)
        oracle = self._oracle(entries, harbor, stated["images"])
        written = archive(entries)
        return TaskLine(
            id=task.id,
            archive_digest=written.digest,
            archive_bytes=written.size,
            harbor_digest=harbor,
            category=self._fact("category", "category"),
            language=self._fact("language", "language"),
            repository=self._fact("repository", "repository_url", "repository"),
            base_commit=self._fact("base_commit", "base_commit_hash", "base_commit"),
            verifier_mode=self._verifier_mode,
            oracle=oracle,
            failing_assertions=failing_assertions(task),
            network=agent_network(file) or NetworkMode.NONE,
            resources=self._resources(),
            steps=max(1, len(file.steps)),
            cluster="-",
            cluster_reason="-",
            line_digest=_PENDING,
            **stated,
        )

    def _stated(self) -> dict[str, Any]:
        """The fields that may be refused, each tried, so that one run tells everything."""
        readers: dict[str, Callable[[], Any]] = {
            "images": self._images,
            "crossing_files": self._crossing_files,
            "timeouts": self._timeouts,
            "licence": lambda: self._label("licence", "licence", "license"),
            "difficulty": lambda: self._label("difficulty", "difficulty"),
        }
        found: dict[str, Any] = {}
        refusals: list[Refusal] = []
        for name, read in readers.items():
            try:
                found[name] = read()
            except TaskRefused as error:
                refusals += error.refusals
        if refusals:
            raise TaskRefused(*refusals)
        return found

    def _fact(self, name: str, *metadata: str) -> str | None:
        """A fact from the build file's own table, else the task's metadata, else the defaults."""
        stated: str | None = getattr(self._own, name)
        default: str | None = getattr(self._defaults, name)
        return stated or self._file.metadata_text(*metadata) or default

    def _label(self, name: str, *metadata: str) -> LabelledFact:
        own: LabelledFact | None = getattr(self._own, name)
        default: LabelledFact | None = getattr(self._defaults, name)
        if own:
            return own
        value = self._file.metadata_text(*metadata)
        if value and self._build.task_labels_date:
            return LabelledFact(value=value, source="task.toml [metadata]", date=self._build.task_labels_date)
        if default and value in (None, default.value):
            return default
        if value:
            raise self._refused(name, f"task.toml states {value!r} without saying since when", _DATE_FIX)
        if name in self._build.allow_unknown:
            return LabelledFact(value=UNKNOWN, source="neither the task nor the build file states it")
        raise self._refused(
            name,
            "nobody states it",
            f'state {name} = {{value = "…", source = "…", date = "YYYY-MM-DD"}} in the build file, '
            f'in [defaults] or [tasks."{self._task.id}"], or allow it: allow_unknown = ["{name}"]',
        )

    @property
    def _asked_verifier(self) -> StatedVerifier | None:
        return self._own.verifier or self._defaults.verifier

    @property
    def _verifier_mode(self) -> VerifierMode:
        asked = self._asked_verifier
        return asked.mode if asked else self._file.verifier_mode

    def _crossing_files(self) -> list[str] | None:
        """Files that cross where the ledger, not the task, asks for a separate verifier."""
        asked, stated = self._asked_verifier, self._file.verifier_mode
        if asked is None or asked.mode is stated:
            return None
        if asked.mode is VerifierMode.SHARED:
            raise self._refused(
                "verifier.mode",
                "the task asks for a separate verifier, and a ledger may not put it beside the agent",
                "remove the line from the build file",
            )
        if self._file.steps:
            raise self._refused(
                "verifier.mode",
                "one pristine verifier cannot serve the steps of a task",
                "leave it shared",
            )
        if not asked.crossing_files:
            raise self._refused(
                "verifier.crossing_files",
                "nothing would reach the separate verifier",
                'name the files that cross, e.g. crossing_files = ["/logs/agent/answer.txt"]',
            )
        return sorted(set(asked.crossing_files))

    def _oracle(self, entries: Sequence[Entry], harbor: str, images: TaskImages) -> Oracle:
        """The oracle with its proof, if the runs that were given are one."""
        found: OracleProof | str | None = None
        if self._oracle_runs:
            # Archived twice, so that a task that is refused leaves no archive behind.
            task = ProvedTask(self._task.id, write_archive(entries).digest, harbor, images)
            found = self._oracle_runs.proof(task)
        accepted = self._own.accept_without_proof
        if isinstance(found, str) and accepted is None:
            raise self._refused(
                "oracle",
                found,
                "run the agents oracle and nop on it again, or accept it without proof: "
                f'[tasks."{self._task.id}"] accept_without_proof = "…"',
            )
        proof = None if isinstance(found, str) else found
        return Oracle(
            kind=self._own.oracle_kind or self._defaults.oracle_kind or OracleKind.UNSTATED,
            digest=oracle_digest(self._task.entries.values()),
            proof=proof,
            accepted_without_proof=None if proof else accepted,
        )

    def _images(self) -> TaskImages:
        published = self._file.environment.docker_image
        environment = self._own.images.environment or self._by_digest(published, "environment")
        separate = self._verifier_mode is VerifierMode.SEPARATE
        return TaskImages(
            environment=environment,
            verifier=self._verifier_image(environment) if separate else None,
            published=published,
        )

    def _by_digest(self, published: str | None, role: str) -> ImageByDigest:
        if published is None:
            raise self._refused(
                f"[{role}] docker_image",
                "the task has only a Dockerfile",
                "build and push the image, and name it by digest: "
                f'[tasks."{self._task.id}"] images = {{{role} = "registry/name@sha256:…"}}',
            )
        if "@sha256:" in published:
            return published
        if found := self._resolve(published):
            return found
        raise self._refused(
            f"[{role}] docker_image",
            f"{published} is a tag, and a tag can be moved to another image",
            "name its digest in [images] of the build file or in --images, or push it to --registry",
        )

    def _verifier_image(self, environment: ImageByDigest) -> ImageByDigest:
        """Harbor's order: an image that is named, a Dockerfile beside the tests, the agent's image."""
        table = self._file.verifier.environment
        if self._own.images.verifier:
            return self._own.images.verifier
        if table and table.docker_image:
            return self._by_digest(table.docker_image, "verifier")
        text = self._task.text("tests/Dockerfile")
        if text is None:
            return environment
        parsed = instructions(text)
        needs = first_that_needs_a_build(parsed)
        base = base_image(parsed)
        if needs or base is None:
            where = f"line {needs.line} ({needs.word} {needs.rest[:60]})" if needs else "its FROM"
            raise self._refused(
                "tests/Dockerfile",
                f"{where} needs a build",
                "build and push the verifier's image, and name it by digest: "
                f'[tasks."{self._task.id}"] images = {{verifier = "registry/name@sha256:…"}}',
            )
        if base == self._file.environment.docker_image:
            return environment
        return self._by_digest(base, "verifier")

    def _timeouts(self) -> TaskTimeouts:
        stated, default, file = self._own.timeouts, self._defaults.timeouts, self._file
        agent = stated.agent_seconds or self._agent_seconds() or default.agent_seconds
        if agent is None:
            raise self._refused(
                "[agent] timeout_sec",
                "the task sets no limit, so the agent could work for ever",
                "state timeouts = {agent_seconds = …} in the build file",
            )
        return TaskTimeouts(
            setup_seconds=stated.setup_seconds or math.ceil(file.environment.build_timeout_sec),
            agent_seconds=agent,
            verifier_seconds=stated.verifier_seconds or self._verifier_seconds(),
        )

    def _agent_seconds(self) -> int | None:
        """The agent's limit; of a task in steps, the sum over its steps."""
        whole = self._file.agent.timeout_sec
        each = [step.agent.timeout_sec or whole for step in self._file.steps] or [whole]
        known = [seconds for seconds in each if seconds is not None]
        return math.ceil(sum(known)) if len(known) == len(each) else None

    def _verifier_seconds(self) -> int:
        whole = self._file.verifier.timeout_sec or DEFAULT_VERIFIER_SECONDS
        return math.ceil(sum([step.verifier.timeout_sec or whole for step in self._file.steps] or [whole]))

    def _resources(self) -> TaskResources:
        """What the pod needs: agent and verifier follow each other, so the larger of the two."""
        one = self._file.environment.resources()
        table = self._file.verifier.environment
        if table is None:
            return one
        other = table.resources()
        return TaskResources(
            **{name: max(getattr(one, name), getattr(other, name)) for name in TaskResources.model_fields}
        )

    def _refused(self, field: str, problem: str, fix: str) -> TaskRefused:
        return TaskRefused(self._task.refuse(field, problem, fix))
