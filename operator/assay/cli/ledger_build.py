"""Gathers what a ledger is built of: folders, the build file, the image map, a registry."""

import json
import tempfile
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from assay.adapters.harbor_job import read_job
from assay.adapters.ledger_store import archive_name
from assay.adapters.registry import Registry
from assay.adapters.task_folder import read_task_folder
from assay.api.base import ImageByDigest
from assay.api.ledger_build_file import LedgerBuildFile
from assay.api.ledgerfile import HarnessTree
from assay.cli.output import InputError, explained
from assay.cli.repository_gate import gate_at
from assay.cli.task_images import with_built_images
from assay.core.archive import ArchiveFacts, ArchiveRefusedError, Entry, write_archive
from assay.core.harbor_import import HarborImportError, import_trials
from assay.core.ledger_build import Ledger, LedgerBuilder, image_resolver
from assay.core.ledger_line import ArchiveWriter, ImageResolver
from assay.core.names import slug
from assay.core.oracle import OracleRuns, OracleRunsError, parse_oracle_runs
from assay.core.task_checks import Refusal
from assay.core.upstream import Upstream, UpstreamError, parse_upstream

_IMAGE_MAP = TypeAdapter(dict[str, ImageByDigest])


def read_build_file(path: Path) -> LedgerBuildFile:
    """The build file. Raises InputError naming the field."""
    try:
        return LedgerBuildFile.model_validate(tomllib.loads(path.read_text()))
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"{path}: is not TOML: {error}") from error
    except ValidationError as error:
        raise InputError(explained(str(path), error)) from error


def read_image_map(path: Path) -> dict[str, ImageByDigest]:
    """The map from published names to images by digest. Raises InputError naming the entry."""
    try:
        return _IMAGE_MAP.validate_python(json.loads(path.read_bytes()))
    except json.JSONDecodeError as error:
        raise InputError(f"{path}: is not JSON: {error}") from error
    except ValidationError as error:
        raise InputError(explained(str(path), error)) from error


@dataclass(frozen=True)
class BuildInput:
    """Everything that a ledger is built of, but the registry."""

    folders: list[Path]
    build_file: LedgerBuildFile
    image_map: Mapping[str, ImageByDigest]
    upstream: Upstream | None
    harness: HarnessTree | None
    oracle_runs: OracleRuns | None


def gather_input(
    tasks: Path, build_file: Path, output: Path, *, images: Path | None, oracle_runs: Sequence[Path]
) -> BuildInput:
    """Reads the files that are named; `tasks` is a folder or a dataset.toml. Raises InputError."""
    stated = read_build_file(build_file)
    root = tasks if tasks.is_dir() else tasks.parent
    manifest = root / stated.upstream.manifest if tasks.is_dir() else tasks
    upstream = _read_upstream(manifest) if manifest.is_file() else None
    include = stated.include
    if upstream is not None and tasks.is_file() and include is None:
        include = sorted(upstream.tasks)
    folders = task_folders(root, include)
    return BuildInput(
        folders,
        stated if include is stated.include else stated.model_copy(update={"include": include}),
        read_image_map(images) if images else {},
        upstream,
        _harness(stated, output),
        _read_oracle_runs(oracle_runs) if oracle_runs else None,
    )


def _read_upstream(path: Path) -> Upstream:
    try:
        return parse_upstream(path.read_bytes())
    except UpstreamError as error:
        raise InputError(f"{path}: {error}") from error


def _read_oracle_runs(places: Sequence[Path]) -> OracleRuns:
    """Runs of files of records and of folders of Harbor jobs. Raises InputError."""
    contents = []
    for place in places:
        try:
            contents.append(_job_records(place) if place.is_dir() else place.read_bytes())
            parse_oracle_runs(contents[-1:])
        except (OracleRunsError, HarborImportError) as error:
            raise InputError(f"{place}: {error}") from error
    return parse_oracle_runs(contents)


def _job_records(job: Path) -> bytes:
    records = import_trials(read_job(job), job.resolve().name, slug(job.resolve().name, 60))
    lines = (record.model_dump_json(by_alias=True, exclude_none=True) for record in records)
    return "".join(f"{line}\n" for line in lines).encode()


def _harness(stated: LedgerBuildFile, output: Path) -> HarnessTree | None:
    if stated.harness is None:
        return None
    output.parent.mkdir(parents=True, exist_ok=True)
    return gate_at(output).harness_of_working_copy(stated.harness.paths, stated.harness.tasks)


def task_folders(root: Path, include: Sequence[str] | None) -> list[Path]:
    """The task folders below `root`, sorted; with `include` those whose folder or id it names.

    Raises InputError when there is none.
    """
    folders = sorted(path.parent for path in root.glob("*/task.toml"))
    if not folders:
        raise InputError(f"{root}: no subfolder holds a task.toml")
    if include is None:
        return folders
    wanted = set(include)
    return [folder for folder in folders if folder.name in wanted or _task_name(folder) in wanted]


def _task_name(folder: Path) -> str | None:
    try:
        table = tomllib.loads((folder / "task.toml").read_text()).get("task")
    except (tomllib.TOMLDecodeError, UnicodeDecodeError):
        return None
    return table.get("name") if isinstance(table, dict) else None


def build_ledger(
    given: BuildInput,
    *,
    registry: Registry | None,
    archives: Path | None,
    build_images: bool = False,
    on_task: Callable[[], None] = lambda: None,
) -> Ledger:
    """Builds the ledger, writing the archives to `archives` if it is given. Raises LedgerRefusedError."""
    archive = _archive_writer(archives) if archives else write_archive
    build_file = given.build_file
    if build_images:
        build_file = with_built_images(build_file, given.folders, registry)
    builder = LedgerBuilder(
        build_file,
        _resolver(build_file, given.image_map, registry),
        archive,
        upstream=given.upstream,
        harness=given.harness,
        oracle_runs=given.oracle_runs,
    )
    for folder in given.folders:
        try:
            builder.add(folder.name, read_task_folder(folder))
        except ArchiveRefusedError as error:
            builder.refuse(Refusal(folder.name, error.path, error.problem, error.fix))
        on_task()
    return builder.finish()


def _resolver(
    build_file: LedgerBuildFile, image_map: Mapping[str, ImageByDigest], registry: Registry | None
) -> ImageResolver:
    stated = image_resolver(image_map, build_file.images)
    looked_up = cache(registry.resolve) if registry else lambda name: None
    return lambda name: stated(name) or looked_up(name)


def _archive_writer(folder: Path) -> ArchiveWriter:
    folder.mkdir(parents=True, exist_ok=True)

    def write(entries: Iterable[Entry]) -> ArchiveFacts:
        # Under its final name a file is whole, also after an interruption.
        with tempfile.NamedTemporaryFile(dir=folder, prefix=".partial-", delete_on_close=False) as output:
            facts = write_archive(entries, output.file)
            output.close()
            Path(output.name).chmod(0o644)
            Path(output.name).replace(folder / archive_name(facts.digest))
        return facts

    return write
