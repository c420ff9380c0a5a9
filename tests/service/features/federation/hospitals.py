"""Services of several hospitals, each over a collection of its own, listening on this machine."""

import json
import ssl
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np
from flask import Flask
from flask.testing import FlaskClient
from werkzeug.serving import make_server

from cbir import settings
from cbir.store import Collection
from cbir.store.snapshot.stored_snapshot import transform_origin
from cbir.store.writing.writer import Entry
from cbir.system.access_rights import Scope
from cbir.system.setting_types import RemoteSite
from service.app import create_app
from service.features.federation.site_agreement import TransformFile
from tests.service.conftest import stored_tokens
from tests.service.features.federation.exchange.collections import create

VECTOR = [1.0, 2.0, 0.0, 3.0, 1.0, 2.0]


class Hospital:
    """A service over one collection."""

    def __init__(self, folder: Path, **changed: Any) -> None:
        self.folder, self.state = folder, Path(tempfile.mkdtemp(dir=folder.parent))
        values = {"federation_minimum": 1, "federation_labels": ("label",), "require_tokens": True}
        self.settings = settings.load(**{"state_folder": self.state, **values, **changed})
        self.app: Flask = create_app(folder, self.settings)

    def token(self, *scopes: Scope, **limits: Any) -> str:
        """Return a new token."""
        _, text = stored_tokens(self.state).create(scopes or (Scope.federate,), **limits)
        return text

    def client(self, *scopes: Scope, **limits: Any) -> FlaskClient:
        """Return a client that sends a new token."""
        client = self.app.test_client()
        client.environ_base["HTTP_AUTHORIZATION"] = f"Bearer {self.token(*scopes, **limits)}"
        return client

    @property
    def audit_lines(self) -> list[dict[str, Any]]:
        """The lines of the audit log."""
        lines = (self.state / "audit.jsonl").read_text().splitlines()
        return [json.loads(line) for line in lines]

    @contextmanager
    def serve(self, tls: ssl.SSLContext | None = None) -> Iterator[str]:
        """Yield the address of the service while it listens."""
        server = make_server("127.0.0.1", 0, self.app, threaded=True, ssl_context=tls)
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield f"{'https' if tls else 'http'}://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()
            server.server_close()


def share_transform(source: Path, targets: Sequence[Path]) -> None:
    """Let collections take over the transform of one of them."""
    with Collection(source) as collection:
        file = TransformFile.of_collection(collection)
    for folder in targets:
        with Collection(folder) as collection, collection.writer() as writer:
            here = file.origin == transform_origin(collection.secret)
            writer.adopt_statistics(file.statistics_for(collection), here)


def make_collections(folder: Path, images: Sequence[Entry], names: Sequence[str]) -> dict[str, Path]:
    """Return collections of consecutive parts of images, and `pooled` of all, which share a transform."""
    pooled = create(folder / "pooled", images)
    bounds = np.linspace(0, len(images), len(names) + 1).astype(int)
    parts = {
        name: create(folder / name, images[start:stop])
        for name, start, stop in zip(names, bounds[:-1], bounds[1:], strict=True)
    }
    share_transform(pooled, [pooled, *parts.values()])
    return {"pooled": pooled, **parts}


def site_of(hospital: Hospital, address: str, folder: Path, **more: Any) -> RemoteSite:
    """Return the setting by which another service asks this one."""
    token_file = folder / f"token-{hospital.folder.name}"
    token_file.write_text(hospital.token() + "\n")
    return RemoteSite(url=address, token_file=token_file, **{"seconds": 20, **more})


@contextmanager
def asking(
    asker: Path, others: Mapping[str, Path], changed: Mapping[str, Any] | None = None, **asking_settings: Any
) -> Iterator[tuple[Hospital, dict[str, Hospital]]]:
    """Yield the service of `asker`, which knows those of `others`, and these, with settings `changed`."""
    with ExitStack() as stack:
        hospitals = {name: Hospital(folder, **(changed or {})) for name, folder in others.items()}
        sites = {
            name: site_of(hospital, stack.enter_context(hospital.serve()), asker.parent)
            for name, hospital in hospitals.items()
        }
        yield Hospital(asker, sites=sites, **asking_settings), hospitals
