"""`assay ledger build --build-images`: images of tasks that have only a Dockerfile."""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from assay.adapters.image_builder import ImageBuilder
from assay.adapters.registry import Registry
from assay.adapters.task_folder import read_task_folder
from assay.api.ledger_build_file import LedgerBuildFile, TaskFacts
from assay.api.ledgerfile import VerifierMode
from assay.cli.output import InputError
from assay.core.archive import write_archive
from assay.core.dockerfile import first_that_needs_a_build, instructions
from assay.core.task_file import TaskFile, TaskFileError, parse_task_file


def with_built_images(
    build_file: LedgerBuildFile, folders: Sequence[Path], registry: Registry | None
) -> LedgerBuildFile:
    """The build file with an image stated for each role that has a Dockerfile alone.

    Raises ImageBuildError, and InputError without a registry.
    """
    if registry is None:
        raise InputError("--build-images needs --registry: images are pushed there, and ledgers name digests")
    builder = ImageBuilder.present(registry)
    tasks = dict(build_file.tasks)
    for folder in folders:
        try:
            file = parse_task_file((folder / "task.toml").read_bytes())
        except TaskFileError:
            # The build tells it, with every other refusal of the task.
            continue
        key = folder.name if folder.name in tasks or not file.task else file.task.name
        facts = tasks.get(key, TaskFacts())
        for role, context in _to_build(folder, file, facts):
            path = f"assay-tasks/{_slug(build_file.benchmark)}/{_slug(folder.name)}-{role}"
            # A tag that is the context's own digest: the same context is never built twice.
            tag = write_archive(read_task_folder(context)).digest.removeprefix("sha256:")
            built = builder.image(path, tag, context, context / "Dockerfile")
            facts = facts.model_copy(update={"images": facts.images.model_copy(update={role: built})})
        tasks[key] = facts
    return build_file.model_copy(update={"tasks": tasks})


def _to_build(folder: Path, file: TaskFile, facts: TaskFacts) -> Iterator[tuple[str, Path]]:
    environment, tests = folder / "environment", folder / "tests"
    named = file.environment.docker_image or facts.images.environment
    if not named and (environment / "Dockerfile").is_file():
        yield "environment", environment
    verifier = file.verifier.environment
    if (
        file.verifier_mode is VerifierMode.SEPARATE
        and not (facts.images.verifier or (verifier and verifier.docker_image))
        and (tests / "Dockerfile").is_file()
        and first_that_needs_a_build(instructions((tests / "Dockerfile").read_text()))
    ):
        yield "verifier", tests


def _slug(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-") or "task"
