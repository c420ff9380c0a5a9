"""Weights in other files are found wherever ONNX can have tensors."""

import numpy as np
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper

from cbir.descriptors.encoders.add_encoder import add_encoder
from cbir.descriptors.encoders.onnx_messages import has_external_data, write_model, write_node
from cbir.errors import InvalidInput


def tensor(external):
    made = numpy_helper.from_array(np.ones((1, 4), np.float32), "w")
    if external:
        made.ClearField("raw_data")
        made.data_location = TensorProto.EXTERNAL
        for key, value in (("location", "w.bin"), ("offset", "0"), ("length", "16")):
            entry = made.external_data.add()
            entry.key, entry.value = key, value
    return made


def graph(nodes=(), initializers=(), sparse=()):
    image = helper.make_tensor_value_info("images", TensorProto.FLOAT, [1, 3, 32, 32])
    values = helper.make_tensor_value_info("values", TensorProto.FLOAT, [1, 4])
    return helper.make_graph(nodes, "g", [image], [values], initializers, sparse_initializer=sparse)


def sparse(values=None, indices=None):
    made = helper.make_sparse_tensor(tensor(False), tensor(False), [4])
    for target, source in ((made.values, values), (made.indices, indices)):
        if source is not None:
            target.CopyFrom(source)
    return made


def branch(weights):
    """Return a graph whose only node multiplies by weights of its own."""
    out = helper.make_tensor_value_info("o", TensorProto.FLOAT, [1, 4])
    return helper.make_graph([helper.make_node("Mul", ["u", "w"], ["o"])], "s", [], [out], [weights])


def with_attribute(**attributes):
    return helper.make_model(graph([helper.make_node("Op", [], ["values"], **attributes)]))


def conditional(weights):
    """Return a network that onnxruntime runs: If with weights in both branches."""
    nodes = [
        helper.make_node("ReduceMean", ["images"], ["m"], axes=[1, 2, 3], keepdims=0),
        helper.make_node("Unsqueeze", ["m", "axes"], ["u"]),
        helper.make_node("If", ["c"], ["values"], then_branch=branch(weights), else_branch=branch(weights)),
    ]
    constants = [
        helper.make_tensor("axes", TensorProto.INT64, [1], [1]),
        helper.make_tensor("c", TensorProto.BOOL, [], [True]),
    ]
    return helper.make_model(
        graph(nodes, constants), opset_imports=[helper.make_opsetid("", 17)], ir_version=8
    )


def in_function(weights):
    node = helper.make_node("Constant", [], ["o"], value=weights)
    function = helper.make_function("own", "F", [], ["o"], [node], [helper.make_opsetid("", 17)])
    return helper.make_model(graph(), functions=[function])


def in_default_of_function(weights):
    default = helper.make_attribute("value", weights)
    opsets = [helper.make_opsetid("", 17)]
    function = helper.make_function("own", "F", [], ["o"], [], opsets, attribute_protos=[default])
    return helper.make_model(graph(), functions=[function])


def in_training(weights):
    model = helper.make_model(graph())
    model.training_info.add().algorithm.initializer.append(weights)
    return model


def nested(weights, depth=3000):
    content = graph([helper.make_node("Constant", [], ["o"], value=weights)]).SerializeToString()
    for _ in range(depth):
        content = field(1, field(5, field(6, content)))  # a node with an attribute that is a graph
    return field(7, content)


def field(number, content):
    length, encoded = len(content), bytearray([number << 3 | 2])
    while length > 127:
        encoded.append(length & 127 | 128)
        length >>= 7
    return bytes([*encoded, length]) + content


PLACES = {
    "initializer": lambda weights: helper.make_model(graph(initializers=[weights])),
    "values of a sparse initializer": lambda weights: helper.make_model(graph(sparse=[sparse(weights)])),
    "indices of a sparse initializer": lambda weights: helper.make_model(
        graph(sparse=[sparse(None, weights)])
    ),
    "attribute": lambda weights: with_attribute(value=weights),
    "list attribute": lambda weights: with_attribute(values=[tensor(False), weights]),
    "sparse attribute": lambda weights: with_attribute(value=sparse(weights)),
    "sparse list attribute": lambda weights: with_attribute(values=[sparse(), sparse(weights)]),
    "subgraph": conditional,
    "list of subgraphs": lambda weights: with_attribute(bodies=[branch(tensor(False)), branch(weights)]),
    "function": in_function,
    "default of a function": in_default_of_function,
    "training": in_training,
    "deeply nested": nested,
}


@pytest.mark.parametrize("place", PLACES)
def test_found_in_every_place(place):
    for external in (True, False):
        model = PLACES[place](tensor(external))
        content = model.SerializeToString() if isinstance(model, ModelProto) else model
        assert has_external_data(content) is external


def test_location_with_bits_that_protobuf_ignores():
    location = b"\x70\x81\x80\x80\x80\x10"  # TensorProto.data_location = 1 + 2 ** 32
    assert TensorProto.FromString(location).data_location == TensorProto.EXTERNAL
    assert has_external_data(field(7, field(5, location)))
    assert not has_external_data(field(7, field(5, b"\x70\x80\x80\x80\x80\x10")))


def test_network_with_weights_elsewhere_in_a_branch_is_refused(tmp_path, encoder_folder, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "w.bin").write_bytes(np.arange(4, dtype=np.float32).tobytes())
    model = tmp_path / "model.onnx"
    model.write_bytes(conditional(tensor(True)).SerializeToString())
    with pytest.raises(InvalidInput, match="keeps its weights in other files; save it as one file"):
        add_encoder("own", model, None, encoder_folder)
    assert not encoder_folder.exists()
    model.write_bytes(conditional(tensor(False)).SerializeToString())
    assert add_encoder("own", model, None, encoder_folder).card.dimensions == 4


def test_models_of_this_project_have_none():
    shape = (1, 3, 8, 8)
    model = write_model([write_node("Relu", ["images"], "values")], [], {"images": shape}, {"values": shape})
    assert not has_external_data(model)
