"""The small folders give the reference numbers whatever the cut, and a folder that was spoiled does not."""
import itertools
import json
import shutil
import struct
import unittest

import products
import programs
import small_onnx
from products import ProductTest


class Pairs(unittest.TestCase):
    def test_all_are_in_the_parts_of_the_product(self):
        parts = [run for part in products.PAIRS for run in itertools.product(*part.values())]
        whole = list(itertools.product(*products.PRODUCT.values()))
        for first, second in itertools.combinations(range(len(products.PRODUCT)), 2):
            self.assertEqual({(run[first], run[second]) for run in parts}, {(run[first], run[second]) for run in whole})
        self.assertLessEqual(4 * len(parts), len(whole))

    def test_folders_divide_them_evenly(self):
        folders = list(range(7))
        runs = [(folder, *run) for some, part in products.divided(folders) for folder in some
                for run in itertools.product(*part.values())]
        recompute = list(products.PRODUCT).index("recompute")
        for factor, values in enumerate(products.PRODUCT.values()):
            if factor != recompute:
                self.assertEqual({(run[0], run[1 + factor]) for run in runs}, set(itertools.product(folders, values)))
        parts = [run for part in products.PAIRS for run in itertools.product(*part.values())]
        self.assertEqual({run[1:] for run in runs}, set(parts))
        self.assertEqual(3 * len(runs), len(folders) * len(parts))


class CheckSmall(ProductTest):
    folders = [programs.DATA / name for name in programs.SMALL]

    def test_threads_in_float64(self):
        self.judge(self.folders, ["local"])

    def test_processes_in_float64(self):
        self.judge_divided(self.folders, ["gloo"])

    def test_split_backward_passes(self):
        # Zero-bubble rows, over shared parameters (small_gpt) and a long skip (small_conv).
        product = {"stages": [2, 4], "micro_batches": [4, 5], "schedule": ["zb-h1", "zb-h2"], "recompute": ["never"]}
        self.judge(self.folders, ["local"], product=product)

    def test_replicas(self):
        # 8 samples in 3 micro-batches for 3 replicas: some have no sample of a micro-batch.
        product = {"replicas": ["2", "2,1", "1,3"], "micro_batches": [1, 3], "schedule": ["1f1b"], "recompute": ["never"]}
        self.judge(self.folders, ["local", "gloo"], product=product)

    def test_threads_in_float32(self):
        self.judge_divided(self.folders, ["local"], dtype="float32")


class LibraryLosses(programs.ProgramTest):
    def test_every_gradient(self):
        for dtype in ("float64", "float32"):
            done, runs = programs.check([programs.DATA / "small_library_losses"], stages=[1, 2], micro_batches=[1, 3], dtype=dtype)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            self.assertEqual([run["compared_gradients"] for run in runs], [22] * 4)


