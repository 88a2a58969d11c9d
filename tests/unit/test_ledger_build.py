"""Building a ledger: what a line says, which tasks are one piece of evidence, and what is refused how."""

from typing import Any, get_args

import pytest

from assay.api.ledger_build_file import LedgerBuildFile
from assay.api.ledgerfile import NetworkMode, TaskResources, TaskTimeouts, UnknowableField, VerifierMode
from assay.core.clusters import ClusterInput, clusters
from assay.core.ledger import LedgerFileError, parse_ledger, render_ledger, unknown_facts
from assay.core.ledger_build import LedgerBuilder
from tests.unit.ledger_tasks import BUILD, COMMIT, DIGEST, OTHER_DIGEST, build, entries, refusals, task

SEPARATE = '[verifier.environment]\nnetwork_mode = "no-network"\nmemory_mb = 8192\n'


def test_a_line_says_what_the_task_says() -> None:
    (line,) = build(task()).tasks
    assert line.id == "org/one"
    assert (line.category, line.language) == ("feature", "python")
    assert line.repository == "https://git.example/Some/Repo.git"
    assert line.base_commit == COMMIT
    assert line.images.environment == f"registry.example/task@{DIGEST}"
    assert line.images.published == "registry.example/task:1"
    assert line.images.verifier is None
    assert line.verifier_mode is VerifierMode.SHARED
    assert line.network is NetworkMode.NONE
    assert line.resources == TaskResources(cpu_millis=2000, memory_mib=4096)
    assert line.timeouts == TaskTimeouts(setup_seconds=600, agent_seconds=60, verifier_seconds=31)


def test_the_same_tasks_give_the_same_bytes_in_any_order() -> None:
    one, two = task("org/one"), task("org/two", commit="c" * 40)
    assert build(one, two).digest == build(two, one).digest


def test_a_separate_verifier_runs_in_the_task_s_image_and_gets_the_larger_resources() -> None:
    dockerfile = "FROM registry.example/task:1\nCOPY test.sh /tests/test.sh\nRUN chmod +x /tests/test.sh\n"
    (line,) = build(task(toml=SEPARATE, **{"tests/Dockerfile": dockerfile})).tasks
    assert line.verifier_mode is VerifierMode.SEPARATE
    assert line.images.verifier == line.images.environment
    assert line.resources.memory_mib == 8192
    assert line.resources.cpu_millis == 2000


def test_a_task_in_steps_has_the_time_of_all_its_steps() -> None:
    steps = """
[[steps]]
name = "one"
agent = {timeout_sec = 100}
[[steps]]
name = "two"
verifier = {timeout_sec = 5}
"""
    files: dict[str, Any] = {
        "steps/one/instruction.md": "1",
        "steps/two/instruction.md": "2",
        "instruction.md": None,
    }
    (line,) = build(task(toml=steps, **files)).tasks
    assert line.steps == 2
    assert line.timeouts.agent_seconds == 160
    assert line.timeouts.verifier_seconds == 36


def test_the_build_file_s_own_table_wins_over_task_and_defaults() -> None:
    stated = {
        "licence": {"value": "BSD-3-Clause", "source": "PROVENANCE.md", "date": "2026-02-02"},
        "category": "repair",
        "images": {"environment": f"registry.example/mine@{OTHER_DIGEST}"},
        "timeouts": {"agent_seconds": 7},
    }
    for key in ("t0", "org/one"):
        (line,) = build(task(), tasks={key: stated}).tasks
        assert line.licence.value == "BSD-3-Clause"
        assert line.category == "repair"
        assert line.images.environment.endswith(OTHER_DIGEST)
        assert line.timeouts.agent_seconds == 7


def test_a_label_in_the_task_s_own_file_needs_to_be_dated() -> None:
    labelled = task()
    labelled["task.toml"] = labelled["task.toml"].replace(
        "[metadata]", '[metadata]\nlicense = "GPL-3.0-only"'
    )
    (refusal,) = refusals(labelled)
    assert "licence: task.toml states 'GPL-3.0-only' without saying since when" in refusal
    assert "task_labels_date" in refusal
    (line,) = build(labelled, task_labels_date="2025-05-05").tasks
    assert (line.licence.value, line.licence.date) == ("GPL-3.0-only", "2025-05-05")
    assert line.licence.source == "task.toml [metadata]"


def test_unknown_facts_are_allowed_only_where_the_header_says_so() -> None:
    unknown = {"value": "unknown", "source": "nobody states it", "date": "2026-01-01"}
    defaults = {**BUILD["defaults"], "difficulty": unknown}
    bare = task()
    bare["task.toml"] = "\n".join(
        line for line in bare["task.toml"].splitlines() if not line.startswith("base_commit")
    )
    said = refusals(bare, defaults=defaults)
    assert [line.split(": ")[1] for line in said] == ["baseCommit", "difficulty"]
    assert 'allow_unknown = ["difficulty"]' in said[1]
    ledger = build(bare, defaults=defaults, allow_unknown=["difficulty", "baseCommit"])
    assert ledger.unknowns == 2
    assert ledger.header.allow_unknown == ["baseCommit", "difficulty"]
    assert ledger.tasks[0].cluster == "task:org/one"


