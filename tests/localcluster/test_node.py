"""A cluster with a node: what people who run pods on it rely on."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from localcluster import layout
from localcluster.layout import PAUSE_IMAGE
from localcluster.state import State

from .conftest import Machine, eventually

pytestmark = pytest.mark.e2e

#: A small program for a pod's network namespace: connects, prints "open" or "closed".
CONNECT = """
import socket, sys
try:
    socket.create_connection((sys.argv[1], int(sys.argv[2])), timeout=1).close()
    print("open")
except OSError:
    print("closed")
"""
LISTEN = (
    "import socket, sys, time; s = socket.create_server(('', 8000)); print('up', flush=True); time.sleep(600)"
)

#: Asks a name server over UDP for an A record; prints the address.
RESOLVE = """
import socket, sys
question = b"".join(bytes([len(part)]) + part.encode() for part in sys.argv[2].split(".")) + bytes(5)
question = question[:-4] + bytes([0, 1, 0, 1])
with socket.socket(type=socket.SOCK_DGRAM) as client:
    client.settimeout(10)
    client.sendto(bytes([0, 7, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0]) + question, (sys.argv[1], 53))
    print(socket.inet_ntoa(client.recv(512)[-4:]))
"""
PUT_AND_GET = """
import boto3, localcluster
s3 = localcluster.connect().facts.s3
for endpoint in (s3.endpoint, s3.service_endpoint):
    client = boto3.client("s3", endpoint_url=endpoint, region_name=s3.region,
                          aws_access_key_id=s3.access_key, aws_secret_access_key=s3.secret_key)
    client.put_object(Bucket=s3.bucket, Key="a", Body=endpoint.encode())
    print(client.get_object(Bucket=s3.bucket, Key="a")["Body"].read().decode())
"""


def start_pod(machine: Machine, name: str, *options: str) -> None:
    machine.inside("kubectl", "run", name, f"--image={PAUSE_IMAGE}", "--restart=Never", *options)


def await_ready(machine: Machine, *names: str) -> None:
    machine.inside(
        "kubectl", "wait", "--for=condition=Ready", *(f"pod/{name}" for name in names), "--timeout=60s"
    )


def delete_pods(machine: Machine, *names: str) -> None:
    machine.inside("kubectl", "delete", "pod", *names, "--grace-period=0", "--force", "--ignore-not-found")


def processes_of(machine: Machine, pod: str) -> list[str]:
    """Numbers of a pod's processes inside the cluster: the sandbox's, then the container's."""
    uid = machine.inside("kubectl", "get", "pod", pod, "-o", "jsonpath={.metadata.uid}")
    listed = machine.inside("sh", "-c", "grep -l pod$1 /proc/[0-9]*/cgroup", "sh", uid)
    return sorted((Path(path).parent.name for path in listed.split()), key=int)


def in_network_of(machine: Machine, pod: str) -> list[str]:
    """A command prefix that enters the network namespace of a pod."""
    return ["nsenter", "--net", "--target", processes_of(machine, pod)[0], "--"]


def test_up_again_changes_nothing(machine: Machine) -> None:
    before = machine.cluster().facts
    machine.succeed("up")
    assert machine.cluster().facts == before


def test_shell_passes_status_arguments_folder_and_input(machine: Machine) -> None:
    assert machine.run("shell", "--", "sh", "-c", "exit 7").returncode == 7
    assert machine.run("shell", "--", "sh", "-c", "kill -TERM $$").returncode == 143
    assert machine.inside("printf", "%s|", "a b", "$HOME", "--help") == "a b|$HOME|--help|"
    assert Path(machine.inside("pwd").strip()) == Path.cwd()


def test_shell_in_a_shell_is_the_same_shell(machine: Machine) -> None:
    nested = machine.inside(
        sys.executable, "-m", "localcluster", "shell", "--", "kubectl", "get", "--raw", "/readyz"
    )
    assert nested == "ok"
    assert "leave it first" in machine.fail("shell", "--", sys.executable, "-m", "localcluster", "down")


def test_shell_hands_a_signal_on_to_its_command(machine: Machine, tmp_path: Path) -> None:
    ready, ended = tmp_path / "ready", tmp_path / "ended"
    script = f"trap 'touch {ended}; exit 5' TERM; touch {ready}; while :; do sleep 0.1; done"
    process = subprocess.Popen(
        [sys.executable, "-m", "localcluster", "shell", "--", "sh", "-c", script],
        env={"PATH": "/usr/bin:/bin:/usr/sbin:/sbin", "ASSAY_CLUSTER_DIR": str(machine.folder)},
    )
    eventually(ready.exists)
    process.terminate()
    assert process.wait(timeout=30) == 5
    assert ended.exists()


def test_any_image_name_is_served_by_the_registry(machine: Machine) -> None:
    start_pod(machine, "elsewhere", "--image=registry.example/pause:1", "--image-pull-policy=Always")
    await_ready(machine, "elsewhere")
    delete_pods(machine, "elsewhere")


def test_volumes_that_the_kubelet_mounts_reach_the_containers(machine: Machine) -> None:
    start_pod(machine, "holder")
    await_ready(machine, "holder")
    token = "/var/run/secrets/kubernetes.io/serviceaccount/token"
    container = processes_of(machine, "holder")[-1]
    assert len(machine.inside("cat", f"/proc/{container}/root{token}").split(".")) == 3
    delete_pods(machine, "holder")


