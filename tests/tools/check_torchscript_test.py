"""TorchScript files give the numbers of their modules and train; whatever is wrong with one is one clear error."""
import io
import json
import pickle
import shutil
import unittest
import zipfile

import programs
from torchscript_folders import LSTM_BIAS, TorchScriptFolder, folders, loss, parameters, signature

DIAGNOSTICS, USAGE = 1, 2
# Traced and scripted, tied, of whole batches, with gates in another order.
MODELS = ["mlp_legacy_dyn", "mlp_dynamo_dyn", "lstm_legacy_b8", "lstm_legacy_dyn", "gpt2_legacy_dyn", "unet_train_legacy"]
GPT_FLAGS = ["--input", "input_ids=i64[batch,12]", "--input", "attention_mask=i64[batch,12]", "--output-name", "logits"]
LOSS = ["--loss", "cross_entropy(output=logits,labels=y)"]

with_models = unittest.skipIf(programs.shared_models() is None, "no folder of published models; RANNC_SHARED_DIR names it")


def model(name):
    return programs.shared_models() / name / "model.pt"


@with_models
class Numbers(TorchScriptFolder):
    def test_models(self):
        for name in MODELS:
            with self.subTest(folder=name):
                self.judge(programs.shared_models() / name)

    def test_float32(self):
        for name in ("mlp_legacy_dyn", "lstm_legacy_b8"):
            self.judge(programs.shared_models() / name, "--dtype", "float32")

    def test_workers(self):
        folder = programs.shared_models() / "lstm_legacy_b8"
        done, runs = self.check(folder, "--stages", 3, "--micro-batches", 3, "--transport", "gloo")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual(runs[0]["compared_gradients"], len(parameters(folder)))

    def test_flags_in_place_of_the_card(self):
        folder = programs.shared_models() / "mlp_legacy_dyn"
        done, _ = self.check(folder, "--input", "x=f32[rows,20]", "--output-name", "logits")
        self.assertEqual(done.returncode, 0, done.stdout)
        self.refuse(DIAGNOSTICS, ["output logits", "its outputs are scores"], "rannc-check", folder, "--model", "model.pt", "--output-name", "scores")
        self.refuse(DIAGNOSTICS, ["--input", "model.onnx"], "rannc-check", folder, "--input", "x=f32[batch,20]")


@with_models
class Twins(TorchScriptFolder):
    """The export of the same module: its fused graph has no fewer tasks by a tenth."""

    def tasks(self, folder, name, *flags):
        text = self.succeed("rannc-compile", folder / name, "--emit", "graph", "--costs", "analytic", "--cluster", "local:1", "--mini-batch", 8,
                            *flags).stdout
        return sum(" samples " in line for line in text.splitlines() if line.startswith("#"))

    def test_tasks(self):
        for folder in folders():
            with self.subTest(folder=folder.name):
                with_loss = loss(folder, 1)
                of_export = self.tasks(folder, "model.onnx", *with_loss)
                self.assertLessEqual(self.tasks(folder, "model.pt", *with_loss, *signature(folder)), 1.1 * of_export)


