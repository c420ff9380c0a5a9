"""A pool of processes on all nodes of a Ray cluster, used as `cbir.ingest.process_pool.ProcessPool`."""

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from heapq import heapify, heappush
from itertools import count
from typing import Any, Generic, TypeVar, cast

from cbir.errors import ClusterFailed
from cbir.ingest.process_pool import WorkerDied, WorkerTimedOut
from indexer.ray_cluster.node_worker import (
    Describe,
    HasDescribeTask,
    NodeWorker,
    Outcome,
    Versions,
    model_files,
)

START_SECONDS = 120.0  # for a node to start its processes, or for any node to come back
CHECK_SECONDS = 2.0  # between two looks at the nodes
MOST_LOST = 3  # nodes that a task may be on when they are lost; then it is the reason
MOST_THREADS = 512  # tasks under way in the cluster
QUEUED = 1  # tasks that wait on a node for its next free process

Task = TypeVar("Task")
Result = TypeVar("Result")


@dataclass(eq=False)
class _Node:
    """A node with a worker. lost: its worker or the node has ended."""

    node_id: str
    name: str
    jobs: int
    worker: Any
    lost: bool = False


class RayPool(Generic[Task, Result]):
    """Calls `function(task, task=settings)` on the nodes of the cluster that Ray is connected to. Thread-safe.

    A task whose process dies raises WorkerDied, as in a ProcessPool. What a lost node worked on is done by another,
    before what has not begun; nodes that join are used too.

    Parameters
    ----------
    function : callable
        Describes a task; importable.
    settings : dataclass
        Settings of the run.
    jobs : int or None
        Greatest number of processes on a node; None: all its CPUs.
    show_nodes : callable
        Called with the numbers of nodes and processes when they change; from several threads.

    Attributes
    ----------
    threads : ThreadPoolExecutor
        Runs what waits for tasks.
    """

    def __init__(
        self,
        function: Describe,
        settings: HasDescribeTask,
        jobs: int | None,
        show_nodes: Callable[[int, int], None] = lambda nodes, processes: None,
    ) -> None:
        self._function, self._settings, self._most_jobs, self._show = function, settings, jobs, show_nodes
        self._model = model_files(settings)
        self._nodes: dict[str, _Node] = {}
        self._turns, self._turn_change = count(), threading.Condition()
        self._waiting: list[int] = []  # heap of the turns of tasks that wait for a node
        self._free: list[_Node] = []  # one entry a task that the node can take
        self._lock = threading.Lock()
        self._changed, self._closed = threading.Event(), threading.Event()
        self.threads = ThreadPoolExecutor(MOST_THREADS, thread_name_prefix="ray-task")
        self._unusable: dict[str, ClusterFailed] = {}  # nodes that cannot describe images at all
        self._busy: ClusterFailed | None = None
        self._watcher: threading.Thread | None = None
        self._add_nodes()
        if self._unusable or not self._nodes:
            self.close()
            no_node = ClusterFailed("the Ray cluster has no node with a CPU; start one with `ray start`")
            raise next(iter(self._unusable.values()), self._busy or no_node)
        self._watcher = threading.Thread(target=self._watch_nodes, name="ray-nodes", daemon=True)
        self._watcher.start()

    def __enter__(self) -> "RayPool[Task, Result]":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def jobs(self) -> int:
        """Number of processes on all nodes; at least 1, also while all nodes are lost."""
        with self._lock:
            return max(1, sum(node.jobs for node in self._nodes.values()))

    def submit(self, task: Task) -> "Future[Result]":
        """Queue a task: first in, first started."""
        return self.threads.submit(self.run, task)

    def run(self, task: Task) -> Result:
        """Run a task and wait for its result.

        Raises
        ------
        WorkerDied, WorkerTimedOut
            If its process died or took too long, or every worker that it was on was lost.
        ClusterFailed
            If no node is left, or one cannot describe images at all.
        """
        turn = next(self._turns)
        for _ in range(MOST_LOST):
            node = self._take_node(turn)
            outcome = self._call(node, task)
            if outcome is None:
                continue
            if outcome.timed_out:
                raise WorkerTimedOut
            if outcome.died:
                raise WorkerDied
            if outcome.problem is not None:
                raise ClusterFailed(f"node {node.name}: {outcome.problem}")
            return cast(Result, outcome.value)
        raise WorkerDied

    def close(self) -> None:
        """Drop tasks that have not begun, and end the processes of all nodes."""
        import ray

        self._closed.set()
        self._changed.set()
        with self._turn_change:
            self._turn_change.notify_all()
        if self._watcher is not None:
            self._watcher.join()  # so that no worker starts after this
        with self._lock:
            nodes = list(self._nodes.values())
            self._nodes.clear()
        for node in nodes:
            node.lost = True
            with suppress(ray.exceptions.RayError):
                ray.kill(node.worker)  # its processes end with it
        self.threads.shutdown(cancel_futures=True)

    def _call(self, node: _Node, task: Task) -> Outcome | None:
        """Run a task on a node; return None if the node was lost."""
        import ray

        try:
            outcome = ray.get(node.worker.run.remote(task))
        except ray.exceptions.RayError:
            node.lost = True
            self._changed.set()
            return None
        self._add_free(node, 1)
        return cast(Outcome, outcome)

    def _add_free(self, node: _Node, tasks: int) -> None:
        with self._turn_change:
            self._free += [node] * tasks
            self._turn_change.notify_all()

    def _take_node(self, turn: int) -> _Node:
        """Return a node that can take a task, once no earlier one waits."""
        until = time.monotonic() + START_SECONDS
        with self._turn_change:
            heappush(self._waiting, turn)
            try:
                while not self._closed.is_set():
                    self._free = [node for node in self._free if not node.lost]
                    if self._free and self._waiting[0] == turn:
                        return self._free.pop(0)
                    self._turn_change.wait(CHECK_SECONDS)
                    if self._nodes:
                        until = time.monotonic() + START_SECONDS
                    if time.monotonic() > until:
                        raise ClusterFailed("all nodes of the Ray cluster are lost; run the command again")
            finally:
                self._waiting.remove(turn)
                heapify(self._waiting)
                self._turn_change.notify_all()
        raise WorkerDied  # nobody waits for this task any more

    def _watch_nodes(self) -> None:
        while not self._closed.is_set():
            self._changed.wait(CHECK_SECONDS)
            self._changed.clear()
            if not self._closed.is_set():
                self._add_nodes()

    def _add_nodes(self) -> None:
        """Start a worker on every living node that has none, and forget those that are lost."""
        import ray

        with self._lock:
            earlier = dict(self._nodes)
        alive = {
            node["NodeID"]: node
            for node in ray.nodes()  # type: ignore[no-untyped-call]
            if node["Alive"] and node["Resources"].get("CPU", 0) >= 1 and node["NodeID"] not in self._unusable
        }
        remaining = {node_id: node for node_id, node in earlier.items() if node_id in alive and not node.lost}
        for node_id, node in earlier.items():
            node.lost = node.lost or node_id not in remaining
        started = [self._start_worker(node) for node_id, node in alive.items() if node_id not in remaining]
        until = time.monotonic() + START_SECONDS  # for all of them
        new = [node for node in (self._join(*pair, until) for pair in started) if node is not None]
        if len(remaining) == len(earlier) and not new:
            return
        with self._lock:
            self._nodes = remaining | {node.node_id: node for node in new}
            numbers = len(self._nodes), sum(node.jobs for node in self._nodes.values())
        for node in new:
            self._add_free(node, node.jobs + QUEUED)
        self._show(*numbers)

    def _start_worker(self, node: dict[str, Any]) -> tuple[_Node, Any]:
        """Begin to start a worker on a node; return it, and its versions to come."""
        import ray
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        cpus = int(node["Resources"]["CPU"])
        jobs = min(cpus, self._most_jobs or cpus)
        affinity = NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)
        actor = ray.remote(NodeWorker).options(
            num_cpus=jobs, max_concurrency=jobs + QUEUED, scheduling_strategy=affinity
        )
        worker: Any = actor.remote()
        name = node.get("NodeManagerHostname") or node["NodeManagerAddress"]
        return _Node(node["NodeID"], name, jobs, worker), worker.versions.remote()

    def _join(self, node: _Node, versions: Any, until: float) -> _Node | None:
        """Return the node once its processes can describe images; None if it cannot be used."""
        import ray

        try:
            theirs, ours = self._wait(versions, until), Versions.of_process()
            if theirs != ours:
                raise ClusterFailed(
                    f"node {node.name} has cbir {theirs.cbir} on Python {theirs.python}, this machine cbir "
                    f"{ours.cbir} on Python {ours.python}; install the same everywhere"
                )
            start = node.worker.start.remote(self._function, self._settings, self._model, node.jobs)
            outcome = self._wait(start, until)
            if outcome.problem is not None:
                raise ClusterFailed(f"node {node.name}: {outcome.problem}")
        except ClusterFailed as error:
            self._unusable[node.node_id] = error
        except ray.exceptions.GetTimeoutError:
            self._busy = ClusterFailed(f"node {node.name} has no {node.jobs} free CPUs; see `ray status`")
        except ray.exceptions.RayTaskError:
            text = f"node {node.name} cannot import cbir; install it there as on this machine"
            self._unusable[node.node_id] = ClusterFailed(text)
        except ray.exceptions.RayError:  # lost while it started
            pass
        else:
            return node
        with suppress(ray.exceptions.RayError):
            ray.kill(node.worker)
        return None

    def _wait(self, reference: Any, until: float) -> Any:
        """Return what a node answers; raises GetTimeoutError at `until`, or when the pool is closed."""
        import ray

        while True:
            try:
                return ray.get(reference, timeout=CHECK_SECONDS)
            except ray.exceptions.GetTimeoutError:
                if self._closed.is_set() or time.monotonic() > until:
                    raise
