"""Judges the runs of rannc-check over a product of stages, micro-batches, schedules, recompute and transports."""
import itertools
import json

import programs

PRODUCT = {
    "stages": [1, 2, 3, 4],
    "micro_batches": [1, 2, 3, 5],  # 8 samples do not divide by 3 or 5
    "schedule": ["gpipe", "1f1b"],
    "recompute": ["never", "always", "except-last"],
}
# Parts of the product with every pair of values of two factors, in a quarter of its runs.
PAIRS = [{"stages": stages, "micro_batches": counts, "schedule": [schedule], "recompute": [recompute]}
         for stages, counts, schedule, recompute in (
             ([1, 2], [1, 2], "gpipe", "never"), ([3, 4], [3, 5], "1f1b", "never"),
             ([1, 2], [3, 5], "gpipe", "always"), ([3, 4], [1, 2], "1f1b", "always"),
             ([3, 4], [3, 5], "gpipe", "except-last"), ([1, 2], [1, 2], "1f1b", "except-last"))]
# Of PAIRS, two parts that follow each other have every value of stages, micro-batches and schedules, and one of recompute.
PARTS_OF_A_FOLDER = 2
FLOAT64_LIMIT = 1e-10  # of tests/data/README.md


def divided(folders):
    """[(folders, part)]: the parts of PAIRS over the folders, two parts a folder. With three folders or more, all parts occur."""
    shares = len(PAIRS) // PARTS_OF_A_FOLDER
    return [(folders[i // PARTS_OF_A_FOLDER::shares], part) for i, part in enumerate(PAIRS)]


def compared_gradients(folder, tag):
    """How many gradients a run has to compare: those of the reference that the card does not call constants."""
    card = json.loads((folder / "card.json").read_text())
    constants = {*card.get("float_initializers_that_are_constants", []), *card.get("float_initializers_that_are_buffers", [])}
    names = set()
    for key in programs.read_safetensors(folder / "reference.safetensors"):
        kind, _, name = key.partition("/")
        if kind in (f"grad.{tag}", f"grad.{tag}.norm"):
            names.add(name)
    return len(names - constants)


class ProductTest(programs.ProgramTest):
    def judge_divided(self, folders, transports, dtype="float64", **flags):
        """As `judge` in tier "full". In the suite, a folder has a third of PAIRS: for what another test judges with all of them
        under another transport or type."""
        if programs.WHOLE:
            self.judge(folders, transports, dtype, **flags)
            return
        for some, part in divided(folders):
            self.judge(some, transports, dtype, part, **flags)

    def judge(self, folders, transports, dtype="float64", product=None, **flags):
        """Every case of the product was run, compared everything that the reference has, and is within the limits. Without
        a product: PRODUCT, of which the suite has no time for more than PAIRS."""
        if product is None and not programs.WHOLE:
            for part in PAIRS:
                self.judge(folders, transports, dtype, part, **flags)
            return
        product = product or PRODUCT
        done, entries = programs.check(folders, **product, transport=transports, dtype=dtype, **flags)
        self.assertEqual(done.returncode, 0, done.stderr + "\n".join(json.dumps(e) for e in entries if not e["ok"])[:4000])
        expected = set(itertools.product((folder.name for folder in folders), transports, *product.values()))
        cut = "replicas" if "replicas" in product else "stages"
        found = {(e["folder"], e["transport"], ",".join(map(str, e[cut])) if cut == "replicas" else e[cut], e["micro_batches"], e["schedule"], e["recompute"])
                 for e in entries}
        self.assertEqual(found, expected)
        self.assertEqual(len(entries), len(expected))
        gradients = {folder.name: compared_gradients(folder, "file64" if dtype == "float64" else "f64") for folder in folders}
        for entry in entries:
            with self.subTest(**{key: entry[key] for key in ("folder", "stages", "micro_batches", "schedule", "recompute", "transport")}):
                self.judge_case(entry, gradients[entry["folder"]], dtype)
        worst = {kind: max(entry[kind]["relative"] for entry in entries) for kind in ("outputs", "loss", "gradients")}
        print(f"\n{len(entries)} runs in {dtype}, worst relative error: " + ", ".join(f"{kind} {off:.1e}" for kind, off in worst.items()))

    def judge_case(self, entry, gradients, dtype):
        self.assertTrue(entry["ok"])
        self.assertEqual(entry["failures"], [])
        self.assertEqual(entry["compared_gradients"], gradients)
        self.assertGreater(gradients, 0)
        for kind in ("outputs", "loss", "gradients"):
            self.assertNotEqual(entry[kind]["at"], "", f"{kind} were compared")
            self.assertLessEqual(entry[kind]["of_limit"], 1)
            if dtype == "float64":
                self.assertLessEqual(entry[kind]["relative"], FLOAT64_LIMIT)