@with_models
class SpoiledFolders(TorchScriptFolder):
    """Each test begins with a folder that passes."""

    def spoiled(self, name, change_card=None, change_reference=None):
        folder = self.scratch / name
        shutil.copytree(programs.shared_models() / name, folder)
        if change_card:
            card = json.loads((folder / "card.json").read_text())
            change_card(card)
            (folder / "card.json").chmod(0o644)
            (folder / "card.json").write_text(json.dumps(card))
        if change_reference:
            tensors = programs.read_safetensors(folder / "reference.safetensors")
            change_reference(tensors)
            (folder / "reference.safetensors").chmod(0o644)
            programs.write_safetensors(folder / "reference.safetensors", tensors)
        return folder

    def failures(self, folder):
        done, runs = self.check(folder, "--stages", 1, "--micro-batches", 1)
        self.assertEqual(done.returncode, DIAGNOSTICS, done.stdout)
        return runs[0]["failures"]

    def test_without_an_export(self):
        folder = self.spoiled("mlp_legacy_dyn")
        folder.chmod(0o755)
        (folder / "model.onnx").unlink()
        self.succeed("rannc-check", folder)

    def test_a_parameter_that_the_model_has_not(self):
        def rename(tensors):
            for tag in ("f64", "f32"):
                tensors[f"grad.{tag}/ghost"] = tensors.pop(f"grad.{tag}/layers.0.bias")

        self.assertEqual(sorted(self.failures(self.spoiled("mlp_legacy_dyn", change_reference=rename))),
                         ["gradient of ghost: we have none",
                          "gradient of layers.0.bias: it is trained, but is not a parameter of the original model"])

    def test_gates_as_pytorch_has_them(self):
        def forget(card):
            for entry in card["parameter_of_initializer"].values():
                entry["transform"] = entry["transform"].replace("lstm_gates", "none")

        failures = self.failures(self.spoiled("lstm_legacy_b8", forget))
        self.assertEqual({failure.split(":")[0].removesuffix(" (norm)") for failure in failures},
                         {f"gradient of lstm.weight_{of}_l{layer}" for of in ("ih", "hh") for layer in (0, 1)})

    def test_biases_of_the_other_layer(self):
        def swap(card):
            first, second = (entry for entry in card["parameter_of_initializer"].values() if entry["transform"] == LSTM_BIAS)
            first["state_dict"], second["state_dict"] = second["state_dict"], first["state_dict"]

        failures = self.failures(self.spoiled("lstm_legacy_b8", swap))
        for layer in (0, 1):
            self.assertTrue(any(failure.startswith(f"gradient of lstm.bias_ih_l{layer} and lstm.bias_hh_l{layer}: off by")
                                for failure in failures), failures)

    def test_a_transform_that_nobody_knows(self):
        def change(card):
            next(iter(card["parameter_of_initializer"].values()))["transform"] = "mirror"

        self.refuse(DIAGNOSTICS, ["card.json", "mirror"], "rannc-check", self.spoiled("lstm_legacy_b8", change), "--model", "model.pt")

    def test_a_file_that_is_not_there(self):
        self.refuse(DIAGNOSTICS, ["absent.pt"], "rannc-check", self.spoiled("mlp_legacy_dyn"), "--model", "absent.pt")


@with_models
class Training(programs.ProgramTest):
    def test_the_loss_falls(self):
        bundle, log = self.scratch / "gpt2.rannc", self.scratch / "loss.log"
        self.succeed("rannc-compile", model("gpt2_legacy_dyn"), "-o", bundle, *GPT_FLAGS, *LOSS, "--costs", "analytic", "--cluster", "local:2",
                     "--stages", 2, "--mini-batch", 8, "--micro-batches", 2, "--optimizer", "sgd")
        self.succeed("rannc-run", bundle, "-o", self.scratch / "run", "--data", model("gpt2_legacy_dyn").parent / "batch.safetensors",
                     "--steps", 20, "--loss-log", log, "--learning-rate", 0.1)
        losses = [float.fromhex(line.split()[1]) for line in log.read_text().splitlines()]
        self.assertEqual(len(losses), 20)
        self.assertLess(losses[-1], 0.9 * losses[0])


