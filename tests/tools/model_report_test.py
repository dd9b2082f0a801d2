"""What rannc-compile says of a model before its plan: what it read, what was changed, what it could not do."""
import json

import programs
import small_onnx as onnx


class ReportTest(programs.ProgramTest):
    def compiled(self, model, *flags):
        return self.succeed("rannc-compile", model, "-o", self.scratch / "model.rannc", "--replace", "--costs", "analytic", "--cluster",
                            "local:1", *flags)

    def lines(self, model, *flags):
        """The lines of the report by their head, and the warnings."""
        found, head = {"read": [], "changed": [], "trains": [], "not done": [], "warning": []}, None
        for line in self.compiled(model, *flags).stderr.splitlines():
            if ": warning: " in line:
                found["warning"].append(line)
                head = None
            elif line[:9].strip() in found and line[8:9] == " ":
                head = line[:9].strip()
                found[head].append(line[9:])
            elif head and line.startswith(" " * 9):
                found[head].append(line[9:])
            else:
                head = None
        self.assertEqual(len(found["read"]), 1)
        return found


class SmallModels(ReportTest):
    def test_what_was_read(self):
        report = self.lines(programs.DATA / "small_gpt" / "model.onnx")
        self.assertRegex(report["read"][0], r'^model\.onnx: 74 nodes → \d+ tasks; [\d,]+ parameters in 28 tensors; '
                                            r'batch symbol "\w+" \(axis 0 of 1 input\)$')
        self.assertIn("parameter 'token.weight' is read by 2 modules (the model itself, token): one tied parameter", report["changed"])
        self.assertEqual((report["trains"], report["warning"]), ([], []))

    def test_what_metadata_say_of_gradients(self):
        model = programs.DATA / "small_lost_gradients" / "model.onnx"
        changed = self.lines(model)["changed"]
        self.assertEqual(sum("padding_idx" in line for line in changed), 1, changed)
        detached = [line for line in changed if "the exported program detached it" in line]
        self.assertEqual(len(detached), 1, changed)
        self.assertTrue(detached[0].endswith("(and 1 more like it)"), detached)
        every = self.lines(model, "--verbose")["changed"]
        self.assertEqual(sum("the exported program detached it (node '" in line for line in every), 2, every)
        self.assertFalse(any("more like it" in line for line in every), every)

    def test_a_fixed_batch(self):
        path = onnx.write(self.scratch / "fixed.onnx",
                          [onnx.node("MatMul", ["x", "onnx::MatMul_7"], ["h"], "m"), onnx.node("Relu", ["h"], ["y"], "last")],
                          [onnx.tensor("onnx::MatMul_7", [4, 4], range(16))],
                          [onnx.value("x", onnx.FLOAT, [8, 4])], [onnx.value("y", onnx.FLOAT, [8, 4])])
        report = self.lines(path)
        self.assertEqual(report["read"], ['fixed.onnx: 2 nodes → 2 tasks; 16 parameters in 1 tensor; '
                                          'batch symbol "batch" (made for 8 samples)'])
        self.assertEqual(report["changed"], ["made the static batch size of 8 samples symbolic: 0 tasks and 0 tables changed",
                                             "1 tensor is trained because of its use alone (onnx::MatMul_7)", "fused 1 linear without bias"])
        self.assertIn("the exporter generated the names of 1 of 1 parameter tensor, such as 'onnx::MatMul_7'", report["not done"][0])
        report = self.lines(path, "--skip-pass", "rebatch", "--no-fuse", "all")
        self.assertTrue(report["read"][0].endswith("; no batch symbol"), report)
        self.assertEqual(report["changed"], ["1 tensor is trained because of its use alone (onnx::MatMul_7)"])
        self.assertIn("the mini-batch of 8 samples is one micro-batch", report["not done"][0])

    def test_a_batch_that_stays(self):
        path = onnx.write(self.scratch / "table.onnx", [onnx.node("Add", ["x", "table"], ["y"], "sum")],
                          [onnx.tensor("table", [2, 2], range(4))],
                          [onnx.value("x", onnx.FLOAT, [2, 2])], [onnx.value("y", onnx.FLOAT, [2, 2])])
        report = self.lines(path)
        self.assertTrue(report["read"][0].endswith("; no batch symbol"), report)
        said = ("core.add has a fixed batch size of 2 samples: %table of [2,2] has different numbers for each of the 2 samples along axis 0")
        self.assertTrue(any("the static batch size of the file is kept: " + said in line for line in report["not done"]), report)
        self.compiled(path, "--print-after", "rebatch,infer-shapes")
        self.refuse(1, ["table.onnx: 'sum'", said], "rannc-compile", path, "--batch-size-in-file", 2, "-o", self.scratch / "none")
        self.refuse(1, ["table.onnx", "P15", "a mini-batch of 4"], "rannc-compile", path, "--mini-batch", 4, "-o", self.scratch / "none")

    def test_what_machines_read_is_alone_on_standard_output(self):
        done = self.compiled(programs.DATA / "small_gpt" / "model.onnx", "--summary=json")
        self.assertEqual([warning for warning in json.loads(done.stdout)["warnings"] if "not proved optimal" not in warning], [])
        self.assertIn("read     model.onnx: ", done.stderr)