class LossGraphs(programs.ProgramTest):
    """A loss in a file of its own gives the numbers of the same loss on the command line."""

    def folder(self, scores, weight=1.0, nodes=None, constants=()):
        folder = self.scratch / "small_conv"
        shutil.copytree(programs.DATA / "small_conv", folder)
        card = json.loads((folder / "card.json").read_text())
        card.update(loss=[], loss_inputs={"scores": "logits"}, loss_weights={"loss": weight})
        (folder / "card.json").write_text(json.dumps(card))
        small_onnx.write(
            folder / "loss.onnx",
            nodes or [small_onnx.node("SoftmaxCrossEntropyLoss", ["scores", "y"], ["loss"], "ce")], constants,
            [small_onnx.value("scores", small_onnx.FLOAT, scores), small_onnx.value("y", small_onnx.INT64, ["N"])],
            [small_onnx.value("loss", small_onnx.FLOAT, [])])
        return folder

    def bounded(self, name, inputs, bound, weight):
        """The mean over 8 labels, written as their sum over a denominator that `name` makes of their count."""
        node, number = small_onnx.node, small_onnx.number_attribute
        nodes = [node("SoftmaxCrossEntropyLoss", ["scores", "y"], ["s"], "ce", small_onnx.text_attribute("reduction", "sum")),
                 node("Equal", ["y", "none"], ["e"], "equal"), node("Not", ["e"], ["n"], "not"),
                 node("Cast", ["n"], ["f"], "cast", number("to", small_onnx.FLOAT)),
                 node("ReduceSum", ["f"], ["count"], "sum", number("keepdims", 0)),
                 node(name, inputs, ["d"], "bound"), node("Div", ["s", "d"], ["loss"], "div")]
        return self.folder(["N", 5], weight, nodes, [small_onnx.tensor("none", [], [-1], small_onnx.INT64),
                                                     small_onnx.tensor("b", [], [bound])])

    def test_numbers_are_those_of_the_reference(self):
        for options in ({"stages": 2, "micro_batches": 3}, {"micro_batches": 3, "replicas": 3}):
            done, entries = programs.check([self.folder(["N", 5])], transport="local", dtype="float64", **options)
            self.assertEqual((done.returncode, [entry["ok"] for entry in entries]), (0, [True]), done.stderr)
            shutil.rmtree(self.scratch / "small_conv")

    def test_denominators_are_bounded_once(self):
        # Of a micro-batch of 2 or 3 samples each would be another.
        for name, inputs, bound, weight in (("Max", ["count", "b"], 5.0, 1.0), ("Clip", ["count", "b"], 16.0, 2.0),
                                            ("Add", ["b", "count"], 8.0, 2.0)):
            for options in ({"stages": 2, "micro_batches": 3}, {"micro_batches": 3, "replicas": 3}):
                with self.subTest(name=name, **options):
                    done, entries = programs.check([self.bounded(name, inputs, bound, weight)], transport="local", dtype="float64", **options)
                    self.assertEqual((done.returncode, [entry["ok"] for entry in entries]), (0, [True]), done.stderr)
                    shutil.rmtree(self.scratch / "small_conv")

    def parts(self):
        """The loss of small_gpt as that of the first tokens and that of the others, which are weighted by what counts there."""
        folder = self.scratch / "small_gpt"
        shutil.copytree(programs.DATA / "small_gpt", folder)
        _, (_, tokens), data = programs.read_safetensors(folder / "batch.safetensors")["labels/targets"]
        labels = struct.unpack(f"<{len(data) // 8}q", data)
        first = sum(label != -100 for label in labels[::tokens])
        whole = sum(label != -100 for label in labels)
        card = json.loads((folder / "card.json").read_text())
        card.update(loss=[], loss_inputs={"scores": "logits"}, loss_weights={"first": first / whole, "others": 1 - first / whole})
        (folder / "card.json").write_text(json.dumps(card))
        node, integers = small_onnx.node, lambda name, values: small_onnx.tensor(name, [len(values)], values, small_onnx.INT64)
        nodes = []
        for name, start, end in (("first", "zero", "one"), ("others", "one", "end")):
            nodes += [node("Slice", ["scores", start, end, "one"], [f"{name}.s"], f"{name}.scores"),
                      node("Reshape", [f"{name}.s", "rows"], [f"{name}.r"], f"{name}.rows"),
                      node("Slice", ["targets", start, end, "one"], [f"{name}.t"], f"{name}.targets"),
                      node("Reshape", [f"{name}.t", "flat"], [f"{name}.f"], f"{name}.flat"),
                      node("SoftmaxCrossEntropyLoss", [f"{name}.r", f"{name}.f"], [name], f"{name}.ce",
                           small_onnx.number_attribute("ignore_index", -100 % 2**64))]
        small_onnx.write(
            folder / "loss.onnx", nodes,
            [integers("zero", [0]), integers("one", [1]), integers("end", [2**63 - 1]), integers("flat", [-1]), integers("rows", [-1, 23])],
            [small_onnx.value("scores", small_onnx.FLOAT, ["N", tokens, 23]), small_onnx.value("targets", small_onnx.INT64, ["N", tokens])],
            [small_onnx.value("first", small_onnx.FLOAT, []), small_onnx.value("others", small_onnx.FLOAT, [])])
        return folder

    def test_parts_of_labels_are_counted_apart(self):
        folder = self.parts()
        for options in ({"stages": 2, "micro_batches": 3}, {"micro_batches": 3, "replicas": 3}):
            done, entries = programs.check([folder], transport="local", dtype="float64", **options)
            self.assertEqual((done.returncode, [entry["ok"] for entry in entries]), (0, [True]), done.stdout + done.stderr)

    def test_types_that_differ_are_one_error(self):
        done, _ = programs.check([self.folder(["N", 6])], stages=1, micro_batches=1, transport="local", dtype="float64")
        self.assertEqual(done.returncode, 1)
        self.assertIn("%scores of the loss is f32[N,6], but %logits of the model is f32[batch,5]", done.stderr + done.stdout)


