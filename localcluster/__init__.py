"""A real Kubernetes on one Linux machine, without Docker and without a registry on the network.

Everything runs in network, mount and process namespaces of its own and ends with their first process.
`python -m localcluster --help` lists the commands; docs/local-cluster.md explains what is where and why.

Other parts use::

    cluster = localcluster.connect()        # raises ClusterError when it is not up and healthy
    cluster.facts.s3.endpoint               # what cluster.json says
    cluster.command(["kubectl", "get", "pods"])   # an argv that runs inside the namespaces
"""

from localcluster.cluster import Cluster, connect
from localcluster.errors import ClusterError
from localcluster.facts import Facts

__all__ = ["Cluster", "ClusterError", "Facts", "connect"]
