"""Archives of tasks and artefacts: checked bytes in, a folder out."""

import logging
import tarfile
from functools import partial
from pathlib import Path

from assay.runner.sandbox.archive import CHUNK_SIZE, unpack

log = logging.getLogger(__name__)

FILE_MODE = 0o644
PROGRAM_MODE = 0o755
LARGEST_TASK_BYTES = 8 << 30
MOST_MEMBERS = 200_000


class BadArchive(RuntimeError):
    """The archive cannot be a task: damaged, too large, or a member that must not be extracted."""


def extract_task(archive: Path, target: Path) -> None:
    """Extract a task archive, whose digest has been checked, into `target`, which must not exist.

    Nothing leaves `target` (PEP 706's data filter), and modes are 0644 or 0755 whatever the archive says, as
    they were when the digest was made. Raises BadArchive naming the member.
    """
    target.mkdir(parents=True)
    size = members = 0
    try:
        with tarfile.open(archive, mode="r:") as tar:
            for member in tar:
                size, members = size + member.size, members + 1
                if size > LARGEST_TASK_BYTES or members > MOST_MEMBERS:
                    raise BadArchive(
                        f"the task archive holds more than {LARGEST_TASK_BYTES >> 30} GiB "
                        f"or {MOST_MEMBERS} members"
                    )
                tar.extract(member, target, filter=_normalised)
    except (tarfile.TarError, OSError, KeyError) as error:
        raise BadArchive(f"the task archive cannot be extracted: {error}") from error


def extract_artifacts(archive: Path, target: Path) -> None:
    """Extract artefacts, whose digest has been checked, into `target`, as their first verifier had them.

    What the data filter refuses was refused then, too: it is what an agent made. Raises BadArchive.
    """
    try:
        with archive.open("rb") as file:
            refused = unpack(partial(file.read, CHUNK_SIZE), target)
    except (tarfile.TarError, OSError) as error:
        raise BadArchive(f"the artefacts cannot be extracted: {error}") from error
    if refused:
        log.warning("left out of the artefacts: %s", "; ".join(refused[:20]))


def _normalised(member: tarfile.TarInfo, target: str) -> tarfile.TarInfo:
    if member.name.startswith("/"):
        raise tarfile.AbsolutePathError(member)
    safe = tarfile.data_filter(member, target)
    if not (safe.isreg() or safe.isdir() or safe.issym() or safe.islnk()):
        raise tarfile.SpecialFileError(member)
    program = safe.isdir() or bool((member.mode or 0) & 0o100)
    return safe.replace(mode=PROGRAM_MODE if program else FILE_MODE, deep=False)
