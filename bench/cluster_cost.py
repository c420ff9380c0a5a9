"""Compute machines, memory, disks and cost of large collections from the bytes of an image that were measured.

It measures nothing: bytes of an image in PostgreSQL are those of bench/cluster_sizing.py, bytes in an index those of
bench/results/scale.md, and everything grows in proportion. Every layout has two services, a worker, and a primary and
a standby of PostgreSQL. Prices are assumptions, in dollars a month: give those of your own machines.

    python -m bench.cluster_cost [--memory-price 6] [--disk-price 80] [--backup-price 23] [--machine-gib 256]
"""

import argparse
import math
from dataclasses import dataclass

GIB, TB = 2**30, 10**12
SIZES = (10_000_000, 100_000_000, 1_000_000_000)
ROW_BYTES = 8008  # of an image in PostgreSQL, with its indexes: bench/cluster_sizing.py
FILL = 0.75  # of a machine's memory that an index may take
SERVICES, DATABASES = 2, 2
PROCESS_GIB = 8  # of a service besides its index, as in deploy/kubernetes
WORKER_GIB = 16
DATABASE_GIB = (16, 256)  # least and most memory of PostgreSQL without an index
CACHED = 0.1  # of the tables in memory of PostgreSQL
SPACE = 2  # disk of PostgreSQL, in sizes of its tables: its log, and rows that wait for a vacuum
EDITIONS = 2  # of an index while it is built anew
DESCRIBED = 45  # images a second and core: bench/results/cluster.md


@dataclass(frozen=True)
class IndexBytes:
    """Bytes of an image, and where they are. measured: number of images in bench/results/scale.md."""

    kind: str
    memory: int
    disk: int
    place: str  # "services", "database" or "machines" of its own
    measured: int


INDEXES = (
    IndexBytes("ivf", 220, 530, "services", 10_000_000),
    IndexBytes("hnsw", 680, 670, "services", 10_000_000),
    IndexBytes("pgvector", 1600, 1600, "database", 1_000_000),  # table and graph, in memory too
    IndexBytes("milvus", 780, 2900, "machines", 10_000_000),  # the disk soon after a fill, with its log
)


@dataclass(frozen=True)
class Prices:
    """Dollars a month: of a GiB of memory with its share of cores, of a TB of SSD, of a TB of backup."""

    memory: float = 6
    disk: float = 80
    backup: float = 23


@dataclass(frozen=True)
class Layout:
    """Machines of a collection. Memory is GiB of one machine, disk TB of all."""

    service_gib: float
    database_gib: float
    index_machines: int
    index_gib: float
    disk_tb: float
    backup_tb: float

    @property
    def machines(self) -> int:
        """Number of all machines."""
        return SERVICES + DATABASES + 1 + self.index_machines

    @property
    def memory_gib(self) -> float:
        """Memory of all machines."""
        return (
            SERVICES * self.service_gib
            + DATABASES * self.database_gib
            + WORKER_GIB
            + self.index_machines * self.index_gib
        )

    def cost(self, prices: Prices) -> float:
        """Return dollars a month."""
        return self.memory_gib * prices.memory + self.disk_tb * prices.disk + self.backup_tb * prices.backup


def layout(images: int, index: IndexBytes, machine_gib: float, row_bytes: float = ROW_BYTES) -> Layout | None:
    """Return the smallest layout, None if a service or the database would need more than one machine."""
    graph_gib = images * index.memory / GIB / FILL
    tables = images * row_bytes
    least, most = DATABASE_GIB
    database = min(max(least, CACHED * tables / GIB), most) + graph_gib * (index.place == "database")
    service = PROCESS_GIB + graph_gib * (index.place == "services")
    if max(database, service) > machine_gib:
        return None
    copies = {"services": SERVICES, "database": DATABASES, "machines": 1}[index.place]
    number = math.ceil(graph_gib / machine_gib) if index.place == "machines" else 0
    return Layout(
        service_gib=service,
        database_gib=database,
        index_machines=number,
        index_gib=graph_gib / number if number else 0,
        disk_tb=(DATABASES * SPACE * tables + EDITIONS * copies * images * index.disk) / TB,
        backup_tb=SPACE * tables / TB,  # a base backup, and the log since
    )


def table(machine_gib: float, prices: Prices, row_bytes: float = ROW_BYTES) -> str:
    """Return the layouts as a Markdown table."""
    lines = [
        "| images | index | memory of a service, GiB | of a database, GiB | of Milvus | machines | SSD, TB "
        "| backup, TB | dollars a month |",
        "| ---: | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for images in SIZES:
        for index in INDEXES:
            sized = layout(images, index, machine_gib, row_bytes)
            cells = ["more than a machine has", *[""] * 6] if sized is None else _cells(sized, prices)
            lines.append(f"| {images:,} | `{index.kind}` | {' | '.join(cells)} |")
    return "\n".join(lines)


def _cells(sized: Layout, prices: Prices) -> list[str]:
    milvus = f"{sized.index_machines} x {sized.index_gib:.0f}" if sized.index_machines else ""
    return [
        f"{sized.service_gib:.0f}",
        f"{sized.database_gib:.0f}",
        milvus,
        str(sized.machines),
        f"{sized.disk_tb:.1f}",
        f"{sized.backup_tb:.1f}",
        f"{round(sized.cost(prices), -2):,.0f}",
    ]


def hours_to_describe(images: int) -> float:
    """Return hours of one core that describing takes with the default profile."""
    return images / DESCRIBED / 3600


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for name in ("memory", "disk", "backup"):
        parser.add_argument(f"--{name}-price", type=float, default=getattr(Prices, name))
    parser.add_argument("--machine-gib", type=float, default=256, help="memory of the largest machine")
    parser.add_argument("--row-bytes", type=float, default=ROW_BYTES, help="of an image in PostgreSQL")
    options = parser.parse_args()
    prices = Prices(options.memory_price, options.disk_price, options.backup_price)
    print(table(options.machine_gib, prices, options.row_bytes))
    print("\nHours of a core to describe them:", end=" ")
    print(", ".join(f"{images:,}: {hours_to_describe(images):,.0f}" for images in SIZES))


if __name__ == "__main__":
    main()
