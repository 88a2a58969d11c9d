"""Which tasks count as one piece of evidence, and what is read of a task's failing assertions."""

import json
import random
from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from assay.api.ledgerfile import AssertionSource, ClusterRule, FailingAssertions
from assay.core.assertions import failing_assertions, normalised
from assay.core.clusters import ClusterInput, clusters
from assay.core.near_texts import JACCARD, MIN_TOKENS, RATIO, alike, near_pairs
from assay.core.task_checks import TaskSource
from assay.core.task_file import TaskFile
from tests.unit.ledger_tasks import COMMIT, build, entries, task

PYTEST_PATCH = """\
diff --git a/tests/test_cache.py b/tests/test_cache.py
new file mode 100644
--- /dev/null
+++ b/tests/test_cache.py
@@ -0,0 +1,9 @@
+import pytest
+
+def test_hit():
+    assert cache.get("/tmp/a/b") == 41
+
+def test_other():
+    assert other() is None
+    with pytest.raises(KeyError):
+        cache["x"]
"""
GO_PATCH = """\
diff --git a/vm/vm_test.go b/vm/vm_test.go
--- a/vm/vm_test.go
+++ b/vm/vm_test.go
@@ -10,3 +10,8 @@ func TestDeclares(t *testing.T) {
+	got := run()
+	if got != 7 {
+		t.Fatalf("want 7, got %d", got)
+	}
 }
+func TestElse(t *testing.T) {
+	require.Equal(t, 1, other())
+}
"""
JUNIT_PATCH = """\
diff --git a/src/a.test.ts b/src/a.test.ts
--- a/src/a.test.ts
+++ b/src/a.test.ts
@@ -1,2 +1,9 @@
+describe("Errors", () => {
+  it("keeps the stack", () => {
+    expect(error.stack).toBe("x");
+  });
+  it("is something else", () => {
+    expect(2).toBe(2);
+  });
+});
"""


def read(names: object, patch: str | None, key: str = "f2p_node_ids") -> FailingAssertions:
    files = task()
    if names is not None:
        files["tests/config.json"] = json.dumps({key: names})
    if patch is not None:
        files["tests/test.patch"] = patch
    found = {entry.path: entry for entry in entries(files)}
    return failing_assertions(TaskSource("t", found, TaskFile()))


@pytest.mark.parametrize(
    ("names", "patch", "lines"),
    [
        (["tests/test_cache.py::test_hit"], PYTEST_PATCH, ["assert cache.get(STR) == N"]),
        (["tests.test_cache.test_hit[one]"], PYTEST_PATCH, ["assert cache.get(STR) == N"]),
        (
            ["tests.test_cache.TestCache.test_other"],
            PYTEST_PATCH,
            ["assert other() is None", "with pytest.raises(KeyError):"],
        ),
        (["github.com/o/r/vm.TestDeclares"], GO_PATCH, ["if got != N {", "t.Fatalf(STR, got)"]),
        (["github.com/o/r/vm.TestElse/case_one"], GO_PATCH, ["require.Equal(t, N, other())"]),
        (["Errors of all kinds keeps the stack"], JUNIT_PATCH, ["expect(error.stack).toBe(STR);"]),
        (["o/r/vm.TestSuite/TestElse"], GO_PATCH, ["require.Equal(t, N, other())"]),
        (["src/a.test.ts: Errors > keeps the stack"], JUNIT_PATCH, ["expect(error.stack).toBe(STR);"]),
    ],
)
def test_assertions_of_the_named_tests_are_read(names: list[str], patch: str, lines: list[str]) -> None:
    found = read(names, patch)
    assert found.source is AssertionSource.NAMED_TESTS
    assert found.lines == lines
    assert (found.tests, found.found, found.note) == (1, len(lines), None)


@pytest.mark.parametrize("key", ["FAIL_TO_PASS", "fail_to_pass"])
def test_a_list_that_is_text_within_json_is_read(key: str) -> None:
    found = read(json.dumps(["tests/test_cache.py::test_hit"]), PYTEST_PATCH, key)
    assert found.source is AssertionSource.NAMED_TESTS


@pytest.mark.parametrize(
    ("names", "patch", "source", "note"),
    [
        (["tests.test_cache.test_gone"], PYTEST_PATCH, "testPatch", "no body of a fail-to-pass test"),
        (None, PYTEST_PATCH, "testPatch", "no fail-to-pass test is named"),
        (["tests.test_cache.test_hit"], None, "testIds", "no assertion line was recognised"),
        (None, None, "unreadable", "the task names no fail-to-pass tests and has no test patch"),
        ("[not json", None, "unreadable", "tests/config.json cannot be read"),
    ],
)
def test_what_could_not_be_read_is_said(names: object, patch: str | None, source: str, note: str) -> None:
    found = read(names, patch)
    assert found.source == source
    assert note in (found.note or "")


def test_what_differs_by_chance_is_not_compared() -> None:
    one = normalised('    assert  run("/srv/a.txt", 17) == 0x7f12ab and path/to/x.py == 1e-9')
    other = normalised("assert run('b',  4)  == 0xdeadbeef and other/y.py == 3")
    assert one == other


def described(task: str, text: str, commit: str | None = None) -> ClusterInput:
    lines = FailingAssertions(source=AssertionSource.NAMED_TESTS, lines=[text])
    return ClusterInput(task, "git.example/r", commit, lines)


