"""Classifiers of torchvision, cut before their pooling."""

import difflib
from pathlib import Path
from typing import Any, cast

import torch
import torchvision.models
from torch import Tensor, nn

from cbir.descriptors.encoders import HubAddress
from cbir.descriptors.encoders.hub.hub_network import HubNetwork, make_input
from cbir.descriptors.networks.backbones import modernise_names
from cbir.descriptors.networks.model_files import load_weights_into, read_state_dict
from cbir.errors import InvalidInput
from cbir.system.files import file_sha256

# Modules whose input or output is the last map, the first that a network has and that gives a map; then a vector
_CUTS = (("avgpool", "input"), ("features", "output"), ("layers", "output"), ("conv5", "output"),
         ("classifier", "input"), ("heads", "input"))  # fmt: skip


class CutNetwork(nn.Module):
    """A network up to the input or output of one of its modules."""

    def __init__(self, network: nn.Module, module: str, side: str) -> None:
        super().__init__()
        self.network = network
        self._kept: Any = None
        target = network.get_submodule(module)
        if side == "input":
            target.register_forward_pre_hook(lambda _, arguments: self._keep(arguments[0]))
        else:
            target.register_forward_hook(lambda _, __, output: self._keep(output))

    def forward(self, images: Tensor) -> Tensor:
        self.network(images)
        kept, self._kept = self._kept, None
        return cast(Tensor, kept)

    def _keep(self, values: Tensor) -> None:
        self._kept = values


def load_torchvision(address: HubAddress, source: Path | None) -> HubNetwork:
    """Load a classifier with its weights, from torch hub's folder or fetched to it.

    `source` is a folder with the file instead. Raises InvalidInput if there is no such network, or the weights cannot
    be fetched or are of another network.
    """
    names = torchvision.models.list_models(module=torchvision.models)
    if address.name not in names:
        close = difflib.get_close_matches(address.name, names, 3) or names[:3]
        raise InvalidInput(f"torchvision has no network {address.name!r}; it has {', '.join(close)}, ...")
    weights = torchvision.models.get_model_weights(address.name).DEFAULT
    path = _fetch_file(address, weights.url) if source is None else _local_file(source, weights.url)
    network = torchvision.models.get_model(address.name, weights=None, **_options(address.name)).eval()
    load_weights_into(network, modernise_names(read_state_dict(path)), path.name)
    preset = weights.transforms()
    return HubNetwork(
        network=_cut(network, preset.crop_size[0]),
        input=make_input(
            (preset.crop_size[0],) * 2, "crop", preset.interpolation.value, preset.mean, preset.std
        ),
        title=f"{address.name} of torchvision",
        source=f"{address}, {weights}, {path.name}" if source is None else f"{address}, {path.name}",
        weights=path,
        description=str(weights.meta.get("_docs", "")).strip()[:4000] if source is None else "",
    )


def _options(name: str) -> dict[str, Any]:
    """Return what a network's published weights need beside its defaults."""
    return {"transform_input": True, "init_weights": False} if name in ("googlenet", "inception_v3") else {}


def _cut(network: nn.Module, side: int) -> nn.Module:
    modules = dict(network.named_children())
    for module, end in _CUTS:
        if module in modules:
            cut = CutNetwork(network, module, end).eval()
            with torch.no_grad():
                values = cut(torch.zeros(1, 3, side, side))
            if values.ndim == 4 or module == "heads":
                return cut
    raise InvalidInput("the network has no map or vector before its classifier that is known")


def _local_file(folder: Path, url: str) -> Path:
    """Return the weights in a folder: those of the hub, or the only file."""
    published = folder / Path(url).name
    if published.is_file():
        return published
    files = [path for path in sorted(folder.glob("*")) if path.suffix in (".pth", ".pt", ".safetensors")]
    if len(files) != 1:
        count = f"{len(files)} files" if files else "no file"
        raise InvalidInput(
            f"{folder} has {count} with weights (.pth, .pt, .safetensors); put {published.name} there"
        )
    return files[0]


def _fetch_file(address: HubAddress, url: str) -> Path:
    """Return published weights in torch hub's folder, fetched if missing."""
    path = Path(torch.hub.get_dir()) / "checkpoints" / Path(url).name
    begin = path.stem.rpartition("-")[2]  # of its SHA-256
    if not path.is_file():
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            torch.hub.download_url_to_file(url, str(path), begin)
        except (OSError, RuntimeError) as error:  # RuntimeError: another hash
            raise InvalidInput(
                f"{address} cannot be fetched: {error}; put {url} into {path.parent}, or into a folder for --from"
            ) from error
    if not file_sha256(path).startswith(begin):
        raise InvalidInput(
            f"{path} is damaged: its SHA-256 does not begin with {begin}; remove it, then try again"
        )
    return path
