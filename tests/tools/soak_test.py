"""Runs with accidents at random: each ends right, in one clear error, or can be resumed.

RANNC_SOAK_SEED=N repeats the accidents of an earlier test, which printed its seed; RANNC_SOAK_RUNS=N does so many.
"""
import os
import pathlib
import random
import re
import shutil
import signal
import socket
import subprocess
import time

import programs

STEPS = 40
RUNS = int(os.environ.get("RANNC_SOAK_RUNS", 200))
SECONDS = 60
SEED = int(os.environ.get("RANNC_SOAK_SEED", random.randrange(2**32)))


class Soak(programs.ProgramTest):
    def setUp(self):
        super().setUp()
        print(f"RANNC_SOAK_SEED={SEED}", flush=True)
        self.random = random.Random(SEED)
        self.bundle, self.tokens, self.folder = self.scratch / "gpt.rannc", self.scratch / "tokens.bin", self.scratch / "run"
        model, self.given = self.scratch / "gpt.onnx", self.scratch / "given.bin"
        self.given.write_bytes(bytes(random.Random(1).randrange(200) if i % 2 == 0 else 0 for i in range(40000)))
        self.succeed("rannc-zoo", "gpt", "-o", model, "--layers", 1, "--width", 32, "--heads", 2, "--context", 8)
        self.succeed("rannc-compile", model, "-o", self.bundle, "--cluster", "local:2", "--stages", 2, "--mini-batch", 8, "--micro-batches", 2,
                     "--costs", "analytic", "--loss", "cross_entropy(output=logits,labels=targets)")
        self.renew()
        self.succeed(*self.command())
        self.right = (self.folder / "losses.txt").read_text()
        self.renew()

    def renew(self):
        shutil.rmtree(self.folder, ignore_errors=True)
        shutil.copy(self.given, self.tokens)

    def command(self, *more):
        return ["rannc-run", self.bundle, "-o", self.folder, "--tokens", self.tokens, "--steps", STEPS, "--checkpoint-every", 5,
                "--timeout", 10, "--transport", self.random.choice(["gloo", "shm", "local"]), *more]

    def start(self, *more):
        name, *arguments = map(str, self.command(*more))
        process = subprocess.Popen([programs.program(name), *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        return process

    def wait_at_random(self, process):
        """Until some step, or some moment of the start or the end."""
        if self.random.random() < 0.2:
            time.sleep(self.random.random())
            return
        losses, step = self.folder / "losses.txt", self.random.randrange(STEPS)
        while process.poll() is None and not (losses.exists() and losses.read_bytes().count(b"\n") > step):
            time.sleep(0.002)

    def ended(self, process):
        """The exit code. Anything but the right losses, or one error, fails."""
        try:
            output, errors = process.communicate(timeout=SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            self.fail(f"hangs: {process.args}\n{process.communicate()}")
        said = f"{process.args}\nexit {process.returncode}\n{output}\n{errors}"
        self.assertNotIn("internal error", errors, said)
        self.assertNotIn("terminate called", errors, said)
        if process.returncode == 0:
            self.assertEqual((self.folder / "losses.txt").read_text(), self.right, said)
        elif process.returncode > 0:
            self.assertEqual(process.returncode, 1, said)
            self.assertEqual(errors.count("error: "), 1, said)
        else:
            self.assertEqual(process.returncode, -signal.SIGKILL, said)
        return process.returncode

    def workers(self, process):
        return [int(child) for child in pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()]

    # Accidents. Each returns the code of the run that had it.

    def kill_the_launcher(self, process):
        process.kill()
        return self.ended(process)

    def kill_a_worker(self, process):
        for worker in self.workers(process)[:1] if self.random.random() < 0.5 else self.workers(process)[1:]:
            os.kill(worker, signal.SIGKILL)
        return self.ended(process)

    def shrink_the_tokens(self, process):
        os.truncate(self.tokens, self.random.randrange(self.tokens.stat().st_size))
        code = self.ended(process)
        shutil.copy(self.given, self.tokens)
        return code

    def send_noise(self, process):
        """To the port of worker 0, if there is one."""
        for worker in self.workers(process)[:1]:
            port = re.search(rb"MASTER_PORT=(\d+)", pathlib.Path(f"/proc/{worker}/environ").read_bytes())
            if port is None:
                continue
            for _ in range(self.random.randrange(1, 10)):
                try:
                    with socket.create_connection(("127.0.0.1", int(port[1])), timeout=1) as stranger:
                        stranger.sendall(self.random.randbytes(self.random.randrange(100000)))
                except OSError:
                    continue
        code = self.ended(process)
        self.assertEqual(code, 0, "strangers change nothing")
        return code

    def start_another(self, process):
        self.ended(self.start("--resume"))
        return self.ended(process)

    def flip_a_bit(self, process):
        """Of a checkpoint, after the end of the run."""
        code = self.ended(process)
        if code == 0:
            files = [file for file in (self.folder / "checkpoints").rglob("*") if file.is_file()]
            file = self.random.choice(files)
            content = bytearray(file.read_bytes())
            content[self.random.randrange(len(content))] ^= 1 << self.random.randrange(8)
            file.write_bytes(content)
        return code

    def test_accidents(self):
        accidents = [self.kill_the_launcher, self.kill_a_worker, self.shrink_the_tokens, self.send_noise, self.start_another, self.flip_a_bit]
        outcomes = {}
        for number in range(RUNS):
            accident = accidents[number % len(accidents)]
            with self.subTest(run=number, accident=accident.__name__, seed=SEED):
                self.renew()
                process = self.start()
                self.wait_at_random(process)
                code = accident(process)
                # Where a checkpoint is left, the run can be resumed, or an error says why not.
                resumed = self.ended(self.start("--resume"))
                if resumed != 0 and accident != self.flip_a_bit:
                    self.assertFalse(list(self.folder.glob("checkpoints/step-*/manifest.json")), "it can be resumed")
                self.assertEqual(self.ended(self.start("--replace")), 0)
                self.assertFalse(list(self.folder.rglob("*.partial*")), "nothing half-written stays")
                key = (accident.__name__, {0: "right", 1: "error"}.get(code, "killed"), "resumed" if resumed == 0 else "error")
                outcomes[key] = outcomes.get(key, 0) + 1
        for key, count in sorted(outcomes.items()):
            print(*key, count)


if __name__ == "__main__":
    programs.main()