def test_s3_is_reached_by_address_and_by_the_service_name(machine: Machine) -> None:
    facts = machine.cluster().facts.s3
    assert facts
    assert machine.inside(sys.executable, "-c", PUT_AND_GET).split() == [
        facts.endpoint,
        facts.service_endpoint,
    ]


def test_names_of_services_resolve_for_pods(machine: Machine) -> None:
    start_pod(machine, "asks")
    await_ready(machine, "asks")
    name = f"{layout.S3_SERVICE}.{layout.S3_NAMESPACE}.svc.{layout.CLUSTER_DOMAIN}"
    enter = in_network_of(machine, "asks")
    answer = machine.inside(*enter, sys.executable, "-c", RESOLVE, layout.DNS_SERVICE_IP, name)
    address = machine.inside(
        "kubectl",
        "get",
        "service",
        "-n",
        layout.S3_NAMESPACE,
        layout.S3_SERVICE,
        "-o",
        "jsonpath={.spec.clusterIP}",
    )
    assert answer.strip() == address
    delete_pods(machine, "asks")


def test_nothing_has_a_route_out(machine: Machine) -> None:
    assert machine.inside(sys.executable, "-c", CONNECT, "1.1.1.1", "443") == "closed\n"


def test_a_denied_pod_reaches_nothing_while_its_neighbour_does(machine: Machine) -> None:
    policy = {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {"name": "deny", "namespace": "default"},
        "spec": {"podSelector": {"matchLabels": {"access": "denied"}}, "policyTypes": ["Egress"]},
    }
    machine.inside("sh", "-c", 'printf %s "$1" | kubectl apply -f -', "sh", json.dumps(policy))
    start_pod(machine, "server")
    start_pod(machine, "denied", "--labels=access=denied")
    start_pod(machine, "allowed", "--labels=access=allowed")
    await_ready(machine, "server", "denied", "allowed")
    server = machine.inside("kubectl", "get", "pod", "server", "-o", "jsonpath={.status.podIP}")
    listener = subprocess.Popen(
        machine.cluster().command([*in_network_of(machine, "server"), sys.executable, "-c", LISTEN]),
        stdout=subprocess.PIPE,
    )
    network = machine.cluster().facts.network
    assert listener.stdout
    assert network
    assert listener.stdout.readline() == b"up\n"
    targets = {
        "pod": (server, "8000"),
        "service": (layout.API_SERVICE_IP, "443"),
        "node": (network.node_ip, "9000"),
        "names": (network.node_ip, "53"),
    }

    def reached(pod: str) -> dict[str, str]:
        enter = in_network_of(machine, pod)
        answers = {
            name: machine.inside(*enter, sys.executable, "-c", CONNECT, *target)
            for name, target in targets.items()
        }
        return {name: answer.strip() for name, answer in answers.items()}

    try:
        assert reached("allowed") == dict.fromkeys(targets, "open")
        # A policy takes effect some time after the container starts.
        eventually(lambda: reached("denied") == dict.fromkeys(targets, "closed"), within_s=20)
    finally:
        listener.kill()
        listener.wait()
        listener.stdout.close()
        machine.inside("kubectl", "delete", "networkpolicy", "deny")
        delete_pods(machine, "server", "denied", "allowed")


def test_a_component_that_dies_is_named_until_a_restart(machine: Machine) -> None:
    state = State.read(machine.layout())
    assert state
    victim = state.components["kube-scheduler"].pid
    dies_meanwhile = machine.run("shell", "--", "sh", "-c", f"kill -9 {victim}; sleep 0.5")
    assert dies_meanwhile.returncode == 1
    assert "kube-scheduler died (SIGKILL)" in dies_meanwhile.stderr
    for command in (["status"], ["shell", "--", "true"], ["up"]):
        said = machine.fail(*command)
        assert "kube-scheduler died (SIGKILL)" in said
        assert "up --restart" in said
    machine.succeed("up", "--restart")
    machine.succeed("status")


def test_up_after_a_crash_of_everything_starts_anew(machine: Machine) -> None:
    """What a machine that lost power leaves: files, and containers in containerd's store, but no process."""
    start_pod(machine, "victim")
    await_ready(machine, "victim")
    assert machine.cluster().supervisor.kill(30)
    assert "has ended" in machine.fail("shell", "--", "true")
    machine.succeed("up")
    start_pod(machine, "next")
    await_ready(machine, "next")
    delete_pods(machine, "next")


def test_images_outlive_down_and_nothing_else_does(machine: Machine) -> None:
    machine.inside("crane", "copy", "127.0.0.1:5000/pause:1", "127.0.0.1:5000/mine/kept:1")
    machine.inside("kubectl", "create", "namespace", "forgotten")
    machine.succeed("down")
    assert sorted(path.name for path in machine.layout().root.iterdir()) == ["containerd", "registry"]
    machine.succeed("up")
    assert machine.inside("crane", "ls", "127.0.0.1:5000/mine/kept") == "1\n"
    assert "NotFound" in machine.fail("shell", "--", "kubectl", "get", "namespace", "forgotten")
