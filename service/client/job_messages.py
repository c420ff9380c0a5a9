"""Messages about indexing jobs."""

from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from cbir.search import example_values as example


class JobRequest(BaseModel):
    """Index a folder of the server."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"folder": "/archive/2024"}]})

    folder: str = Field(
        description="Absolute path of a folder on the server, below one of the setting `index_roots`.",
        examples=["/archive/2024"],
    )
    collection: str | None = Field(
        default=None, description="Name of the collection; null for the default one.", examples=["knees"]
    )
    labels: str | None = Field(
        default=None,
        description="Absolute path of a csv file of labels, below one of the setting `index_roots`; null for none.",
        examples=["/archive/labels.csv"],
    )
    duplicates: bool = Field(
        default=False, description="Also add pictures that the collection already has.", examples=[False]
    )
    restore: bool = Field(
        default=False, description="Also add pictures that were deleted earlier.", examples=[False]
    )
    processes: int | None = Field(
        default=None,
        description="Number of processes, from 1 to the number of cores; null for half of them.",
        examples=[2],
    )


class RefusedFile(BaseModel):
    """A file without a usable image."""

    path: str = Field(
        description="Path relative to the job's folder; empty unless the caller has the scope admin.",
        examples=["scans/report.txt"],
    )
    reason: str = Field(description="Reason of the refusal.", examples=["the file is not an image"])


class JobInfo(BaseModel):
    """State and progress of a job."""

    job: str = Field(description="Name of the job.", examples=[example.JOB])
    kind: str = Field(description="Kind of job: index, map or audit.", examples=["index"])
    collection: str = Field(description="Name of the collection that it changes.", examples=["knees"])
    state: str = Field(
        description='"waiting", "running", "done", "cancelled" or "failed" (see `error`).', examples=["done"]
    )
    waits_for: str | None = Field(
        default=None,
        description="What a waiting job waits for: another job of the collection, or a worker that has what it "
        "needs; null if the next free worker takes it.",
        examples=[None],
    )
    attempts: int = Field(
        default=0,
        description="Number of workers that have begun it; the job fails when three have been lost with it.",
        examples=[1],
    )
    worker: str | None = Field(
        default=None,
        description="Worker that runs it, or ran it last: host and process; null unless the caller has the scope "
        "admin.",
        examples=["cbir-1:4711:7f3a"],
    )
    created: str = Field(description="When the job was requested, ISO 8601.", examples=[example.TIME])
    ended: str | None = Field(
        description="When it ended, ISO 8601; null before.", examples=["2026-03-02T09:42:10+00:00"]
    )
    done: int = Field(
        description="Number of files that it has looked at; of a map, steps of its layout; of an audit, "
        "thousandths.",
        examples=[1000],
    )
    total: int | None = Field(
        description="Number of all its files; null while they are counted.", examples=[1000]
    )
    refused: int = Field(description="Number of files without a usable image.", examples=[1])
    refused_files: list[RefusedFile] = Field(
        description="The refused files, at most the first 100; they are forgotten a week after the end."
    )
    summary: dict[str, Any] | None = Field(
        description="Summary of `cbir index`, once the job has ended; null before.",
        examples=[{"added": 999, "refused": 1}],
    )
    error: str | None = Field(description="Reason of a failure; null for other states.", examples=[None])


class JobList(BaseModel):
    """Jobs of the service."""

    items: list[JobInfo] = Field(
        description="Jobs of all services that share the state database, newest first, at most 500."
    )
