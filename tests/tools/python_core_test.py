"""The extension of the Python package without PyTorch: models, plans and bundles, and the errors of all. Skipped where it was not built."""
import importlib.machinery
import importlib.util
import sys

import programs

MODEL = str(programs.DATA / "small_mlp" / "model.onnx")
LOSS = "--loss=cross_entropy(output=logits,labels=y)"
core = None


def loaded(folder):
    """The extension of the build, whose LibTorch is that of the build; None if it was not built for this Python."""
    for suffix in importlib.machinery.EXTENSION_SUFFIXES:
        file = folder.parent / "python" / "rannc" / f"_core{suffix}"
        if file.exists():
            spec = importlib.util.spec_from_file_location("_core", file)
            module = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
            return module
    return None


class Core(programs.ProgramTest):
    def test_plans_are_those_of_the_program(self):
        flags = [LOSS, "--mini-batch=32", "--stages=2", "--cluster=local:2", "--costs=analytic"]
        said = []
        read = core.read(MODEL, flags, lambda kind, text: said.append((kind, text)))
        self.assertEqual((read.trains, len(read.trained())), (True, 8))
        planned = read.plan(True, None, core.Stop())
        facts = planned.facts()
        self.assertEqual((facts["mini_batch"], len(facts["stages"])), (32, 2))
        self.assertIn(("phase", "reading"), said)
        planned.write(str(self.scratch / "own.rannc"), False, "", None)
        self.succeed("rannc-compile", MODEL, "-o", self.scratch / "other.rannc", *flags)
        for file in ("plan.rir", "stage0.safetensors", "stage1.safetensors"):
            self.assertEqual((self.scratch / "own.rannc" / file).read_bytes(), (self.scratch / "other.rannc" / file).read_bytes())
        self.assertIn("<svg", planned.report())
        self.assertIn("what would help", planned.explain())

    def test_a_bundle_is_opened_planned_again_and_sent_by_device(self):
        bundle = str(self.scratch / "model.rannc")
        core.read(MODEL, [LOSS, "--stages=2", "--costs=analytic"], None).plan(True, None, core.Stop()).write(bundle, False, "", None)
        again = core.read(bundle, ["--devices=1", "--costs=analytic"], None).plan(True, None, core.Stop())
        self.assertEqual(len(again.facts()["stages"]), 1)
        self.assertEqual([set(core.files_of_device(bundle, device)) for device in (0, 1)],
                         [{"manifest.json", "plan.rir", "stage0.safetensors"}, {"manifest.json", "plan.rir", "stage1.safetensors"}])
        session = core.Session(bundle, ["--learning-rate=0.1", "--group=*bias: weight_decay=0"], False, False, "")
        facts = session.facts()
        self.assertEqual((facts["stages"], facts["devices"], facts["training"]), (2, 2, True))
        self.assertEqual(sorted(facts["inputs"]), ["labels/y", "x"])
        self.assertEqual(session.needed()["ranges"], [(0, facts["mini_batch"])])
        session.set_groups(["*: weight_decay=0.5"])
        self.assertIn("weight decay 0.5", session.groups()[-1]["rule"])
        saved = session.save(str(self.scratch / "run"), "none", True)
        self.assertTrue(saved.endswith("checkpoints/step-0"))
        session.close()

    def test_errors_have_their_parts(self):
        wrong = {
            lambda: core.read(MODEL, ["--stages=0"], None): ("--stages", ""),
            lambda: core.read(MODEL, ["--nonsense=1"], None): ("nonsense", ""),
            lambda: core.read(str(self.scratch / "none.onnx"), [], None): ("", "none.onnx"),
            lambda: core.Session(str(self.scratch), [], False, False, ""): ("manifest", str(self.scratch)),
            lambda: core.read(MODEL, [LOSS, "--memory=1KiB"], None).plan(False, None, core.Stop()): ("memory", ""),
        }
        for use, (cause, place) in wrong.items():
            with self.assertRaises(core.Error) as raised:
                use()
            self.assertIn(cause, str(raised.exception))
            self.assertIn(place, raised.exception.place)
            self.assertTrue(raised.exception.cause)
            self.assertEqual(str(raised.exception).count("error:"), 0)

    def test_every_flag_of_the_program_is_an_argument(self):
        names = core.compile_flags()
        for name in ("stages", "mini_batch", "cluster", "precision", "pin", "plan", "memory"):
            self.assertIn(name, names)


if __name__ == "__main__":
    programs.bin_folder = programs.pathlib.Path(sys.argv[1]).resolve()
    core = loaded(programs.bin_folder)
    if core is None:
        print("skipped: the Python package was not built for this Python")
        sys.exit(programs.SKIPPED)
    programs.main()
