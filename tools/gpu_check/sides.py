"""Processes that train a step at a time, so that several take turns.

A side is a program that answers each line of its standard input by one line: `step` by `seconds processor-seconds loss`, `profile` by the
times of its kernels, `peak` by bytes of memory. bench-steps and tests/bench/raw_eager.py are such programs.
"""
import json
import math
import os
import shlex
import statistics
import subprocess
import tempfile


class Ended(SystemExit):
    """A side that has ended before its last step."""


class Side:
    """A process that trains by steps; it waits for a line while another one has its turn."""

    def __init__(self, name, command, more_environment=(), started=lambda process: None):
        """`started` receives the process before it is ready."""
        self.name, self.times, self.ran, self.losses = name, [], [], []
        self.messages = tempfile.TemporaryFile("w+")  # a pipe that is not read would fill
        self.process = subprocess.Popen(list(map(str, command)), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.messages, text=True,
                                        env={**os.environ, **dict(more_environment)})
        started(self.process)
        self.ready = self.read()

    def read(self):
        line = self.process.stdout.readline()
        if not line:
            self.process.wait()
            self.messages.seek(0)
            raise Ended(f"{self.name} ended: {shlex.join(self.process.args)}\n{self.messages.read()}")
        return line.strip()

    def write(self, line):
        try:
            self.process.stdin.write(line + "\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            self.read()  # says why

    def ask(self, line):
        self.write(line)
        return self.read()

    def begin_step(self):
        self.write("step")

    def end_step(self):
        seconds, ran, loss = map(float, self.read().split())
        self.times.append(seconds)
        self.ran.append(ran)
        self.losses.append(loss)

    def step(self):
        self.begin_step()
        self.end_step()

    def profile(self):
        return json.loads(self.ask("profile"))

    def peak(self):
        """Bytes, `allocated` and `reserved`; None on a processor, where they are not counted. Ours also says `unrecorded`."""
        return json.loads(self.ask("peak"))

    def end(self):
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()
        self.messages.close()


def interval(ratios):
    """Order statistics around the median that hold it in 95 of 100 cases, whatever the distribution."""
    ordered, count = sorted(ratios), len(ratios)
    tail, below = 0.0, 0
    while tail + math.comb(count, below) / 2 ** count <= 0.025:
        tail += math.comb(count, below) / 2 ** count
        below += 1
    return ordered[max(below - 1, 0)], ordered[count - max(below, 1)]


def compared(rival, own, clock, warm_up):
    """Row of numbers: the rival's time / ours, step by step."""
    pairs = list(zip(getattr(rival, clock), getattr(own, clock)))[warm_up:]
    ratios = [theirs / ours for theirs, ours in pairs]
    low, high = interval(ratios)
    return {"ratio": statistics.median(ratios), "low": low, "high": high, "steps": len(ratios),
            "rival_ms": 1e3 * statistics.median(theirs for theirs, _ in pairs), "ours_ms": 1e3 * statistics.median(ours for _, ours in pairs)}
