"""Operators that are none of core's, of ATen and of a user's library: compiled, planned, trained, measured by the programs."""
import array
import json
import random
import shutil

import programs

STEPS, SAMPLES, RELATIVE = 3, 8, 1e-5  # of float32
LOSS = "mse(output=y,labels=t)"
RNG = random.Random(3)


def numbers(*shape):
    count = 1
    for extent in shape:
        count *= extent
    return array.array("f", [RNG.gauss(0, 0.7) for _ in range(count)])


WEIGHTS = {"w": (numbers(3, 5), "3,5"), "scale": (numbers(5), "5"), "v": (numbers(5, 2), "5,2"), "m": (numbers(4, 2), "4,2"), "c": (numbers(5, 5), "5,5"),
           "one": (array.array("f", [1]), "")}
DATA = {"x/x": ("F32", [SAMPLES, 3], numbers(SAMPLES, 3).tobytes()), "labels/t": ("F32", [SAMPLES, 2], numbers(SAMPLES, 2).tobytes())}


def graph(*tasks):
    """Of x [batch,3] and the weights that the tasks read; the last makes y [batch,2]."""
    text = "rannc.graph 1\nbatch batch\ninput %x: f32[batch,3] samples 0\n"
    for name, (values, shape) in WEIGHTS.items():
        if any(f"%{name}," in task or f"%{name})" in task for task in tasks):
            kind = "constant" if name == "one" else "parameter"
            text += f'{kind} %{name}: f32[{shape}] = hex "{values.tobytes().hex()}"\n'
    return text + "".join(f"#{i} {task}\n" for i, task in enumerate(tasks)) + "inputs [%x]\noutputs [%y]\n"


def call(name, operands, schema, types, more=""):
    return f'{name}({operands}) {{call.schema = "{schema}", call.types = "{types}"{more}}}'


PLAIN = "f32[batch,5] samples 0"
FIRST, LAST = f"%a: {PLAIN} = core.matmul(%x, %w)", "%y: f32[batch,2] samples 0 = core.matmul(%b, %v)"
SOFT = graph(FIRST, f"%b: {PLAIN} = " + call("rannc_test.soft_step", "%a, %scale", "rannc_test::soft_step",
                                             "f32[n,d] samples 0, f32[d] -> f32[n,d] samples 0", ', call.operands = "x scale"'), LAST)
SOFT_IN_CORE = graph(FIRST, f"%d: {PLAIN} = core.sub(%a, %scale)", f"%e: {PLAIN} = core.abs(%d)", f"%f: {PLAIN} = core.add(%e, %one)",
                     f"%b: {PLAIN} = core.div(%a, %f)", LAST)
CDIST = graph(FIRST, f"%b: {PLAIN} = " + call("aten.cdist", "%a, %c", "aten::cdist", "f32[n,d] samples 0, f32[q,d] -> f32[n,q] samples 0",
                                              ', call.operands = "x1 x2"'), LAST)


def mirrored(width):
    """The guess is right where the width is 4."""
    types = f"f32[n,2] samples 0 -> f32[n,{width}] samples 0"
    task = call("rannc_bare.mirrored", "%s", "rannc_bare::mirrored", types, ', call.operands = "x", call.guessed = true, scale = 0x1p+1')
    tasks = [FIRST, "%s: f32[batch,2] samples 0 = core.matmul(%a, %v)", f"%b: f32[batch,{width}] samples 0 = {task}"]
    if width == 4:
        return graph(*tasks, "%y: f32[batch,2] samples 0 = core.matmul(%b, %m)")
    return graph(*tasks, "%y: f32[batch,2] samples 0 = core.slice(%b) {axes = [1], ends = [2], starts = [0], steps = [1]}")


