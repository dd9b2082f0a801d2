"""Fills a folder with what a machine with a GPU gets: programs, references, bundles without weights."""
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile

from .correct import CUDA_PLUGIN
from .models import BUNDLES, POOL_ENDS

TOOLS = pathlib.Path(__file__).resolve().parent.parent
BENCH = TOOLS.parent / "tests/bench"
PROGRAMS = ["rannc-run", "rannc-check", "rannc-compile", "rannc-stage", "rannc-zoo", "bench-steps"]
SCRIPTS = ["raw_eager.py", "raw_models.py", "raw_bundle.py"]
CARRIED_LIBRARIES = re.compile(r"^lib(fmt|metis|protobuf|sodium|xxhash)\.so")  # LibTorch and the C++ library are there
MOST_BYTES = 48 << 20
LOSS = "cross_entropy(output=logits,labels=y,axis=-1)"
TRIED_SAMPLES = (8, 16)  # their predicted bytes tell how many samples need so much memory
PACKAGES = ["torch", "torchvision", "transformers", "safetensors"]


def note(text):
    print(f"gpu-check: {text}", file=sys.stderr, flush=True)


def allocated_bytes(plan):
    """What LibTorch is predicted to count as allocated under a plan for one device, by its text."""
    on_gpu = re.search(r"^device d0 .* type cuda$", plan, re.M)
    return int(re.search(r"^predict d0 .*peak_bytes (\d+)$", plan, re.M)[1]) - (POOL_ENDS if on_gpu else 0)


def libraries_of(program):
    for line in subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout.splitlines():
        name, _, path = line.strip().partition(" => ")
        if CARRIED_LIBRARIES.match(name) and path:
            yield pathlib.Path(path.split(" ")[0])


def fill_programs(root, build):
    for name in PROGRAMS:
        subprocess.run(["strip", "-o", root / "bin" / name, build / "bin" / name], check=True)
    for name in PROGRAMS:
        for library in libraries_of(build / "bin" / name):
            shutil.copy(library, root / "lib" / library.name)
    subprocess.run(["strip", "-o", root / "bin/device-numbers", build / "tests/runtime_device_numbers_test"], check=True)
    if (build / "lib" / CUDA_PLUGIN).exists():
        shutil.copy(build / "lib" / CUDA_PLUGIN, root / "lib")
    else:
        note(f"note: {build / 'lib' / CUDA_PLUGIN} is absent, so only --device FILE.so can be checked")


def fill_models(root, folder):
    """Folders with reference numbers."""
    found = sorted(each for each in folder.iterdir() if (each / "reference.safetensors").is_file()) if folder.is_dir() else []
    if not found:
        sys.exit(f"gpu-check: error: {folder} has no model with reference.safetensors")
    for each in found:
        shutil.copytree(each, root / "models" / each.name)
    return len(found)


