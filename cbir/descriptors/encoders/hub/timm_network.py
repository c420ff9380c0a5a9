"""Networks of timm, without their classifiers."""

import difflib
from typing import cast

import timm
import timm.data
import torch
from torch import Tensor, nn

from cbir.descriptors.encoders import HubAddress
from cbir.descriptors.encoders.hub.hub_network import Fit, HubNetwork, NetworkFiles, make_input
from cbir.descriptors.networks.model_files import read_named_weights
from cbir.errors import InvalidInput

_FITS: dict[str, Fit] = {"center": "crop", "squash": "squash", "border": "letterbox"}  # by crop mode
_NO_SOURCE = dict.fromkeys(
    ("source", "file", "url", "hf_hub_id", "hf_hub_filename")
)  # of weights, for timm to read


class TimmFeatures(nn.Module):
    """Last map of a network, or what its classifier takes where it has no map of channels first."""

    def __init__(self, network: nn.Module, with_map: bool) -> None:
        super().__init__()
        self.network, self._with_map = network, with_map

    def forward(self, images: Tensor) -> Tensor:
        features = self.network.forward_features(images)  # type: ignore[operator]
        if self._with_map:
            return cast(Tensor, features)
        return cast(Tensor, self.network.forward_head(features, pre_logits=True))  # type: ignore[operator]


def find_repository(address: HubAddress) -> str:
    """Return the repository on Hugging Face that has the weights of a network of timm.

    Raises InvalidInput if timm has no such network or no weights for it.
    """
    architecture = address.name.partition(".")[0]
    if not timm.is_model(architecture):
        names = timm.list_models()
        close = difflib.get_close_matches(architecture, names, 3) or names[:3]
        raise InvalidInput(f"timm has no network {architecture!r}; it has {', '.join(close)}, ...")
    try:
        config = timm.get_pretrained_cfg(address.name)
    except RuntimeError:  # no such tag
        config = None
    if config is None or not config.hf_hub_id:
        tags = ", ".join(timm.list_models(f"{architecture}.*", pretrained=True)[:4])
        raise InvalidInput(f"timm has no weights {address.name!r} on Hugging Face; it has {tags or 'none'}")
    return str(config.hf_hub_id)


def load_timm(address: HubAddress, snapshot: NetworkFiles) -> HubNetwork:
    """Load a network of timm with its weights; raise InvalidInput if its folder is of another one."""
    architecture = str(snapshot.read_config().get("architecture"))
    if address.hub == "timm" and architecture != address.name.partition(".")[0]:
        raise InvalidInput(f"{snapshot.folder} has the network {architecture}, not {address.name}")
    state = read_named_weights(snapshot.weights)
    if not state:
        raise InvalidInput(f"{snapshot.weights} has no weights")
    # With its classifier: only then does timm check that all weights are there. It takes the weights that were read
    # here, since some versions of timm run what a pickle asks for.
    network = timm.create_model(
        f"local-dir:{snapshot.folder}",
        pretrained=True,
        pretrained_cfg_overlay={**_NO_SOURCE, "state_dict": state},
    )
    network = network.float().eval()
    config = timm.data.resolve_model_data_config(network)
    channels, height, width = config["input_size"]
    with torch.no_grad():
        features = network.forward_features(torch.zeros(1, channels, height, width))
    with_map = features.ndim == 4 and features.shape[1] == network.num_features
    return HubNetwork(
        network=TimmFeatures(network, with_map).eval(),
        input=make_input(
            (height, width),
            _FITS.get(config["crop_mode"], "crop"),
            config["interpolation"],
            config["mean"][:channels],
            config["std"][:channels],
        ),
        title=f"{address.name} of timm" if address.hub == "timm" else address.name,
        source=snapshot.source,
        weights=snapshot.weights,
        licence=snapshot.licence,
    )
