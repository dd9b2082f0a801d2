"""The rows of a part: numbers beside goals, written to a file one by one, within a limit of seconds."""
import contextlib
import dataclasses
import json
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import time
import traceback
from typing import Callable

REPORTED = "reported"
OUT_OF_TIME = "not measured: out of time"
NOT_REACHED = "not measured: what it needs failed"


def last_lines(text, count=400):
    return text.strip()[-count:]


@dataclasses.dataclass(frozen=True)
class Item:
    """Rows that are measured together, with an estimate of the seconds that they take on one H200."""

    name: str
    seconds: float
    measure: Callable = None  # of a Run
    rows: Callable = None  # of a Run: [(name, goal)], all that `measure` adds if nothing goes wrong


def total_seconds(items):
    return sum(item.seconds for item in items)


def print_budget(part, items, limit, if_time_is_left=()):
    width = max(len(item.name) for item in [*items, *if_time_is_left])
    for item in items:
        print(f"{item.name:{width}}  {item.seconds:5.1f} s")
    print(f"{f'sum of part {part}':{width}}  {total_seconds(items):5.1f} s of {limit:.0f}", flush=True)
    for item in if_time_is_left:
        print(f"{item.name:{width}}  {item.seconds:5.1f} s if time is left")


class Run:
    """One part: commands, their verdicts and numbers."""

    def __init__(self, root, flags, limit, facts=None):
        self.root, self.share, self.jobs = root, flags.share, flags.jobs
        self.device = str(pathlib.Path(flags.device).absolute()) if flags.device.endswith(".so") else flags.device
        self.compiles = not flags.no_torch_compile
        self.on_gpu = flags.device.startswith("cuda")
        self.json, self.facts = flags.json, facts or {}
        self.rows, self.tables, self.item = [], {}, None
        self.begin, self.limit = time.monotonic(), limit
        self.end = self.deadline = self.begin + limit
        self.scratch = pathlib.Path(tempfile.mkdtemp(prefix="gpu-check-"))

    # --- time

    def left(self):
        return self.deadline - time.monotonic()

    def measure(self, items):
        """Items in the order of their importance. Each may take its seconds and what later ones do not need."""
        for i, item in enumerate(items):
            now = time.monotonic()
            spare = self.end - now - item.seconds - total_seconds(items[i + 1:])
            self.deadline = min(self.end, now + item.seconds + max(0.0, spare))
            self.item = item
            try:
                if self.left() > 0:
                    item.measure(self)
            except Exception:
                self.row(f"{item.name}: runs to its end", False, "no exception", why=traceback.format_exc())
            self.list_missing(item.rows(self) if item.rows else [], OUT_OF_TIME if self.left() <= 0 else NOT_REACHED)
            self.item, self.deadline = None, self.end

    def list_missing(self, expected, why):
        """A row for each expected one that is missing. It fails, unless its number is only reported."""
        found = {row["name"] for row in self.rows}
        for name, goal in expected:
            if name not in found:
                self.row(name, None if goal == REPORTED else False, goal, why=why)

    # --- commands

    def execute(self, command, timeout, **options):
        """Status, standard output, standard error and seconds. Status 124 after `timeout`, or when the item's time is over."""
        begin = time.monotonic()
        left = min(timeout, self.left())
        if left <= 0:
            return 124, "", OUT_OF_TIME, 0.0
        process = subprocess.Popen(list(map(str, command)), cwd=self.scratch, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                   start_new_session=True, **options)
        try:
            output, errors = process.communicate(timeout=left)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)  # also what it started
            output, errors = process.communicate()
            return 124, output, f"{errors}\n{OUT_OF_TIME}: ended after {left:.0f} s", left
        return process.returncode, output, errors, time.monotonic() - begin

    def command(self, program, *arguments, timeout=120):
        status, output, errors, seconds = self.execute([self.root / "bin" / program, *arguments], timeout)
        return status, output + errors, seconds

    # --- rows

    def row(self, name, passed, goal, **numbers):
        """`passed`: None where nothing is judged."""
        passed = None if passed is None else bool(passed)
        self.rows.append({"name": name, "passed": passed, "goal": goal, **numbers,
                          **({"budget_s": round(self.item.seconds, 1)} if self.item else {})})
        shown = ", ".join(f"{key} {value:.4g}" if isinstance(value, float) else f"{key} {value}" for key, value in numbers.items())
        mark = {True: "ok  ", False: "FAIL", None: "--  "}[passed]
        unjudged = ", not judged here" if passed is None and goal != REPORTED else ""
        print(f"{mark} {name}{': ' if shown else ''}{shown} [{goal}{unjudged}]", flush=True)
        self.write()

    def judge(self, name, goal, value, good, judged=True, **numbers):
        """A row by `good(value)`. A number that is absent fails."""
        if value is None:
            numbers.setdefault("why", "unmeasured")
        else:
            numbers = {"value": value, **numbers}
        self.row(name, (value is not None and good(value)) if judged else None, goal, **numbers)

    def judge_prediction(self, name, measured, predicted, most_off, judged=True, **numbers):
        ratio = measured / predicted if measured is not None and predicted else None
        self.judge(name, prediction_goal(most_off), ratio, lambda found: abs(found - 1) <= most_off, judged,
                   **({} if ratio is None else {"measured": measured, "predicted": predicted}), **numbers)

    def count(self, verdict):
        return sum(row["passed"] is verdict for row in self.rows)

    def passed(self):
        return self.count(False) == 0 and self.count(True) > 0

    def write(self, complete=False):
        """Replaces the report. Called after every row, so that a run that is killed leaves its rows."""
        if not self.json:
            return
        text = json.dumps({**self.facts, "seconds": round(time.monotonic() - self.begin, 1), "complete": complete,
                           "passed": complete and self.passed(), "rows": self.rows, "kernels": self.tables}, indent=1)
        part = self.json.with_name(self.json.name + ".part")
        part.write_text(text + "\n")
        part.replace(self.json)

    @contextlib.contextmanager
    def cleaned_up(self):
        try:
            yield self
        finally:
            shutil.rmtree(self.scratch, ignore_errors=True)
            self.write(complete=True)


def prediction_goal(most_off):
    return f"measured / predicted within {most_off:.0%}"
