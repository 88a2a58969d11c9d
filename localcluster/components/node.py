"""containerd, kubelet, kube-proxy and the enforcement of NetworkPolicy."""

from __future__ import annotations

import json
import shlex
import shutil
import subprocess

from localcluster import layout
from localcluster.components.model import Component, Settings, http_ok, listens
from localcluster.kubeapi import KubeApi
from localcluster.objects import node_is_ready

# The default path: the supervisor's mount namespace has a folder of its own there, so it is short whatever
# the checkout is called (a Unix socket's path ends at 107 bytes), and `ctr` finds it without an option.
CONTAINERD_SOCKET = "/run/containerd/containerd.sock"

#: What the kubelet writes to /proc/sys unless it is there (pkg/kubelet/cm, setupKernelTunables).
KERNEL_SETTINGS = {
    "vm/overcommit_memory": 1,
    "vm/panic_on_oom": 0,
    "kernel/panic": 10,
    "kernel/panic_on_oops": 1,
    "kernel/keys/root_maxkeys": 1000000,
    "kernel/keys/root_maxbytes": 25000000,
}


def containerd(settings: Settings) -> Component:
    conf = settings.layout.conf
    certs = conf / "certs.d"
    (certs / "_default").mkdir(parents=True, exist_ok=True)
    # `_default` serves every name: tasks keep the image names that they were published with.
    (certs / "_default" / "hosts.toml").write_text(
        f'[host."http://{layout.REGISTRY_ADDRESS}"]\n  capabilities = ["pull", "resolve"]\n'
    )
    path = conf / "containerd.toml"
    path.write_text(_containerd_configuration(settings))
    _write_cni(settings)
    return Component("containerd", ["containerd", "--config", str(path)], listens(CONTAINERD_SOCKET))


def _containerd_configuration(settings: Settings) -> str:
    conf = settings.layout.conf
    # restrict_oom_score_adj: root in a container often lacks CAP_SYS_RESOURCE; without it no sandbox starts,
    # and the message ("can't get final child's PID from pipe: EOF") does not say why.
    # The `opt` plugin would make /opt/containerd on the machine.
    return f"""version = 2
disabled_plugins = ["io.containerd.internal.v1.opt"]
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = {json.dumps(layout.PAUSE_IMAGE)}
  restrict_oom_score_adj = true
  netns_mounts_under_state_dir = true
  max_concurrent_downloads = 8
  [plugins."io.containerd.grpc.v1.cri".registry]
    config_path = {json.dumps(str(conf / "certs.d"))}
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = {json.dumps(str(settings.cni_plugins))}
    conf_dir = {json.dumps(str(conf / "cni"))}
"""


def _write_cni(settings: Settings) -> None:
    ipam = {
        "type": "host-local",
        # The one node is given the first /24 of the pods' range.
        "ranges": [[{"subnet": f"{layout.POD_CIDR.split('/')[0]}/24"}]],
        "routes": [{"dst": "0.0.0.0/0"}],
    }
    bridge = {"type": "bridge", "bridge": "cni0", "isGateway": True, "hairpinMode": True, "ipam": ipam}
    portmap = {"type": "portmap", "capabilities": {"portMappings": True}}
    network = {"cniVersion": "1.0.0", "name": "bridge", "plugins": [bridge, portmap]}
    folder = settings.layout.conf / "cni"
    folder.mkdir(exist_ok=True)
    (folder / "10-bridge.conflist").write_text(json.dumps(network, indent=2))


def kubelet(settings: Settings) -> Component:
    where = settings.layout
    path = where.conf / "kubelet.yaml"
    path.write_text(json.dumps(_kubelet_configuration(settings), indent=2))
    return Component(
        "kubelet",
        [
            *_with_own_kernel_settings(settings),
            settings.binary("kubernetes", "kubelet"),
            "--config", str(path),
            "--kubeconfig", str(where.conf / "kubelet.kubeconfig"),
            "--hostname-override", layout.NODE_NAME,
            "--node-ip", layout.NODE_IP,
            # Lowering it needs CAP_SYS_RESOURCE.
            "--oom-score-adj", "0",
        ],
        http_ok(10248, "/healthz"),
        ("kube-apiserver", "containerd"),
    )  # fmt: skip


