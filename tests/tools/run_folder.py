"""What a training run leaves for people, parsed: its trace and its report."""
import collections
import html.parser
import json
import re

VOID = {"meta", "br", "line", "rect", "polyline", "path", "circle", "hr", "img", "link"}
# Letters of actions that compute: forward, backward, input gradient, weight gradient, recompute, optimizer.
COMPUTE = {"F", "B", "I", "W", "R", "S"}
ACTUAL, PLANNED = "actual", "planned"


def runs_both_ways(kinds):
    """Whether actions of these kinds contain forward and backward passes, whole or split."""
    return "F" in kinds and ("B" in kinds or {"I", "W"} <= kinds)


class Trace:
    """Events of trace.json by process name; spans are (device, step, name, start, end), microseconds."""

    def __init__(self, path):
        self.events = json.loads(path.read_text())["traceEvents"]
        named = {(e["pid"], e["tid"], e["name"]): e["args"]["name"] for e in self.events if e["ph"] == "M"}
        self.processes = {name: pid for (pid, _, what), name in named.items() if what == "process_name"}
        self.threads = {(pid, tid): name for (pid, tid, what), name in named.items() if what == "thread_name"}

    def spans(self, process):
        return [(e["tid"], e["args"].get("step"), e["name"], e["ts"], e["ts"] + e["dur"]) for e in self.events
                if e["ph"] == "X" and e["pid"] == self.processes[process]]

    def rows(self, process):
        """{(step, device): names of its actions in the order of their starts}"""
        rows = collections.defaultdict(list)
        for device, step, name, start, end in sorted(self.spans(process), key=lambda span: (span[3], span[4])):
            rows[step, device].append(name)
        return rows

    def arrows(self):
        """(send's device, its end, receive's device, its end) of every message."""
        ends = collections.defaultdict(dict)
        for event in self.events:
            if event["ph"] in ("s", "f"):
                ends[event["id"]][event["ph"]] = event
        return [(end["s"]["tid"], end["s"]["ts"], end["f"]["tid"], end["f"]["ts"]) for end in ends.values()]

    def live_bytes(self):
        """{name of the counter: its largest value}"""
        most = collections.defaultdict(int)
        for event in self.events:
            if event["ph"] == "C":
                most[event["name"]] = max(most[event["name"]], event["args"]["bytes"])
        return most


class Report(html.parser.HTMLParser):
    """report.html: its sections in order, each with its text, its tables and its drawings."""

    def __init__(self, path):
        super().__init__()
        self.sections = {"": Section()}
        self.here, self.open, self.references, self.problems = "", [], [], []
        self.text = path.read_text()
        self.feed(self.text)
        if self.open:
            self.problems.append(f"never closed: {self.open}")

    def handle_starttag(self, tag, attributes):
        values = dict(attributes)
        self.references += [value for name, value in attributes if name in ("src", "href")]
        if tag not in VOID:
            self.open.append(tag)
        if tag in ("h2", "h3"):
            self.heading = ""
        section = self.sections[self.here]
        if tag == "svg":
            section.drawings.append(Drawing(values.get("aria-label")))
        elif tag == "table":
            section.tables.append([])
        elif tag == "tr":
            section.tables[-1].append([])
        elif tag in ("td", "th"):
            section.tables[-1][-1].append("")
        elif tag == "polyline":
            section.drawings[-1].points = [tuple(map(float, pair.split(","))) for pair in values["points"].split()]

    def handle_startendtag(self, tag, attributes):
        self.handle_starttag(tag, attributes)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag):
        if tag in VOID:
            return
        if not self.open or self.open[-1] != tag:
            self.problems.append(f"</{tag}> closes {self.open[-1:]}")
            return
        self.open.pop()
        if tag in ("h2", "h3"):
            self.here = self.heading
            self.sections[self.here] = Section()

    def handle_data(self, data):
        section, inside = self.sections[self.here], self.open[-1] if self.open else ""
        if inside in ("h2", "h3"):
            self.heading += data
        elif inside == "title" and "svg" in self.open:
            section.drawings[-1].titles.append(data)
        elif inside in ("td", "th"):
            section.tables[-1][-1][-1] += data
        elif "svg" in self.open:
            section.drawings[-1].labels.append(data)
        else:
            section.text += data


class Section:
    def __init__(self):
        self.text, self.tables, self.drawings = "", [], []


class Drawing:
    def __init__(self, name):
        self.name, self.points, self.titles, self.labels = name, [], [], []


def judge_trace(test, path, steps, devices):
    """The last steps were recorded; on every device each did what was planned, in that order; arrows go forward."""
    trace = Trace(path)
    test.assertEqual(set(trace.processes), {ACTUAL, PLANNED})
    for process in trace.processes.values():
        test.assertEqual([trace.threads.get((process, d)) for d in range(devices)], [f"device {d}" for d in range(devices)])
    planned, actual = trace.rows(PLANNED), trace.rows(ACTUAL)
    recorded = sorted({step for step, _ in actual})
    test.assertEqual(recorded, list(range(steps - len(recorded), steps)))
    test.assertGreater(len(recorded), 1)
    test.assertEqual({device for _, device in planned}, set(range(devices)))
    for device in range(devices):
        row = planned[None, device]
        test.assertTrue(runs_both_ways({name[0] for name in row}), row)
        for step in recorded:
            test.assertEqual(sorted(actual[step, device]), sorted(row), f"step {step}")
            computed = [name for name in actual[step, device] if re.match(r"[FBIWR]\d|S\d", name)]
            test.assertEqual(computed, [name for name in row if re.match(r"[FBIWR]\d|S\d", name)], f"step {step}")
    judge_times(test, trace)
    judge_arrows(test, trace, planned, len(recorded), devices)
    test.assertEqual(len(trace.live_bytes()), devices)
    test.assertTrue(all(most > 0 for most in trace.live_bytes().values()), trace.live_bytes())


