"""A Ray cluster of two nodes on loopback, in a process of its own: prints its address and folder, then obeys lines.

"kill": kills the second node as a power cut would. End of input: ends the cluster.
"""

import os
import sys

os.environ |= {
    "AWS_EC2_METADATA_DISABLED": "true",  # workers have no keys of an object store
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_health_check_period_ms": "1000",
}

from ray.cluster_utils import Cluster

SECONDS = 180  # for nodes to start, on a busy machine
NODE = {
    "wait": False,
    "num_cpus": 1,
    "object_store_memory": 80 * 2**20,
    "node_ip_address": "127.0.0.1",
    "include_dashboard": False,
}


def main() -> None:
    """Run until the end of input."""
    cluster = Cluster(initialize_head=True, head_node_args=NODE)
    try:
        second = cluster.add_node(**NODE)
        cluster.wait_for_nodes(timeout=SECONDS)
        print(cluster.address, cluster.head_node.get_session_dir_path(), flush=True)
        for line in sys.stdin:
            if line == "kill\n":
                cluster.remove_node(second, allow_graceful=False)
            elif line == "add\n":
                second = cluster.add_node(**NODE)
                cluster.wait_for_nodes(timeout=SECONDS)
            print("done", flush=True)
    finally:
        cluster.shutdown()


if __name__ == "__main__":
    main()
