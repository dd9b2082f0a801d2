"""What rannc-check has to say of TorchScript files beside published exports, at any number of stages and micro-batches."""
import itertools
import json

import programs
from every_folder import BATCH_NORMALIZATION

STAGES = MICRO_BATCHES = (1, 3)
LSTM_BIAS = "lstm_bias"  # one reference of two parameters


def folders():
    return sorted(path.parent for path in programs.shared_models().glob("*/model.pt"))


def parameters(folder):
    """Names in state_dict of what has to be compared: of each initializer that holds a parameter, a tied one once. One with
    its parameter's own name the card may leave out."""
    card = json.loads((folder / "card.json").read_text())
    held = card["parameter_of_initializer"]
    held = held if isinstance(held, dict) else {}
    names = set()
    for key in programs.read_safetensors(folder / "reference.safetensors"):
        kind, _, name = key.partition("/")
        if kind in ("grad.f64", "grad.f64.norm"):
            of = held.get(name, {"state_dict": name})["state_dict"]
            names.add(of if isinstance(of, str) else " and ".join(of))
    return names


TYPES = {"FLOAT": "f32", "DOUBLE": "f64", "INT64": "i64", "BOOL": "bool"}
FIELDS = {"output": "output", "labels": "labels", "class_axis": "axis", "ignore_index": "ignore_index", "weight": "weight"}


def signature(folder):
    """What the card says of inputs and outputs, as flags."""
    card = json.loads((folder / "card.json").read_text())
    flags = [part for name, (kind, *sizes) in card["inputs"].items()
             for part in ("--input", f"{name}={TYPES[kind]}[{','.join(map(str, sizes))}]")]
    return flags + [part for name in card["outputs"] for part in ("--output-name", name)]


def loss(folder, terms=None):
    """The card's loss, or so many of its terms, as a flag."""
    card = json.loads((folder / "card.json").read_text())
    spelled = [f"{term['kind']}({','.join(f'{FIELDS[key]}={value}' for key, value in term.items() if key in FIELDS)})"
               for term in card["loss"][:terms]]
    return ["--loss", "+".join(spelled)]


class TorchScriptFolder(programs.ProgramTest):
    def check(self, folder, *flags):
        done = self.run_program("rannc-check", folder, "--model", "model.pt", "--summary=json", *flags)
        runs = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
        self.assertTrue(runs, done.stdout + done.stderr)
        return done, runs

    def judge(self, folder, *flags):
        """Every case compares every parameter and is within the limits; a normalisation of batches depends on how they are cut."""
        normalises = folder.name in BATCH_NORMALIZATION
        counts = (1, 4) if normalises else MICRO_BATCHES
        done, runs = self.check(folder, "--stages", ",".join(map(str, STAGES)), "--micro-batches", ",".join(map(str, counts)), *flags)
        self.assertEqual(done.returncode, 0, [(run["stages"], run["micro_batches"], run["failures"]) for run in runs])
        self.assertEqual([(run["stages"], run["micro_batches"]) for run in runs], list(itertools.product(STAGES, counts)))
        for run in runs:
            self.assertEqual((run["ok"], run["failures"]), (True, []))
            self.assertEqual(run["compared_gradients"], len(parameters(folder)))
            for kind in ("outputs", "loss", "gradients"):
                # Of chunks there is a reference of loss and gradients alone.
                self.assertEqual(run[kind]["at"] == "", kind == "outputs" and normalises and run["micro_batches"] == 4, kind)
        worst = max(run["gradients"]["relative"] for run in runs)
        print(f"\n{folder.name} {' '.join(flags)}: gradients within {worst:.1e}")
        if normalises:
            done, runs = self.check(folder, "--stages", 3, "--micro-batches", 3, *flags)
            self.assertEqual(done.returncode, 1)
            self.assertTrue(any("loss: off by" in failure for failure in runs[0]["failures"]), runs[0]["failures"])
