"""Harbor's stamps from the steady clock.

Harbor notes by the wall clock when each phase begins and ends and when something fails. If that clock is set
meanwhile, the agent's seconds become hours, and its failure seems to be one of the setup.
"""

from datetime import datetime, tzinfo
from typing import override

from harbor.models.trial import result as harbor_result
from harbor.trial.trial import Trial

from assay.runner import steady_clock


class _SteadyDatetime(datetime):
    @override
    @classmethod
    def now(cls, tz: tzinfo | None = None) -> datetime:  # type: ignore[override]
        return steady_clock.now().astimezone(tz)


def keep_harbor_steady() -> None:
    """From now on, whatever Harbor records in this process has the steady clock's time."""
    Trial._now = staticmethod(steady_clock.now)  # type: ignore[method-assign]
    # ExceptionInfo.from_exception, which every failure goes through, asks the module's own name.
    harbor_result.datetime = _SteadyDatetime  # type: ignore[attr-defined]