def test_tasks_of_one_base_commit_are_one_piece_of_evidence() -> None:
    ledger = build(task("org/a"), task("org/b"), task("org/c", commit="c" * 40))
    assert ledger.clusters == 2
    by_id = ledger.by_id
    assert by_id["org/a"].cluster == by_id["org/b"].cluster
    assert by_id["org/a"].cluster_reason == f"same base commit {COMMIT[:12]} as org/b"
    assert by_id["org/b"].cluster_reason == f"same base commit {COMMIT[:12]} as org/a"
    assert by_id["org/c"].cluster_reason == f"the only task of base commit {'c' * 12}"


def test_an_abbreviated_commit_is_the_commit() -> None:
    commits = {"a": COMMIT, "b": COMMIT[:7], "c": COMMIT[:6] + "0", "d": None}
    found = clusters([ClusterInput(task, "git.example/r", commit) for task, commit in commits.items()])
    assert found["a"].name == found["b"].name == f"base-commit:{COMMIT}"
    assert len({cluster.name for cluster in found.values()}) == 3


@pytest.mark.parametrize(
    ("files", "toml", "says"),
    [
        ({"tests/test.sh": None}, "", "tests/test.sh: the test script is missing"),
        ({"instruction.md": None}, "", "instruction.md: the instruction is missing"),
        ({"environment/docker-compose.yaml": "x"}, "", "docker-compose.yaml: tasks of several containers"),
        (
            {"tests/test.sh": "python3 /tests/grade.py\n"},
            "",
            "tests/grade.py: is missing, but tests/test.sh line 1",
        ),
        (
            {"tests/Dockerfile": "FROM registry.example/task:1\nCOPY config.json /tests/\n"},
            SEPARATE,
            "tests/config.json: is missing, but tests/Dockerfile line 2 copies it",
        ),
        (
            {"tests/Dockerfile": "FROM registry.example/task:1\nRUN pip install x\n"},
            SEPARATE,
            "tests/Dockerfile: line 2 (RUN pip install x) needs a build",
        ),
        ({"tests/Dockerfile": "FROM other:1\nCOPY test.sh /tests/\n"}, SEPARATE, "other:1 is a tag"),
        ({"tests/x.pyc": "planted"}, "", "tests/x.pyc: Harbor's digest leaves it out"),
        (
            {},
            '[verifier.environment]\nnetwork_mode = "public"\n',
            "network_mode: agent and verifier are in one pod",
        ),
        ({}, '[verifier.environment]\nnetwork_mode = "allowlist"\n', "network_mode: an allowlist"),
    ],
)
def test_what_is_refused(files: dict[str, Any], toml: str, says: str) -> None:
    (refusal,) = refusals(task(toml=toml, **files))
    assert refusal.startswith("org/one: ")
    assert says in refusal
    assert ". Fix: " in refusal


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        (
            'docker_image = "registry.example/task:1"',
            'docker_image = "elsewhere:latest"',
            "elsewhere:latest is a tag",
        ),
        ('docker_image = "registry.example/task:1"', "", "the task has only a Dockerfile"),
        ("cpus = 2", 'cpus = "many"', "task.toml environment.cpus"),
        ("cpus = 2", "cpus = nan", "task.toml environment.cpus"),
        ("cpus = 2", "gpus = 1", "accelerators"),
        ("cpus = 2", 'os = "Windows"', "windows cannot be run"),
        ("timeout_sec = 60.0", "", "[agent] timeout_sec: the task sets no limit"),
        ("timeout_sec = 60.0", "timeout_sec = -1", "task.toml agent.timeout_sec"),
        ('network_mode = "no-network"', 'network_mode = "allowlist"', "an allowlist"),
        ("[task]", "[task", "is not TOML"),
        (COMMIT, "HEAD", "base_commit"),
    ],
)
def test_what_is_refused_in_task_toml(old: str, new: str, says: str) -> None:
    files = task()
    files["task.toml"] = files["task.toml"].replace(old, new)
    said = refusals(files)
    assert any(says in refusal for refusal in said), said


def test_files_that_the_tests_write_or_bring_along_are_not_missing() -> None:
    script = """
echo x > /tests/out.txt
mkdir -p /tests/made
# python3 /tests/comment.py
cat /tests/data/known.txt "$HERE/tests/other.py" /opt/tests/else.py
"""
    assert refusals(task(**{"tests/test.sh": script, "tests/data/known.txt": "1"})) == []


def without(fact: str) -> dict[str, Any]:
    """The build file's defaults without a fact."""
    return {name: stated for name, stated in BUILD["defaults"].items() if name != fact}


