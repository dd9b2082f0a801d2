"""tools/check/onnx_float64.py, which the reference numbers come from, gives ONNX's own node cases; skipped without PyTorch and ONNX for Python."""
import pathlib
import sys
import unittest
import warnings

import programs

try:
    import numpy
    import onnx
    import torch
    from onnx import numpy_helper
    from onnx.backend.test import loader

    sys.path.insert(0, str(programs.SOURCE / "tools" / "check"))
    import onnx_float64
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(programs.SKIPPED)

KINDS = {onnx.TensorProto.DataType.Value(name) for name in ("FLOAT", "DOUBLE", "FLOAT16", "INT64", "INT32", "BOOL")}
ALIKE = 4e-3  # the cases hold float16 and float32 numbers
# PyTorch has no extremes of nothing; definitions in parts gather ignored labels from outside of a row.
BEYOND = ("test_reduce_max_empty_set", "test_reduce_min_empty_set", "_ii")


def tensors(folder, kind, values):
    found = []
    for i in range(len(values)):
        proto = onnx.TensorProto()
        proto.ParseFromString((folder / f"{kind}_{i}.pb").read_bytes())
        found.append(torch.from_numpy(numpy.array(numpy_helper.to_array(proto))))
    return found


def of_tensors(model):
    return all(value.type.HasField("tensor_type") and value.type.tensor_type.elem_type in KINDS
               for value in (*model.graph.input, *model.graph.output))


class Judge(unittest.TestCase):
    def test_node_cases(self):
        warnings.simplefilter("ignore")
        compared, wrong = 0, []
        for case in loader.load_model_tests(kind="node"):
            folder = pathlib.Path(case.model_dir)
            model = onnx.load(folder / "model.onnx")
            if any(part in case.name for part in BEYOND) or not of_tensors(model) or onnx_float64.unknown_operators(model):
                continue
            data = folder / "test_data_set_0"
            inputs = dict(zip((value.name for value in model.graph.input), tensors(data, "input", model.graph.input)))
            try:
                outputs = onnx_float64.evaluate(model, inputs, {})
            except NotImplementedError:
                continue
            compared += 1
            for value, expected in zip(model.graph.output, tensors(data, "output", model.graph.output)):
                found = outputs[value.name]
                if found.shape != expected.shape or not torch.allclose(found.double(), expected.double(), ALIKE, ALIKE, equal_nan=True):
                    wrong.append(f"{case.name}: {value.name}")
        print(f"{compared} cases compared")
        self.assertEqual(wrong, [])
        self.assertGreater(compared, 1100)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
