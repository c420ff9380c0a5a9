"""Options of `cbir receive`."""

from pathlib import Path
from typing import Annotated

import typer

Aet = Annotated[str, typer.Option(help="Own AE title; associations that call another are rejected.")]
Port = Annotated[
    int, typer.Option(min=0, max=65535, help="Port to listen on; 0: any free one. It is printed.")
]
Host = Annotated[str, typer.Option(help="Address to listen on; any but loopback needs --peer or --allow.")]
Peer = Annotated[
    list[str] | None,
    typer.Option(
        help="AE title that may send, and its address or network. Repeatable. [default: any]",
        metavar="AETITLE@NETWORK",
    ),
]
Allow = Annotated[list[str] | None, typer.Option(help="AE title that may send from any address. Repeatable.")]
Associations = Annotated[int, typer.Option(min=1, max=256, help="Associations at a time; more are rejected.")]
PerAddress = Annotated[
    int | None,
    typer.Option(min=1, max=256, help="Associations of one address. [default: 3/4 of all, at least 2]"),
]
Commitment = Annotated[
    list[str] | None,
    typer.Option(
        help="Where a peer listens for storage commitment reports. Repeatable. [default: on its association]",
        metavar="AETITLE=HOST:PORT",
    ),
]
TlsCertificate = Annotated[
    Path | None, typer.Option(help="PEM file with the certificate chain for DICOM TLS.")
]
TlsKey = Annotated[Path | None, typer.Option(help="PEM file with its private key.")]
TlsCa = Annotated[
    Path | None,
    typer.Option(help="PEM file of the authorities that sign the certificates that peers must show."),
]
MostMegabytes = Annotated[int, typer.Option(min=1, help="Largest instance, in MiB.")]
