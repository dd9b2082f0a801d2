"""Runs rannc's programs for the tests beside this file, and reads the files that pass between them."""
import json
import os
import pathlib
import random
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import unittest

SOURCE = pathlib.Path(__file__).resolve().parents[2]
DATA = SOURCE / "tests" / "data"
SMALL = ["small_mlp", "small_gpt", "small_conv", "small_regression", "small_recurrent", "small_losses",
         "small_lost_gradients"]
SKIPPED = 77
# Nothing here takes so long: a program that does hangs.
HANG_SECONDS = 240

# Whether the test runs in tier "full": what the suite has no time for is asked for, too.
WHOLE = os.environ.get("RANNC_TIER") == "full"
whole = unittest.skipUnless(WHOLE, "tier full")


def part(cases, count):
    """The first `count` cases in the suite, all of them in tier "full"."""
    return cases if WHOLE else cases[:count]


bin_folder = pathlib.Path()


def shared_models():
    """The folder of the published models, or nothing."""
    shared = pathlib.Path(os.environ.get("RANNC_SHARED_DIR", SOURCE.parent / "shared"))
    models = shared / "data" / "models"
    return models if models.is_dir() else None


def free_port():
    """Where nobody listens. The system gives it to no connection meanwhile, as it does with ports that it picks itself."""
    first_of_the_systems_own = 32768
    for port in random.sample(range(10000, first_of_the_systems_own), 100):
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
                return port
            except OSError:
                continue
    raise AssertionError("no port is free")


def program(name):
    return str(bin_folder / name)


def run(name, *arguments, timeout=HANG_SECONDS, **options):
    """A finished process with stdout and stderr as text. A hang is a failure of the test that names the command."""
    command = [program(name), *map(str, arguments)]
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=timeout, **options)
    except subprocess.TimeoutExpired as hang:
        raise AssertionError(f"hangs: {' '.join(command)}") from hang


class Resident:
    """One process whose forks run command lines. They print and end as the programs do, but need not load LibTorch."""

    PROGRAMS = ("rannc-check", "rannc-compile", "rannc-opt", "rannc-run", "rannc-zoo")

    def __init__(self):
        self.process, self.folder = None, None

    def call(self, name, *arguments):
        """What `run` would return. A hang is a failure of the test that names the command."""
        command = [name, *map(str, arguments)]
        if self.process is None or self.process.poll() is not None:
            self.end()
            self.folder = tempfile.TemporaryDirectory(prefix="rannc-resident-")
            self.process = subprocess.Popen([program("tools_resident")], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        files = {stream: pathlib.Path(self.folder.name) / stream for stream in ("stdout", "stderr")}
        watch = threading.Timer(HANG_SECONDS, self.process.kill)
        watch.start()
        try:
            request = {"program": name, "arguments": command[1:], **{stream: str(path) for stream, path in files.items()}}
            self.process.stdin.write(json.dumps(request) + "\n")
            self.process.stdin.flush()
            answer = self.process.stdout.readline()
        except BrokenPipeError:
            answer = ""
        finally:
            watch.cancel()
        if not answer:
            raise AssertionError(f"hangs, or cannot be run: {' '.join(command)}")
        printed = {stream: path.read_text(errors="replace") for stream, path in files.items()}
        return subprocess.CompletedProcess(command, int(answer), **printed)

    def end(self):
        if self.process is not None:
            self.process.stdin.close()
            self.process.wait()
            self.process.stdout.close()
            self.folder.cleanup()


resident = Resident()


class ProgramTest(unittest.TestCase):
    """A test with a scratch folder of its own."""

    executed = ()  # of Resident.PROGRAMS, those that are executed as users do it, because a test is about processes

    def run_program(self, name, *arguments, **options):
        if name in Resident.PROGRAMS and name not in self.executed and not options:
            return resident.call(name, *arguments)
        return run(name, *arguments, **options)

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="rannc-test-")
        self.addCleanup(folder.cleanup)
        self.scratch = pathlib.Path(folder.name)

    def succeed(self, name, *arguments, **options):
        done = self.run_program(name, *arguments, **options)
        self.assertEqual(done.returncode, 0, f"{done.args}\n{done.stdout}{done.stderr}")
        return done

    def refuse(self, code, parts, name, *arguments, **options):
        """The program ends with `code`, and its error holds each of `parts`."""
        done = self.run_program(name, *arguments, **options)
        self.assertEqual(done.returncode, code, f"{done.args}\n{done.stdout}{done.stderr}")
        for part in parts:
            self.assertIn(part, done.stderr, f"{done.args}")
        self.assertEqual(done.stderr.count("error: "), 1, f"one clear error: {done.args}\n{done.stderr}")
        return done


def check(folders, **flags):
    """Runs rannc-check; its exit code and an entry per run, in the order of its own loops."""
    arguments = [str(folder) for folder in folders]
    for name, values in flags.items():
        for value in values if isinstance(values, list) else [values]:
            arguments += ["--" + name.replace("_", "-"), *([] if value is True else [str(value)])]
    if WHOLE:
        done = run("rannc-check", *arguments, "--summary=json", timeout=470)
    else:
        done = resident.call("rannc-check", *arguments, "--summary=json")
    entries = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    return done, entries


def read_safetensors(path):
    """{name: (dtype, shape, bytes)}"""
    data = pathlib.Path(path).read_bytes()
    (size,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8:8 + size])
    body = data[8 + size:]
    return {name: (entry["dtype"], entry["shape"], body[slice(*entry["data_offsets"])])
            for name, entry in header.items() if name != "__metadata__"}


def read_metadata(path):
    """{key: text} of a .safetensors file."""
    data = pathlib.Path(path).read_bytes()
    (size,) = struct.unpack("<Q", data[:8])
    return json.loads(data[8:8 + size]).get("__metadata__", {})


def write_safetensors(path, tensors):
    header, body = {}, b""
    for name, (dtype, shape, data) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(body), len(body) + len(data)]}
        body += data
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    pathlib.Path(path).write_bytes(struct.pack("<Q", len(text)) + text + body)


def children(pid):
    """Processes that `pid` started and that are there yet."""
    try:
        return [int(child) for child in pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except FileNotFoundError:
        return []


def alive(pid):
    """False for one that has ended, waited for or not."""
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def main():
    """Takes the programs' folder from the command line, then runs the unit tests of the calling script."""
    global bin_folder
    if len(sys.argv) < 2 or not os.path.isdir(sys.argv[1]):
        sys.exit(f"usage: {sys.argv[0]} FOLDER-OF-PROGRAMS [unittest arguments]")
    bin_folder = pathlib.Path(sys.argv.pop(1)).resolve()
    done = unittest.main(module="__main__", verbosity=2, exit=False).result
    resident.end()
    if not done.wasSuccessful():
        sys.exit(1)
    sys.exit(SKIPPED if done.testsRun and len(done.skipped) == done.testsRun else 0)