def judge_times(test, trace):
    """A device does one action at a time, and no time is negative."""
    for process in (ACTUAL, PLANNED):
        ended = collections.defaultdict(float)
        for device, _, name, start, end in sorted(trace.spans(process), key=lambda span: (span[3], span[4])):
            if process == PLANNED and not re.match(r"[FBIWR]\d", name):
                continue  # planned messages and all-reduces travel beside the computation
            test.assertGreaterEqual(start, ended[device] - 1e-3, f"{process} {name}")
            test.assertGreaterEqual(end, start)
            ended[device] = end


def judge_arrows(test, trace, planned, steps, devices):
    """Every planned message has its arrow in every recorded step; it joins two devices and goes forward in time."""
    receives = sum(name.startswith(("RA", "RG")) for d in range(devices) for name in planned[None, d])
    arrows = trace.arrows()
    test.assertGreater(receives, 0)
    test.assertEqual(len(arrows), receives * steps)
    for source, sent, target, received in arrows:
        test.assertNotEqual(source, target)
        test.assertLessEqual(sent, received, "an arrow ends where the value has arrived")


def judge_cut(test, table, stages):
    """A row per stage: its ends are modules, and what it receives has readable sizes."""
    head, *rows = table
    test.assertEqual(len(rows), stages)
    ends, forward, receives = (head.index(name) for name in ("first and last module", "planned forward", "receives in a micro-batch"))
    for stage, row in enumerate(rows):
        test.assertRegex(row[ends], r"^[\w.]+( … [\w.]+)?$")
        test.assertRegex(row[forward], r"^[\d.]+ [mu]?s$")
        test.assertEqual(bool(re.fullmatch(r"\S+ \([\d.]+ [KMG]iB\)(, \S+ \([\d.]+ [KMG]iB\))*", row[receives])), stage > 0, row)


def judge_report(test, path, steps, stages, devices):
    """One page alone: the loss falls over all steps, both timelines show each device, cut and memory have their rows."""
    report = Report(path)
    test.assertEqual(report.problems, [])
    test.assertEqual(report.references, [], "no other file is needed")
    for section in ("Loss", "A step, planned and actual", "planned", "actual", "Planned beside measured", "Bottleneck",
                    "What would help", "The cut", "Memory"):
        test.assertIn(section, report.sections)
    curve = report.sections["Loss"].drawings[0].points
    test.assertEqual(len(curve), steps)
    test.assertGreater(curve[-1][1], curve[0][1], "losses fall, so the curve goes down the page")
    timelines = [report.sections[name].drawings[0] for name in ("planned", "actual")]
    for drawing in timelines:
        test.assertEqual([label for label in drawing.labels if label.startswith("device ")], [f"device {d}" for d in range(devices)])
    names = [sorted(title.split(" ")[0] for title in drawing.titles) for drawing in timelines]
    test.assertEqual(names[0], names[1], "the planned step and the actual one hold the same actions")
    kinds = {name[0] for name in names[0]}
    test.assertTrue(runs_both_ways(kinds) and "S" in kinds, names[0])
    times = re.search(r"Predicted ([\d.]+) (\w+), measured ([\d.]+) (\w+)", report.sections["A step, planned and actual"].text)
    test.assertTrue(times and float(times[1]) > 0 and float(times[3]) > 0, report.sections["A step, planned and actual"].text)
    test.assertIn(f"{stages} stages on {devices} devices, ", report.text)
    labels = report.sections["Loss"].drawings[0].labels
    test.assertEqual([label for label in labels if label.startswith("step ")], ["step 1", f"step {steps}"], "as in the program's output")
    judge_cut(test, report.sections["The cut"].tables[0], stages)
    parts, actions = report.sections["Planned beside measured"].tables
    test.assertEqual([row[0] for row in parts[1:]], [str(device) for device in range(devices)])
    test.assertEqual({row[0] for row in actions[1:]}, {str(stage) for stage in range(stages)})
    test.assertTrue({"F", "S"} <= {row[1] for row in actions[1:]}, actions)
    memory = report.sections["Memory"].tables[0]
    sizes = [[float(cell.split(" ")[0]) for cell in row if re.fullmatch(r"[\d.]+ [KMGT]?i?B", cell)] for row in memory[1:]]
    together = devices > 1 and len(memory) == 2 + devices  # one process holds all devices: it is measured as a whole
    test.assertEqual([len(row) for row in sizes], [2] * devices + [2] if together else [3] * devices, memory)
    test.assertTrue(all(size > 0 for row in sizes for size in row), memory)
    if together:
        test.assertIn("one process", memory[-1][0])
