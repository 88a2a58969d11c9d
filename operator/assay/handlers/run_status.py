"""The status of one run as its loop writes it, with an Event for each transition that a person waits for."""

import logging
import time
from datetime import UTC, datetime
from typing import Literal

from assay.adapters.events import About, post_event
from assay.adapters.kube import KubeError, KubeRefused
from assay.api.conditions import Condition, find_condition
from assay.api.evaluation_run import EvaluationRun
from assay.api.evaluation_run_status import EvaluationRunStatus, RunCondition, RunReason
from assay.api.resource import status_patch
from assay.core.status import Findings, is_urgent, make_status
from assay.handlers.context import Context
from assay.handlers.errands import Errands
from assay.handlers.resources import status_path

log = logging.getLogger(__name__)

STATUS = "status"
"""Name of the request that writes it: one is under way at a time."""

_TOLD = (
    RunCondition.LEDGERS_VERIFIED,
    RunCondition.VARIANTS_RESOLVED,
    RunCondition.PROGRESSING,
    RunCondition.SUSPENDED,
    RunCondition.STALLED,
    RunCondition.COMPLETE,
    RunCondition.FAILED,
)
"""Conditions whose transitions are told as Events."""
_GOOD_IF_FALSE = (RunCondition.SUSPENDED, RunCondition.STALLED, RunCondition.FAILED)


class RunStatus:
    """Writes the status when it has changed, its figures not more often than the settings say."""

    def __init__(self, context: Context, run: EvaluationRun, errands: Errands) -> None:
        self._context, self._errands = context, errands
        self._namespace, self._name = run.metadata.namespace, run.metadata.name
        self._uid = run.metadata.uid
        self.held = run.status
        """The status as last written. What the watch shows may be older."""
        self.in_doubt = False
        """Whether the last write may have been carried out although it failed: its answer was lost."""
        self._written_at = 0.0

    async def tell(self, run: EvaluationRun, findings: Findings, *, wait: bool = True) -> float | None:
        """Write the status if it has changed; seconds until a write that was put off, or None.

        Unless it is to `wait`, the pass goes on while the API server takes it.
        """
        if self._errands.busy(STATUS):
            if not wait:
                return None
            await self._errands.finish(STATUS)
        early = self._written_at + self._context.settings.status_seconds - time.monotonic()
        status = make_status(run, findings, datetime.now(UTC), figures=early <= 0)
        transitions = _transitions(self.held, status)
        urgent = any(is_urgent(self.held.conditions, one) for one in transitions)
        urgent |= status.started_at != self.held.started_at
        if early > 0 and not urgent:
            return early
        if status == self.held:
            return None
        self._errands.start(self._write(run, status, transitions), STATUS)
        if wait:
            await self._errands.finish(STATUS)
        return None

    async def _write(
        self, run: EvaluationRun, status: EvaluationRunStatus, transitions: list[Condition]
    ) -> None:
        patch = {"status": status_patch(self.held, status)}
        try:
            await self._context.client.merge(status_path(run), patch)
        except KubeRefused as error:
            self.in_doubt = True
            log.warning("run %s/%s: status refused: %s", self._namespace, self._name, error)
            if error.status == 404:
                self._context.cache.take(
                    "evaluationruns",
                    {"metadata": {"namespace": self._namespace, "name": self._name, "uid": self._uid}},
                    deleted=True,
                )
            return
        except KubeError as error:
            self.in_doubt = True
            log.warning("run %s/%s: status not written: %s", self._namespace, self._name, error)
            return
        self.held, self._written_at = status, time.monotonic()
        for condition in transitions:
            log.info(
                "run %s/%s: %s=%s %s %s",
                self._namespace,
                self._name,
                condition.type,
                condition.status,
                condition.reason,
                condition.message,
            )
            await self._event(run, condition)

    async def read_back(self, run: EvaluationRun) -> bool:
        """Learn which status the API server holds: what it has, above all the start, never moves."""
        try:
            body = await self._context.client.get(status_path(run).removesuffix("/status"))
        except KubeError as error:
            log.warning("run %s/%s: status not read: %s", self._namespace, self._name, error)
            return False
        held = EvaluationRun.parse(body)
        if held.metadata.uid == self._uid:
            self.held, self.in_doubt = held.status, False
        return not self.in_doubt

    async def _event(self, run: EvaluationRun, condition: Condition) -> None:
        bad = condition.status == ("True" if condition.type in _GOOD_IF_FALSE else "False")
        normal = condition.reason in (RunReason.FINISHED, RunReason.REQUESTED, RunReason.ATTEMPTS_OUTSTANDING)
        kind: Literal["Normal", "Warning"] = "Warning" if bad and not normal else "Normal"
        note = f"{condition.type} is {condition.status}"
        if condition.message:
            note += f": {condition.message}"
        await post_event(self._context.client, About.resource(run), kind, condition.reason, note)


def _transitions(old: EvaluationRunStatus, new: EvaluationRunStatus) -> list[Condition]:
    """Conditions that are told and that flipped or changed their reason; new ones where they are bad."""
    found = []
    for type_ in _TOLD:
        before, after = find_condition(old.conditions, type_), find_condition(new.conditions, type_)
        if after is None:
            continue
        bad = after.status == ("True" if type_ in _GOOD_IF_FALSE else "False")
        if before is None:
            notable = bad and type_ is not RunCondition.COMPLETE
        else:
            notable = (before.status, before.reason) != (after.status, after.reason)
        if notable:
            found.append(after)
    return found
