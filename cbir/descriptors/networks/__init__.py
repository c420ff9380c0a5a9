"""Networks that only infer: cards, weights, ONNX sessions."""
