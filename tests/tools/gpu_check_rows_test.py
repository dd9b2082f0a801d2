"""The rows of tools/gpu-check: numbers made up here pass and fail as on a GPU, processes wait for each other, budgets are kept."""
import argparse
import contextlib
import json
import pathlib
import shutil
import sys
import time
import unittest
import unittest.mock

import programs
from gpu_check_test import flags_for
from gpu_check import correct, lanes, models, prepare, report, sides, speed  # isort: skip


class Waiting(unittest.TestCase):
    """Processes that get ready beside each other."""

    def job(self, found, name, bytes_needed=0, needs=()):
        script = "print('ready', flush=True)\nfor _ in iter(input, 'end'): print('0.001 0.001 1', flush=True)"
        pids = []

        def start(started):
            return sides.Side(name, [sys.executable, "-c", script], started=lambda process: (pids.append(process.pid), started(process)))
        job = lanes.Job(name, bytes_needed, 20, start, needs)
        job.pids = pids
        self.addCleanup(found.end, [job])
        return found.add(job)

    def wait(self, found, *jobs):
        while not all(job.is_done() for job in jobs):
            found.dispatch()
            time.sleep(0.01)

    @staticmethod
    def state(job):
        return pathlib.Path(f"/proc/{job.pids[0]}/stat").read_text().rpartition(")")[2].split()[0]

    def test_others_stand_still(self):
        found = lanes.Lanes(4, 100)
        first, second = self.job(found, "first"), self.job(found, "second")
        self.wait(found, first, second)
        with found.alone([first]):
            self.assertEqual(self.state(second), "T")
            self.assertNotEqual(self.state(first), "T")
            later = self.job(found, "later")
            found.dispatch()
            time.sleep(0.2)
            self.assertEqual((later.state, self.state(later)), ("running", "T"))
        self.wait(found, later)
        self.assertEqual(later.state, "ready", later.why)
        self.assertNotEqual(self.state(second), "T")

    def test_memory_and_order(self):
        found = lanes.Lanes(4, 100)
        first, second, third = (self.job(found, name, size) for name, size in [("first", 60), ("second", 60), ("third", 10)])
        found.dispatch()
        self.assertEqual([job.state for job in (first, second, third)], ["running", "waiting", "waiting"])
        self.wait(found, first)
        found.dispatch()
        self.assertEqual(second.state, "waiting")
        found.end([first])
        self.wait(found, second, third)
        self.assertEqual((second.state, third.state), ("ready", "ready"))

    def test_failures(self):
        found = lanes.Lanes(4, 100)
        dead = found.add(lanes.Job("dead", 0, 20, lambda started: lanes.run_process(
            "dead", [sys.executable, "-c", "raise SystemExit('no weights')"], started)))
        late = found.add(lanes.Job("late", 0, 0.3, lambda started: lanes.run_process("late", ["sleep", "100"], started)))
        needing = self.job(found, "needing", needs=[dead])
        self.wait(found, dead, late, needing)
        self.assertEqual((dead.state, dead.why, needing.state, needing.why), ("failed", "no weights", "failed", "no weights"))
        self.assertEqual((late.state, late.why), ("failed", "not ready after 0 s"))
        self.assertEqual(found.processes, {})


