"""Image towers of open_clip, for instance BiomedCLIP's."""

from functools import partial
from typing import Any

from open_clip.model import _build_vision_tower  # a whole model would fetch its text tower
from open_clip.transform import PreprocessCfg

from cbir.descriptors.encoders.hub.hub_network import Fit, HubNetwork, make_input
from cbir.descriptors.encoders.hub.network_files import NetworkFiles
from cbir.descriptors.encoders.hub.open_clip_text import load_open_clip_text
from cbir.descriptors.encoders.hub_address import HubAddress
from cbir.descriptors.networks.backbones.backbone_weights import load_weights_into, read_state_dict
from cbir.errors import InvalidInput

TOWER = "visual."  # prefix of its weights
_FITS: dict[str, Fit] = {"shortest": "crop", "squash": "squash", "longest": "letterbox"}  # by resize mode


def load_open_clip(address: HubAddress, snapshot: NetworkFiles, offline: bool) -> HubNetwork:
    """Load an image tower up to the vector that is compared with texts.

    Parameters
    ----------
    address : HubAddress
        Network.
    snapshot : NetworkFiles
        Its files.
    offline : bool
        Whether the text tower may not be fetched from other repositories.
    """
    config = snapshot.read_config()
    model, vision = _object(config, "model_cfg", snapshot), {}
    vision = {
        **_object(model, "vision_cfg", snapshot),
        "timm_model_pretrained": False,
        "output_tokens": False,
    }
    tower = _build_vision_tower(int(model["embed_dim"]), vision, bool(model.get("quick_gelu")))
    state = read_state_dict(snapshot.weights)
    own = {name.removeprefix(TOWER): value for name, value in state.items() if name.startswith(TOWER)}
    load_weights_into(tower, own, snapshot.weights.name)
    size = vision.get("image_size", 224)
    given = {name: value for name, value in config.get("preprocess_cfg", {}).items() if value is not None}
    preprocessing = PreprocessCfg(**given)
    return HubNetwork(
        network=tower.float().eval(),
        input=make_input(
            (size, size) if isinstance(size, int) else (size[0], size[1]),
            _FITS[preprocessing.resize_mode],
            preprocessing.interpolation,
            preprocessing.mean,
            preprocessing.std,
        ),
        title=address.name,
        source=snapshot.source,
        weights=snapshot.weights,
        licence=snapshot.licence,
        load_text=partial(load_open_clip_text, model, state, snapshot, offline)
        if model.get("text_cfg")
        else None,
    )


def _object(fields: dict[str, Any], name: str, snapshot: NetworkFiles) -> dict[str, Any]:
    value = fields.get(name)
    if not isinstance(value, dict):
        raise InvalidInput(f"{snapshot.folder / snapshot.config} has no {name}")
    return value
