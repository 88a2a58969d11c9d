"""Task clusters: tasks that count as one piece of evidence.

Two rules join tasks: the same base commit (an abbreviated hash being the same as the full one in the same
repository), and a near-identical failing assertion. Whatever is joined, however far, is one cluster.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from assay.api.ledgerfile import AssertionSource, ClusterRule, FailingAssertions
from assay.core.near_texts import near_pairs


@dataclass(frozen=True, slots=True)
class ClusterInput:
    """What decides a task's cluster."""

    task: str
    repository: str | None = None
    """In its normalised form."""
    base_commit: str | None = None
    assertions: FailingAssertions | None = None


@dataclass(frozen=True, slots=True)
class Cluster:
    """The cluster of a task, the rule that put it there with a neighbour, and both in words."""

    name: str
    rule: ClusterRule
    neighbour: str | None
    reason: str


@dataclass(frozen=True, slots=True)
class _Edge:
    one: str
    other: str
    rule: ClusterRule
    words: str


def clusters(tasks: Sequence[ClusterInput]) -> dict[str, Cluster]:
    """The cluster of each task by its id. Time grows little faster than the number of tasks."""
    ordered = sorted(tasks, key=lambda task: task.task)
    full = _full_commits(ordered)
    edges = [*_commit_edges(full), *_assertion_edges(ordered)]
    parent = {task.task: task.task for task in ordered}
    reason: dict[str, _Edge] = {}
    for edge in edges:
        # The first rule that joins a task is its reason; base commits come first.
        reason.setdefault(edge.one, edge)
        reason.setdefault(edge.other, edge)
        one, other = _root(parent, edge.one), _root(parent, edge.other)
        parent[max(one, other)] = min(one, other)
    names: dict[str, str] = {}
    for task in ordered:
        root = _root(parent, task.task)
        own = f"base-commit:{full[task.task]}" if task.task in full else f"task:{task.task}"
        # "base-commit" sorts before "task", so a cluster is named by a commit where it has one.
        names[root] = min(names.get(root, own), own)
    return {
        task.task: _cluster(task, names[_root(parent, task.task)], full.get(task.task), reason.get(task.task))
        for task in ordered
    }


def _cluster(task: ClusterInput, name: str, commit: str | None, edge: _Edge | None) -> Cluster:
    if edge is None:
        words = (
            f"the only task of base commit {commit[:12]}"
            if commit
            else "base commit unknown: a cluster of its own"
        )
        return Cluster(name, ClusterRule.ALONE, None, words)
    neighbour = edge.other if edge.one == task.task else edge.one
    return Cluster(name, edge.rule, neighbour, f"{edge.words} {neighbour}")


def _root(parent: dict[str, str], task: str) -> str:
    while parent[task] != task:
        parent[task] = parent[parent[task]]
        task = parent[task]
    return task


def _full_commits(tasks: Sequence[ClusterInput]) -> dict[str, str]:
    """Each task's base commit, abbreviations replaced by the one full hash that they stand for."""
    known = sorted((task.base_commit, task.repository or "", task.task) for task in tasks if task.base_commit)
    found: dict[str, str] = {}
    # From the end, whatever an abbreviation stands for has been seen just before it.
    longest: list[tuple[str, str]] = []
    for commit, repository, task in reversed(known):
        longest = [one for one in longest if one[0].startswith(commit)]
        match = next(
            (hash_ for hash_, where in longest if hash_ == commit or _same_place(where, repository)), commit
        )
        found[task] = match
        if (match, repository) not in longest:
            longest.append((match, repository))
    return found


def _same_place(one: str, other: str) -> bool:
    return one == other or not one or not other


def _commit_edges(full: dict[str, str]) -> Iterator[_Edge]:
    groups: dict[str, list[str]] = {}
    for task in sorted(full):
        groups.setdefault(full[task], []).append(task)
    for commit, group in groups.items():
        words = f"same base commit {commit[:12]} as"
        yield from (_Edge(group[0], other, ClusterRule.SAME_BASE_COMMIT, words) for other in group[1:])


def _assertion_edges(tasks: Sequence[ClusterInput]) -> Iterator[_Edge]:
    # Names of tests are compared with names alone, assertion lines with assertion lines.
    for of_ids in (False, True):
        texts = {
            task.task: " ".join(task.assertions.lines)
            for task in tasks
            if task.assertions
            and task.assertions.lines
            and (task.assertions.source is AssertionSource.TEST_IDS) is of_ids
        }
        for pair in sorted(near_pairs(texts), key=lambda one: (one.one, one.other)):
            words = f"near-identical failing assertion ({pair.likeness:.2f}) as"
            yield _Edge(pair.one, pair.other, ClusterRule.NEAR_IDENTICAL_ASSERTION, words)
