"""Programs of every model are read back as they were printed."""
import json
import re

import programs

SMALL = {"small_gpt": "cross_entropy(output=logits,labels=targets)", "small_conv": "cross_entropy(output=logits,labels=y)"}
FORMS = [["--form", "interpreted", "--schedule", "zb-h1"], ["--form", "native", "--recompute", "always"]]
FIELDS = {"labels": "labels", "class_axis": "axis", "ignore_index": "ignore_index", "weight": "weight"}
# What is planned for a second dimension that the file leaves open.
ASSUMED = {"gpt2_dynamo_auto": ["--assume", "s70=16"]}


def losses(card):
    """The flags of a model's losses."""
    flags = []
    for term in card.get("loss") or []:
        known = [name for name in FIELDS if name in term and (name != "labels" or term["kind"] != "in_graph")]
        options = ",".join([f"output={term['output']}"] + [f"{FIELDS[name]}={term[name]}" for name in known])
        flags += ["--loss", f"{term['kind']}({options})"]
    return flags


class ProgramText(programs.ProgramTest):
    def read_back(self, model, *flags):
        """The kinds of programs of a model."""
        printed = self.succeed("rannc-compile", model, "--emit", "programs", "--costs", "analytic", "--cluster", "rannc-1x8",
                               "--devices", 2, *flags).stdout
        file = self.scratch / "programs.rir"
        file.write_text(printed)
        read = self.succeed("rannc-opt", file).stdout
        self.assertEqual(re.sub("  //.*", "", read), re.sub("  //.*", "", printed))
        return set(re.findall("(?m)^program ([A-Z])", printed))

    def test_of_small_models(self):
        for name, loss in SMALL.items():
            for form in FORMS:
                with self.subTest(model=name, form=form):
                    found = self.read_back(programs.DATA / name / "model.onnx", "--loss", loss, *form)
                    self.assertLessEqual({"F", "B", "W"}, found)

    @programs.whole
    def test_of_published_models(self):
        models, count = programs.shared_models(), 0
        if models is None:
            self.skipTest("no published exports")
        for path in sorted([*models.glob("*/card.json"), *models.parent.glob("reports/*/card.json")]):
            card = json.loads(path.read_text())
            flags = [*losses(card), *ASSUMED.get(path.parent.name, ["--assume", "sequence=16"] if "dynseq" in path.parent.name else [])]
            for model in sorted(path.parent.glob("model.*")):
                if self.run_program("rannc-compile", model, "--emit", "graph", *flags).returncode != 0:
                    continue  # a report about an error
                for form in FORMS:
                    with self.subTest(model=path.parent.name, form=form):
                        self.read_back(model, "--allow-merged", *flags, *form)
                        count += 1
        self.assertGreater(count, 150)


if __name__ == "__main__":
    programs.main()
