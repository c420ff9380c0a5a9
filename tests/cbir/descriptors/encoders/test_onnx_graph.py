"""Layers read from ONNX files: those that are written here, and those of the library onnx."""

import numpy as np
import pytest

from cbir.descriptors.encoders.onnx_messages import read_graph, write_model, write_node, write_tensor


def test_layers_that_were_written_are_read():
    weight = np.arange(24, dtype=np.float32).reshape(2, 3, 2, 2)
    nodes = [
        write_node("Conv", ["images", "w"], "maps", pads=(0, 1, 2, 1), strides=(2, 2), group=1),
        write_node("Flatten", ["maps"], "values", axis=1),
    ]
    content = write_model(nodes, [write_tensor("w", weight)], {"images": (1, 3, 8, 8)}, {"values": (1, 2)})
    graph = read_graph(content)
    assert graph.input == "images"
    assert (graph.weights["w"] == weight).all()
    convolution, flatten = graph.nodes
    assert convolution == (
        "Conv",
        ("images", "w"),
        "maps",
        {"pads": (0, 1, 2, 1), "strides": (2, 2), "group": (1,)},
    )
    assert flatten.attributes == {"axis": (1,)}


def test_files_of_the_library_onnx():
    onnx = pytest.importorskip("onnx")
    weight = onnx.numpy_helper.from_array(np.ones((2, 3, 2, 2), np.float32), "w")
    node = onnx.helper.make_node("Conv", ["x", "w"], ["y"], strides=[2, 1], auto_pad="VALID", group=-1)
    shapes = [
        onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape)
        for name, shape in (("x", (1, 3, 8, 8)), ("y", (1, 2, 4, 7)), ("w", (2, 3, 2, 2)))
    ]
    graph = onnx.helper.make_graph([node], "graph", [shapes[0], shapes[2]], [shapes[1]], [weight])
    read = read_graph(onnx.helper.make_model(graph).SerializeToString())
    assert read.input == "x"  # weights may be listed as inputs too
    assert read.nodes[0].attributes == {"strides": (2, 1), "auto_pad": None, "group": (-1,)}
    whole = onnx.numpy_helper.from_array(np.ones(2, np.int64), "w")
    other = onnx.helper.make_graph([node], "graph", shapes[:1], [shapes[1]], [whole])
    with pytest.raises(ValueError, match="the weights w are not float32"):
        read_graph(onnx.helper.make_model(other).SerializeToString())


def test_several_inputs_are_refused():
    content = write_model([], [], {"a": (1,), "b": (1,)}, {})
    with pytest.raises(ValueError, match="unpack"):
        read_graph(content)
