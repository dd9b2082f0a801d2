"""A large network planned for machines that are not there: the second program of tutorial.md.

usage: python plan.py [FOLDER]
"""
import sys
from pathlib import Path

import rannc
import torch
from tutorial import Spirals, loss

folder = Path(sys.argv[1] if len(sys.argv) > 1 else "tutorial.out")
folder.mkdir(parents=True, exist_ok=True)

# 8. A network of 6.4 billion parameters, without its numbers
with torch.device("meta"):
    large = Spirals(width=8192, depth=24)
    example = (torch.empty(1024, 2), torch.empty(1024, dtype=torch.int64))

wanted = dict(loss=loss, optimizer="adamw", cluster="h100-8", mini_batch=16384)
plan = rannc.plan(large, example, **wanted)
print(plan)
for stage in plan.stages:
    print(f"{stage.first_task} to {stage.last_task}: {len(stage.devices)} devices, {stage.peak_bytes / 2**30:.1f} GiB each")
print(plan.explain())
(folder / "plan.html").write_text(plan.report())

# 9. Other plans of it
small = rannc.plan(large, example, memory="16GiB", **wanted)
print(small)
pinned = rannc.plan(large, example, stages=4, pin={"blocks.7": 0}, **wanted)
print(pinned)
