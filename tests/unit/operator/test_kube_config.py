"""Finding the API server, and saying what is missing."""

import json
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


def test_a_plugin_gives_the_token(tmp_path: Path) -> None:
    answer = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "kind": "ExecCredential",
        "status": {"token": "from-plugin"},
    }
    plugin = tmp_path / "plugin"
    plugin.write_text(f"#!/bin/sh\necho '{json.dumps(answer)}'\n")
    plugin.chmod(0o755)
    run = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": str(plugin),
        "interactiveMode": "Never",
    }
    config = load_kube_config({"KUBECONFIG": str(kubeconfig(tmp_path, exec=run))})
    assert (config.server, config.bearer(), config.namespace) == (
        "https://api.example:6443",
        "from-plugin",
        "mine",
    )


def test_several_files_are_merged_as_kubectl_does(tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    first = kubeconfig(tmp_path / "one", token="secret")
    second = tmp_path / "second"
    second.write_text(
        yaml.safe_dump(
            {
                "contexts": [{"name": "there", "context": {"cluster": "d", "user": "u"}}],
                "clusters": [{"name": "d", "cluster": {"server": "https://other.example"}}],
            }
        )
    )
    files = {"KUBECONFIG": f"{first}:{second}"}
    assert load_kube_config(files).server == "https://api.example:6443"
    there = load_kube_config(files, context="there")
    assert (there.server, there.bearer(), there.namespace) == ("https://other.example", "secret", "default")


def test_a_context_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(KubeConfigError, match="no context elsewhere"):
        load_kube_config({"KUBECONFIG": str(kubeconfig(tmp_path, token="secret"))}, context="elsewhere")


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
