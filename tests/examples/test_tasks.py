"""Each example task can be solved by its own solution, and is not solved by doing nothing."""

import tomllib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from harbor.models.task.config import TaskConfig, VerifierEnvironmentMode
from harbor.models.task.task import Task

from images.catalogue import ROOT
from images.store import Built, cache_folder
from tests.images.container import Container, container

TASKS = sorted((ROOT / "examples/tasks").iterdir())
REPAIRS = ("repair-span-parser", "repair-span-rounding")

pytestmark = pytest.mark.e2e

BuiltImage = Callable[[str], Built]
Work = Callable[[Container], None]


@pytest.fixture(params=TASKS, ids=lambda path: path.name)
def task(request: pytest.FixtureRequest) -> Path:
    """One example task's folder, each in turn."""
    folder: Path = request.param
    return folder


def config_of(task: Path) -> TaskConfig:
    return TaskConfig.model_validate_toml((task / "task.toml").read_text())


@contextmanager
def environment(task: Path, built_image: BuiltImage) -> Iterator[Container]:
    """A fresh container of the task's image with Harbor's log folders."""
    image = config_of(task).environment.docker_image
    assert image is not None
    with container(built_image(image), cache_folder() / "test-storage") as running:
        for folder in ("agent", "verifier", "artifacts"):
            running.path(f"/logs/{folder}").mkdir(parents=True)
        yield running


def solve(folder: Path) -> Work:
    """What Harbor's oracle does: uploads the solution and runs it."""

    def work(running: Container) -> None:
        running.upload(folder, "/solution")
        done = running.run("bash", "/solution/solve.sh")
        assert done.returncode == 0, done.stderr

    return work


def nothing(running: Container) -> None:
    """What Harbor's nop agent does."""


def shell(script: str) -> Work:
    """An agent that runs one shell script in the task's folder."""

    def work(running: Container) -> None:
        done = running.run("bash", "-euc", script)
        assert done.returncode == 0, done.stderr

    return work


def verdict(running: Container, tests: Path) -> float:
    running.upload(tests, "/tests")
    done = running.run("bash", "/tests/test.sh")
    written = running.path("/logs/verifier/reward.txt")
    assert written.exists(), f"no verdict: status {done.returncode}\n{done.stdout}{done.stderr}"
    return float(written.read_text())


def reward(task: Path, work: Work, built_image: BuiltImage) -> float:
    """The reward of a single-step task after `work`, reached in the mode that the task asks for."""
    config = config_of(task)
    with environment(task, built_image) as agent:
        work(agent)
        if config.verifier.environment_mode != VerifierEnvironmentMode.SEPARATE:
            return verdict(agent, task / "tests")
        for hook in config.verifier.collect:
            collected = agent.run("bash", "-c", hook.command)
            assert collected.returncode == 0, collected.stderr
        with environment(task, built_image) as verifier:
            verifier.upload(agent.path("/logs/artifacts"), "/logs/artifacts")
            return verdict(verifier, task / "tests")


def step_rewards(task: Path, work: Callable[[Path], Work], built_image: BuiltImage) -> list[float]:
    """The rewards of a multi-step task, one environment for all steps."""
    rewards = []
    with environment(task, built_image) as running:
        for step in config_of(task).steps or []:
            folder = task / "steps" / step.name
            work(folder / "solution")(running)
            rewards.append(verdict(running, folder / "tests"))
    return rewards


def test_harbor_reads_the_task_and_it_needs_no_network(task: Path) -> None:
    config = Task(task).config
    assert config.environment.network_mode.value == "no-network"
    assert config.metadata["licence"] == "Apache-2.0"
    assert config.metadata["difficulty"] in ("easy", "medium", "hard")


def test_solution_passes_and_doing_nothing_fails(task: Path, built_image: BuiltImage) -> None:
    if config_of(task).steps:
        assert step_rewards(task, solve, built_image) == [1.0, 1.0]
        assert step_rewards(task, lambda _: nothing, built_image) == [0.0, 0.0]
    else:
        assert reward(task, solve(task / "solution"), built_image) == 1.0
        assert reward(task, nothing, built_image) == 0.0


def test_the_agent_finds_what_it_needs_and_no_test(task: Path, built_image: BuiltImage) -> None:
    with environment(task, built_image) as running:
        for tool in ("bash", "git", "python3", "tmux"):
            assert running.run("sh", "-c", f"command -v {tool}").returncode == 0, f"{tool} is missing"
        assert not running.path("/tests").exists()
        found = running.run("find", "/", "-xdev", "-name", "*_hidden.py").stdout
        assert found == ""


def test_image_holds_the_base_commit_that_the_task_names(task: Path, built_image: BuiltImage) -> None:
    commit = config_of(task).metadata.get("base_commit_hash")
    with environment(task, built_image) as running:
        head = running.run("git", "-C", "/app", "rev-parse", "HEAD")
        if commit is None:
            assert head.returncode != 0, "a repository whose commit the task does not name"
        else:
            assert head.stdout.strip() == commit


def test_repairs_share_one_base_commit() -> None:
    configs = [config_of(ROOT / "examples/tasks" / name) for name in REPAIRS]
    assert len({config.metadata["base_commit_hash"] for config in configs}) == 1
    assert len({config.environment.docker_image for config in configs}) == 1