def _with_own_kernel_settings(settings: Settings) -> list[str]:
    """A command prefix under which the kubelet finds the kernel settings that it wants.

    They belong to the machine and no namespace has its own, so a kubelet that set them would leave the
    machine changed (kernel.panic among them). It sets only what differs: it is shown files that do not.
    """
    folder = settings.layout.conf / "sysctl"
    folder.mkdir(exist_ok=True)
    script = ["mount --make-private /proc"]
    for name, value in KERNEL_SETTINGS.items():
        shown = folder / name.replace("/", ".")
        shown.write_text(f"{value}\n")
        script.append(f"mount --bind {shlex.quote(str(shown))} /proc/sys/{name}")
    script.append('exec "$@"')
    # Volumes that the kubelet mounts must reach containerd: all but /proc stays shared with it.
    return ["unshare", "--mount", "--propagation", "unchanged", "sh", "-ec", "; ".join(script), "sh"]


def _kubelet_configuration(settings: Settings) -> dict[str, object]:
    pki = settings.layout.pki
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "authentication": {
            "x509": {"clientCAFile": str(pki / "ca.crt")},
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
        },
        "authorization": {"mode": "Webhook"},
        "tlsCertFile": str(pki / "kubelet.crt"),
        "tlsPrivateKeyFile": str(pki / "kubelet.key"),
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": settings.layout.cgroup,
        "failCgroupV1": False,
        "containerRuntimeEndpoint": f"unix://{CONTAINERD_SOCKET}",
        "failSwapOn": False,
        "volumePluginDir": str(settings.layout.volume_plugins),
        "maxPods": 110,
        "clusterDNS": [layout.DNS_SERVICE_IP],
        "clusterDomain": layout.CLUSTER_DOMAIN,
        # The machine's own resolvers cannot be reached from in here.
        "resolvConf": "",
        "serializeImagePulls": False,
        "kubeAPIQPS": 300,
        "kubeAPIBurst": 500,
        "eventRecordQPS": 300,
        "eventBurst": 500,
        # The disk is the machine's, shared with everything else: a full one is not for us to tidy, and 100
        # switches the removal of images off.
        "imageGCHighThresholdPercent": 100,
        "imageGCLowThresholdPercent": 99,
        "evictionHard": {
            "memory.available": "100Mi",
            "nodefs.available": "1%",
            "imagefs.available": "1%",
            "nodefs.inodesFree": "1%",
        },
    }


def node(settings: Settings) -> Component:
    """The condition that pods can be placed."""
    api = KubeApi(settings.layout.pki)
    return Component("node", ready=lambda: node_is_ready(api), after=("kubelet", "kube-controller-manager"))


def kube_proxy(settings: Settings) -> Component:
    conf = settings.layout.conf
    configuration = {
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "clientConnection": {"kubeconfig": str(conf / "kube-proxy.kubeconfig")},
        "mode": "nftables",
        "clusterCIDR": layout.POD_CIDR,
        "hostnameOverride": layout.NODE_NAME,
        # The limits are the machine's, not the namespace's: zero leaves them alone.
        "conntrack": {"maxPerCore": 0, "min": 0, "tcpEstablishedTimeout": "0s", "tcpCloseWaitTimeout": "0s"},
    }
    path = conf / "kube-proxy.yaml"
    path.write_text(json.dumps(configuration, indent=2))
    return Component(
        "kube-proxy",
        [settings.binary("kubernetes", "kube-proxy"), "--config", str(path)],
        http_ok(10256, "/livez"),
        ("kube-apiserver",),
    )


def kube_router(settings: Settings) -> Component:
    """NetworkPolicy. Started before its Node exists it ends at once, and a denied pod reaches everything."""
    healthy = http_ok(20244, "/healthz")
    return Component(
        "kube-router",
        [
            settings.binary("kube-router"),
            "--kubeconfig", str(settings.layout.kubeconfig),
            "--hostname-override", layout.NODE_NAME,
            "--run-router=false",
            "--run-service-proxy=false",
            "--run-firewall=true",
            "--service-cluster-ip-range", layout.SERVICE_CIDR,
        ],
        lambda: healthy() and _firewall_is_in_place(),
        ("node", "kube-proxy"),
    )  # fmt: skip


def _firewall_is_in_place() -> bool:
    """kube-router says that it is healthy before it has written a rule; the rules are what counts."""
    iptables = shutil.which("iptables") or "/usr/sbin/iptables"
    listed = subprocess.run(
        [iptables, "--wait", "--list-rules", "FORWARD"], capture_output=True, text=True, check=False
    )
    return listed.returncode == 0 and "KUBE-ROUTER-FORWARD" in listed.stdout
