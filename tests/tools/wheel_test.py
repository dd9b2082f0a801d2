"""A wheel of tools/wheel works in an environment with PyTorch alone, beside other packages, and after a move; skipped without either."""
import importlib.metadata
import importlib.util
import os
import pathlib
import re
import shutil
import subprocess
import sys

import programs

try:
    import torch
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(programs.SKIPPED)

TAG = f"cp{sys.version_info.major}{sys.version_info.minor}"
WHEELS = sorted((programs.SOURCE / "build" / "wheels").glob(f"rannc-*-{TAG}-*manylinux*.whl"), key=os.path.getmtime)
if not WHEELS:
    print(f"skipped: no wheel for this Python; `tools/wheel --python {sys.executable}` makes one")
    sys.exit(programs.SKIPPED)

NAMES = ["rannc-check", "rannc-compile", "rannc-opt", "rannc-profile", "rannc-run", "rannc-stage", "rannc-zoo"]
MODEL = programs.DATA / "small_mlp" / "model.onnx"
LOSS = "cross_entropy(output=logits,labels=y)"
# What the wheel does not contain: LibTorch, and the libraries of every Linux. Copies of rannc-stage in bundles have no more than these.
OUTSIDE = {"libtorch_cpu.so", "libc10.so", "libc.so.6", "libm.so.6", "libgcc_s.so.1", "libstdc++.so.6", "libdl.so.2",
           "libpthread.so.0", "librt.so.1", "ld-linux-x86-64.so.2"}
OF_PLUGIN = {"libtorch_cuda.so", "libc10_cuda.so", "libcudart.so.13"}
# Each package parses a message with the Protocol Buffers that it contains.
BESIDE = """
import sys
order = sys.argv[2:]
for name in order: __import__(name)
import rannc
read = rannc._core.read(sys.argv[1], ["--loss", "{loss}"], None)
assert read.tasks > 3, read.tasks
if "onnx" in order:
    import onnx
    onnx.checker.check_model(onnx.load(sys.argv[1]), full_check=True)
if "onnxruntime" in order:
    import onnxruntime
    assert onnxruntime.InferenceSession(sys.argv[1]).get_inputs()
try:
    rannc._core.read("/nowhere.onnx", [], None)
except rannc.Error as failure:
    assert "/nowhere.onnx" in str(failure)
maps = open("/proc/self/maps").read()
for library in ("libtorch_cpu.so", "libc10.so", "libgomp"):
    found = {{line.split()[-1] for line in maps.splitlines() if library in line}}
    assert len(found) == 1, found
print(read.tasks)
""".format(loss=LOSS)

# A module trains on two stages, and its bundle has executables.
TRAINED = """
import torch, sys
import rannc
torch.manual_seed(1)
net = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))
batch = torch.randn(8, 4), torch.randint(2, (8,))
optimizer = torch.optim.AdamW(net.parameters(), lr=0.05)
def loss(output, batch): return torch.nn.functional.cross_entropy(output, batch[1])
with rannc.Trainer(net, batch, loss=loss, optimizer=optimizer, cluster="local:2", stages=2, progress=False) as trainer:
    losses = [float(trainer.step(batch)) for _ in range(20)]
    trainer.to_module(net)
assert losses[-1] < losses[0] and abs(float(loss(net(batch[0]), batch)) - losses[-1]) < 0.1, losses
rannc.compile(net, batch, sys.argv[1], loss=loss, cluster="local:2", stages=2)
"""
# The plug-in joins the CUDA of the process, also without a GPU.
PLUGIN = """
import ctypes, sys, torch
import rannc
ctypes.CDLL(sys.argv[1])
maps = open("/proc/self/maps").read()
for library in ("libtorch_cuda.so", "libc10_cuda.so", "libcudart.so", "libtorch_cpu.so"):
    found = {line.split()[-1] for line in maps.splitlines() if library in line}
    assert len(found) == 1, found
"""

# Of a user, for a type checker.
TYPED = """
import torch
from torch import nn

import rannc

net = nn.Linear(4, 2)
x, y = torch.randn(8, 4), torch.zeros(8, dtype=torch.long)
optimizer = torch.optim.AdamW(net.parameters(), lr=3e-4)
plan: rannc.Plan = rannc.plan(net, (x, y), loss=nn.functional.cross_entropy, cluster="local:2")
print(plan.step_ms + 1.0, plan.stages[0].first_task.upper())
trainer = rannc.Trainer(net, (x, y), loss=nn.functional.cross_entropy, optimizer=optimizer, cluster="local:2")
try:
    print(float(trainer.step((x, y))))
except rannc.Error as failure:
    print(failure.place.upper(), failure.hint.upper())
trainer.to_module(net)
"""


