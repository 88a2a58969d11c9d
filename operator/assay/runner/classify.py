"""From what happened in a try to the class that the runner proposes (design §6).

Read top to bottom: the first rule that applies decides. Providers' faults come from the calls on the wire,
never from what the agent logged; nothing that the agent writes can turn a verdict into a fresh sample.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from assay.api.outcome import OutcomeClass
from assay.runner.calls import CallSummary, fallback_after_refusal, trailing_fault, trailing_refusal
from assay.runner.verdict import BadVerdict, Verdict

ENVIRONMENT, SETUP, AGENT, VERIFIER = "environment", "setup", "agent", "verifier"

_TIMEOUTS = frozenset({"AgentTimeoutError"})
_LOST = frozenset({"SandboxLost", "SandboxNotReady"})
_START = frozenset({"EnvironmentStartTimeoutError"})
_CONTEXT = frozenset(
    {
        "ContextWindowExceededError",
        "ContextLengthExceededError",
        "OutputTokenExceededError",
        "OutputLengthExceededError",
    }
)
_VERIFIER_TIMEOUT = frozenset({"VerifierTimeoutError"})
_REFUSED_SETUP = frozenset(
    {"AgentVersionMismatch", "TaskRefused", "NetworkPolicyTooWeak", "EnvironmentUnusable"}
)


@dataclass(frozen=True, slots=True)
class Failure:
    """An exception that Harbor recorded, in the phase it came from."""

    type: str
    message: str
    phase: str


@dataclass(frozen=True, slots=True)
class Facts:
    """Everything that the class of a try follows from."""

    failures: Sequence[Failure] = ()
    """In the order in which they happened."""
    agent_started: bool = False
    verifier_started: bool = False
    cancelled: bool = False
    """The pod was told to end before the try had ended."""
    verdict: Verdict | BadVerdict | None = None
    calls: Sequence[CallSummary] = ()
    has_models: bool = False
    agent_memory_kills: int = 0
    verifier_memory_kills: int = 0
    tamper_persists: bool = False
    flags: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Proposal:
    """The class that the runner proposes, and what goes with it."""

    outcome: OutcomeClass
    reason: str = ""
    reward: float | None = None
    rewards: dict[str, float] = field(default_factory=dict)
    agent_timed_out: bool = False
    failure: Failure | None = None
    flags: tuple[str, ...] = ()
    graded_as: OutcomeClass | None = None
    """What the class would have been with a verdict, where the verifier began and there is none."""


Ruling = tuple[OutcomeClass, str]


def classify(facts: Facts) -> Proposal:
    """The class of a try that ran Harbor's trial, however far it came."""
    outcome, reason = next(ruling for rule in _RULES if (ruling := rule(facts)) is not None)
    # A verdict read beside what the agent planted is none.
    verdict = None if facts.tamper_persists or not isinstance(facts.verdict, Verdict) else facts.verdict
    return Proposal(
        outcome=outcome,
        reason=reason[:1000],
        reward=verdict.reward if verdict else None,
        rewards=verdict.rewards if verdict else {},
        agent_timed_out=any(failure.type in _TIMEOUTS for failure in facts.failures),
        failure=facts.failures[0] if facts.failures else None,
        flags=_flags(facts, outcome),
        graded_as=_graded_as(facts),
    )


def _graded_as(facts: Facts) -> OutcomeClass | None:
    if not facts.verifier_started or isinstance(facts.verdict, Verdict):
        return None
    judged = replace(
        facts,
        failures=[failure for failure in facts.failures if failure.phase != VERIFIER],
        cancelled=False,
        verdict=Verdict(0.0),
    )
    return next(ruling for rule in _RULES if (ruling := rule(judged)) is not None)[0]


def _flags(facts: Facts, outcome: OutcomeClass) -> tuple[str, ...]:
    flags = list(facts.flags)
    if facts.agent_memory_kills and outcome is not OutcomeClass.AGENT_OOM:
        flags.append("agentMemoryKill")
    if any(call.refused_by_assay for call in facts.calls):
        flags.append("hostedToolRefused")
    if any(call.refusal for call in facts.calls):
        flags.append("refusalSeen")
    return tuple(dict.fromkeys(flags))


def _words(failure: Failure) -> str:
    first_line = failure.message.strip().split("\n")[0]
    return f"{failure.type} in the {failure.phase} phase: {first_line}"


def _find(facts: Facts, names: frozenset[str]) -> Failure | None:
    return next((failure for failure in facts.failures if failure.type in names), None)


def _cancelled(facts: Facts) -> Ruling | None:
    if facts.cancelled and not isinstance(facts.verdict, Verdict):
        return OutcomeClass.DISRUPTED, "the pod was told to end before the try had ended"
    return None


