"""From the trials of a Harbor job to attempt records. What Harbor does not record stays unknown."""

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from pydantic import ValidationError

from assay.api.attempt_record import AttemptRecord, RecordSource, TryHarness
from assay.api.evidence import PhaseSeconds, TokenCounts
from assay.api.outcome import OutcomeClass
from assay.core.harbor_result import AgentResult, TrialResult
from assay.core.ledger import LedgerFile
from assay.core.verdict import Reading, read_figures

UNKNOWN_VERSION = "unknown"


class HarborImportError(ValueError):
    """A job folder cannot be imported; the message names the file, the field and the fix."""


@dataclass(frozen=True, slots=True)
class Trial:
    """One trial folder: where it is, its result, and what lies beside it."""

    place: str
    result: TrialResult
    judge_figures: Mapping[str, object] | None = None
    """What a rubric judge wrote beside its reward, where it did."""
    task_digest: str | None = None
    """Of the task's content, from Harbor's lock.json."""
    harbor_version: str | None = None


_CLASSES: Mapping[OutcomeClass, frozenset[str]] = {
    OutcomeClass.DISRUPTED: frozenset({"CancelledError"}),
    OutcomeClass.INFRA_START: frozenset({"EnvironmentStartTimeoutError", "SandboxBuildFailedError"}),
    OutcomeClass.SETUP_FAILED: frozenset(
        {"AgentSetupTimeoutError", "HealthcheckError", "AddTestsDirError", "SSHAccessError"}
    ),
    OutcomeClass.PROVIDER_RATE_LIMITED: frozenset(
        {
            *("ApiRateLimitError", "ApiOverloadedError", "ApiInternalServerError", "RateLimitError"),
            *("ApiConnectionClosedError", "ApiResponseStalledError", "UnknownApiError", "ApiError"),
            *("NetworkConnectionError", "ApiConnectionError", "InternalServerError", "APIError"),
            *("ServiceUnavailableError", "APIConnectionError", "Timeout"),
        }
    ),
    OutcomeClass.PROVIDER_FUNDS: frozenset({"ApiUsageLimitError", "BudgetExceededError"}),
    OutcomeClass.PROVIDER_AUTH: frozenset(
        {"AgentAuthenticationError", "AuthenticationError", "PermissionDeniedError"}
    ),
    OutcomeClass.REFUSED_BLOCKED: frozenset({"AgentSafetyRefusalError", "ContentPolicyViolationError"}),
    OutcomeClass.VERIFIER_TIMEOUT: frozenset({"VerifierTimeoutError"}),
    OutcomeClass.VERIFIER_CRASH: frozenset(
        {"RewardFileNotFoundError", "RewardFileEmptyError", "DownloadVerifierDirError"}
    ),
    OutcomeClass.INVALID_RESULT: frozenset({"VerifierOutputParseError"}),
    OutcomeClass.AGENT_OOM: frozenset({"SandboxLikelyOutOfMemoryError", "MemoryLimitExceededError"}),
    OutcomeClass.CONTEXT_EXCEEDED: frozenset(
        {
            *("ContextWindowExceededError", "OutputTokenExceededError"),
            *("ContextLengthExceededError", "OutputLengthExceededError"),
        }
    ),
}
"""Names of Harbor's exceptions by our class. A name that is not here and not the agent's own says nothing."""
_RETAINED = (OutcomeClass.REFUSED_BLOCKED, OutcomeClass.AGENT_OOM, OutcomeClass.CONTEXT_EXCEEDED)
_TIMEOUT = "AgentTimeoutError"


def read_trial(content: bytes, place: str) -> TrialResult:
    """A trial's `result.json`. Raises HarborImportError."""
    try:
        result = TrialResult.model_validate_json(content)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        field = ".".join(map(str, first["loc"])) or "the document"
        raise HarborImportError(f"{place}: {field}: {first['msg']}; is it a trial of Harbor?") from error
    if result.schema_version != 1:
        raise HarborImportError(
            f"{place}: schema_version is {result.schema_version}; this version of Assay reads 1"
        )
    return result


def import_trials(
    trials: Iterable[Trial], run: str, ledger: str, file: LedgerFile | None = None
) -> list[AttemptRecord]:
    """One record for each trial, in a fixed order. Raises HarborImportError.

    Harbor numbers no repetitions and deletes the tries that it repeats: repetitions are the trials of a task
    and variant in the order of their starts, and each is a first and only try.
    """
    groups: dict[tuple[str, str], list[Trial]] = defaultdict(list)
    for trial in trials:
        groups[_task(trial, file), _variant(trial.result)].append(trial)
    records = []
    for (task, variant), found in sorted(groups.items()):
        found.sort(key=_start)
        for repetition, trial in enumerate(found):
            records.append(_record(trial, run, ledger, file, (task, variant, repetition)))
    return records


def _start(trial: Trial) -> tuple[float, str]:
    started = trial.result.started_at
    return (started.timestamp() if started else float("inf"), trial.result.id)


def _variant(result: TrialResult) -> str:
    """Agent and model. An agent of the user's own goes by its import path: its name need not be its own."""
    agent = result.config.agent.import_path or result.agent_info.name
    model = result.config.agent.model_name or (
        result.agent_info.model_info.name if result.agent_info.model_info else None
    )
    return f"{agent}/{model}" if model else agent


