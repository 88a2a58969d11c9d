"""Finding the API server, and saying what is missing."""

from pathlib import Path

import pytest
import yaml

from assay.adapters.kube_config import KubeConfigError, load_kube_config
from assay.handlers.settings import OperatorSettings
from tests.operator_kit import builders as make


def kubeconfig(folder: Path, **user: object) -> Path:
    path = folder / "config"
    document = {
        "current-context": "here",
        "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u", "namespace": "mine"}}],
        "clusters": [{"name": "c", "cluster": {"server": "https://api.example:6443/"}}],
        "users": [{"name": "u", "user": user}],
    }
    path.write_text(yaml.safe_dump(document))
    return path


def test_the_current_context_is_used(tmp_path: Path) -> None:
    config = load_kube_config({"KUBECONFIG": str(kubeconfig(tmp_path, token="secret"))})
    assert (config.server, config.bearer(), config.namespace) == (
        "https://api.example:6443",
        "secret",
        "mine",
    )


def test_a_token_in_a_file_is_read_each_time(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("one\n")
    config = load_kube_config({"KUBECONFIG": str(kubeconfig(tmp_path, tokenFile="token"))})
    assert config.bearer() == "one"
    (tmp_path / "token").write_text("two\n")
    assert config.bearer() == "two"


def test_nothing_to_go_by_is_said(tmp_path: Path) -> None:
    with pytest.raises(KubeConfigError, match="set KUBECONFIG"):
        load_kube_config({"KUBECONFIG": str(tmp_path / "absent")})


def test_a_plugin_is_refused_by_name(tmp_path: Path) -> None:
    path = kubeconfig(tmp_path, exec={"command": "aws"})
    with pytest.raises(KubeConfigError, match="plugin"):
        load_kube_config({"KUBECONFIG": str(path)})


def test_an_incomplete_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "config"
    path.write_text("{}")
    with pytest.raises(KubeConfigError, match="no complete current context"):
        load_kube_config({"KUBECONFIG": str(path)})


def test_the_namespaces_of_runs_are_a_list() -> None:
    settings = OperatorSettings.from_env(
        {
            "ASSAY_RUN_NAMESPACES": "evals, more ,",
            "POD_NAMESPACE": "assay-system",
            "POD_UID": "x",
            "ASSAY_RUNNER_IMAGE": make.IMAGE,
            "ASSAY_SANDBOXD_IMAGE": make.IMAGE,
        }
    )
    assert settings.run_namespaces == ("evals", "more")
