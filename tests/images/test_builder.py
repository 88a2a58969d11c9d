"""The command lines for buildah and docker, the secrets of a build, and its clean context."""

import subprocess
from pathlib import Path

import pytest

from images import machine
from images.builder import Buildah, BuildError, Docker, Request, choose_builder, copy_context, run
from images.rootfs import BUILD_EPOCH
from images.store import Store


@pytest.fixture
def request_(tmp_path: Path) -> Request:
    """A build with an argument and a secret."""
    return Request(tmp_path, {"BASE": "debian:13"}, {"env": tmp_path / "env"})


def test_both_builders_get_the_same_arguments_and_secrets(request_: Request, tmp_path: Path) -> None:
    for command in (
        Buildah(tmp_path).build_command(request_, tmp_path / "id"),
        Docker().build_command(request_, tmp_path / "id"),
    ):
        text = " ".join(command)
        assert "--build-arg BASE=debian:13" in text
        assert f"--secret id=env,src={tmp_path}/env" in text
        assert text.endswith(f"--file {tmp_path}/Containerfile {tmp_path}")


def test_docker_refuses_a_build_that_needs_a_mounted_bundle(tmp_path: Path) -> None:
    with pytest.raises(BuildError, match="use buildah"):
        Docker().build_command(Request(tmp_path, {}, {}, Path("/ca")), tmp_path / "id")


def test_no_builder_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(BuildError, match="install buildah"):
        choose_builder(None, Store(tmp_path))
    with pytest.raises(BuildError, match="unknown builder 'kaniko'"):
        choose_builder("kaniko", Store(tmp_path))


def test_failed_build_shows_the_end_of_the_log() -> None:
    with pytest.raises(BuildError, match="ended with status 3:\nlast words"):
        run(["sh", "-c", "echo last words; exit 3"])


def test_machine_settings_survive_the_shell(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    address = "https://user:pa$s'word@index.test/simple?a=1&b=2"
    monkeypatch.setenv("PIP_INDEX_URL", address)
    settings = tmp_path / "env"
    settings.write_text(machine.build_environment(with_bundle=True))
    shown = subprocess.run(
        ["sh", "-c", f'. {settings}; printf "%s\\n" "$PIP_INDEX_URL" "$SSL_CERT_FILE"'],
        capture_output=True,
        text=True,
        check=True,
    )
    assert shown.stdout.splitlines() == [address, "/run/secrets/ca"]


def test_settings_come_from_pips_own_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("PIP_INDEX_URL", raising=False)
    monkeypatch.setenv("PIP_CONFIG_FILE", str(tmp_path / "pip.conf"))
    (tmp_path / "pip.conf").write_text("[global]\nindex-url = https://index.test/simple\n")
    assert "export PIP_INDEX_URL=https://index.test/simple\n" in machine.build_environment(with_bundle=False)


def test_without_a_bundle_nothing_points_at_one() -> None:
    assert "/run/secrets/ca" not in machine.build_environment(with_bundle=False)


def test_context_has_normal_modes_and_times(tmp_path: Path) -> None:
    source = tmp_path / "script"
    source.write_text("x")
    source.chmod(0o700)
    plain = tmp_path / "plain"
    plain.write_text("x")
    plain.chmod(0o600)
    copy_context({"bin/script": source, "plain": plain}, tmp_path / "context")
    modes = {
        path.name: path.stat().st_mode & 0o777 for path in (tmp_path / "context").rglob("*") if path.is_file()
    }
    assert modes == {"script": 0o755, "plain": 0o644}
    assert {path.stat().st_mtime for path in (tmp_path / "context").rglob("*")} == {BUILD_EPOCH}