def _task(trial: Trial, file: LedgerFile | None) -> str:
    name = trial.result.task_name
    if file is None:
        return re.sub(r"[^A-Za-z0-9._/-]", "-", name)
    line = file.by_id.get(name) or next(
        (one for one in file.tasks if one.id.rpartition("/")[2] == name.rpartition("/")[2]), None
    )
    if line is None:
        raise HarborImportError(
            f"{trial.place}: task_name {name} is not in ledger {file.header.benchmark} "
            f"{file.header.version}; "
            "import the job with the ledger of its tasks, or without one"
        )
    if trial.task_digest is not None and trial.task_digest != line.harbor_digest:
        raise HarborImportError(
            f"{trial.place}: task {line.id} was run with digest {trial.task_digest}, the ledger froze "
            f"{line.harbor_digest}: these are not the ledger's tasks"
        )
    return line.id


def _record(
    trial: Trial, run: str, ledger: str, file: LedgerFile | None, identity: tuple[str, str, int]
) -> AttemptRecord:
    result = trial.result
    task, variant, repetition = identity
    reading, reason = _classify(trial)
    model = result.config.agent.model_name
    return AttemptRecord(
        source=RecordSource.HARBOR,
        run=run,
        ledger=ledger,
        ledger_digest=file.digest if file else None,
        task=task,
        harbor_digest=trial.task_digest,
        variant=variant,
        repetition=repetition,
        retained=reading.outcome is OutcomeClass.GRADED or reading.outcome in _RETAINED,
        outcome=reading.outcome,
        reason=reason[:1000],
        reward=reading.reward,
        figures=dict(reading.figures),
        agent_timed_out=any(one.exception_type == _TIMEOUT for one in result.exceptions),
        models=[model] if model else [],
        calls=None if model or result.agent_info.model_info else [],
        tokens=_tokens(result.agent_results),
        reported_cost_usd=_sum([one.cost_usd for one in result.agent_results]),
        seconds=_seconds(result),
        total_seconds=_between(result),
        started_at=result.started_at,
        finished_at=result.finished_at,
        harness=TryHarness(
            harbor=trial.harbor_version,
            agent=result.agent_info.name,
            agent_version=None
            if result.agent_info.version in (None, UNKNOWN_VERSION)
            else result.agent_info.version,
        ),
        flags=_flags(result),
    )


def _classify(trial: Trial) -> tuple[Reading, str]:
    """The reading with its final class. An exception that says the result is void wins over a reward."""
    result = trial.result
    figures = result.verifier_result.rewards if result.verifier_result else None
    reading = read_figures({**(figures or {}), **_judge(trial)} if figures else None)
    for exception in result.exceptions:
        words = f"{exception.exception_type}: {exception.exception_message.strip().split('\n')[0]}"
        for outcome, names in _CLASSES.items():
            if exception.exception_type in names:
                reward = reading.reward if outcome in _RETAINED else None
                return Reading(reward, outcome, words, reading.figures), words
    if reading.reward is None and not figures and result.exceptions:
        return _without_verdict(result, reading)
    first = result.exceptions[0] if result.exceptions else None
    return reading, reading.reason or (f"{first.exception_type}, graded all the same" if first else "")


def _judge(trial: Trial) -> dict[str, object]:
    """The count of unanswered rubrics alone: the judge's other figures are not all numbers."""
    found = trial.judge_figures or {}
    return (
        {"num_unscored_must_have": found["num_unscored_must_have"]}
        if "num_unscored_must_have" in found
        else {}
    )


def _without_verdict(result: TrialResult, reading: Reading) -> tuple[Reading, str]:
    exception = result.exceptions[0]
    words = f"{exception.exception_type}: {exception.exception_message.strip().split('\n')[0]}"
    if result.verifier is not None:
        outcome = OutcomeClass.VERIFIER_CRASH
    elif result.agent_execution is None and not result.step_results:
        outcome = OutcomeClass.SETUP_FAILED
    else:
        outcome = OutcomeClass.UNRECOGNISED
    return Reading(None, outcome, words, reading.figures), words


def _tokens(results: list[AgentResult]) -> TokenCounts:
    """Harbor counts cache reads alone, and neither writes nor reasoning."""
    return TokenCounts(
        input=_sum([one.n_input_tokens for one in results]),
        cache_read=_sum([one.n_cache_tokens for one in results]),
        output=_sum([one.n_output_tokens for one in results]),
    )


def _sum[N: (int, float)](values: list[N | None]) -> N | None:
    """Unknown if one part is."""
    known = [value for value in values if value is not None]
    return sum(known) if known and len(known) == len(values) else None


def _seconds(result: TrialResult) -> PhaseSeconds:
    steps = result.step_results or []
    agent = [one.agent_execution for one in steps] or [result.agent_execution]
    verifier = [one.verifier for one in steps] or [result.verifier]
    return PhaseSeconds(
        setup=result.agent_setup.seconds if result.agent_setup else None,
        agent=_sum([one.seconds if one else None for one in agent]),
        verifier=_sum([one.seconds if one else None for one in verifier]),
        trial=_between(result),
    )


def _between(result: TrialResult) -> float | None:
    if result.started_at is None or result.finished_at is None:
        return None
    return max(0.0, (result.finished_at - result.started_at).total_seconds())


def _flags(result: TrialResult) -> list[str]:
    """Leaderboards count changed timeouts as another benchmark (cases.md B4)."""
    config = result.config
    multipliers = (
        config.timeout_multiplier,
        config.agent_timeout_multiplier,
        config.verifier_timeout_multiplier,
    )
    return ["timeoutMultiplier"] if any(one not in (None, 1.0) for one in multipliers) else []