LONG = "assert the parser keeps every comment and each blank line where the author had put it before"


def test_near_identical_assertions_join_tasks_of_different_commits() -> None:
    found = clusters(
        [
            described("a", LONG, "a" * 40),
            described("b", LONG + " today", "b" * 40),
            described(
                "c", "assert nothing of the kind is ever true of any other text in this small list", "c" * 40
            ),
        ]
    )
    assert found["a"].name == found["b"].name == f"base-commit:{'a' * 40}"
    assert found["a"].rule is ClusterRule.NEAR_IDENTICAL_ASSERTION
    assert (found["a"].neighbour, found["b"].neighbour) == ("b", "a")
    assert found["a"].reason.startswith("near-identical failing assertion (0.9")
    assert found["c"].rule is ClusterRule.ALONE


def test_what_is_joined_by_different_rules_is_one_cluster() -> None:
    found = clusters(
        [
            described("a", LONG, "a" * 40),
            described("b", "assert x", "a" * 40),
            described("c", LONG, "c" * 40),
        ]
    )
    assert len({one.name for one in found.values()}) == 1
    assert found["b"].rule is ClusterRule.SAME_BASE_COMMIT
    assert found["c"].rule is ClusterRule.NEAR_IDENTICAL_ASSERTION


def test_an_abbreviation_counts_within_one_repository_alone() -> None:
    found = clusters(
        [
            ClusterInput("a", "git.example/r", COMMIT),
            ClusterInput("b", "git.example/r", COMMIT[:8]),
            ClusterInput("c", "git.example/other", COMMIT[:8]),
        ]
    )
    assert found["a"].name == found["b"].name
    assert found["c"].name != found["a"].name


def test_ids_of_tests_and_assertion_lines_are_not_compared_with_each_other() -> None:
    ids = FailingAssertions(source=AssertionSource.TEST_IDS, lines=[LONG])
    found = clusters([described("a", LONG), ClusterInput("b", None, None, ids)])
    assert found["a"].name != found["b"].name


def test_a_ledger_says_which_rule_put_a_task_where() -> None:
    files = {
        "tests/test.patch": PYTEST_PATCH,
        "tests/config.json": json.dumps({"f2p_node_ids": ["a.test_other"]}),
    }
    ledger = build(task("org/a", commit="a" * 40, **files), task("org/b", commit="b" * 40, **files))
    assert ledger.clusters == 1
    assert {line.cluster_rule for line in ledger.tasks} == {ClusterRule.NEAR_IDENTICAL_ASSERTION}
    assert ledger.by_id["org/a"].cluster_neighbour == "org/b"
    assert ledger.by_id["org/a"].failing_assertions is not None


def slowly(texts: dict[str, str]) -> set[tuple[str, str]]:
    """Every pair compared, by the definition."""
    found = set()
    for one, other in combinations(sorted(texts), 2):
        left, right = texts[one].split(), texts[other].split()
        if texts[one] == texts[other]:
            found.add((one, other))
        elif len(left) >= MIN_TOKENS and len(right) >= MIN_TOKENS:
            first, second = grams(left), grams(right)
            if len(first & second) >= JACCARD * len(first | second):
                found.add((one, other))
        elif max(len(left), len(right)) < MIN_TOKENS and (
            alike(" ".join(sorted(left)), " ".join(sorted(right))) >= RATIO
        ):
            found.add((one, other))
    return found


def grams(words: list[str]) -> set[tuple[tuple[str, ...], int]]:
    seen: dict[tuple[str, ...], int] = {}
    found = set()
    for start in range(len(words) - 2):
        gram = tuple(words[start : start + 3])
        seen[gram] = seen.get(gram, 0) + 1
        found.add((gram, seen[gram]))
    return found


def joined(pairs: set[tuple[str, str]], keys: list[str]) -> dict[str, str]:
    """Each key's smallest key that it is joined to, over any number of steps."""
    root = {key: key for key in keys}
    for _ in keys:
        for one, other in pairs:
            root[one] = root[other] = min(root[one], root[other])
    return root


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10_000), st.integers(4, 14))
def test_no_near_pair_is_missed_and_none_is_invented(seed: int, words: int) -> None:
    seeded = random.Random(seed)
    texts: dict[str, str] = {}
    for number in range(40):
        tokens = [seeded.choice(("alpha", "beta", "gamma", "delta", "eps")) for _ in range(words)]
        if texts and seeded.random() < 0.7:
            tokens = seeded.choice(list(texts.values())).split()
            tokens[seeded.randrange(len(tokens))] = seeded.choice(("alpha", "beta!", "x"))
        texts[f"t{number:02}"] = " ".join(tokens)
    quick = {(pair.one, pair.other) for pair in near_pairs(texts)}
    assert joined(quick, list(texts)) == joined(slowly(texts), list(texts))


@settings(deadline=None)
@given(st.text("abc ", max_size=30), st.text("abc ", max_size=30))
def test_likeness_is_twice_the_common_subsequence_over_both_lengths(one: str, other: str) -> None:
    table = [[0] * (len(other) + 1) for _ in range(len(one) + 1)]
    for i, left in enumerate(one):
        for j, right in enumerate(other):
            table[i + 1][j + 1] = table[i][j] + 1 if left == right else max(table[i][j + 1], table[i + 1][j])
    expected = 2 * table[-1][-1] / (len(one) + len(other)) if one and other else float(one == other)
    assert alike(one, other) == pytest.approx(expected)