def _lost(facts: Facts) -> Ruling | None:
    failure = _find(facts, _LOST)
    if failure is None or isinstance(facts.verdict, Verdict):
        return None
    outcome = OutcomeClass.VERIFIER_CRASH if failure.phase == VERIFIER else OutcomeClass.INFRA_START
    return outcome, _words(failure)


def _not_set_up(facts: Facts) -> Ruling | None:
    failure = next((each for each in facts.failures if _before_agent(each)), None)
    if failure is None:
        return None
    outcome = OutcomeClass.INFRA_START if failure.type in _START else OutcomeClass.SETUP_FAILED
    return outcome, _words(failure)


def _before_agent(failure: Failure) -> bool:
    return failure.phase in (ENVIRONMENT, SETUP) or (
        failure.type in _REFUSED_SETUP and failure.phase != VERIFIER
    )


def _tamper_persists(facts: Facts) -> Ruling | None:
    if facts.tamper_persists:
        return OutcomeClass.TAMPERED, "what the agent left where the verdict is read could not be removed"
    return None


def _provider(facts: Facts) -> Ruling | None:
    call = trailing_fault(facts.calls) if facts.has_models else None
    if call is None or call.fault is None or call.fault is OutcomeClass.CONTEXT_EXCEEDED:
        return None
    return call.fault, f"the last model call ended with {call.status or 'no answer'}: {call.message}".rstrip(
        ": "
    )


def _blocked(facts: Facts) -> Ruling | None:
    call = trailing_refusal(facts.calls) if facts.has_models else None
    if call is None:
        return None
    return (
        OutcomeClass.REFUSED_BLOCKED,
        f"{call.model or 'the model'} refused and nothing came after it: {call.refusal}",
    )


def _never_called(facts: Facts) -> Ruling | None:
    if facts.has_models and facts.agent_started and not facts.calls:
        ended = f"; it ended with {_words(facts.failures[0])}" if facts.failures else ""
        return (
            OutcomeClass.AGENT_NEVER_CALLED,
            f"the variant declares a model, but the agent called none{ended}",
        )
    return None


def _no_verdict(facts: Facts) -> Ruling | None:
    if facts.verdict is not None:
        return None
    if facts.agent_memory_kills and not facts.verifier_started:
        return OutcomeClass.AGENT_OOM, "the agent's memory ran out before it could be judged"
    late = _find(facts, _VERIFIER_TIMEOUT)
    if late:
        return OutcomeClass.VERIFIER_TIMEOUT, _words(late)
    if facts.verifier_started:
        failure = next((each for each in facts.failures if each.phase == VERIFIER), None)
        words = _words(failure) if failure else "the verifier ended without a verdict"
        return OutcomeClass.VERIFIER_CRASH, words
    words = (
        _words(facts.failures[-1]) if facts.failures else "Harbor's trial ended without verdict or exception"
    )
    return OutcomeClass.UNRECOGNISED, words


def _bad_verdict(facts: Facts) -> Ruling | None:
    if not isinstance(facts.verdict, BadVerdict):
        return None
    # A verifier that was cut off wrote no file, or half of one: why it was cut off is the cause.
    late = _find(facts, _VERIFIER_TIMEOUT)
    if late:
        return OutcomeClass.VERIFIER_TIMEOUT, _words(late)
    crashed = facts.verdict.outcome is OutcomeClass.VERIFIER_CRASH
    if facts.verifier_memory_kills and crashed:
        return OutcomeClass.VERIFIER_CRASH, f"the verifier's memory ran out: {facts.verdict}"
    failure = next((each for each in facts.failures if each.phase == VERIFIER), None)
    if failure and crashed:
        return OutcomeClass.VERIFIER_CRASH, f"{facts.verdict}; {_words(failure)}"
    return facts.verdict.outcome, str(facts.verdict)


def _agents_doing(facts: Facts) -> Ruling | None:
    context = _find(facts, _CONTEXT)
    call = trailing_fault(facts.calls)
    if context or (call and call.fault is OutcomeClass.CONTEXT_EXCEEDED):
        return OutcomeClass.CONTEXT_EXCEEDED, _words(context) if context else "the model's context was full"
    if facts.agent_memory_kills and any(failure.phase == AGENT for failure in facts.failures):
        return OutcomeClass.AGENT_OOM, "a process of the agent was killed for want of memory"
    return None


def _graded(facts: Facts) -> Ruling:
    if facts.has_models and fallback_after_refusal(facts.calls):
        return OutcomeClass.REFUSED_FALLBACK, "a model refused and another one went on"
    failure = next((each for each in facts.failures if each.phase == AGENT), None)
    return OutcomeClass.GRADED, _words(failure) if failure else ""


_RULES: tuple[Callable[[Facts], Ruling | None], ...] = (
    _cancelled,
    _lost,
    _not_set_up,
    _tamper_persists,
    _provider,
    _blocked,
    _never_called,
    _no_verdict,
    _bad_verdict,
    _agents_doing,
    _graded,
)
