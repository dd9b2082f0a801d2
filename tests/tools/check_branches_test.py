"""Parameters of a branch that is not taken have gradient zero for rannc-check; PyTorch has none."""
import json
import struct

import programs
import small_onnx as onnx
from small_onnx import field

SAMPLES, WIDTH, CLASSES = 4, 3, 2
X = [i / 5 - 1 for i in range(SAMPLES * WIDTH)]
Y = [i % 3 - 0.5 for i in range(SAMPLES * CLASSES)]
THEN = [i / 4 - 0.6 for i in range(WIDTH * CLASSES)]
ELSE = [0.3 - i / 7 for i in range(WIDTH * CLASSES)]


def single(values):
    """As a file of float32 has them."""
    return list(struct.unpack(f"<{len(values)}f", struct.pack(f"<{len(values)}f", *values)))


def branch(name, weight):
    """A body: the product of what lies around it with a weight."""
    graph = (field(1, onnx.node("MatMul", ["x", weight], [name], name)) + field(2, name) +
             field(12, onnx.value(name, onnx.FLOAT, ["batch", CLASSES])))
    return field(5, field(1, f"{name}_branch") + field(6, graph) + field(20, 5))


def reference(weight):
    """Outputs, loss and the weight's gradient of the mean of squares, in double precision."""
    x, y, w = single(X), single(Y), single(weight)
    out = [sum(x[s * WIDTH + i] * w[i * CLASSES + c] for i in range(WIDTH)) for s in range(SAMPLES) for c in range(CLASSES)]
    off = [a - b for a, b in zip(out, y)]
    gradient = [sum(2 / len(off) * x[s * WIDTH + i] * off[s * CLASSES + c] for s in range(SAMPLES))
                for i in range(WIDTH) for c in range(CLASSES)]
    return out, sum(value * value for value in off) / len(off), gradient


class Branches(programs.ProgramTest):
    def folder(self, taken, listed):
        folder = self.scratch / f"{taken}-{listed}"
        folder.mkdir()
        onnx.write(folder / "model.onnx",
                   [onnx.node("If", ["taken"], ["logits"], "if", branch("then", "a"), branch("else", "b"))],
                   [onnx.tensor("a", [WIDTH, CLASSES], THEN), onnx.tensor("b", [WIDTH, CLASSES], ELSE)],
                   [onnx.value("x", onnx.FLOAT, ["batch", WIDTH]), onnx.value("taken", onnx.BOOL, [])],
                   [onnx.value("logits", onnx.FLOAT, ["batch", CLASSES])])
        programs.write_safetensors(folder / "batch.safetensors", {
            "x/x": ("F32", [SAMPLES, WIDTH], struct.pack(f"<{len(X)}f", *X)), "x/taken": ("BOOL", [], bytes([taken])),
            "labels/y": ("F32", [SAMPLES, CLASSES], struct.pack(f"<{len(Y)}f", *Y))})
        out, loss, gradient = reference(THEN if taken else ELSE)
        double = lambda shape, values: ("F64", shape, struct.pack(f"<{len(values)}d", *values))
        programs.write_safetensors(folder / "reference.safetensors", {
            "out.file64/logits": double([SAMPLES, CLASSES], out), "loss.file64": double([], [loss]),
            f"grad.file64/{'a' if taken else 'b'}": double([WIDTH, CLASSES], gradient)})
        names = {name: {"state_dict": name, "transform": "none"} for name in "ab"} if listed else {}
        (folder / "card.json").write_text(json.dumps({
            "loss": [{"kind": "mse", "output": "logits", "labels": "y"}], "parameter_of_initializer": names}))
        return folder

    def test_either_branch(self):
        for taken in (False, True):
            for listed in (False, True):
                for transport in ("local", "gloo"):
                    with self.subTest(taken=taken, listed=listed, transport=transport):
                        folder = self.scratch / f"{taken}-{listed}"
                        if not folder.exists():
                            self.folder(taken, listed)
                        done, entries = programs.check([folder], stages=1, micro_batches=2, transport=transport)
                        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
                        self.assertEqual([entry["compared_gradients"] for entry in entries], [2 if listed else 1])

    def test_a_gradient_of_the_taken_branch_must_be_known(self):
        folder = self.folder(True, False)
        tensors = programs.read_safetensors(folder / "reference.safetensors")
        tensors["grad.file64/b"] = tensors.pop("grad.file64/a")
        programs.write_safetensors(folder / "reference.safetensors", tensors)
        done, entries = programs.check([folder], stages=1, micro_batches=2)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertTrue(any("gradient of a" in line for line in entries[0]["failures"]), entries)


if __name__ == "__main__":
    programs.main()
