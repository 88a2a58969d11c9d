"""Builds a ledger from tasks and a build file, or says for every task what keeps it out."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from assay.api.base import ImageByDigest
from assay.api.ledger_build_file import LedgerBuildFile, TaskFacts
from assay.api.ledgerfile import (
    UNKNOWN,
    LabelledFact,
    LedgerHeader,
    NetworkMode,
    TaskImages,
    TaskLine,
    TaskResources,
    TaskTimeouts,
    VerifierMode,
)
from assay.core.archive import ArchiveFacts, ArchiveRefusedError, Entry, harbor_digest, write_archive
from assay.core.clusters import Cluster, clusters_by_base_commit
from assay.core.dockerfile import base_image, first_that_needs_a_build, instructions
from assay.core.ledger import unknown_facts, with_line_digest
from assay.core.task_checks import Refusal, TaskSource, agent_network, check_task
from assay.core.task_file import DEFAULT_VERIFIER_SECONDS, TaskFileError, parse_task_file

ImageResolver = Callable[[str], ImageByDigest | None]
"""From a published image name to the same image by digest; None if it is not known."""
ArchiveWriter = Callable[[Iterable[Entry]], ArchiveFacts]

_PENDING = "sha256:" + "0" * 64
_DATE_FIX = 'set task_labels_date = "YYYY-MM-DD" in the build file: since when the tasks\' own labels stand'


class LedgerRefusedError(Exception):
    """One or more tasks cannot be frozen as they are."""

    def __init__(self, refusals: list[Refusal]) -> None:
        super().__init__("\n".join(str(refusal) for refusal in refusals))
        self.refusals = refusals


class _Refused(Exception):
    def __init__(self, *refusals: Refusal) -> None:
        super().__init__(*map(str, refusals))
        self.refusals = refusals


@dataclass(frozen=True, slots=True)
class Ledger:
    """A header and its task lines, sorted by id."""

    header: LedgerHeader
    tasks: tuple[TaskLine, ...]


class LedgerBuilder:
    """Takes the tasks one by one, so that their bytes never are in memory together."""

    def __init__(
        self, build_file: LedgerBuildFile, resolve: ImageResolver, archive: ArchiveWriter = write_archive
    ) -> None:
        self._build = build_file
        self._resolve = resolve
        self._archive = archive
        self._lines: list[TaskLine] = []
        self._folders: dict[str, str] = {}
        self._refusals: list[Refusal] = []

    def add(self, folder: str, entries: Iterable[Entry]) -> None:
        """Reads one task. What is wrong with it is kept for `finish`."""
        by_path = {entry.path: entry for entry in entries}
        try:
            with by_path["task.toml"].open() as content:
                task = TaskSource(folder, by_path, parse_task_file(content.read()))
        except KeyError:
            self._refusals.append(Refusal(folder, "task.toml", "the file is missing", "add it"))
            return
        except TaskFileError as error:
            self._refusals.append(Refusal(folder, error.field, error.problem, error.fix))
            return
        if other := self._folders.get(task.id):
            self._refusals.append(
                task.refuse(
                    "[task] name",
                    f"folder {folder} and folder {other} have the same id",
                    "rename one of them",
                )
            )
            return
        self._folders[task.id] = folder
        self._add(task)

    def refuse(self, refusal: Refusal) -> None:
        """Adds a refusal that was found elsewhere, e.g. while a folder was read."""
        self._refusals.append(refusal)
        self._folders.setdefault(refusal.task, refusal.task)

    def finish(self) -> Ledger:
        """The ledger. Raises LedgerRefusedError with every refusal of every task."""
        self._refusals += self._unknown_names()
        if not self._lines and not self._refusals:
            self._refusals.append(
                Refusal("-", "tasks", "there is none", "name a folder that holds task folders")
            )
        if self._refusals:
            raise LedgerRefusedError(sorted(self._refusals, key=lambda one: (one.task, one.field)))
        clusters = clusters_by_base_commit({line.id: line.base_commit for line in self._lines})
        tasks = tuple(
            _clustered(line, clusters[line.id]) for line in sorted(self._lines, key=lambda one: one.id)
        )
        header = LedgerHeader(
            benchmark=self._build.benchmark,
            version=self._build.version,
            plan=self._build.plan,
            allow_unknown=sorted(set(self._build.allow_unknown)),
            task_count=len(tasks),
        )
        return Ledger(header, tasks)

    def _add(self, task: TaskSource) -> None:
        refusals = list(check_task(task))
        try:
            line = _TaskReader(task, self._build, self._resolve).line(self._archive)
            refusals += self._unallowed(task, line)
        except _Refused as error:
            refusals += error.refusals
        except ArchiveRefusedError as error:
            refusals.append(task.refuse(error.path, error.problem, error.fix))
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            field = ".".join(str(part) for part in first["loc"])
            refusals.append(
                task.refuse(field, first["msg"], "correct task.toml or state it in the build file")
            )
        self._refusals += refusals
        if not refusals:
            self._lines.append(line)

    def _unallowed(self, task: TaskSource, line: TaskLine) -> Iterator[Refusal]:
        for fact in unknown_facts(line):
            if fact not in self._build.allow_unknown:
                yield task.refuse(
                    fact,
                    "is unknown",
                    f'state it in the build file ([defaults] or [tasks."{task.id}"]), '
                    f'or allow it: allow_unknown = ["{fact}"]',
                )

    def _unknown_names(self) -> Iterator[Refusal]:
        known = {*self._folders, *self._folders.values()}
        for table, names in (("tasks", self._build.tasks), ("include", self._build.include or [])):
            for name in names:
                if name not in known:
                    yield Refusal(
                        name, f"build file: {table}", "no task has this id or folder name", "correct it"
                    )


def _clustered(line: TaskLine, cluster: Cluster) -> TaskLine:
    return with_line_digest(
        line.model_copy(update={"cluster": cluster.name, "cluster_reason": cluster.reason})
    )


class _TaskReader:
    """Turns one task into its line; its cluster follows when all tasks are known."""

    def __init__(self, task: TaskSource, build: LedgerBuildFile, resolve: ImageResolver) -> None:
        self._task, self._file, self._build, self._resolve = task, task.file, build, resolve
        self._own = build.tasks.get(task.id) or build.tasks.get(task.folder) or TaskFacts()
        self._defaults = build.defaults

    def line(self, archive: ArchiveWriter) -> TaskLine:
        """The task's line. Raises _Refused with all that is wrong before an archive is written."""
        task, file = self._task, self._file
        entries = list(task.entries.values())
        stated = self._stated()
        written = archive(entries)
        return TaskLine(
            id=task.id,
            archive_digest=written.digest,
            archive_bytes=written.size,
            harbor_digest=harbor_digest(entries),
            category=self._fact("category", "category"),
            language=self._fact("language", "language"),
            repository=self._fact("repository", "repository_url", "repository"),
            base_commit=self._fact("base_commit", "base_commit_hash", "base_commit"),
            verifier_mode=file.verifier_mode,
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
            "timeouts": self._timeouts,
            "licence": lambda: self._label("licence", "licence", "license"),
            "difficulty": lambda: self._label("difficulty", "difficulty"),
        }
        found: dict[str, Any] = {}
        refusals: list[Refusal] = []
        for name, read in readers.items():
            try:
                found[name] = read()
            except _Refused as error:
                refusals += error.refusals
        if refusals:
            raise _Refused(*refusals)
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

    def _images(self) -> TaskImages:
        published = self._file.environment.docker_image
        environment = self._own.images.environment or self._by_digest(published, "environment")
        separate = self._file.verifier_mode is VerifierMode.SEPARATE
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

    def _refused(self, field: str, problem: str, fix: str) -> _Refused:
        return _Refused(self._task.refuse(field, problem, fix))


def image_resolver(*maps: Mapping[str, ImageByDigest]) -> ImageResolver:
    """Looks a name up in the maps, the first that knows it wins."""

    def resolve(name: str) -> ImageByDigest | None:
        return next((found[name] for found in maps if name in found), None)

    return resolve
