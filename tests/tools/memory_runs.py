"""Runs that hold what a plan predicts of memory against what the tensors of its workers take."""
import json
import os
import pathlib
import re
import tempfile

import programs

LIMIT = 0.02


def size(count):
    """As the report writes bytes."""
    count = int(count)
    return f"{count / 2**20:.1f} MiB" if count >= 2**20 else f"{count / 2**10:.1f} KiB"


def loss_of(card):
    """Terms of rannc-compile."""
    facts = {"output": "output", "labels": "labels", "axis": "class_axis", "ignore_index": "ignore_index", "weight": "weight"}
    said = [[f"{name}={term[key]}" for name, key in facts.items() if term.get(key) is not None] for term in card["loss"]]
    return "+".join(f"{term['kind']}({','.join(words)})" for term, words in zip(card["loss"], said))


def assumed(card, batch):
    """Sizes of the inputs' axes after the first, where they are symbols."""
    sizes = {}
    for name, (_, *dims) in card["inputs"].items():
        sizes.update(zip(dims[1:], batch[f"x/{name}"][1][1:]))
    return [flag for symbol, size in sizes.items() if isinstance(symbol, str) for flag in ("--assume", f"{symbol}={size}")]


class MemoryRuns(programs.ProgramTest):
    """Tests of memory derive from it."""

    instructions = None  # limit of oneDNN, which a process reads once; None: those of this machine

    def run_program(self, name, *arguments, **options):
        if self.instructions:
            options["env"] = {**os.environ, "ONEDNN_MAX_CPU_ISA": self.instructions}
        return super().run_program(name, *arguments, **options)

    def model(self, *flags):
        path = self.scratch / "model.onnx"
        self.succeed("rannc-zoo", *flags, "-o", path)
        return path

    def bundle(self, folder, model, loss, devices, *flags, optimizer="adam", costs="analytic"):
        self.succeed("rannc-compile", model, "-o", folder / "model.rannc", "--cluster", f"local:{devices}", "--loss", loss,
                     "--costs", costs, "--no-refine", "--optimizer", optimizer, *flags)
        return folder / "model.rannc"

    def peaks(self, bundle, data, transport, optimizer="adam"):
        """[(devices, measured, predicted)] by process, of two steps after the first; what the report says is the same."""
        folder = bundle.parent / transport
        done = self.succeed("rannc-run", bundle, "-o", folder, "--steps", 3, "--transport", transport, "--optimizer",
                            optimizer, *data)
        found = sorted(re.findall(r"(devices? [\d to]+) held (\d+) bytes at most, (\d+) were predicted", done.stdout))
        page = (folder / "report.html").read_text().split("<h2>Memory</h2>")[1].split("<h2>")[0]
        rows = re.findall(r"<tr><td>(devices? [\d to]+)(?:, one process)?</td><td>[^<]*</td><td>([^<]+)</td><td>([^<]+)</td>",
                          page)
        self.assertEqual(sorted((who, size(predicted), size(measured)) for who, measured, predicted in found), sorted(rows))
        return [(who, int(measured), int(predicted)) for who, measured, predicted in found]

    def expect(self, model, loss, data, devices, *flags, optimizer="adam", transports=None, costs="analytic"):
        """Transports: by default a process per device, or this one for a single device."""
        transports = transports or ("gloo" if devices > 1 else "local",)
        folder = pathlib.Path(tempfile.mkdtemp(dir=self.scratch))
        bundle = self.bundle(folder, model, loss, devices, *flags, optimizer=optimizer, costs=costs)
        for transport in transports:
            found = self.peaks(bundle, data, transport, optimizer)
            self.assertEqual(len(found), 1 if transport == "local" else devices, found)
            for who, measured, predicted in found:
                told = f"{who} held {measured} bytes, {predicted} were predicted: {transport} {flags}"
                self.assertLess(measured / predicted - 1, LIMIT, told)
                if len(found) == devices:  # of several devices in one process the peaks may come one after the other
                    self.assertLess(predicted / measured - 1, LIMIT, told)

    def expect_export(self, folder, devices, *flags):
        """An export with its samples. It must have a card."""
        card = json.loads((folder / "card.json").read_text())
        sizes = assumed(card, programs.read_safetensors(folder / "batch.safetensors"))
        self.expect(folder / "model.onnx", loss_of(card), ["--data", folder / "batch.safetensors"], devices, *flags, *sizes, optimizer="sgd")
