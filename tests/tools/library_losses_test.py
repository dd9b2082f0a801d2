"""Losses of PyTorch's library have PyTorch's values and gradients in every form of PyTorch file; skipped without PyTorch."""
import functools
import importlib.machinery
import importlib.util
import json
import logging
import sys
import warnings

import programs

try:
    import torch

    import library_losses

    loader = importlib.machinery.SourceFileLoader("maker", str(programs.SOURCE / "tools" / "make-check-folder"))
    maker = importlib.util.module_from_spec(importlib.util.spec_from_loader("maker", loader))
    loader.exec_module(maker)
except (ImportError, SystemExit) as missing:
    print(f"skipped: {missing}")
    sys.exit(programs.SKIPPED)

SUFFIX = {"trace": "pt", "script": "pt", "export": "pt2", "decomposed": "pt2"}
# Kinds that PyTorch 2.11 refuses to write, by form: they ask for sizes or numbers that are not known then.
BY_SIZE, BY_DATA = {"bce_weighted", "bce_class_weights"}, {"gaussian", "gaussian_full", "gaussian_one_variance"}
BY_EXPORT = BY_SIZE | BY_DATA | {"cross_entropy_soft", "cross_entropy_soft_weighted", "ctc", "ctc_blank", "ctc_too_long"}
REFUSED = {"trace": BY_SIZE, "script": BY_DATA | {"gaussian_number"}, "export": BY_EXPORT, "decomposed": BY_EXPORT}
# The file says something else than the module, and is judged by its own numbers: PyTorch decomposes the former wrongly, and a trace
# has no regions without gradients.
OF_THE_FILE = {("multilabel_margin", "decomposed"), ("gaussian_full", "trace")}


class LibraryLosses(programs.ProgramTest):
    def setUp(self):
        super().setUp()
        warnings.simplefilter("ignore")
        logging.disable(logging.CRITICAL)
        torch.set_num_threads(1)

    def cases(self):
        """{name: case}, of a file, because torch.jit.script reads the text."""
        chosen = library_losses.expressions()
        path = self.scratch / "cases.py"
        path.write_text(library_losses.source(chosen))
        spec = importlib.util.spec_from_file_location("factory", path)
        module = importlib.util.module_from_spec(spec)
        sys.modules["factory"] = module
        spec.loader.exec_module(module)
        return {name: getattr(module, f"case_{name}")() for name in chosen}

    def numbers(self, case, module):
        case = {**case, "module": module}
        loss = functools.partial(maker.loss_of, case["loss"], labels=case["labels"])
        return {tag: maker.module_numbers(case, dtype, loss) for tag, dtype in (("f64", torch.float64), ("f32", torch.float32))}

    def write(self, case, form, path):
        if form in ("trace", "script"):
            return maker.write_torchscript(case, form, path, None)
        maker.write_exported(case, path, None)
        if form == "decomposed":
            torch.export.save(torch.export.load(path).run_decompositions(), path)

    def folder(self, name, case, form):
        folder = self.scratch / f"{name}-{form}"
        folder.mkdir()
        path = str(folder / f"model.{SUFFIX[form]}")
        self.write(case, form, path)
        judge = case["module"]
        if (name.rpartition("_")[0], form) in OF_THE_FILE:
            judge = torch.jit.load(path) if form == "trace" else torch.export.load(path).module()
        numbers = self.numbers(case, judge)
        card = maker.module_card(name, case, numbers, None)
        maker.write_folder(str(folder), None, case, maker.reference_tensors(card, None, numbers), card)
        return folder

    def judge(self, folder):
        done = self.run_program("rannc-check", folder, "--stages", 1, "--micro-batches", 1, "--summary=json")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        compared = len(json.loads((folder / "card.json").read_text())["gradients_by_state_dict"])
        self.assertEqual([json.loads(line)["compared_gradients"] for line in done.stdout.splitlines()], [compared])

    def judge_all(self, form):
        for name, case in self.cases().items():
            case["module"].eval().requires_grad_()
            with self.subTest(loss=name):
                if name.rpartition("_")[0] in REFUSED[form]:
                    with self.assertRaises((Exception, SystemExit)):
                        self.write(case, form, str(self.scratch / "refused"))
                else:
                    self.judge(self.folder(name, case, form))

    def test_traced(self):
        self.judge_all("trace")

    def test_scripted(self):
        self.judge_all("script")

    def test_exported(self):
        self.judge_all("export")

    def test_decomposed(self):
        self.judge_all("decomposed")


if __name__ == "__main__":
    programs.main()