class Bundles:
    """Exports and compiles the models of parts speed and small."""

    def __init__(self, root, flags, scratch):
        self.root, self.flags, self.scratch, self.build = root, flags, scratch, flags.build.resolve()
        sys.path.insert(0, str(BENCH))
        import raw_models
        self.models = raw_models.MODELS

    def python(self, *arguments):
        done = subprocess.run([sys.executable, "-B", BENCH / "raw_bundle.py", *map(str, arguments)], capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(f"gpu-check: error: raw_bundle.py {arguments[0]}:\n{done.stderr}")

    def export(self, model, float_type, kind):
        path = self.scratch / f"{model}-{float_type}.{kind}"
        if not path.exists():
            self.python("export", model, path, "--float-type", float_type)
        return path

    def cluster(self):
        if not self.flags.tiny:
            return f"{self.flags.gpu}-1"
        path = self.scratch / "tiny.toml"
        path.write_text('name = "tiny"\n[kind.gpu]\nmemory_bytes = 6e10\nflops = 4e13\nbandwidth = 2e12\ndevice = "cuda"\n'
                        '[[node]]\ndevices = [{ kind = "gpu" }]\n')
        return path

    def compile(self, bundle, model, samples, path):
        """Predicted ms of a step and bytes."""
        precision = {"highest": [], "high": ["--matmul-precision", "high"], "autocast": ["--precision", "bf16"]}[bundle.precision]
        command = [self.build / "bin/rannc-compile", self.export(model, bundle.float_type, bundle.export), "-o", path, "--replace", "--loss", LOSS,
                   *(["--output-name", "logits"] if bundle.export == "pt2" else []), "--cluster", self.cluster(), "--costs", "analytic", "--stages", 1, "--micro-batches", 1,
                   "--mini-batch", samples, "--no-refine", "--optimizer", self.models[model].optimizer, *precision, *bundle.compile]
        done = subprocess.run(list(map(str, command)), capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(f"gpu-check: error: {model} does not compile:\n{done.stderr}")
        plan = (path / "plan.rir").read_text()
        return 1e-6 * int(re.search(r"^step_ns (\d+)", plan, re.M)[1]), allocated_bytes(plan)

    def samples_for(self, bundle, model):
        if bundle.of_memory == 0 or self.flags.tiny:
            return bundle.samples if bundle.samples and not self.flags.tiny else self.models[model].batches[0]
        first, second = TRIED_SAMPLES
        path = self.scratch / "tried.rannc"
        few, many = (self.compile(bundle, model, samples, path)[1] for samples in TRIED_SAMPLES)
        return int(first + (bundle.of_memory * self.flags.memory * 2**30 - few) * (second - first) / (many - few))

    def make(self, name):
        bundle, path = BUNDLES[name], self.root / "bundles" / name
        model = bundle.tiny if self.flags.tiny else bundle.model
        samples = self.samples_for(bundle, model)
        step_ms, peak_bytes = self.compile(bundle, model, samples, path)
        self.python("strip", model, path, "--float-type", bundle.float_type)
        facts = {"model": model, "float_type": bundle.float_type, "precision": bundle.precision, "layout": bundle.layout, "samples": samples,
                 "optimizer": self.models[model].optimizer, "learning_rate": self.models[model].learning_rate, "predicted_ms": step_ms,
                 "predicted_bytes": peak_bytes, "parameters": json.loads((path / "of_module.json").read_text())["parameters"]}
        (path / "bench.json").write_text(json.dumps(facts))
        note(f"{name}: {model}, {samples} samples, predicted {step_ms:.1f} ms and {peak_bytes / 2**20:.0f} MiB")


def fill(root, flags, scratch):
    for name in ["bin", "lib", "models", "bench", "bundles"]:
        (root / name).mkdir()
    fill_programs(root, flags.build.resolve())
    models = fill_models(root, flags.models)
    for file in SCRIPTS:
        shutil.copy(BENCH / file, root / "bench")
    if flags.no_bundles:
        return models
    try:
        bundles = Bundles(root, flags, scratch)
    except ImportError as missing:
        note(f"note: {missing}: parts speed and small, which need {', '.join(PACKAGES)} here and there, have no bundles")
        return models
    for name in flags.only or BUNDLES:
        bundles.make(name)
    return models


def prepare(flags):
    with tempfile.TemporaryDirectory() as scratch:
        root = pathlib.Path(scratch) / "payload"
        root.mkdir()
        models = fill(root, flags, pathlib.Path(scratch))
        flags.prepare.mkdir(parents=True, exist_ok=True)
        # Exports of one model share weights and gradients: with a window as large as all of them they are stored once.
        with tarfile.open(flags.prepare / "payload.tar.xz", "w:xz", preset=flags.compression) as archive:
            archive.add(root, ".")
    shutil.copy(TOOLS / "gpu-check", flags.prepare / "gpu-check")
    shutil.rmtree(flags.prepare / "gpu_check", ignore_errors=True)
    shutil.copytree(TOOLS / "gpu_check", flags.prepare / "gpu_check", ignore=shutil.ignore_patterns("__pycache__"))
    size = sum(file.stat().st_size for name in ["payload.tar.xz", "gpu-check", "gpu_check"]
               for file in [flags.prepare / name, *(flags.prepare / name).glob("*")] if file.is_file())
    print(f"{flags.prepare}: {models} models, {size / 2**20:.1f} MiB")
    return 0 if size <= MOST_BYTES else f"{flags.prepare} is larger than {MOST_BYTES >> 20} MiB"
