"""Task clusters: tasks that count as one piece of evidence.

Rule so far: the same base commit, an abbreviated hash being the same as the full one. The second rule (a
near-identical failing assertion) needs assertions that the ledger does not hold yet.
"""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Cluster:
    """The cluster of a task, and in words why it is in it."""

    name: str
    reason: str


def clusters_by_base_commit(commits: Mapping[str, str | None]) -> dict[str, Cluster]:
    """The cluster of each task id, from its base commit (None: unknown, a cluster of its own). n log n."""
    groups: list[list[tuple[str, str]]] = []
    # In sorted order, whatever begins with an abbreviated hash follows it directly.
    for commit, task in sorted((commit, task) for task, commit in commits.items() if commit):
        if groups and commit.startswith(groups[-1][0][0]):
            groups[-1].append((commit, task))
        else:
            groups.append([(commit, task)])
    found = {
        task: Cluster(f"task:{task}", "base commit unknown: a cluster of its own")
        for task, commit in commits.items()
        if not commit
    }
    for group in groups:
        found |= _named(group)
    return found


def _named(group: list[tuple[str, str]]) -> dict[str, Cluster]:
    full = max((commit for commit, _ in group), key=len)
    tasks = sorted(task for _, task in group)
    named = {}
    for task in tasks:
        neighbour = next((other for other in tasks if other != task), None)
        reason = (
            f"same base commit {full[:12]} as {neighbour}"
            if neighbour
            else f"the only task of base commit {full[:12]}"
        )
        named[task] = Cluster(f"base-commit:{full}", reason)
    return named