class PublishedModels(ReportTest):
    def setUp(self):
        super().setUp()
        self.models = programs.shared_models()
        if self.models is None:
            self.skipTest("no published models here")

    def report(self, name, *flags):
        return self.lines(self.models / name / "model.onnx", *flags)

    def test_running_statistics(self):
        self.assertIn("88,482 parameters in 71 tensors, 46 buffers; batch symbol", self.report("resnet_train_legacy")["read"][0])

    def test_what_batches_are_normalised_by(self):
        training = "--loss", "cross_entropy(output=logits,labels=y)"
        self.assertEqual(self.report("resnet_train_legacy")["trains"], [], "it is for inference")
        [apart] = self.report("resnet_train_legacy", *training)["trains"]
        self.assertTrue(apart.startswith("23 batch normalisations over the samples of a micro-batch on one replica: losses depend on the "
                                         "numbers of micro-batches and replicas"), apart)
        [joint] = self.report("resnet_train_legacy", *training, "--sync-batch-norm")["trains"]
        self.assertEqual(joint, "23 batch normalisations over the samples of a micro-batch on all replicas: losses depend on the number of "
                                "micro-batches")
        self.assertEqual(self.report("resnet_folded_legacy", *training)["trains"], [], "nothing of it is left to train")

    def test_training_mode_that_the_file_lost(self):
        report = self.report("resnet_asked_training_dynamo")
        self.assertEqual(len(report["warning"]), 1)
        self.assertIn("model.onnx: warning: 23 normalizations of the exported program were in training mode", report["warning"][0])
        self.assertFalse(any("normalisations" in line for line in report["changed"] + report["not done"]), report)

    def test_merged_tensors_and_ties(self):
        self.assertIn("separated 20 tensors that the exporter had merged with equal ones", self.report("bert_fresh_legacy")["changed"])
        fresh = self.report("bert_fresh_dynamo")["changed"]
        self.assertIn("separated 19 tensors that the exporter had merged with equal ones", fresh)
        self.assertIn("restored 2 zero biases that the exporter had omitted", fresh)
        tied = self.report("gpt2_legacy_b8")["changed"]
        self.assertTrue(any("are one, according to their values and uses" in line for line in tied), tied)

    def test_several_symbols(self):
        report = self.report("bert_mlm_dynamo_dynseq", "--assume", "sequence=12")
        self.assertIn('batch symbol "batch" (axis 0 of 3 inputs)', report["read"][0])
        self.assertEqual(sum("padding_idx" in line for line in report["changed"]), 1, report)


if __name__ == "__main__":
    programs.main()
