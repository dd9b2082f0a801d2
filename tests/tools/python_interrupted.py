"""Trains until it is interrupted, for python_training_test.py: `python_interrupted.py BIN [hanging]`. Then it saves; or, where a step
hangs, it shows that the second interrupt has ended the trainer."""
import signal
import sys
import tempfile
import threading

from python_package import batches, loss, made

import rannc


class Hanging:
    """A step that does not end, and says when somebody waits for it."""

    def __init__(self):
        self.gate, self.waited = threading.Event(), False

    def done(self):
        return self.gate.is_set()

    def exception(self):
        return None

    def result(self):
        is_first, self.waited = not self.waited, True  # before the test, which reads the line, interrupts
        if is_first:
            print("begun", flush=True)
        self.gate.wait()


def train(trainer, data):
    try:
        while True:
            trainer.step(data)
    except KeyboardInterrupt:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # of a test that has not seen the output yet


def save(trainer, data):
    done = trainer.steps_done
    with tempfile.TemporaryDirectory() as folder:
        trainer.save(folder)
    trainer.step(data)
    print(f"interrupted after step {done}, saved")


def use_after(trainer, data):
    try:
        float(trainer.step(data))
        float(trainer.step(data))
    except rannc.Error as failure:
        print(f"then: {failure}")


if __name__ == "__main__":
    net, batch = made(), batches(1)[0]
    with rannc.Trainer(net, batch, loss=loss, optimizer="sgd", progress=False, cluster="local:2", stages=2) as opened:
        float(opened.step(batch))
        if "hanging" in sys.argv:
            hung = Hanging()
            opened._pending = hung
            train(opened, batch)
            hung.gate.set()
            use_after(opened, batch)
        else:
            print("begun", flush=True)
            train(opened, batch)
            save(opened, batch)
