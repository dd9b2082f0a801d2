"""Compiled stages on hosts that have one stage each, and bundles whose stages are compiled again."""
import json
import shutil
import signal

import programs
import stage_runs


class NativeStages(stage_runs.StageTest):
    form = "native"

    def losses(self, folder):
        return [float.fromhex(line.split()[1]) for line in (folder / "losses.txt").read_text().splitlines()]

    def copy(self):
        folder = self.scratch / "copy.rannc"
        shutil.copytree(self.whole, folder)
        return folder

    def test_hosts_with_one_stage_run_as_the_text_form_does(self):
        reference, _ = self.reference(4)
        self.run_by_hand(*self.training(4))
        found = [host.with_suffix(".run") for host in self.hosts]
        self.same_run(found[0], reference, 4)
        self.same_part(found[1], reference, 4, 1)
        self.call(*self.compilation(self.scratch / "text.rannc"))
        self.succeed("rannc-run", self.scratch / "text.rannc", *self.training(4), "-o", self.scratch / "text")
        text, native = self.losses(self.scratch / "text"), self.losses(found[0])
        self.assertEqual(len(native), 4)
        for expected, loss in zip(text, native):
            self.assertAlmostEqual(loss, expected, delta=1e-5 * abs(expected))  # loops round differently

    def test_missing_files(self):
        (self.hosts[1] / "stage1.so").unlink()
        _, errors = self.finish(self.popen([self.hosts[1] / "stage1", *self.training(2), *self.by_hand(1, 1)]), 1)
        self.assertIn("stage1.so: error: file is missing", errors)
        self.assertIn("rannc-compile --rebuild", errors)
        self.refuse(1, ["stage0.safetensors: error: file is missing", "rebuild the whole bundle"], "rannc-compile", "--rebuild",
                    self.hosts[1])

    def test_description(self):
        command = [self.hosts[1] / "stage1", "--describe"]
        found = json.loads(self.finish(self.popen([*command, "--json"]))[0])
        recorded = self.manifest()["compiled"]
        self.assertEqual({file["name"] for file in found["files"]}, {"plan.rir", *self.files_of(1)})
        self.assertEqual(found["form"], "native")
        self.assertIn(found["compiled"].pop("instruction_set_here"), [each["name"] for each in recorded["instruction_sets"]])
        self.assertEqual(found["compiled"], recorded)
        self.assertEqual([each["name"] for each in recorded["instruction_sets"]], ["baseline", "avx2", "avx512"])
        text = self.finish(self.popen(command))[0]
        for word in [recorded["compiler_version"], recorded["torch_version"], "-mavx2\n", " (runs here)", " -O3 "]:
            self.assertIn(word, text)
        shutil.copy2(self.whole / "stage0.safetensors", self.hosts[1] / "stage1.so")  # no library
        manifest = self.manifest()
        manifest["files"]["stage1.so"] = manifest["files"]["stage0.safetensors"]
        (self.hosts[1] / "manifest.json").write_text(json.dumps(manifest))
        self.assertIn("does not run here: cannot be loaded: ", self.finish(self.popen(command))[0])

    def test_a_run_goes_on_with_the_rebuilt_bundle(self):
        reference, _ = self.reference(4)
        bundle, found = self.copy(), self.scratch / "found"
        run = ["rannc-run", bundle, "-o", found, *self.training(2)]
        self.succeed(*run)
        before = (bundle / "stage1.so").read_bytes()
        (bundle / "stage1.so").unlink()
        (bundle / "stage0.cc").write_text("// mine")
        advice = f"`rannc-compile --rebuild {bundle}` compiles the stages again"
        self.refuse(1, ["stage0.cc: error: has 7 bytes", advice, "[B3]"], *run, "--replace")
        done = self.succeed("rannc-compile", "--rebuild", bundle)
        self.assertEqual(done.stdout, f"rebuilt {bundle}\n")
        self.assertEqual(done.stderr.splitlines()[1:], ["stale: stage1.so: file is missing"])
        self.assertIn("stale: stage0.cc: has 7 bytes", done.stderr)
        self.assertEqual((bundle / "stage1.so").read_bytes(), before)
        self.succeed("rannc-run", bundle, "-o", found, *self.training(4), "--resume")
        self.assertEqual((found / "losses.txt").read_text(), (reference / "losses.txt").read_text())
        done = self.succeed("rannc-compile", "--rebuild", bundle)
        self.assertEqual((done.stdout, done.stderr), (f"nothing of {bundle} is stale\n", ""))

    def test_a_killed_rebuild_leaves_the_bundle(self):
        bundle, compiler = self.copy(), self.scratch / "c++"
        compiler.write_text('#!/bin/sh\n[ "$1" = --version ] && exec echo c++ 1\nkill -9 $PPID\n')
        compiler.chmod(0o700)
        (bundle / "stage0.cc").write_text("// stale")
        before = {path.name: path.read_bytes() for path in bundle.iterdir()}
        done = self.run_program("rannc-compile", "--rebuild", bundle, "--cxx", compiler)
        self.assertEqual(done.returncode, -signal.SIGKILL, done.stderr)
        self.assertEqual({path.name: path.read_bytes() for path in bundle.iterdir()}, before)
        self.assertEqual(self.succeed("rannc-compile", "--rebuild", bundle).stdout, f"rebuilt {bundle}\n")

    def test_functions_of_another_stage_are_stale(self):
        bundle = self.copy()
        shutil.copy2(bundle / "stage0.so", bundle / "stage1.so")
        manifest = self.manifest()
        manifest["files"]["stage1.so"] = manifest["files"]["stage0.so"]
        (bundle / "manifest.json").write_text(json.dumps(manifest))
        self.refuse(1, ["stage1.so", "[B10]", f"`rannc-compile --rebuild {bundle}`"], "rannc-run", bundle, *self.training(1))
        self.assertEqual(self.succeed("rannc-compile", "--rebuild", bundle).stderr, "stale: stage1.so: has other functions than the plan\n")
        self.succeed("rannc-run", bundle, *self.training(1))

    def test_what_cannot_be_rebuilt(self):
        model = stage_runs.MLP / "model.onnx"
        for flags in [[model], ["--form", "native"], ["-o", "x"], ["--replace"], ["--no-fuse", "loops"]]:
            self.refuse(2, ["--rebuild takes everything but the compiler from the bundle"], "rannc-compile", "--rebuild", self.whole, *flags)
        self.refuse(1, ["--cxx", "`nothing++` is no program in the PATH"], "rannc-compile", "--rebuild", self.whole, "--cxx", "nothing++")
        self.refuse(1, ["--cxx", "/bin/false: does not report its version"], "rannc-compile", "--rebuild", self.whole, "--cxx", "/bin/false")
        self.refuse(1, ["no such bundle"], "rannc-compile", "--rebuild", self.scratch / "none.rannc")
        self.call(*self.compilation(self.scratch / "text.rannc"))
        self.refuse(1, ["has form interpreted, which has no compiled stages", "--form native"], "rannc-compile", "--rebuild",
                    self.scratch / "text.rannc")
        done = self.run_program("rannc-compile")
        self.assertEqual(done.returncode, 2)
        self.assertIn("model is required", done.stderr)


if __name__ == "__main__":
    programs.main()