def output_of(*command, **options):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, timeout=programs.HANG_SECONDS, **options)
    if done.returncode != 0:
        raise AssertionError(f"{done.args}\n{done.stdout}{done.stderr}")
    return done.stdout


def entries_of(distribution):
    """Files and folders that a distribution and those that it requires have in site-packages."""
    names, pending = {}, [distribution]
    while pending:
        name = re.sub("[-_.]+", "-", pending.pop()).lower()
        if name in names:
            continue
        try:
            found = importlib.metadata.distribution(name)
        except importlib.metadata.PackageNotFoundError:  # which this machine need not have
            names[name] = []
            continue
        names[name] = {found.locate_file(file.parts[0]) for file in found.files if file.parts[0] not in ("..", "__pycache__")}
        pending += [re.match(r"[\w.-]+", each)[0] for each in found.requires or [] if "extra ==" not in each]
    return set().union(*names.values())


class Environment:
    """A fresh virtual environment with the wheel installed."""

    def __init__(self, folder):
        output_of(sys.executable, "-m", "venv", folder)
        self.python = folder / "bin" / "python"
        self.bin = folder / "bin"
        self.site = pathlib.Path(output_of(self.python, "-c", "import site; print(site.getsitepackages()[0])").strip())

    def install(self):
        output_of(self.python, "-m", "pip", "install", "--no-deps", "--no-index", WHEELS[-1])

    def link(self, distribution):
        for entry in entries_of(distribution):
            if not (self.site / entry.name).exists():
                (self.site / entry.name).symlink_to(entry)

    def see(self, *folders):
        (self.site / "seen.pth").write_text("".join(f"{folder}\n" for folder in folders))


def dynamic(file, tag):
    return re.findall(rf"\({tag}\).*\[(.*)\]", output_of("readelf", "-d", file))


