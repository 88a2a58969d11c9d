"""The manifest that was published beside the tasks, held against the tasks as they are."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from assay.api.base import Digest
from assay.api.ledgerfile import AcceptedStale, UpstreamManifest
from assay.core.canonical import digest_of_bytes
from assay.core.task_checks import Refusal

_NAMED = 12


class UpstreamError(Exception):
    """The manifest cannot be read; the message says why."""


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")


class _Dataset(_Part):
    name: str = Field(min_length=1, max_length=200)


class _Listed(_Part):
    name: str
    digest: Digest


class _Document(_Part):
    dataset: _Dataset
    tasks: list[_Listed] = Field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Upstream:
    """A published `dataset.toml`: digest by task id."""

    name: str
    digest: str
    tasks: Mapping[str, str]


def parse_upstream(content: bytes) -> Upstream:
    """The manifest of a `dataset.toml`'s bytes. Raises UpstreamError."""
    try:
        document = _Document.model_validate(tomllib.loads(content.decode()))
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise UpstreamError(f"is not TOML: {error}") from error
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        raise UpstreamError(f"{'.'.join(map(str, first['loc']))}: {first['msg']}") from error
    return Upstream(
        document.dataset.name, digest_of_bytes(content), {one.name: one.digest for one in document.tasks}
    )


def compare_upstream(
    upstream: Upstream, digests: Mapping[str, str], accepted: AcceptedStale | None
) -> UpstreamManifest:
    """What the header says of the manifest; `digests` are Harbor's of the ledger's tasks, by id."""
    listed = {task: upstream.tasks[task] for task in digests if task in upstream.tasks}
    stale = sorted(task for task, digest in listed.items() if digest != digests[task])
    return UpstreamManifest(
        name=upstream.name,
        digest=upstream.digest,
        listed=len(upstream.tasks),
        matched=len(listed) - len(stale),
        stale=stale,
        unlisted=sorted(task for task in digests if task not in upstream.tasks),
        accepted_stale=accepted,
    )


def stale_refusal(found: UpstreamManifest) -> Refusal | None:
    """Why stale digests keep the ledger from being built; None if there is none or the owner accepts them."""
    count, accepted = len(found.stale), found.accepted_stale
    if accepted is None and count == 0:
        return None
    if accepted is not None and accepted.count == count:
        return None
    names = ", ".join(found.stale[:_NAMED]) + (f" and {count - _NAMED} more" if count > _NAMED else "")
    said = f"; the build file accepts {accepted.count}" if accepted else ""
    return Refusal(
        found.name,
        "upstream digests",
        f"{found.matched} of the {found.matched + count} digests that the manifest lists for these tasks "
        f"match, {count} are stale{said}{': ' + names if names else ''}",
        f'publish the manifest anew, or write accept_stale = {{count = {count}, reason = "…"}} in [upstream] '
        "of the build file: the header records it"
        if count
        else "remove accept_stale from [upstream] of the build file",
    )
