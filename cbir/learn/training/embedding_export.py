"""Export of a trained embedding: one ONNX network, compared with its parts, and an HTML report."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import torch
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from cbir.descriptors.encoders import Encoder
from cbir.descriptors.encoders.encoder_network import normalise_pixels, pooling_matrix, run_session
from cbir.descriptors.networks.embedder import EmbeddingHead
from cbir.descriptors.networks.model_card import (
    EMBEDDING_CARD,
    EMBEDDING_ONNX,
    EMBEDDING_OUTPUT,
    EMBEDDING_WEIGHTS,
    open_onnx_session,
)
from cbir.descriptors.networks.model_files import save_model
from cbir.errors import InvalidInput
from cbir.evaluation.report.charts import COLOURS, scatter_chart
from cbir.evaluation.report.report_parts import (
    ReportPictures,
    map_positions,
    render_facts,
    render_page,
    render_table,
    training_charts,
)
from cbir.learn.training.embedding_training import EmbeddingData
from cbir.learn.training.labelled_examples import ClassExample
from cbir.learn.training.picture_loading import TrainingImages
from cbir.system.files import atomic_text, write_bytes

TOLERANCE = 1e-4  # of vectors of length 1
LARGEST = 2**31 - 2**24  # bytes of an encoder's network; an ONNX file has at most 2 GiB
QUERIES = 10  # test images in the report, each of another class
NEAREST = 6
MAPPED = 1000  # images on the map
MOST_CLASSES = len(COLOURS)  # classes with a colour on the map


def save_encoder_embedding(
    head: EmbeddingHead, encoder: Encoder, folder: Path, facts: dict[str, Any]
) -> None:
    """Write the head's weights, encoder and head as ONNX, and the card.

    Parameters
    ----------
    head : EmbeddingHead
        Trained on the values of `encoder`.
    encoder : Encoder
        Any encoder.
    folder : Path
        Existing folder to write to.
    facts : dict
        Further fields of the card.

    Raises
    ------
    InvalidInput
        If the encoder is missing or too large, or the written network gives other vectors.
    """
    content = _append_head(encoder, head.eval())
    _compare(content, encoder, head)
    write_bytes(folder / EMBEDDING_ONNX, content)
    card = {
        "model": {"encoder": encoder.name, "head": head.options, "dimensions": head.size},
        "encoder": encoder.card.model_dump(mode="json"),
        "input": encoder.image_input.model_dump(mode="json"),
        "onnx_sha256": hashlib.sha256(content).hexdigest(),
    }
    save_model(head, folder / EMBEDDING_WEIGHTS, folder / EMBEDDING_CARD, {**card, **facts})


def _append_head(encoder: Encoder, head: EmbeddingHead) -> bytes:
    """Return the encoder's ONNX network with its pooling and the head behind it as the only output."""
    source = encoder.store().read_bytes()
    if len(source) > LARGEST:
        raise InvalidInput(f"the network of {encoder.name} is too large to get a head")
    model = onnx.load_from_string(source)
    graph, numbers = model.graph, count()

    def add(operator: str, *inputs: str | np.ndarray[Any, Any], **options: Any) -> str:
        names = []
        for value in inputs:
            if not isinstance(value, str):
                graph.initializer.append(numpy_helper.from_array(value, name := f"head.{next(numbers)}"))
                value = name
            names.append(value)
        output = f"head.{next(numbers)}"
        graph.node.append(helper.make_node(operator, names, [output], **options))
        return output

    def unit(name: str, length: int) -> str:
        # Operators that are the same in all versions of ONNX; as in torch, a vector of zeros stays one
        squares = add("MatMul", add("Mul", name, name), np.ones((length, 1), np.float32))
        return add("Div", name, add("Max", add("Sqrt", squares), np.array([1e-12], np.float32)))

    shapes = _output_shapes(source, encoder)
    parts = []
    for output in encoder.card.outputs:
        weights = pooling_matrix(output, shapes[output.tensor])
        if weights is None:  # a vector, or the maximum of each channel
            is_map = output.pooling == "max"
            source_name = add("GlobalMaxPool", output.tensor) if is_map else output.tensor
            vector = add("Reshape", source_name, np.array([1, -1]))
            parts.append(add("Mul", vector, np.array([output.weight], np.float32)))
            continue
        channels = shapes[output.tensor][1]
        places = add("Reshape", output.tensor, np.array([channels, -1]))
        pooled = add("MatMul", output.weight * weights, add("Transpose", places, perm=[1, 0]))
        parts.append(add("Reshape", pooled, np.array([1, -1])))
    rotation, mean = head.rotation.numpy(), head.mean.numpy()
    projected = add("MatMul", add("Sub", add("Concat", *parts, axis=1), mean), rotation.T.copy())
    weight, bias = head.linear.weight.detach().numpy(), head.linear.bias.detach().numpy()
    vector = unit(add("Add", add("MatMul", projected, weight.T.copy()), bias), head.dimensions)
    if head.kept:
        kept = add("Mul", unit(projected, head.directions), np.array([head.kept**0.5], np.float32))
        learnt = add("Mul", vector, np.array([(1 - head.kept) ** 0.5], np.float32))
        vector = add("Concat", learnt, kept, axis=1)
    graph.node.append(helper.make_node("Identity", [vector], [EMBEDDING_OUTPUT]))
    del graph.output[:]
    graph.output.append(helper.make_tensor_value_info(EMBEDDING_OUTPUT, TensorProto.FLOAT, [1, head.size]))
    return bytes(model.SerializeToString())