@pytest.mark.parametrize(
    ("fact", "stated", "fix"),
    [
        ("licence", "licence", 'state licence = {value = "…"'),
        ("difficulty", "difficulty", 'state difficulty = {value = "…"'),
        ("oracle", "oracle_kind", 'state oracle_kind = "tests", "script" or "judge"'),
        ("baseCommit", "base_commit", 'state base_commit = "…"'),
    ],
)
def test_each_fact_is_stated_or_allowed_to_be_unknown_and_counted(fact: str, stated: str, fix: str) -> None:
    files = task()
    if fact == "baseCommit":
        files["task.toml"] = files["task.toml"].replace(f'base_commit_hash = "{COMMIT}"\n', "")
    (refusal,) = refusals(files, defaults=without(stated))
    assert refusal.startswith(f"org/one: {fact}: ")
    assert fix in refusal
    assert f'allow_unknown = ["{fact}"]' in refusal
    others = [one for one in get_args(UnknowableField) if one != fact]
    assert len(refusals(files, defaults=without(stated), allow_unknown=others)) == 1

    ledger = build(files, defaults=without(stated), allow_unknown=[fact])
    assert unknown_facts(ledger.tasks[0]) == [fact]
    assert ledger.unknowns == 1
    forbidden = ledger.header.model_copy(update={"allow_unknown": others})
    with pytest.raises(LedgerFileError, match=f"line 2: {fact} of task org/one is unknown"):
        parse_ledger(render_ledger(forbidden, ledger.tasks))


def test_a_plan_may_fix_the_verifier_s_place_for_every_task() -> None:
    asked = {"mode": "separate", "crossing_files": ["/logs/agent/answer.txt"]}
    plan = {"verifier_mode": "separate"}
    (refusal,) = refusals(task(), plan=plan)
    assert refusal.startswith("org/one: verifier_mode: is shared, and [plan] verifier_mode says separate")
    ledger = build(task(), plan=plan, defaults={**BUILD["defaults"], "verifier": asked})
    assert ledger.header.plan.verifier_mode == "separate"
    shared = build(task()).tasks
    with pytest.raises(LedgerFileError, match="line 2: verifierMode of task org/one is shared"):
        parse_ledger(render_ledger(ledger.header, shared))


def test_no_licence_is_refused_with_what_to_write() -> None:
    (refusal,) = refusals(task(), defaults=without("licence"))
    assert "org/one: licence: nobody states it" in refusal
    assert 'licence = {value = "…", source = "…", date = "YYYY-MM-DD"}' in refusal


def test_what_nobody_states_is_unknown_where_that_is_allowed() -> None:
    (line,) = build(task(), defaults=without("difficulty"), allow_unknown=["difficulty"]).tasks
    assert (line.difficulty.value, line.difficulty.date) == ("unknown", None)


def test_a_label_without_a_date_is_refused() -> None:
    undated = {"licence": {"value": "MIT", "source": "LICENSE"}}
    with pytest.raises(ValueError, match=r"defaults.licence\n.*date is missing: since when"):
        build(task(), defaults=undated)


def test_two_tasks_of_one_id_are_refused() -> None:
    (refusal,) = refusals(task("org/one"), task("org/one"))
    assert refusal.startswith("org/one: [task] name: folder t1 and folder t0 have the same id")


def test_everything_that_is_wrong_is_told_at_once() -> None:
    gone: dict[str, Any] = {"tests/test.sh": None}
    bad = task("org/bad", **gone)
    bad["task.toml"] = bad["task.toml"].replace("timeout_sec = 60.0", "").replace("task:1", "task:2")
    said = refusals(bad, task("org/good"), task("org/worse", **{"environment/compose.yml": ""}))
    assert [line.split(": ")[0] for line in said] == ["org/bad"] * 3 + ["org/worse"]


def test_a_name_in_the_build_file_that_no_task_has_is_refused() -> None:
    said = refusals(task(), tasks={"tpyo": {}}, include=["t0", "absent"])
    assert any("tpyo: build file: tasks" in refusal for refusal in said)
    assert any("absent: build file: include" in refusal for refusal in said)


def test_no_archive_is_written_for_a_task_that_is_refused() -> None:
    build_file = LedgerBuildFile.model_validate({**BUILD, "images": {}})

    def must_not_be_called(_: Any) -> Any:
        raise AssertionError("an archive was written")

    builder = LedgerBuilder(build_file, lambda name: None, must_not_be_called)
    builder.add("t0", entries(task()))
    with pytest.raises(Exception, match="is a tag"):
        builder.finish()


def test_the_header_says_how_the_ledger_is_measured() -> None:
    plan = {"repetitions": 3, "resources": {"request_percent": 25, "limit_percent": 100}}
    ledger = build(task(), plan=plan)
    assert ledger.header.plan.repetitions == 3
    assert b'"resources":{"limitPercent":100,"requestPercent":25}' in render_ledger(
        ledger.header, ledger.tasks
    )