# Rounds, but counts a full unit as 60 of the smaller one: what the issue says, and no more.
NAIVE_ROUNDING = r"""
cd /app && python3 - <<'PYTHON'
from pathlib import Path
path = Path("spans/formatting.py")
path.write_text(path.read_text().replace('''    parts = []
    for''', '''    parts = []
    sizes = [size for size in UNITS.values() if seconds >= size][:most_units]
    if sizes:
        seconds += sizes[-1] // 2
    for'''))
PYTHON
"""
# Cuts units by their place, so that units that are zero count.
POSITIONAL_ROUNDING = r"""
cd /app && cat > spans/formatting.py <<'PYTHON'
from spans.units import UNITS

def format_span(seconds, most_units=5):
    sizes = list(UNITS.values())
    first = next((i for i, size in enumerate(sizes) if seconds >= size), 4)
    smallest = sizes[min(first + most_units - 1, 4)]
    seconds = (seconds + smallest // 2) // smallest * smallest
    parts = []
    for unit, size in UNITS.items():
        count, seconds = divmod(seconds, size)
        if count:
            parts.append(f"{count}{unit}")
    return "".join(parts[:most_units]) or "0s"
PYTHON
"""


@pytest.mark.parametrize("script", [NAIVE_ROUNDING, POSITIONAL_ROUNDING], ids=["naive", "positional"])
def test_hidden_regression_test_catches_a_fix_that_breaks_something_else(
    script: str, built_image: BuiltImage
) -> None:
    task = ROOT / "examples/tasks/repair-span-rounding"
    stated = '[ "$(cd /app && python3 -c "import spans; print(spans.format_span(119, most_units=1))")" = 2m ]'
    assert reward(task, shell(f"{script}\n{stated}"), built_image) == 0.0


@pytest.mark.parametrize(
    "script",
    [
        "cd /app && printf 'raise SystemExit(0)\\n' > unittest.py",
        "cd /app && printf 'import os\\nos._exit(0)\\n' > tests/__init__.py",
        "cd /app && git rm -rq tests && git commit -qm 'no tests' --author 'a <a@b>'",
        "cd /app && mkdir -p .git/hooks && git config diff.external /bin/true && rm -r spans",
    ],
    ids=["shadows-unittest", "exits-early", "deletes-the-tests", "deletes-the-package"],
)
def test_verdict_does_not_listen_to_the_agents_tests(script: str, built_image: BuiltImage) -> None:
    identity = "export GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b;"
    assert reward(ROOT / "examples/tasks/repair-span-parser", shell(identity + script), built_image) == 0.0


def test_a_committed_solution_counts_as_an_uncommitted_one_does(built_image: BuiltImage) -> None:
    task = ROOT / "examples/tasks/repair-span-parser"

    def work(running: Container) -> None:
        solve(task / "solution")(running)
        commit = "cd /app && git -c user.name=a -c user.email=a@b commit -qam fixed"
        assert running.run("bash", "-c", commit).returncode == 0

    assert reward(task, work, built_image) == 1.0


@pytest.mark.parametrize(
    "answer",
    [
        "`pick` throws away the least recently read jar.",
        "pick: spoiled first, the earliest best_before; else the smallest stored. "
        "A noted jar goes when spoiled. LarderFull if every jar is noted.",
        "pick: spoiled first, the earliest best_before, then the least recently read. "
        "Never a noted jar, even if it is spoiled. LarderFull if every jar is noted.",
    ],
    ids=["incomplete", "wrong-measure", "wrong-about-notes"],
)
def test_rubric_refuses_a_wrong_answer(answer: str, built_image: BuiltImage) -> None:
    script = f"cat > /logs/artifacts/answer.md <<'END'\n{answer}\nEND"
    assert reward(ROOT / "examples/tasks/question-full-larder", shell(script), built_image) == 0.0


def test_rubric_accepts_a_right_answer_in_other_words(built_image: BuiltImage) -> None:
    answer = (
        "Larder.store asks shelves.pick(). It takes any spoiled jar, the one with the lowest best_before "
        "first; without one it takes, among the jars that are not noted, that whose read tick is smallest. "
        "A note protects a jar only until it is past its date: a noted jar that has spoiled is thrown away. "
        "If nothing is spoiled and all jars are noted, pick returns None and store raises LarderFull."
    )
    script = f"cat > /logs/artifacts/answer.md <<'END'\n{answer}\nEND"
    assert reward(ROOT / "examples/tasks/question-full-larder", shell(script), built_image) == 1.0


@pytest.mark.parametrize(
    "script",
    [
        "cd /srv/archive && rm copies/lighthouse.txt",
        "cd /srv/archive && ln -sf ../2019/lighthouse.txt copies/lighthouse.txt",
        "cd /srv/archive && ln -f 2021/ferry.txt copies/ferry.txt",
        "cd /srv/archive && ln -f 2019/notes.txt 2021/notes.txt",
    ],
    ids=["removes-a-name", "symbolic-link", "links-similar-files", "links-empty-files"],
)
def test_links_that_change_the_archive_fail(script: str, built_image: BuiltImage) -> None:
    task = ROOT / "examples/tasks/link-duplicates"

    def work(running: Container) -> None:
        solve(task / "solution")(running)
        shell(script)(running)

    assert reward(task, work, built_image) == 0.0


def test_build_file_states_each_task() -> None:
    stated = tomllib.loads((ROOT / "examples/ledger-build.toml").read_text())["tasks"]
    assert sorted(stated) == [task.name for task in TASKS]
    for name, facts in stated.items():
        metadata = config_of(ROOT / "examples/tasks" / name).metadata
        assert facts["difficulty"]["value"] == metadata["difficulty"], name