def _output_shapes(source: bytes, encoder: Encoder) -> dict[str, tuple[int, ...]]:
    tensors = list({output.tensor for output in encoder.card.outputs})
    values = run_session(open_onnx_session(source, threads=1), tensors, _trial(encoder, 0))
    return {tensor: array.shape for tensor, array in values.items()}


def _compare(content: bytes, encoder: Encoder, head: EmbeddingHead) -> None:
    session, network = open_onnx_session(content, threads=1), encoder.open_network(threads=1)
    for seed in range(2):
        vector = run_session(session, [EMBEDDING_OUTPUT], _trial(encoder, seed))[EMBEDDING_OUTPUT]
        values = network.describe(_trial_pixels(encoder, seed))
        with torch.inference_mode():
            expected = head(torch.from_numpy(values)[None]).numpy()
        if not np.abs(vector - expected).max() <= TOLERANCE:
            raise InvalidInput(f"{encoder.name} with its head gives other vectors as ONNX than with torch")


def _trial(encoder: Encoder, seed: int) -> np.ndarray[Any, Any]:
    return normalise_pixels(_trial_pixels(encoder, seed), encoder.image_input)


def _trial_pixels(encoder: Encoder, seed: int) -> np.ndarray[Any, Any]:
    shape = encoder.image_input
    sides = shape.height, shape.width, len(shape.mean)
    return np.random.default_rng(seed).integers(0, 256, sides, np.uint8)


@dataclass(frozen=True, eq=False)
class ReportedEmbedding:
    """Images of a training and their vectors.

    Attributes
    ----------
    vectors : (n, d) float32
        Vectors of all images.
    data : EmbeddingData
        Classes, groups and parts.
    class_names : sequence of str
        Name of each class number.
    images : TrainingImages
        Files and pictures.
    """

    vectors: NDArray[np.float32]
    data: EmbeddingData
    class_names: Sequence[str]
    images: TrainingImages[ClassExample]


