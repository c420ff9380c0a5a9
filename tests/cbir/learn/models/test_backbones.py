import pytest

torch = pytest.importorskip("torch", reason="the extra `deep` is not installed")

from safetensors.torch import save_file  # noqa: E402

from cbir.descriptors.networks.backbones import (  # noqa: E402  # noqa: E402
    Average,
    GeneralisedMean,
    build_backbone,
    modernise_names,
    names,
)
from cbir.errors import InvalidInput, NotFound  # noqa: E402


@pytest.mark.parametrize(
    ("name", "channels"), [*((name, 1) for name in names()), ("small", 3), ("toprank", 3), ("resnet18", 3)]
)
def test_embeddings_have_length_one_and_gradients(name, channels):
    torch.manual_seed(0)
    network = build_backbone(name, channels=channels, dimensions=16).train()
    images = torch.rand(3, channels, 40, 32)
    found = network(images)
    assert found.shape == (3, 16)
    torch.testing.assert_close(found.norm(dim=1), torch.ones(3))
    (found @ torch.rand(16, 3)).sum().backward()
    lost = [
        key
        for key, value in network.named_parameters()
        if value.grad is None or not value.grad.isfinite().all()
    ]
    assert lost == []


@pytest.mark.parametrize("name", names())
def test_features_without_projection_and_any_size(name):
    network = build_backbone(name, dimensions=None, pooling="average").eval()
    with torch.no_grad():
        assert network(torch.rand(1, 1, 32, 32)).shape == (1, network.features)
        assert network(torch.zeros(1, 1, 50, 33)).isfinite().all()


def test_the_small_one_is_small():
    assert sum(value.numel() for value in build_backbone("small").parameters()) < 1_200_000


def test_what_there_is_not():
    with pytest.raises(InvalidInput, match="small, fcn10"):
        build_backbone("alexnet")
    with pytest.raises(InvalidInput, match="gem, average"):
        build_backbone("small", pooling="max")
    with pytest.raises(InvalidInput, match="channels"):
        build_backbone("small", channels=2)
    with pytest.raises(InvalidInput, match="dimensions"):
        build_backbone("small", dimensions=0)
    with pytest.raises(InvalidInput, match="no published weights"):
        build_backbone("small", weights="imagenet")


def test_generalised_mean_is_its_formula():
    features = torch.rand(2, 3, 4, 5)
    pool = GeneralisedMean()
    torch.testing.assert_close(pool(features), features.pow(3).mean(dim=(2, 3)).pow(1 / 3))
    pool.power.data.fill_(1.0)
    torch.testing.assert_close(pool(features), Average()(features))
    pool.power.data.fill_(60.0)
    torch.testing.assert_close(pool(features), features.amax(dim=(2, 3)), rtol=0.06, atol=0.0)
    nothing = torch.zeros(1, 3, 4, 5, requires_grad=True)
    pool(nothing).sum().backward()
    assert nothing.grad.isfinite().all()


@pytest.mark.parametrize(
    ("name", "suffix"), [("small", "safetensors"), ("resnet18", "pth"), ("densenet169", "safetensors")]
)
def test_weights_from_a_file(name, suffix, tmp_path):
    source = build_backbone(name, dimensions=None)
    inner = source.network.network if name != "small" else source.network
    state = {f"module.{key}": value.contiguous() for key, value in inner.state_dict().items()}
    state["module.fc.weight"] = torch.zeros(3, 3)  # a classifier, which is not wanted
    path = tmp_path / f"weights.{suffix}"
    save_file(state, path) if suffix == "safetensors" else torch.save({"state_dict": state}, path)
    made = build_backbone(name, dimensions=None, weights=path).eval()
    images = torch.rand(2, 1, 32, 32)
    with torch.no_grad():
        torch.testing.assert_close(made(images), source.eval()(images))


def test_densenets_of_old_have_other_names():
    old = {"features.denseblock1.denselayer1.norm.1.weight": torch.zeros(1)}
    assert list(modernise_names(old)) == ["features.denseblock1.denselayer1.norm1.weight"]


class Code:
    def __reduce__(self):
        return print, ("run",)


def test_weights_that_are_none(tmp_path, capsys):
    with pytest.raises(NotFound, match="nowhere"):
        build_backbone("small", weights=tmp_path / "nowhere.pth")
    other = tmp_path / "other.pth"
    torch.save(build_backbone("fcn10").network.state_dict(), other)
    with pytest.raises(InvalidInput, match="another network"):
        build_backbone("small", weights=other)
    coloured = tmp_path / "coloured.pth"
    torch.save(build_backbone("small", channels=3).network.state_dict(), coloured)
    with pytest.raises(InvalidInput, match="shape"):
        build_backbone("small", weights=coloured)
    for name, content in (("text.pth", b"no"), ("text.safetensors", b"no")):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(InvalidInput, match=r"is not|has no weights"):
            build_backbone("small", weights=tmp_path / name)
    for held in ([1, 2], {"a": 1}):
        torch.save(held, other)
        with pytest.raises(InvalidInput, match="state dict"):
            build_backbone("small", weights=other)
    torch.save({"state_dict": Code()}, other)
    with pytest.raises(InvalidInput, match="has no weights"):
        build_backbone("small", weights=other)
    assert "run" not in capsys.readouterr().out
