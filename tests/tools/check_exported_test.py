"""A file of torch.export gives the numbers of its module and trains; whatever is wrong with one is one clear error."""
import json
import shutil
import zipfile

import programs

DIAGNOSTICS = 1
FOLDER = programs.DATA / "small_exported"
MODEL = FOLDER / "model.pt2"
LOSS = ["--loss", "cross_entropy(output=logits,labels=y)+mse(output=parts_1,labels=a,weight=0.5)"]
PROGRAM = "models/model.json"


class Numbers(programs.ProgramTest):
    def judge(self, *flags, folder=FOLDER):
        done = self.run_program("rannc-check", folder, "--stages", "1,3", "--micro-batches", "1,3", "--summary=json", *flags)
        runs = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
        self.assertEqual(done.returncode, 0, [run["failures"] for run in runs])
        asked = json.loads((folder / "card.json").read_text())
        parameters = set(asked["gradients_by_state_dict"])
        self.assertEqual([run["compared_gradients"] for run in runs], [len(parameters)] * 4)
        return runs

    def test_doubles(self):
        for run in self.judge():
            self.assertLess(run["gradients"]["relative"], 1e-13)

    def test_float32(self):
        self.judge("--dtype", "float32")

    def test_regions(self):
        for run in self.judge(folder=programs.DATA / "small_regions"):
            self.assertLess(run["gradients"]["relative"], 1e-12)
        self.judge("--dtype", "float32", folder=programs.DATA / "small_regions")

    def test_processes(self):
        self.judge("--transport", "gloo")

    def test_a_reference_that_is_off(self):
        folder = self.scratch / "off"
        shutil.copytree(FOLDER, folder)
        tensors = programs.read_safetensors(folder / "reference.safetensors")
        key = "state.f64/table.weight"
        kind, shape, data = tensors[key]
        tensors[key] = (kind, shape, bytes(len(data)))
        programs.write_safetensors(folder / "reference.safetensors", tensors)
        done = self.run_program("rannc-check", folder)
        self.assertEqual(done.returncode, DIAGNOSTICS, done.stdout)
        self.assertIn("gradient of table.weight: off by", done.stdout)


class Training(programs.ProgramTest):
    def test_the_loss_falls(self):
        bundle, log = self.scratch / "exported.rannc", self.scratch / "loss.log"
        self.succeed("rannc-compile", MODEL, "-o", bundle, *LOSS, "--costs", "analytic", "--cluster", "local:2", "--stages", 2, "--mini-batch", 8,
                     "--micro-batches", 2, "--optimizer", "sgd")
        self.succeed("rannc-run", bundle, "-o", self.scratch / "run", "--data", FOLDER / "batch.safetensors", "--steps", 20, "--loss-log", log,
                     "--learning-rate", 0.3)
        losses = [float.fromhex(line.split()[1]) for line in log.read_text().splitlines()]
        self.assertEqual(len(losses), 20)
        self.assertLess(losses[-1], 0.8 * losses[0])

    def test_profile(self):
        database = self.scratch / "costs.json"
        self.succeed("rannc-profile", MODEL, "--database", database, "--sizes", 2, "--repeat", 1, "--blocks", 1)
        self.assertTrue(database.exists())


class Signatures(programs.ProgramTest):
    def graph(self, path, *flags):
        return self.succeed("rannc-compile", path, "--emit", "graph", *flags).stdout

    def test_any_extension(self):
        path = self.scratch / "model.bin"
        shutil.copy(MODEL, path)
        self.assertEqual(self.graph(path).replace(str(path), str(MODEL)), self.graph(MODEL))

    def test_names(self):
        text = self.graph(MODEL, "--input", "ids=i64[rows,10]", "--output-name", "scores")
        for wanted in ("batch rows", "input %ids: i64[rows,10] samples 0", "outputs [%scores, %parts_0, %parts_1]"):
            self.assertIn(wanted, text)

    def test_name_of_the_output_is_suggested(self):
        wanted = ["the loss is on output logits", "its outputs are output", "--output-name logits names the output"]
        self.refuse(DIAGNOSTICS, wanted, "rannc-compile", programs.DATA / "small_regions" / "model.pt2", "--emit", "graph", "--loss",
                    "mse(output=logits,labels=y)")

    def test_other_inputs(self):
        for flags in (["ids=i64[rows,12]"], ["ids=f32[rows,10]"], ["a=i64[rows,10]", "b=i64[rows,10]"]):
            self.refuse(DIAGNOSTICS, ["model.pt2", "--input"], "rannc-compile", MODEL, "--emit", "graph", *(part for flag in flags for part in ("--input", flag)))


class SpoiledFiles(programs.ProgramTest):
    def refused(self, path, *parts):
        done = self.refuse(DIAGNOSTICS, [str(path), *parts], "rannc-compile", path, "--emit", "graph")
        self.assertEqual(done.stdout, "")

    def rewritten(self, name, change):
        """The archive with what `change` leaves of {record: bytes}, which lie in one folder."""
        with zipfile.ZipFile(MODEL) as archive:
            records = {entry.partition("/")[2]: archive.read(entry) for entry in archive.namelist()}
        change(records)
        path = self.scratch / f"{name}.pt2"
        with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
            for record, data in records.items():
                archive.writestr(f"model/{record}", data)
        return path

    def test_weights_of_the_meta_device(self):
        config = "data/weights/model_weights_config.json"

        def empty(records):
            weights = json.loads(records[config])
            for entry in weights["config"].values():
                records[f"data/weights/{entry['path_name']}"] = b""
                entry["path_name"] = "weight_0"
            records[config] = json.dumps(weights).encode()

        path = self.rewritten("meta", empty)
        plan = [*LOSS, "--costs", "analytic", "--cluster", "local:2", "--stages", 2, "--mini-batch", 8]
        done = self.succeed("rannc-compile", path, "--emit", "plan", *plan)
        self.assertIn("as with --without-weights", done.stdout + done.stderr)
        self.refuse(DIAGNOSTICS, ["can be planned (--emit=plan) but not compiled"], "rannc-compile", path, "-o", self.scratch / "meta.rannc", *plan)

    def test_as_it_was(self):
        self.succeed("rannc-compile", self.rewritten("same", lambda records: None), "--emit", "graph")

    def test_absent_and_empty(self):
        self.refused(self.scratch / "absent.pt2")
        (self.scratch / "empty.pt2").write_bytes(b"")
        self.refused(self.scratch / "empty.pt2", "torch.export.save")

    def test_truncated(self):
        data, path = MODEL.read_bytes(), self.scratch / "truncated.pt2"
        for part in (0.001, 0.3, 0.7, 0.99):
            path.write_bytes(data[:int(len(data) * part)])
            self.refused(path)

    def test_without_a_record(self):
        for record in (PROGRAM, "data/weights/model_weights_config.json", "data/weights/weight_0"):
            with self.subTest(record=record):
                self.refused(self.rewritten("less", lambda records: records.pop(record)))

    def test_an_operator_that_nobody_has(self):
        def rename(records):
            records[PROGRAM] = records[PROGRAM].replace(b"torch.ops.aten.gelu.default", b"torch.ops.mine.gelu.default")

        self.refused(self.rewritten("mine", rename), "mine::gelu (1)", "--load-library")

    def test_packed_weights(self):
        path = self.scratch / "packed.pt2"
        with zipfile.ZipFile(MODEL) as whole, zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            for entry in whole.namelist():
                archive.writestr(entry, whole.read(entry))
        text = self.succeed("rannc-compile", path, "--emit", "graph").stdout
        self.assertIn("%table.weight", text)


if __name__ == "__main__":
    programs.main()
