"""A process of a run in Python, for python_training_test.py: `python_worker.py BIN (stages | replicas | planned | launch) [VARIANT…]`."""
import sys

from python_package import batches, groups, loss, made

import rannc
import torch
import torch.distributed


def train(arguments):
    data = batches(6)
    if "group" in arguments:
        torch.distributed.init_process_group("gloo")
    if "blind" in arguments:  # as if this process could not see the files of rank 0
        rannc.distributed._same_host = lambda world: world.rank == 0
    net = made()
    plan = dict(replicas=[2]) if "replicas" in arguments else {} if "planned" in arguments else dict(stages=2)
    for again in range(2 if "twice" in arguments else 1):
        net = made()
        optimizer = torch.optim.AdamW(groups(net), lr=1e-2)
        with rannc.Trainer(net, data[0], loss=loss, optimizer=optimizer, costs="analytic", cluster="local:2", progress=False,
                           **plan) as trainer:
            given = data
            if "sampler" in arguments:
                given = [{name: tensor[list(sampled)] for name, tensor in batch.items()} for batch in data
                         for sampled in rannc.Sampler(trainer, range(8))]
                assert len(given[0]["tokens"]) == 4, "a replica reads half of the samples"
            losses = [float(trainer.step(batch)) for batch in given]
            state = trainer.state_dict()
            rank = trainer.rank
    total = sum(tensor.double().sum().item() for tensor in state.values())
    sys.stdout.write(f"rank {rank}: {losses} {total!r}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    if sys.argv[2] == "launch":
        rannc.launch(train, ["stages"], devices=2)
    else:
        train(sys.argv[2:])
