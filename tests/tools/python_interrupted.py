"""Trains until it is interrupted, and saves, for python_training_test.py: `python_interrupted.py BIN`."""
import tempfile

from python_package import batches, loss, made

import rannc

if __name__ == "__main__":
    net, data = made(), batches(1)[0]
    with rannc.Trainer(net, data, loss=loss, optimizer="sgd", progress=False) as trainer, tempfile.TemporaryDirectory() as folder:
        trainer.step(data)
        print("begun", flush=True)
        try:
            while True:
                trainer.step(data)
        except KeyboardInterrupt:
            done = trainer.steps_done
            trainer.save(folder)
            trainer.step(data)
            print(f"interrupted after step {done}, saved")
