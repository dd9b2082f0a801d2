"""Trains until it is interrupted, for python_training_test.py: `python_interrupted.py BIN [hanging]`. Then it saves; or, where a step
hangs, it shows that the second interrupt has ended the trainer."""
import signal
import sys
import tempfile
import threading

from python_package import batches, loss, made

import rannc


def train(trainer, data):
    try:
        print("begun", flush=True)
        while True:
            trainer.step(data)
    except KeyboardInterrupt:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # of a test that has not seen the output yet
        return trainer


def save(trainer, data):
    done = trainer.steps_done
    with tempfile.TemporaryDirectory() as folder:
        trainer.save(folder)
    trainer.step(data)
    print(f"interrupted after step {done}, saved")


def use_after(trainer, data, gate):
    gate.set()
    try:
        float(trainer.step(data))
        float(trainer.step(data))
    except rannc.Error as failure:
        print(f"then: {failure}")


if __name__ == "__main__":
    net, batch = made(), batches(1)[0]
    with rannc.Trainer(net, batch, loss=loss, optimizer="sgd", progress=False, cluster="local:2", stages=2) as opened:
        opened.step(batch)
        if "hanging" in sys.argv:
            opened.steps_done
            hung = threading.Event()
            opened._pending = opened._executor.submit(hung.wait)
            use_after(train(opened, batch), batch, hung)
        else:
            save(train(opened, batch), batch)