def write_embedding_report(
    folder: Path,
    title: str,
    reported: ReportedEmbedding,
    history: Sequence[Mapping[str, float]],
    facts: Mapping[str, Any],
    seed: int,
) -> None:
    """Write report.html, a single self-contained file.

    Parameters
    ----------
    folder : Path
        Folder to write to.
    title : str
        Title of the page.
    reported : ReportedEmbedding
        Images and vectors.
    history : sequence of dict
        "loss", "map" and "p_at_1" of each epoch.
    facts : dict
        Content of the model's card.
    seed : int
        Seed of the choice of images.
    """
    pictures = ReportPictures(reported.images.max_pixels)
    film = "".join(_row(reported, query, pictures) for query in _queries(reported, seed))
    where = " and ".join(facts["data"]["where"]) or "all rows"  # as in the report of a ranker
    terms = {**facts, "data": {**facts["data"], "where": where}}
    body = f"""<h2>Results</h2>{_table(facts["results"])}
<p class="note">Queries of each part search the training images; images of the same patient do not count.</p>
<h2>Training</h2>{training_charts(history, {"map": "mAP", "p_at_1": "P@1"})}
<h2>Map of the test images</h2>{_map(reported, seed)}
<p class="note">t-SNE: images close together are similar; distances between clusters mean little.</p>
<h2>Nearest images</h2>
<p class="note">A test image, then its nearest training images. The pictures show patients: protect this
file as you protect them.</p>{film}
<h2>Training conditions</h2><dl>{render_facts(terms)}</dl>"""
    subtitle = "How well vectors retrieve images of their class. Not a medical device."
    note = "Epoch by epoch: history.csv, and for TensorBoard the folder events."
    html = render_page(title, subtitle, body, note)
    with atomic_text(folder / "report.html") as file:
        file.write(html)


def _table(results: Mapping[str, Mapping[str, float]]) -> str:
    rows = (
        (escape(name), *(f"{scores[measure]:.3f}" for measure in ("map", "p_at_1", "p_at_10")))
        for name, scores in results.items()
    )
    return render_table(("queries", "mAP", "P@1", "P@10"), rows)


def _map(reported: ReportedEmbedding, seed: int) -> str:
    """Draw the test images in two dimensions; the commonest classes have colours, all have names in titles."""
    names = reported.class_names
    rows = np.sort(np.random.default_rng(seed).permutation(reported.data.parts["test"])[:MAPPED])
    if len(rows) < 5:
        return "<p>Too few images.</p>"
    classes = reported.data.classes[rows]
    common = np.argsort(-np.bincount(classes, minlength=len(names)), kind="stable")[:MOST_CLASSES].tolist()
    colour = {label: number for number, label in enumerate(common)}
    points = [
        (x, y, colour.get(label), names[label])
        for (x, y), label in zip(map_positions(reported.vectors[rows], seed), classes.tolist(), strict=True)
    ]
    return scatter_chart(points, [names[label] for label in common], "Test images by class")


def _queries(reported: ReportedEmbedding, seed: int) -> list[int]:
    """Return rows of test images, of as many classes as possible."""
    random = np.random.default_rng(seed)
    rows = random.permutation(reported.data.parts["test"])
    _, first = np.unique(reported.data.classes[rows], return_index=True)
    return [int(row) for row in rows[random.permutation(first)[:QUERIES]]]


def _row(reported: ReportedEmbedding, query: int, pictures: ReportPictures) -> str:
    data, vectors = reported.data, reported.vectors
    gallery = data.parts["training"]
    gallery = gallery[data.groups[gallery] != data.groups[query]]
    nearest = gallery[np.argsort(-(vectors[gallery] @ vectors[query]), kind="stable")[:NEAREST]]
    figures = [_figure(reported, query, "query", "", pictures)]
    for row in nearest.tolist():
        marks = ("hit", "✓ ") if data.classes[row] == data.classes[query] else ("miss", "✗ ")
        figures.append(_figure(reported, row, *marks, pictures))
    return f'<div class="film">{"".join(figures)}</div>'


def _figure(reported: ReportedEmbedding, row: int, kind: str, sign: str, pictures: ReportPictures) -> str:
    path, loaded = reported.images.examples[row].path, reported.images.pictures
    image = pictures.html(str(path), None, loaded.content_hashes[row], loaded.burned_in[row])
    label = escape(reported.class_names[int(reported.data.classes[row])])
    return f'<figure class="{kind}">{image}<figcaption>{sign}{label}</figcaption></figure>'