class Wheel(programs.ProgramTest):
    @classmethod
    def setUpClass(cls):
        print(f"wheel: {WHEELS[-1].name}, {WHEELS[-1].stat().st_size / 2**20:.1f} MiB")

    def environment(self, name="alone"):
        made = Environment(self.scratch / name)
        if name == "alone":
            made.link("torch")
        else:
            beside = [importlib.util.find_spec(name).origin for name in ("torch", "onnxruntime") if importlib.util.find_spec(name)]
            made.see(*dict.fromkeys(pathlib.Path(origin).parents[1] for origin in beside))
        made.install()
        return made

    def train(self, start):
        """`start` makes the command of a program."""
        surroundings = {name: value for name, value in os.environ.items() if name not in ("LD_LIBRARY_PATH", "PYTHONPATH")}

        def call(program, *arguments):
            command, more = start(program)
            return output_of(*command, *arguments, env={**surroundings, **more})

        folder = self.scratch / "run"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        bundle = folder / "model.rannc"
        for program in NAMES:
            self.assertRegex(call(program, "--version"), r"\d+\.\d+\.\d+")
        self.assertRegex(call("rannc-zoo", "gpt", "--layers", 1, "-o", folder / "gpt.onnx"), r"gpt with \d+ parameters")
        shown = call("rannc-compile", MODEL, "-o", bundle, "--loss", LOSS, "--cluster", "local:2", "--stages", 2, "--mini-batch", 8)
        self.assertIn("2 stages", shown)
        call("rannc-run", bundle, "--data", programs.DATA / "small_mlp" / "batch.safetensors", "--steps", 3, "--output", folder / "out")
        self.assertTrue((folder / "out").is_dir())
        self.assertIn("1 passed, 0 failed", call("rannc-check", programs.DATA / "small_mlp"))
        return bundle

    def test_WithPyTorchAlone(self):
        alone = self.environment()
        self.assertEqual(output_of(alone.python, "-c", "import importlib.util as u; print(u.find_spec('onnx'))").strip(), "None")
        output_of(alone.python, "-c", BESIDE, MODEL, "torch")
        script = self.scratch / "trained.py"  # whose source torch.export reads
        script.write_text(TRAINED)
        output_of(alone.python, script, self.scratch / "trained.rannc")
        self.assertTrue((self.scratch / "trained.rannc" / "stage1").exists())
        bundle = self.train(lambda program: ([alone.bin / program], {}))
        # A bundle's own programs find LibTorch by the link that their manual describes.
        (bundle / "libtorch").symlink_to(alone.site / "torch" / "lib")
        self.assertIn("stage 0 of 2", output_of(bundle / "stage0", "--describe"))

    def test_BesideOtherProtocolBuffers(self):
        environment = self.environment("beside")
        found = [name for name in ("onnx", "onnxruntime", "torchvision") if importlib.util.find_spec(name)]
        print("beside:", *found)
        counts = {output_of(environment.python, "-W", "ignore", "-c", BESIDE, MODEL, *order)
                  for order in (["rannc", *found], [*found, "rannc"], [*reversed(found), "rannc"])}
        self.assertEqual(len(counts), 1)
        self.train(lambda program: ([environment.bin / program], {}))

    def test_Moved(self):
        environment = self.environment("beside")
        moved = self.scratch / "elsewhere"
        moved.mkdir()
        for name in ("rannc", "rannc_programs.py"):
            (environment.site / name).rename(moved / name)
        code = "import rannc_programs, sys; getattr(rannc_programs, sys.argv.pop(1).partition('-')[2])()"
        self.train(lambda program: ([environment.python, "-c", code, program], {"PYTHONPATH": str(moved)}))
        output_of(environment.python, "-c", BESIDE, MODEL, "torch", env={**os.environ, "PYTHONPATH": str(moved)})

    def test_Libraries(self):
        site = self.environment().site
        core = next((site / "rannc").glob("_core.*.so"))
        exported = output_of("nm", "-D", "--defined-only", "--format=just-symbols", core).split()
        self.assertEqual(exported, ["PyInit__core"])
        files = [core, *((site / "rannc" / "bin" / name) for name in NAMES), *(site / "rannc" / "lib").glob("*.so")]
        for file in files:
            needed = set(dynamic(file, "NEEDED"))
            allowed = OUTSIDE | (OF_PLUGIN if file.name == "librannc_cuda.so" else set())
            self.assertLessEqual(needed, allowed, file)
            for path in ":".join(dynamic(file, "R(?:UN)?PATH")).split(":"):
                self.assertTrue(path.startswith("$ORIGIN"), f"{file}: {path}")

    @programs.unittest.skipUnless(torch.version.cuda, "PyTorch has no CUDA")
    def test_PlugInForGpus(self):
        environment = self.environment()
        plugin = environment.site / "rannc" / "lib" / "librannc_cuda.so"
        if not plugin.exists():
            self.skipTest("the wheel was built without a CUDA toolkit")
        output_of(environment.python, "-c", PLUGIN, plugin)

    @programs.unittest.skipUnless(importlib.util.find_spec("mypy"), "mypy is not installed")
    def test_Types(self):
        script = self.scratch / "typed.py"
        script.write_text(TYPED)
        python = self.environment("beside").python
        output_of(sys.executable, "-m", "mypy", "--strict", "--cache-dir", self.scratch / "cache", "--python-executable", python, script)
        script.write_text(TYPED + "rannc.Error().cause + 1\n")
        with self.assertRaisesRegex(AssertionError, "Unsupported operand types"):
            output_of(sys.executable, "-m", "mypy", "--cache-dir", self.scratch / "cache", "--python-executable", python, script)

    def test_Contents(self):
        site = self.environment().site
        listed = importlib.metadata.Distribution.at(next(site.glob("rannc-*.dist-info")))
        self.assertEqual(listed.requires, [f"torch=={torch.__version__.partition('+')[0]}"])
        self.assertEqual(listed.metadata["Requires-Python"], ">=3.11")
        self.assertEqual({each.name for each in listed.entry_points}, set(NAMES))
        tops = {file.parts[0] for file in listed.files if file.suffix != ".pyc"}
        self.assertEqual({top for top in tops if not top.endswith(".dist-info")}, {"..", "rannc", "rannc_programs.py"})
        held = {file.name for file in listed.files}
        self.assertLessEqual({"_core.pyi", "py.typed", "LICENSE"}, held)
        self.assertFalse([name for name in held if name.endswith((".h", ".a", ".cmake"))])


if __name__ == "__main__":
    programs.main()
