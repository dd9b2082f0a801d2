"""What users see of fusions: flags that leave some out, what the report counts, numbers that a file rounds."""
import programs
from every_folder import FUSIONS

MODEL = programs.DATA / "small_gpt" / "model.onnx"
# Of the original module a file is off by its numbers in float32.
EXACT = 1e-13
NEARER = 1e3


class Fusions(programs.ProgramTest):
    def operators(self, *flags):
        """How often each operator stands in small_gpt."""
        listed = self.succeed("rannc-compile", MODEL, "--emit=atoms", "--costs=analytic", *flags).stdout
        counts = {}
        for line in listed.splitlines():
            words = line.split()
            for word in words[:4] if words[:1] == ["atom"] else []:
                if word.startswith("core."):
                    counts[word[len("core."):]] = counts.get(word[len("core."):], 0) + 1
        self.assertTrue(counts, listed)
        return counts

    def remarks(self, *flags):
        flags = ["-o", self.scratch / "model.rannc", "--replace", "--costs=analytic", "--cluster=local:1", *flags]
        return [line for line in self.succeed("rannc-compile", MODEL, *flags).stderr.splitlines() if "fused " in line]

    def test_those_that_are_named_stay_out(self):
        all_fused, left = self.operators(), self.operators("--no-fuse", "gelu,attention")
        for name in ("gelu", "attention", "linear"):
            self.assertGreater(all_fused.get(name, 0), 0, all_fused)
        self.assertFalse({"gelu", "attention"} & set(left), left)
        self.assertEqual(left["linear"], all_fused["linear"])
        self.assertEqual(left["tanh"], all_fused["gelu"])
        self.assertEqual(left["softmax"], all_fused["attention"])

    def test_all_stay_out(self):
        left = self.operators("--no-fuse", "all")
        self.assertFalse({"gelu", "attention", "linear"} & set(left), left)
        self.assertEqual(left, self.operators("--skip-pass", ",".join("fuse-" + name for name in FUSIONS)))
        self.assertEqual(self.remarks("--no-fuse", "all"), [])

    def test_other_names_are_refused(self):
        for name in ("rannc-compile", "rannc-check"):
            for wrong in ("gelus", "gelu,fuse-gelu", "none"):
                with self.subTest(program=name, wrong=wrong):
                    self.refuse(2, ["--no-fuse", ",".join(FUSIONS)], name, MODEL, "--no-fuse", wrong)

    def test_the_report_counts_what_was_fused(self):
        counts, remarks = self.operators(), "\n".join(self.remarks())
        self.assertIn(f"fused {counts['gelu']} gelu by tanh", remarks)
        self.assertRegex(remarks, rf"(fused|,) {counts['attention']} attention")
        without = "\n".join(self.remarks("--no-fuse", "gelu"))
        self.assertNotIn("gelu", without)
        self.assertIn("attention", without)


class Masks(programs.ProgramTest):
    """Masks that a file makes for each sample alike are constants; those made of an input are checked before each step."""

    def counts(self, name, *flags):
        graph = self.succeed("rannc-compile", programs.shared_models() / name / "model.onnx", "--emit=graph", *flags).stdout
        return [graph.count(f" = core.{operator}(") for operator in ("attention", "softmax")]

    def test_they_are_fused(self):
        if programs.shared_models() is None:
            self.skipTest("no folder of published models; RANNC_SHARED_DIR names it, else ../shared beside the clone")
        for name, layers in (("gpt2_dynamo_dyn", 4), ("gpt2_dynamo_b8", 4), ("llama_dynamo_dyn", 3), ("llama_unoptimized_dynamo_b8", 2)):
            with self.subTest(folder=name):
                self.assertEqual(self.counts(name), [layers, 0])
                self.assertEqual(self.counts(name, "--skip-pass", "hoist-uniform"), [0, layers])
        self.assertEqual(self.counts("bert_dynamo_dyn"), [4, 0])
        self.assertEqual(self.counts("bert_dynamo_dyn", "--no-fuse", "attention"), [0, 4])
        self.assertEqual(self.counts("bert_mlm_dynamo_dynseq"), [4, 0])


class RoundedNumbers(programs.ProgramTest):
    def relative(self, folder, *flags):
        done, runs = programs.check([folder], stages=1, snap_constants=True, **dict(flags))
        self.assertEqual((done.returncode, len(runs)), (0, 1), done.stdout + done.stderr)
        self.assertGreater(runs[0]["compared_gradients"], 0)
        return runs[0]["gradients"]["relative"]

    def test_snapped_ones_are_nearer_to_the_module(self):
        if programs.shared_models() is None:
            self.skipTest("no folder of published models; RANNC_SHARED_DIR names it, else ../shared beside the clone")
        for name in ("gpt2_dynamo_dyn", "bert_legacy_dyn", "vit_legacy_dyn"):
            with self.subTest(folder=name):
                folder = programs.shared_models() / name
                snapped, rounded = self.relative(folder), self.relative(folder, ("skip_pass", "snap-constants"))
                self.assertLess(snapped, EXACT)
                self.assertGreater(rounded, NEARER * snapped)


if __name__ == "__main__":
    programs.main()