class Verdicts(unittest.TestCase):
    """On a GPU, whose programs and numbers are made up here."""

    def setUp(self):
        self.run_of_part = report.Run(pathlib.Path("nowhere"), flags_for(), 60)
        self.addCleanup(shutil.rmtree, self.run_of_part.scratch, True)

    def verdicts(self, part, *arguments):
        with contextlib.redirect_stdout(None):
            part(*arguments)
        rows, self.run_of_part.rows = self.run_of_part.rows, []
        return [row["name"] for row in rows if row["passed"] is False]

    def test_budgets(self):
        self.assertLessEqual(report.total_seconds(models.items(models.GROUPS)), speed.SECONDS)
        self.assertLessEqual(report.total_seconds(correct.ITEMS), correct.SECONDS)
        self.assertEqual((speed.SECONDS, correct.SECONDS), (480, 300))  # of 900 s, with two starts of the machine
        names = [group.name for group in [*models.GROUPS, *models.EXTRA, *models.SMALL_GROUPS]]
        self.assertEqual(len(names), len(set(names)))

    def test_items_are_cut(self):
        run = report.Run(pathlib.Path("nowhere"), flags_for(), 2)
        self.addCleanup(shutil.rmtree, run.scratch, True)
        slow = report.Item("slow", 0.3, lambda _: run.row("slow one", run.execute(["sleep", "30"], 60)[0] == 0, "0"),
                           lambda _: [("slow one", "0"), ("slow two", "0"), ("slow three", report.REPORTED)])
        quick = report.Item("quick", 1.5, lambda _: run.row("quick", run.execute(["true"], 60)[0] == 0, "0"), lambda _: [("quick", "0")])
        broken = report.Item("broken", 0.1, lambda _: None, lambda _: [("broken", "0")])
        begin = time.monotonic()
        with contextlib.redirect_stdout(None):
            run.measure([slow, quick, broken])
        self.assertLess(time.monotonic() - begin, 1.8)
        self.assertEqual([(row["name"], row["passed"], row.get("why")) for row in run.rows],
                         [("slow one", False, None), ("slow two", False, report.OUT_OF_TIME), ("slow three", None, report.OUT_OF_TIME),
                          ("quick", True, None), ("broken", False, report.NOT_REACHED)])

    def group(self, name="gpt-bf16", lost={}, **changes):
        """Names of failing rows of a group whose numbers are good, but for `changes`."""
        numbers = {"kernels": 0.01, "ours": 0.01, "eager": 0.011, "default": 0.0102, "reduce-overhead": 0.0099, "loss": 5.0, "peak": 100,
                   "unrecorded": [], "predicted_ms": 10.2, "predicted_bytes": 101, **changes}
        group = next(each for each in models.GROUPS if each.name == name)
        rounds, taken = 5, {}
        for side in [*group.ours, *group.rivals]:
            steps, seconds = lanes.WARM_UP + 2 * rounds, numbers.get(side, 0.01)
            losses = [numbers["loss"] if side == "ours" else 5.0, numbers.get("of_others", 4.9) if side != "ours" else 4.9]
            of_side = argparse.Namespace(times=[seconds] * steps, losses=losses)
            taken[side] = {"side": of_side, "alone": seconds, "rounds": rounds, "peak": {
                "allocated": numbers["peak"] if side == "ours" else 100, "reserved": 120, "unrecorded": numbers["unrecorded"]},
                "profile": {"seconds": 0.01, "kernels": {"update_chunks": [numbers["kernels"] if side == "ours" else 0.01, 1]}}}
        for side in lost:
            del taken[side]
        facts = {"float_type": "bfloat16", "precision": "highest", "parameters": 1000, "predicted_ms": numbers["predicted_ms"],
                 "predicted_bytes": numbers["predicted_bytes"]}
        made_up = argparse.Namespace(run=self.run_of_part, gpu_bytes=190, facts=lambda _: facts)
        return [row.partition(": ")[2] for row in self.verdicts(speed.Verdicts(made_up, group, taken, lost).write)]

    def test_rows_of_a_group(self):
        self.assertEqual(self.group(), [])
        best = "in turns with the best of torch.compile"
        for changes, failing in [({"loss": 5.1}, ["losses"]), ({"kernels": 0.0101}, ["PyTorch's kernels / ours"]),
                                 ({"eager": 0.0099}, ["in turns with eager"]), ({"reduce-overhead": 0.0096}, [best]),
                                 ({"default": 0.0096}, [best]), ({"peak": 101}, ["our peak / PyTorch's"]), ({"unrecorded": ["no"]}, ["recorded"]),
                                 ({"predicted_ms": 9.5}, ["predicted step"]), ({"predicted_ms": 10.6}, ["predicted step"]),
                                 ({"predicted_bytes": 103}, ["predicted bytes"]), ({"predicted_bytes": 97}, ["predicted bytes"])]:
            self.assertEqual(self.group(**changes), failing, changes)
        self.assertEqual(self.group(lost={"default": "no compiler", "reduce-overhead": "late"}), [best])
        self.assertEqual(len(self.group(lost={"eager": "late"})), 4)

    def test_groups_with_goals_of_their_own(self):
        self.assertEqual(self.group("gpt-large"), [])
        self.assertEqual(self.group("gpt-large", peak=95, predicted_bytes=95), ["peak / the GPU's memory"])
        self.assertEqual(self.group("gpt-dropout", loss=5.5, eager=0.005), [])  # reported only
        self.assertEqual(self.group("gpt-bf16 max-autotune", **{"max-autotune": 0.0098}), [])
        self.assertEqual(self.group("gpt-bf16 max-autotune", **{"max-autotune": 0.0096}), ["in turns with the best of torch.compile"])

    def equality(self, name, cut, relative, failures=("gradient of w: off by 1 of 2, allowed 3",), device="cuda"):
        self.run_of_part.on_gpu = device == "cuda"
        result = {"ok": not failures, "gradients": {"relative": relative}, "failures": list(failures)}
        with contextlib.redirect_stdout(None):
            correct.equality_row(self.run_of_part, name, cut, 1 if failures else 0, json.dumps(result), 1.0)
        return self.run_of_part.rows.pop()

    def test_errors_of_libtorch(self):
        whole, lstm, hardswish = correct.CUTS[0], "lstm_legacy_dyn", "mobilenet_v3_folded_dynamo"
        for name, cut, most in [(hardswish, whole, 6.2e-8), (lstm, correct.FLOAT32, 6.6e-6)]:
            row = self.equality(name, cut, most)
            self.assertEqual(row["passed"], None)
            self.assertIn("LibTorch's", row["why"])
            self.assertEqual(self.equality(name, cut, 1.1 * most)["passed"], False)
            self.assertEqual(self.equality(name, cut, most, device="test")["passed"], False)
            self.assertEqual(self.equality(name, cut, most, ["loss: off by 1 of 2, allowed 3"])["passed"], False)
            self.assertEqual(self.equality(name, cut, most, ["gradient of w: we have none"])["passed"], False)
            self.assertEqual(self.equality(name, cut, 1e-12, [])["passed"], True)
        self.assertEqual(self.equality(lstm, whole, 1e-8)["passed"], False)
        self.assertEqual(self.equality("bert48_dynamo_dyn", whole, 1e-8)["passed"], False)

    def ran(self, one_ms, two_ms, held=100, first_loss=9.0):
        """`first_loss`: without CUDA graphs."""
        def command(program, bundle, *flags, **__):
            if program != "rannc-run":
                return 0, "", 0
            (self.run_of_part.scratch / f"{pathlib.Path(bundle).stem}.run").mkdir()
            (self.run_of_part.scratch / f"{pathlib.Path(bundle).stem}.run/losses.txt").write_text(
                "".join(f"{step} {float.hex((first_loss if '--no-cuda-graphs' in flags else 9.0) - step)}\n" for step in range(6)))
            taken = two_ms if "2" in bundle else one_ms
            return 0, f"step measured {taken} ms, predicted 100.0 ms\ndevice 0 held {held} bytes at most, 100 were predicted", 0
        self.run_of_part.command = command

    def test_updates(self):
        self.ran(1.0, 1.0)
        losses = lambda off: lambda _, *arguments: [5 - (1 + off * ("--no-update-kernel" in arguments)) * 0.1 * step for step in range(6)]
        for off, failing in [(0, []), (1e-8, ["sgd in float64", "adam in float64", "adamw in float64"]), (1e-2, [row for row, _ in correct.update_rows(None)])]:
            with unittest.mock.patch.object(correct, "losses_of_steps", losses(off)):
                self.assertEqual(self.verdicts(correct.updates, self.run_of_part), failing, off)
        with unittest.mock.patch.object(correct, "losses_of_steps", lambda *_: [5.0] * 6):  # nothing is updated
            self.assertEqual(len(self.verdicts(correct.updates, self.run_of_part)), 6)

    def test_sides_of_ours(self):
        self.assertEqual(self.group("gpt-bf16 mends"), [])
        self.assertEqual(self.group("gpt-bf16 mends", of_others=4.8), ["losses of all sides"])
        self.assertEqual(self.group("resnet-bf16"), [])
        self.assertEqual(self.group("resnet-bf16", lost={"channels first": "late"}), ["losses of all sides"])
        first = lambda side: next(group for group in models.GROUPS if group.name == "resnet-bf16").ours[side][0]
        self.assertEqual(models.BUNDLES[first("channels first")].compile, ("--kernels", "default"))
        self.assertEqual(models.BUNDLES[first("ours")].compile, ())

    def test_two_stages(self):
        for one, two, failing in [(100.0, 105.0, []), (100.0, 106.0, ["step of two stages by that of one"]),
                                  (106.0, 106.0, ["1 stage on one GPU: step ms"]), (94.0, 94.0, ["1 stage on one GPU: step ms"])]:
            self.ran(one, two)
            self.assertEqual(self.verdicts(correct.stages, self.run_of_part), failing, (one, two))

    def test_predicted_bytes(self):
        """Without what the allocator reserves beside the blocks of tensors: on a GPU, the same as the run says."""
        plan = 'device d0 "node0/h200:0" kind "h200" memory_bytes 147961623347{}\npredict d0 busy_ns 1 peak_bytes 46137544\n'
        self.assertEqual(prepare.allocated_bytes(plan.format("")), 46137544)
        self.assertEqual(prepare.allocated_bytes(plan.format(" type cuda")), 200)

    @unittest.mock.patch.object(correct, "reserved", lambda *_: None)
    def test_memory(self):
        self.ran(1.0, 1.0, held=101)
        self.assertEqual(self.verdicts(correct.memory, self.run_of_part), [])
        self.ran(1.0, 1.0, held=103)
        self.assertEqual(len(self.verdicts(correct.memory, self.run_of_part)), 4)
        self.ran(1.0, 1.0, held=101, first_loss=9.0001)
        self.assertEqual(self.verdicts(correct.memory, self.run_of_part),
                         ["gpt: losses with CUDA graphs", "gpt, four micro-batches: losses with CUDA graphs"])


if __name__ == "__main__":
    programs.main()