class SpoiledFolders(programs.ProgramTest):
    """Whatever is wrong turns the check red and is named."""

    def spoil(self, name):
        folder = self.scratch / name
        shutil.copytree(programs.DATA / name, folder)
        return folder

    def spoil_reference(self, name, change):
        folder = self.spoil(name)
        tensors = programs.read_safetensors(folder / "reference.safetensors")
        change(tensors)
        programs.write_safetensors(folder / "reference.safetensors", tensors)
        return folder

    def spoil_card(self, name, change):
        folder = self.spoil(name)
        card = json.loads((folder / "card.json").read_text())
        change(card)
        (folder / "card.json").write_text(json.dumps(card))
        return folder

    def fails(self, folder, *parts, dtype="float64"):
        done, entries = programs.check([folder], stages=2, micro_batches=3, transport="local", dtype=dtype)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertEqual([entry["ok"] for entry in entries], [False])
        for part in parts:
            self.assertTrue(any(part in line for line in entries[0]["failures"]), (part, entries[0]["failures"]))

    @staticmethod
    def nudge(key, entry, relative):
        def change(tensors):
            dtype, shape, data = tensors[key]
            code, size = {"F64": ("d", 8), "F32": ("f", 4)}[dtype]
            values = list(struct.unpack(f"<{len(data) // size}{code}", data))
            norm = sum(value * value for value in values) ** 0.5
            values[entry] += relative * norm
            tensors[key] = (dtype, shape, struct.pack(f"<{len(values)}{code}", *values))

        return change

    def first_gradient(self, name, tag="file64"):
        keys = programs.read_safetensors(programs.DATA / name / "reference.safetensors")
        return next(key for key in sorted(keys) if key.startswith(f"grad.{tag}/"))

    def test_untouched_copy_passes(self):
        done, entries = programs.check([self.spoil_reference("small_mlp", lambda tensors: None)], stages=2, micro_batches=3)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertTrue(entries[0]["ok"])

    def test_one_gradient_off_by_twice_the_limit(self):
        keys = {name: self.first_gradient(name) for name in programs.SMALL}
        folders = [self.spoil_reference(name, self.nudge(key, 1, 2e-10)) for name, key in keys.items()]
        for transport in ("local", "gloo"):
            done, entries = programs.check(folders, stages=2, micro_batches=3, transport=transport, dtype="float64")
            self.assertEqual(done.returncode, 1, done.stderr)
            self.assertEqual([entry["folder"] for entry in entries], programs.SMALL)
            for entry, key in zip(entries, keys.values()):
                with self.subTest(folder=entry["folder"], transport=transport):
                    self.assertFalse(entry["ok"])
                    wrong = "gradient of " + key.partition("/")[2]
                    self.assertTrue(any(wrong in line for line in entry["failures"]), (wrong, entry["failures"]))

    def test_one_gradient_off_by_half_the_limit_passes(self):
        folder = self.spoil_reference("small_mlp", self.nudge(self.first_gradient("small_mlp"), 1, 5e-11))
        done, _ = programs.check([folder], stages=2, micro_batches=3)
        self.assertEqual(done.returncode, 0, done.stdout)

    def test_float32_gradient_off(self):
        # Both judges are wrong alike: where they differ, the limit would grow with their distance.
        name = self.first_gradient("small_mlp", "f64").partition("/")[2]

        def change(tensors):
            for tag in ("f64", "f32"):
                self.nudge(f"grad.{tag}/{name}", 1, 1e-4)(tensors)

        self.fails(self.spoil_reference("small_mlp", change), "gradient of " + name, dtype="float32")

    def test_reference_lacks_a_gradient(self):
        key = self.first_gradient("small_gpt")
        self.fails(self.spoil_reference("small_gpt", lambda tensors: tensors.pop(key)), "gradient of " + key.partition("/")[2])

    def test_reference_has_a_gradient_more(self):
        def add(tensors):
            tensors["grad.file64/ghost"] = tensors[self.first_gradient("small_gpt")]

        self.fails(self.spoil_reference("small_gpt", add), "gradient of ghost")

    def test_output_off(self):
        self.fails(self.spoil_reference("small_regression", self.nudge("out.file64/coarse", 3, 1e-8)), "output coarse")

    def test_loss_off(self):
        self.fails(self.spoil_reference("small_conv", self.nudge("loss.file64", 0, 1e-8)), "loss")

    def test_other_weight_of_a_term(self):
        self.fails(self.spoil_card("small_regression", lambda card: card["loss"][1].update(weight=2.5)), "loss", "gradient of ")

    def test_labels_of_another_sample(self):
        folder = self.spoil("small_conv")
        batch = programs.read_safetensors(folder / "batch.safetensors")
        dtype, shape, data = batch["labels/y"]
        batch["labels/y"] = (dtype, shape, data[8:] + data[:8])
        programs.write_safetensors(folder / "batch.safetensors", batch)
        self.fails(folder, "loss", "gradient of ")


if __name__ == "__main__":
    programs.main()
