"""Encoders from hubs: fetched or read from a folder, exported to ONNX, and stored with a card."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from cbir.descriptors.encoders import HubAddress
from cbir.descriptors.encoders.add_encoder import check_name, check_values, store_new, validated
from cbir.descriptors.encoders.encoder_files import EncoderCard, EncoderInput, EncoderOutput
from cbir.descriptors.encoders.encoder_network import EncoderNetwork
from cbir.descriptors.encoders.hub.export_network import (
    OUTPUT,
    export_network,
    export_text,
    run_torch,
    trial_inputs,
)
from cbir.descriptors.encoders.hub.hub_network import (
    CONFIG,
    Fit,
    HubNetwork,
    NetworkFiles,
    fetch_network_files,
    first_line,
    open_network_files,
)
from cbir.descriptors.networks.model_card import open_onnx_session
from cbir.errors import CbirError, InvalidInput
from cbir.system.files import file_sha256

MOST_VALUES = 5120  # of a map, unless the user gives a grid: projections of more take long to fit


@dataclass(frozen=True)
class HubOptions:
    """Choices of the user.

    source: folder with the files, instead of the hub. name: of the encoder, by default from its address. fit: how an
    image gets the shape of the input, by default as the hub has it. grid: windows per side of a map; 1 averages all.
    """

    source: Path | None = None
    name: str | None = None
    fit: Fit | None = None
    grid: int | None = None


def fetch_encoder(
    address: HubAddress, folder: Path, options: HubOptions, report: Callable[[str], None]
) -> tuple[EncoderCard, Path]:
    """Fetch a network from its hub, export it to ONNX, compare both, and store it as an encoder.

    Parameters
    ----------
    address : HubAddress
        Hub and name.
    folder : Path
        Folder of encoders.
    options : HubOptions
        Choices of the user.
    report : callable
        Takes a line about each step.

    Returns
    -------
    tuple of EncoderCard and Path
        The card, and the stored network.

    Raises
    ------
    InvalidInput
        If the name is taken, or the network cannot be fetched, loaded or exported; nothing is stored then.
    """
    name = options.name or address.encoder_name
    check_name(name, folder)
    report(f"fetching {address}" if options.source is None else f"reading {options.source}")
    with _explained(f"{address} cannot be loaded"):
        network = _load(address, options.source)
    report(f"{network.weights.name}: SHA-256 {file_sha256(network.weights)}; exporting the network to ONNX")
    shape = network.input.model_copy(update={"fit": options.fit or network.input.fit})
    with _explained(f"{address} cannot be an encoder"):
        output = _output(network, shape, options.grid)
        content = export_network(network.network, shape)
    card = _card(name, network, shape, output)
    text = None
    if network.load_text is not None:
        report("exporting its text tower")
        try:
            with _explained("it cannot be loaded"):
                text_card, text = export_text(network.load_text(), card.dimensions)
            card = card.model_copy(update={"text": text_card})
        except InvalidInput as error:  # images can be described all the same
            report(f"without its text tower, which search by text needs: {error}")
    try:
        check_values(EncoderNetwork(open_onnx_session(content), card), card)
    except InvalidInput as error:
        raise InvalidInput(f"{address} cannot be an encoder: {error}") from error
    report("its values are equal to those of torch")
    return card, store_new(card, content, folder, text)


@contextmanager
def _explained(subject: str) -> Iterator[None]:
    """Raise what the libraries raise as InvalidInput about `subject`; leave out our own errors and missing extras."""
    try:
        yield
    except (CbirError, ModuleNotFoundError):
        raise
    except Exception as error:  # the libraries raise what they like about damaged files
        raise InvalidInput(f"{subject}: {first_line(error)}") from error


def _load(address: HubAddress, source: Path | None) -> HubNetwork:
    if address.hub == "torchvision":
        from cbir.descriptors.encoders.hub.torchvision_network import load_torchvision

        return load_torchvision(address, source)
    snapshot = _open(address, source)
    if snapshot.config != CONFIG:
        from cbir.descriptors.encoders.hub.open_clip_network import load_open_clip

        return load_open_clip(address, snapshot, offline=source is not None)
    if "architecture" in snapshot.read_config():
        from cbir.descriptors.encoders.hub.timm_network import load_timm

        return load_timm(address, snapshot)
    if address.hub == "timm":
        raise InvalidInput(f"{snapshot.folder / CONFIG} is not of timm: it names no architecture")
    from cbir.descriptors.encoders.hub.transformers_network import load_transformers

    return load_transformers(address, snapshot)


def _open(address: HubAddress, source: Path | None) -> NetworkFiles:
    if source is not None:
        return open_network_files(address, source, f"{address}, from {source.resolve().name}")
    if address.hub == "hf":
        return fetch_network_files(address, address.name)
    from cbir.descriptors.encoders.hub.timm_network import find_repository

    return fetch_network_files(address, find_repository(address))


def _output(network: HubNetwork, shape: EncoderInput, grid: int | None) -> EncoderOutput:
    """Return pooling and dimensions for the network's vector or map."""
    values = run_torch(network.network, trial_inputs(shape)[0])
    if values.ndim == 2:
        if grid is not None:
            raise InvalidInput("the network gives a vector, no map: --grid does not apply")
        return EncoderOutput(tensor=OUTPUT, pooling="none", dimensions=values.shape[1])
    _, channels, rows, columns = values.shape
    if grid is None:
        fits = [
            side for side in (3, 2) if side * side * channels <= MOST_VALUES and side < min(rows, columns)
        ]
        grid = fits[0] if fits else 1
    if grid == 1:
        return EncoderOutput(tensor=OUTPUT, pooling="global", dimensions=channels)
    return EncoderOutput(tensor=OUTPUT, pooling="grid", grid=grid, dimensions=grid * grid * channels)


def _card(name: str, network: HubNetwork, shape: EncoderInput, output: EncoderOutput) -> EncoderCard:
    fields = {field: getattr(network, field) for field in ("title", "description", "source", "licence")}
    sha256 = file_sha256(network.weights)
    return validated(
        EncoderCard, fields | {"name": name, "sha256": sha256, "input": shape, "outputs": (output,)}
    )
