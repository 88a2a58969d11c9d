"""Which components a profile has. The order is that of a start where nothing has to wait."""

from __future__ import annotations

from localcluster.components import control_plane, node, services, simulated
from localcluster.components.model import Component, Settings
from localcluster.layout import Profile

#: What a cluster can do without, for tests of what happens then.
REMOVABLE = ("coredns", "kube-router", "versitygw")


def components(settings: Settings) -> list[Component]:
    """The components of the settings' profile, those left out excepted; writes their configuration files."""
    plan = [
        control_plane.etcd(settings),
        control_plane.apiserver(settings),
        control_plane.controller_manager(settings),
    ]
    if settings.profile is Profile.NODE:
        plan += [
            control_plane.scheduler(settings),
            services.registry(settings),
            services.pause_image(settings),
            node.containerd(settings),
            node.kubelet(settings),
            node.kube_proxy(settings),
            services.services(settings),
            services.s3(settings),
            services.bucket(settings),
            services.dns(settings),
            node.node(settings),
            node.kube_router(settings),
        ]
    if settings.profile is Profile.SIMULATED:
        plan += [
            control_plane.scheduler(settings),
            simulated.kwok(settings),
            simulated.nodes(settings),
        ]
    gone = set(settings.without)
    return [component for component in plan if not gone & {component.name, *component.after}]