@with_models
class Signatures(programs.ProgramTest):
    def graph(self, path, *flags):
        return self.succeed("rannc-compile", path, "--emit", "graph", *flags).stdout

    def test_any_extension(self):
        path = self.scratch / "model.bin"
        shutil.copy(model("mlp_legacy_dyn"), path)
        self.assertIn("%x", self.graph(path, "--input", "x=f32[batch,20]"))

    def test_names(self):
        text = self.graph(model("mlp_legacy_dyn"), "--input", "rows=f32[batch,20]", "--output-name", "scores")
        self.assertIn("%rows", text)
        self.assertIn("%scores", text)
        self.assertIn("layers.0.weight", text)

    def test_profile(self):
        database = self.scratch / "costs.json"
        self.succeed("rannc-profile", model("mlp_legacy_dyn"), "--database", database, "--input", "x=f32[batch,20]", "--sizes", 2,
                     "--repeat", 1, "--blocks", 1)
        self.assertTrue(database.exists())

    def refused(self, name, parts, *flags):
        self.refuse(DIAGNOSTICS, parts, "rannc-compile", model(name), "--emit", "graph", *flags)

    def test_no_input(self):
        self.refused("gpt2_legacy_dyn", [str(model("gpt2_legacy_dyn")), "--input", "input_ids", "attention_mask"])

    def test_number_of_inputs(self):
        for flags in (GPT_FLAGS[:2], [*GPT_FLAGS, "--input", "more=f32[batch]"]):
            self.refused("gpt2_legacy_dyn", ["gpt2_legacy_dyn/model.pt", "--input"], *flags)

    def test_number_of_outputs(self):
        self.refused("mlp_legacy_dyn", ["mlp_legacy_dyn/model.pt", "2 names", "1 output"], "--input", "x=f32[batch,20]",
                     "--output-name", "a", "--output-name", "b")

    def test_malformed_inputs(self):
        for text in ("x", "x=f32", "x=f33[batch,20]", "x=f32[batch,20", "=f32[batch,20]", "x=f32[batch,-20]"):
            with self.subTest(text=text):
                self.refused("mlp_legacy_dyn", ["mlp_legacy_dyn/model.pt", "--input", text], "--input", text)

    def test_types_that_the_model_does_not_take(self):
        self.refused("lstm_legacy_b8", ["lstm_legacy_b8/model.pt", "f32"], "--input", "tokens=f32[8,12]")
        self.refused("mlp_legacy_dyn", ["mlp_legacy_dyn/model.pt", "21"], "--input", "x=f32[batch,21]")

    def test_files_that_say_it_themselves(self):
        for flags in (["--input", "x=f32[batch,20]"], ["--output-name", "logits"]):
            folder = programs.DATA / "small_mlp"
            self.refuse(DIAGNOSTICS, [str(folder / "model.onnx"), flags[0]], "rannc-compile", folder / "model.onnx", *flags)
            text = self.scratch / "graph.rir"
            text.write_text(self.graph(folder / "model.onnx"))
            self.refuse(DIAGNOSTICS, [str(text), flags[0]], "rannc-compile", text, *flags)
            profile = programs.DATA / "profiles" / "convolutions-pbs-4.txt"
            self.refuse(USAGE, [flags[0], "profile"], "rannc-compile", profile, *flags)

    def test_no_copy_in_onnx(self):
        self.refuse(DIAGNOSTICS, ["mlp_legacy_dyn/model.pt", "--emit onnx"], "rannc-compile", model("mlp_legacy_dyn"), "--emit", "onnx",
                    "--weights", self.scratch / "absent.safetensors", "-o", self.scratch / "copy.onnx")
        self.assertFalse((self.scratch / "copy.onnx").exists())


class SpoiledFiles(programs.ProgramTest):
    def refused(self, path, *parts):
        done = self.refuse(DIAGNOSTICS, [str(path), *parts], "rannc-compile", path, "--input", "x=f32[batch,20]", "--emit", "graph")
        self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
        self.assertEqual(done.stdout, "")

    def test_absent(self):
        self.refused(self.scratch / "absent.pt")

    def test_folder(self):
        (self.scratch / "folder.pt").mkdir()
        self.refused(self.scratch / "folder.pt")

    def test_empty(self):
        for name in ("empty.pt", "empty.pth", "empty.ts"):
            (self.scratch / name).write_bytes(b"")
            self.refused(self.scratch / name, "torch.jit.save")

    def test_text(self):
        (self.scratch / "text.pt").write_text("this is no model\n")
        self.refused(self.scratch / "text.pt", "torch.jit.save")

    def test_weights_alone(self):
        # What torch.save writes of a state_dict, as far as a reader of programs gets.
        path = self.scratch / "weights.pt"
        with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
            archive.writestr("weights/data.pkl", pickle.dumps({}, protocol=2))
            archive.writestr("weights/byteorder", "little")
            archive.writestr("weights/version", "3\n")
            archive.writestr("weights/data/0", bytes(16))
        self.refused(path, "weights", "torch.jit.save")

    def test_any_archive(self):
        path = self.scratch / "pictures.zip"
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("picture", bytes(100))
        self.refused(path, "TorchScript")

    @with_models
    def test_truncated(self):
        data = model("mlp_legacy_dyn").read_bytes()
        path = self.scratch / "truncated.pt"
        for part in (0.0001, 0.1, 0.5, 0.9, 0.999):
            with self.subTest(part=part):
                path.write_bytes(data[:int(len(data) * part)])
                self.refused(path)

    @with_models
    def test_without_its_code(self):
        source, path = zipfile.ZipFile(io.BytesIO(model("mlp_legacy_dyn").read_bytes())), self.scratch / "stripped.pt"
        with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
            for name in source.namelist():
                if "/code/" not in name:
                    archive.writestr(name, source.read(name))
        self.refused(path)


if __name__ == "__main__":
    programs.main()
