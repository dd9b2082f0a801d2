"""Writes PipeDream profiles and placement graphs for the tests beside this file."""
import json


def node(number, name="layer", forward=1.0, backward=2.0, activation=1000000, parameters=4000000):
    return (f"node{number} -- {name} -- forward_compute_time={forward}, backward_compute_time={backward}, "
            f"activation_size={activation}, parameter_size={parameters}\n")


def chain(count, **changes):
    """Layer_1 … Layer_count behind an input, of unequal cost; `changes` maps `node3` to keyword arguments of `node`."""
    text = node(1, "Input", 0, 0, 1000, 0)
    for number in range(2, count + 2):
        costs = {"forward": 1 + number % 3, "backward": 2 + number % 2, **changes.get(f"node{number}", {})}
        text += node(number, f"Layer_{number}", **costs)
    return text + "".join(f"\tnode{number} -- node{number + 1}\n" for number in range(1, count + 1))


def placement(works, devices=2, memory=100.0, cost=0.5, **changes):
    """A chain of forward nodes; `changes` are written over the top level."""
    nodes = [{"id": number, "fpgaLatency": work, "size": 10.0, "colorClass": number, "isBackwardNode": 0} for number, work in enumerate(works)]
    edges = [{"sourceId": number, "destId": number + 1, "cost": cost} for number in range(len(works) - 1)]
    return json.dumps({"maxFPGAs": devices, "maxSizePerFPGA": memory, "nodes": nodes, "edges": edges, **changes})