class Foreign(programs.ProgramTest):
    def setUp(self):
        super().setUp()
        self.libraries = programs.bin_folder.parent / "tests" / "libraries"
        self.data = self.scratch / "data.safetensors"
        programs.write_safetensors(self.data, DATA)

    def model(self, name, text):
        path = self.scratch / f"{name}.rir"
        path.write_text(text)
        return path

    def compiled(self, name, text, *flags):
        bundle = self.scratch / f"{name}.rannc"
        self.succeed("rannc-compile", self.model(name, text), "-o", bundle, "--loss", LOSS, "--costs", "analytic", "--mini-batch", SAMPLES,
                     "--optimizer", "sgd", *flags)
        return bundle

    def losses(self, bundle, *flags):
        log = self.scratch / f"{bundle.stem}.log"
        self.succeed("rannc-run", bundle, "-o", self.scratch / bundle.stem, "--data", self.data, "--steps", STEPS, "--loss-log", log, "--replace",
                     "--learning-rate", "0.05", *flags)
        return [float.fromhex(line.split()[1]) for line in log.read_text().splitlines()]

    def close(self, found, expected):
        self.assertEqual(len(found), STEPS)
        self.assertNotEqual(expected[0], expected[-1])
        for own, other in zip(found, expected, strict=True):
            self.assertLessEqual(abs(own - other), RELATIVE * abs(other), (found, expected))

    def library(self, name):
        return ["--load-library", self.libraries / f"{name}.so"]

    ONE = ["--cluster", "local:1", "--micro-batches", 1]
    CUT = ["--cluster", "local:3", "--micro-batches", 2, "--stages", 2, "--replicas", "2,1"]

    def test_a_users_operator_trains_as_the_same_in_core(self):
        expected = self.losses(self.compiled("core", SOFT_IN_CORE, *self.ONE))
        self.close(self.losses(self.compiled("one", SOFT, *self.library("soft_step"), *self.ONE)), expected)
        cut = self.compiled("cut", SOFT, *self.library("soft_step"), *self.CUT)
        self.close(self.losses(cut), expected)
        self.close(self.losses(cut, "--transport", "gloo"), expected)

    def test_an_operator_of_aten_trains_in_parts(self):
        self.close(self.losses(self.compiled("cut", CDIST, *self.CUT)), self.losses(self.compiled("one", CDIST, *self.ONE)))

    def test_costs_are_measured(self):
        database = self.scratch / "costs.json"
        self.succeed("rannc-profile", self.model("soft", SOFT), "--database", database, "--sizes", 8, "--blocks", 1, *self.library("soft_step"))
        self.assertIn("rannc_test.soft_step", database.read_text())
        self.succeed("rannc-compile", self.model("again", SOFT), "--loss", LOSS, "--mini-batch", SAMPLES, "--cluster", "local:2",
                     "--costs", "measured", "-o", self.scratch / "measured.rannc", *self.library("soft_step"))

    def test_the_bundle_knows_its_library(self):
        own = self.scratch / "own.so"
        shutil.copy(self.libraries / "soft_step.so", own)
        bundle = self.compiled("kept", SOFT, "--load-library", own, *self.ONE)
        [recorded] = json.loads((bundle / "manifest.json").read_text())["libraries"]
        self.assertEqual(recorded["path"], str(own.resolve()))
        first = self.losses(bundle)
        run = ["rannc-run", bundle, "-o", self.scratch / "run", "--data", self.data, "--steps", 1]
        moved = self.scratch / "moved.so"
        own.rename(moved)
        self.refuse(1, ["own.so", "cannot read the library", "--load-library"], *run)
        self.assertEqual(self.losses(bundle, "--load-library", moved), first)
        self.assertEqual(self.losses(bundle, "--load-library", moved, "--transport", "gloo"), first)
        shutil.copy(self.libraries / "without_meta.so", own)
        self.refuse(1, ["own.so", "has digest", recorded["digest"]], *run)
        self.refuse(1, ["without_meta.so", "has digest", recorded["digest"]], *run, *self.library("without_meta"))
        self.refuse(1, ["compiled without libraries"], "rannc-run", self.compiled("cdist", CDIST, *self.ONE), *run[2:], *self.library("soft_step"))

    def test_what_is_missing_is_named(self):
        bare = self.model("bare", SOFT)
        self.refuse(1, ["no operator `rannc_test::soft_step`", "--load-library"], "rannc-compile", bare, "--loss", LOSS, "--costs", "analytic")
        self.refuse(1, ["no operator `rannc_test::soft_step`"], "rannc-profile", bare, "--database", self.scratch / "none.json")
        done = self.succeed("rannc-compile", bare, "--loss", LOSS, "--costs", "analytic", *self.library("soft_step"))
        self.assertIn("calls    rannc_test.soft_step\n", done.stderr)
        odd = self.model("odd", CDIST.replace('x1 x2', 'x1 x3'))
        self.refuse(1, ["`aten::cdist` has no parameter for argument 1 x3"], "rannc-compile", odd, "--loss", LOSS, "--costs", "analytic")
        nothing = self.scratch / "nothing.so"
        self.refuse(1, ["nothing.so", "cannot read the library"], "rannc-compile", self.model("none", SOFT), "--load-library", nothing)
        nothing.write_text("no library")
        self.refuse(1, ["nothing.so", "cannot load the library"], "rannc-compile", self.model("none", SOFT), "--load-library", nothing)

    def test_a_gradient_does_not_end_in_silence(self):
        """An operator without a formula, of which LibTorch would but warn, once."""
        types = "f32[n,d] samples 0 -> f32[n,d] samples 0"
        text = graph(FIRST, f"%b: {PLAIN} = " + call("rannc_bare.halved", "%a", "rannc_bare::halved", types, ', call.operands = "x"'), LAST)
        flags = [self.model("halved", text), "--loss", LOSS, "--costs", "analytic", *self.library("without_meta")]
        self.refuse(1, ["rannc_bare::halved has no gradient", "--stop-gradient b"], "rannc-compile", *flags)
        self.succeed("rannc-compile", *flags, "--stop-gradient", "b")

    def test_guesses_are_asserted_in_every_run(self):
        self.assertEqual(len(self.losses(self.compiled("right", mirrored(4), *self.library("without_meta"), *self.CUT))), STEPS)
        bundle = self.compiled("wrong", mirrored(6), *self.library("without_meta"), *self.ONE)
        self.refuse(1, ["rannc_bare::mirrored gives sizes [8, 4] of type 6, not [8, 6] of 6"], "rannc-run", bundle, "--data", self.data, "--steps", 1)


if __name__ == "__main__":
    programs.main()
