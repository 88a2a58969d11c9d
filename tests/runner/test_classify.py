"""The class that a runner proposes: cases.md BAR 4 to 6, and every row that a runner can see."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.api.outcome import OutcomeClass
from assay.core.outcomes import TABLE, Disposition
from assay.runner.calls import CallSummary, total_tokens
from assay.runner.classify import AGENT, ENVIRONMENT, SETUP, VERIFIER, Facts, Failure, classify
from assay.runner.verdict import BadVerdict, Verdict

O = OutcomeClass  # noqa: E741
SOLVED = Verdict(1.0, {"reward": 1.0})
CRASHED = BadVerdict(O.VERIFIER_CRASH, "the verifier wrote neither")
LATE = Failure("AgentTimeoutError", "Agent execution timed out after 60 seconds", AGENT)
OK = CallSummary(status=200, answered=True, model="gpt-x")


def fault(status: int, kind: OutcomeClass, message: str = "") -> CallSummary:
    return CallSummary(status=status, answered=False, model="gpt-x", fault=kind, message=message)


def ran(**facts: Any) -> Facts:
    """A trial that went through all its phases, but for what is said."""
    defaults: dict[str, Any] = {"agent_started": True, "verifier_started": True, "verdict": SOLVED}
    return Facts(**defaults | facts)


def with_model(**facts: Any) -> Facts:
    return ran(**{"has_models": True, "calls": [OK], **facts})


REFUSAL = CallSummary(status=200, answered=True, model="gpt-x", refusal="message.refusal")
OTHER = CallSummary(status=200, answered=True, model="gpt-small")

TABLE_OF_CASES = {
    "plain verdict": (ran(), O.GRADED),
    "late agent with a verdict": (ran(failures=[LATE]), O.GRADED),
    "agent's exit code with a verdict": (
        ran(failures=[Failure("NonZeroAgentExitCodeError", "exit 1", AGENT)]),
        O.GRADED,
    ),
    "unknown exception of the agent with a verdict": (
        ran(failures=[Failure("KeyError", "'x'", AGENT)]),
        O.GRADED,
    ),
    "told to end": (ran(cancelled=True, verdict=None), O.DISRUPTED),
    "told to end after the verdict": (ran(cancelled=True), O.GRADED),
    "container lost under the agent": (
        ran(failures=[Failure("SandboxLost", "gone", AGENT)], verdict=None, verifier_started=False),
        O.INFRA_START,
    ),
    "container lost under the verifier": (
        ran(failures=[Failure("SandboxLost", "gone", VERIFIER)], verdict=CRASHED),
        O.VERIFIER_CRASH,
    ),
    "container that did not start": (
        Facts(failures=[Failure("EnvironmentStartTimeoutError", "600 s", ENVIRONMENT)]),
        O.INFRA_START,
    ),
    "setup failed": (Facts(failures=[Failure("RuntimeError", "no tmux", SETUP)]), O.SETUP_FAILED),
    "setup of a later step failed": (
        ran(failures=[Failure("RuntimeError", "setup.sh", SETUP)], verdict=None),
        O.SETUP_FAILED,
    ),
    "another agent version": (
        Facts(failures=[Failure("AgentVersionMismatch", "9", SETUP)], agent_started=False),
        O.SETUP_FAILED,
    ),
    "a: nothing but 429": (
        with_model(calls=[fault(429, O.PROVIDER_RATE_LIMITED)] * 3, verdict=Verdict(0.0)),
        O.PROVIDER_RATE_LIMITED,
    ),
    "b: twenty steps, then 402": (
        with_model(calls=[OK] * 20 + [fault(402, O.PROVIDER_FUNDS)], verdict=Verdict(0.0)),
        O.PROVIDER_FUNDS,
    ),
    "c: 401": (with_model(calls=[fault(401, O.PROVIDER_AUTH)], verdict=Verdict(0.0)), O.PROVIDER_AUTH),
    "d: 429 in between, and only in the agent's log": (
        with_model(
            calls=[OK, fault(429, O.PROVIDER_RATE_LIMITED), OK],
            failures=[Failure("ApiRateLimitError", "HTTP 429", AGENT)],
        ),
        O.GRADED,
    ),
    "agent left its last call": (
        with_model(calls=[OK, CallSummary(status=0, answered=False, model="gpt-x")], failures=[LATE]),
        O.GRADED,
    ),
    "no call at all": (with_model(calls=[]), O.AGENT_NEVER_CALLED),
    "no call, no model declared": (ran(calls=[]), O.GRADED),
    "refusal at the end": (with_model(calls=[OK, REFUSAL], verdict=Verdict(0.0)), O.REFUSED_BLOCKED),
    "refusal, then another model": (with_model(calls=[REFUSAL, OTHER]), O.REFUSED_FALLBACK),
    "refusal, then the same model went on": (with_model(calls=[REFUSAL, OK]), O.GRADED),
    "context full": (
        with_model(calls=[OK, fault(400, O.CONTEXT_EXCEEDED)], verdict=Verdict(0.0)),
        O.CONTEXT_EXCEEDED,
    ),
    "hosted tool refused, then an answer": (
        with_model(calls=[CallSummary(403, False, "gpt-x", refused_by_assay=True), OK]),
        O.GRADED,
    ),
    "agent out of memory, judged": (ran(failures=[LATE], agent_memory_kills=1), O.AGENT_OOM),
    "agent out of memory, not judged": (
        ran(agent_memory_kills=1, verdict=None, verifier_started=False, failures=[Failure("X", "", AGENT)]),
        O.AGENT_OOM,
    ),
    "a child out of memory, agent ended well": (ran(agent_memory_kills=1), O.GRADED),
    "verifier late": (
        ran(failures=[Failure("VerifierTimeoutError", "600 s", VERIFIER)], verdict=CRASHED),
        O.VERIFIER_TIMEOUT,
    ),
    "agent and verifier late": (
        ran(failures=[LATE, Failure("VerifierTimeoutError", "600 s", VERIFIER)], verdict=None),
        O.VERIFIER_TIMEOUT,
    ),
    "no reward file": (ran(verdict=CRASHED), O.VERIFIER_CRASH),
    "reward that is no number": (ran(verdict=BadVerdict(O.INVALID_RESULT, "nan")), O.INVALID_RESULT),
    "tamper that stays": (ran(tamper_persists=True, verdict=Verdict(0.0)), O.TAMPERED),
    "nothing known": (ran(verdict=None, verifier_started=False), O.UNRECOGNISED),
}


@pytest.mark.parametrize(("facts", "outcome"), TABLE_OF_CASES.values(), ids=TABLE_OF_CASES.keys())
def test_outcome(facts: Facts, outcome: OutcomeClass) -> None:
    assert classify(facts).outcome is outcome


def test_verdict_beside_what_the_agent_planted_is_none() -> None:
    proposal = classify(ran(tamper_persists=True))
    assert (proposal.outcome, proposal.reward) == (O.TAMPERED, None)


def test_late_agent_is_marked() -> None:
    proposal = classify(ran(failures=[LATE]))
    assert proposal.agent_timed_out
    assert proposal.reward == 1.0


def test_flags_name_what_happened_beside_the_outcome() -> None:
    facts = with_model(calls=[CallSummary(403, False, None, refused_by_assay=True), REFUSAL, OK], flags=["a"])
    assert classify(facts).flags == ("a", "hostedToolRefused", "refusalSeen")


failures = st.builds(
    Failure,
    st.sampled_from(
        ["AgentTimeoutError", "SandboxLost", "ValueError", "VerifierTimeoutError", "ApiRateLimitError"]
    ),
    st.text(max_size=2000),
    st.sampled_from([ENVIRONMENT, SETUP, AGENT, VERIFIER]),
)
summaries = st.builds(
    CallSummary,
    status=st.sampled_from([0, 200, 401, 429]),
    answered=st.booleans(),
    model=st.sampled_from(["a", "b", None]),
    fault=st.none() | st.sampled_from([O.PROVIDER_AUTH, O.PROVIDER_RATE_LIMITED, O.CONTEXT_EXCEEDED]),
    refusal=st.none() | st.just("refused"),
)
facts_of_any_kind = st.builds(
    Facts,
    failures=st.lists(failures, max_size=3),
    agent_started=st.booleans(),
    verifier_started=st.booleans(),
    cancelled=st.booleans(),
    verdict=st.none()
    | st.just(SOLVED)
    | st.builds(BadVerdict, st.just(O.INVALID_RESULT), st.text(max_size=9)),
    calls=st.lists(summaries, max_size=4),
    has_models=st.booleans(),
    agent_memory_kills=st.integers(0, 2),
    tamper_persists=st.booleans(),
)


@given(facts_of_any_kind)
def test_every_try_gets_a_class_and_only_a_verdict_makes_a_grade(facts: Facts) -> None:
    proposal = classify(facts)
    assert len(proposal.reason) <= 1000
    if TABLE[proposal.outcome].disposition is Disposition.RETAIN:
        assert proposal.reward is not None
    if proposal.outcome is O.GRADED:
        assert isinstance(facts.verdict, Verdict)


@given(st.lists(st.builds(Failure, st.text(max_size=30), st.text(max_size=50), st.just(AGENT)), max_size=3))
def test_nothing_that_an_agent_raises_turns_a_verdict_into_a_fresh_try(found: list[Failure]) -> None:
    found = [
        each for each in found if not each.type.startswith(("Sandbox", "Agent", "Task", "Network", "Env"))
    ]
    assert TABLE[classify(with_model(failures=found)).outcome].retained


def test_unknown_tokens_stay_unknown_in_the_sum() -> None:
    from assay.api.evidence import TokenCounts

    known = TokenCounts(input=5, output=2)
    assert total_tokens([known, known]) == TokenCounts(input=10, output=4)
    assert total_tokens([known, TokenCounts(input=1)]).output is None
    assert total_tokens([]) == TokenCounts()


HUNG = Failure("VerifierTimeoutError", "Verifier execution timed out after 600 seconds", VERIFIER)


@pytest.mark.parametrize(
    ("facts", "outcome", "graded_as"),
    [
        (ran(verdict=CRASHED), O.VERIFIER_CRASH, O.GRADED),
        (ran(failures=[LATE, HUNG], verdict=None), O.VERIFIER_TIMEOUT, O.GRADED),
        (with_model(calls=[REFUSAL, OTHER], verdict=CRASHED), O.VERIFIER_CRASH, O.REFUSED_FALLBACK),
        (ran(cancelled=True, verdict=None), O.DISRUPTED, O.GRADED),
        (
            with_model(calls=[OK, fault(429, O.PROVIDER_RATE_LIMITED)], cancelled=True, verdict=None),
            O.DISRUPTED,
            O.PROVIDER_RATE_LIMITED,
        ),
        (ran(), O.GRADED, None),
        (ran(cancelled=True, verdict=None, verifier_started=False), O.DISRUPTED, None),
    ],
)
def test_what_the_class_would_have_been_with_a_verdict(
    facts: Facts, outcome: OutcomeClass, graded_as: OutcomeClass | None
) -> None:
    proposal = classify(facts)
    assert (proposal.outcome, proposal.graded_as) == (outcome, graded_as)
