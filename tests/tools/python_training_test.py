"""The package `rannc` in Python beside loops of PyTorch: optimizers and schedulers of torch.optim, plans, checkpoints that programs
and package share, and several processes. Skipped without PyTorch."""
import copy
import gc
import os
import select
import signal
import subprocess
import sys
import tempfile
import threading
import unittest
import warnings

import programs
from python_package import BIN, FOLDER, batches, groups, largest_difference, loss, made, reference_step

import rannc
import torch
from torch import nn
from torch.optim import lr_scheduler

EXACT = 1e-10  # of float64
TWO_STAGES, REPLICAS = dict(cluster="local:2", stages=2), dict(cluster="local:2", replicas=[2])


def trained(net, optimizer, steps, scheduler=None, clip=None, accumulated=1, **options):
    """Losses of a trainer's steps, and its final state."""
    data = batches(steps * accumulated)
    with rannc.Trainer(net, data[0], loss=loss, optimizer=optimizer, clip_norm=clip, costs="analytic", progress=False,
                       **options) as trainer:
        losses = []
        for step in range(steps):
            part = data[step * accumulated:(step + 1) * accumulated]
            losses.append(trainer.step(part if accumulated > 1 else part[0]))
            if scheduler:
                scheduler.step()
        return [float(each) for each in losses], trainer.state_dict()


def expected(net, optimizers, steps, schedulers=(), clip=None, accumulated=1):
    data = batches(steps * accumulated)
    losses = []
    for step in range(steps):
        losses.append(reference_step(net, optimizers, data[step * accumulated:(step + 1) * accumulated], clip))
        for scheduler in schedulers:
            scheduler.step()
    return losses, net.state_dict()


def adamw(net):
    return torch.optim.AdamW(groups(net), lr=1e-2, betas=(0.9, 0.95), weight_decay=0.1)


def warm_up(optimizer):
    return lr_scheduler.LambdaLR(optimizer, lambda step: step / 4 if step < 4 else 1 - step / 20)


class Numbers(unittest.TestCase):
    def assert_equal(self, found, wanted):
        for own, reference in zip(found[0], wanted[0], strict=True):
            self.assertLess(abs(own - reference), EXACT * abs(reference), f"{found[0]} instead of {wanted[0]}")
        self.assertEqual(set(found[1]), set(wanted[1]))
        self.assertLess(largest_difference(found[1], wanted[1]), EXACT)

    def test_groups_schedules_clipping_and_accumulation_are_those_of_a_loop(self):
        for plan in (dict(), TWO_STAGES, REPLICAS, dict(cluster="local:2", stages=2, schedule=["gpipe"], micro_batches=[4])):
            for accumulated in (1, 3):
                with self.subTest(plan=plan, accumulated=accumulated):
                    net, reference = made(), made()
                    optimizer, other = adamw(net), adamw(reference)
                    wanted = expected(reference, [other], 10, [warm_up(other)], 0.1, accumulated)
                    self.assert_equal(trained(net, optimizer, 10, warm_up(optimizer), 0.1, accumulated, **plan), wanted)
                    self.assertGreater(largest_difference(made().state_dict(), wanted[1]), 0.01)  # something was learned

    def test_every_class_of_torch(self):
        makers = {
            "sgd": lambda net: torch.optim.SGD(groups(net), lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.01),
            "plain sgd": lambda net: torch.optim.SGD(net.parameters(), lr=0.1),
            "adam": lambda net: torch.optim.Adam(net.parameters(), lr=1e-2, amsgrad=True, weight_decay=0.1, eps=1e-6),
            "adam, decoupled": lambda net: torch.optim.Adam(net.parameters(), lr=1e-2, weight_decay=0.1,
                                                            decoupled_weight_decay=True),
            "adafactor": lambda net: torch.optim.Adafactor(net.parameters(), lr=1e-2),
            "muon and adamw": lambda net: [
                torch.optim.Muon([net.first.weight, net.second.weight], lr=1e-2, adjust_lr_fn="match_rms_adamw"),
                torch.optim.AdamW([p for p in net.parameters() if p is not net.first.weight and p is not net.second.weight])]}
        for name, maker in makers.items():
            with self.subTest(optimizer=name):
                net, reference = made(), made()
                optimizer, other = maker(net), maker(reference)
                wanted = expected(reference, other if isinstance(other, list) else [other], 6)
                self.assert_equal(trained(net, optimizer, 6, **TWO_STAGES), wanted)

    def test_schedulers_that_change_betas_and_single_groups(self):
        def one_cycle(optimizer):
            return lr_scheduler.OneCycleLR(optimizer, max_lr=[1e-2, 2e-2, 3e-2], total_steps=12)

        net, reference = made(), made()
        optimizer, other = adamw(net), adamw(reference)
        wanted = expected(reference, [other], 10, [one_cycle(other)])
        self.assert_equal(trained(net, optimizer, 10, one_cycle(optimizer), **TWO_STAGES), wanted)

    def test_a_scheduler_does_not_warn_that_it_came_first(self):
        net = made()
        optimizer = adamw(net)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            trained(net, optimizer, 2, warm_up(optimizer))

    def test_modules_that_return_their_loss_and_outputs_with_names(self):
        class WithLoss(nn.Module):
            def __init__(self):
                super().__init__()
                self.inner = made()

            def forward(self, tokens, labels=None):
                logits = self.inner(tokens)
                return {"logits": logits, "loss": nn.functional.cross_entropy(logits, labels)}

        net = WithLoss().double()
        data = batches(1)[0]
        wanted = net(**data)
        with rannc.Trainer(net, data, optimizer="sgd", learning_rate=0.1, costs="analytic", **TWO_STAGES) as trainer:
            found = trainer.evaluate(data)
            self.assertLess(abs(found.loss - wanted["loss"].item()), EXACT)
            self.assertLess(float((found.outputs["logits"] - wanted["logits"]).abs().max()), EXACT)
            part = trainer.evaluate({"tokens": data["tokens"][:3]})  # fewer samples, no labels
            self.assertIsNone(part.loss)
            self.assertLess(float((part.outputs["logits"] - wanted["logits"][:3]).abs().max()), EXACT)
            trainer.accumulate(data)
            gradients = trainer.gradients()
        wanted["loss"].backward()
        for name, parameter in net.named_parameters():
            self.assertLess(float((gradients[name] - parameter.grad).abs().max()), EXACT, name)

    def test_tied_parameters_buffers_and_numbers_of_batches(self):
        class Normalized(nn.Module):
            def __init__(self):
                super().__init__()
                self.one, self.norm, self.two = nn.Linear(6, 8), nn.BatchNorm1d(8), nn.Linear(8, 6)
                self.out = nn.Linear(6, 8)
                self.out.weight = self.one.weight

            def forward(self, x):
                return self.out(self.two(self.norm(self.one(x)).relu()))

        def objective(outputs, batch):
            return (outputs - batch[1]).square().mean()

        torch.manual_seed(4)
        net = Normalized().double()
        reference = copy.deepcopy(net)
        data = [(torch.randn(8, 6).double(), torch.randn(8, 8).double()) for _ in range(5)]
        optimizer, other = torch.optim.SGD(net.parameters(), lr=0.1), torch.optim.SGD(reference.parameters(), lr=0.1)
        with rannc.Trainer(net, data[0], loss=objective, optimizer=optimizer, micro_batches=[1], costs="analytic",
                           **TWO_STAGES) as trainer:
            for batch in data:
                trainer.step(batch)
                other.zero_grad()
                objective(reference(batch[0]), batch).backward()
                other.step()
            trainer.to_module(net)
        self.assertEqual(net.norm.num_batches_tracked.item(), 5)
        self.assertIs(net.out.weight, net.one.weight)
        self.assertLess(largest_difference(net.state_dict(), reference.state_dict()), EXACT)


class Runs(unittest.TestCase):
    def setUp(self):
        self._scratch = tempfile.TemporaryDirectory()
        self.addCleanup(self._scratch.cleanup)
        self.folder = self._scratch.name

    def steps(self, trainer, data):
        return [float(trainer.step(batch)) for batch in data]

    def test_a_run_continues_under_another_plan(self):
        data = batches(8)
        def opened(**options):
            net = made()
            return rannc.Trainer(net, data[0], loss=loss, optimizer=adamw(net), costs="analytic", **options)

        with opened(**TWO_STAGES) as trainer:
            whole = self.steps(trainer, data)
        with opened(**TWO_STAGES) as trainer:
            first = self.steps(trainer, data[:4])
            trainer.save(self.folder)
        with opened(resume=self.folder) as trainer:
            self.assertEqual(trainer.steps_done, 4)
            rest = self.steps(trainer, data[4:])
        self.assertLess(max(abs(a - b) for a, b in zip(whole, first + rest, strict=True)), EXACT)

    def test_package_and_programs_continue_each_others_runs_bit_by_bit(self):
        data = batches(9)
        samples = os.path.join(self.folder, "samples.safetensors")
        rannc.weights.write_weights(samples, {f"x/{name}": torch.cat([batch[name] for batch in data]) for name in data[0]})
        bundle, weights = os.path.join(self.folder, "net.rannc"), {}
        rannc.compile(made(), data[0], bundle, loss=loss, optimizer="adamw", costs="analytic", **TWO_STAGES)
        settings = dict(optimizer="adamw", learning_rate=0.01, weight_decay=0.1, clip_norm=0.1, warmup_steps=4)
        flags = [text for name, value in settings.items() for text in ("--" + name.replace("_", "-"), str(value))]

        def program(folder, steps, *more):
            weights[folder] = os.path.join(self.folder, folder + ".safetensors")
            subprocess.run([BIN / "rannc-run", bundle, "--data", samples, "-o", os.path.join(self.folder, folder), "--steps",
                            str(steps), "--export-weights", weights[folder], *flags, *more], check=True, capture_output=True)
            return rannc.weights.read_weights(weights[folder])

        whole = program("whole", 9)
        with rannc.Trainer(bundle, **settings) as trainer:
            self.steps(trainer, data[:3])
            trainer.save(os.path.join(self.folder, "mixed"))
        program("mixed", 6, "--resume")
        with rannc.Trainer(bundle, resume=os.path.join(self.folder, "mixed")) as trainer:
            self.assertEqual(trainer.steps_done, 6)
            self.steps(trainer, data[6:])
            state = trainer.state_dict()
        self.assertEqual(set(state), set(whole))
        for name, tensor in whole.items():
            self.assertTrue(torch.equal(tensor, state[name]), name)

    def test_the_process_of_the_user_stays_as_it_was(self):
        net, data = made(), batches(4)
        optimizer = adamw(net)
        before = torch.get_num_threads()
        before_grads = [parameter.grad for parameter in net.parameters()]
        class Samples(torch.utils.data.Dataset):
            def __len__(self):
                return 32

            def __getitem__(self, number):
                return {name: torch.cat([batch[name] for batch in data])[number] * 1 for name in data[0]}

        with rannc.Trainer(net, data[0], loss=loss, optimizer=optimizer, threads=1, **TWO_STAGES) as trainer:
            self.assertEqual(torch.get_num_threads(), 1)
            loader = torch.utils.data.DataLoader(Samples(), batch_sampler=rannc.Sampler(trainer, Samples()), num_workers=2)
            forked = self.steps(trainer, loader)
            copy.deepcopy(net)
        self.assertEqual(torch.get_num_threads(), before)
        self.assertEqual([parameter.grad for parameter in net.parameters()], before_grads)
        optimizer.step()  # is the user's again
        net = made()
        with rannc.Trainer(net, data[0], loss=loss, optimizer=adamw(net), **TWO_STAGES) as trainer:
            self.assertEqual(forked, self.steps(trainer, data))

    def test_a_loss_is_there_when_it_is_read(self):
        net, data = made(), batches(1)[0]
        with rannc.Trainer(net, data, loss=loss, optimizer=adamw(net)) as trainer:
            gate = threading.Event()
            trainer._executor.submit(gate.wait)  # the step waits behind it
            value = trainer.step(data)
            self.assertFalse(trainer._pending.done())
            gate.set()
            self.assertAlmostEqual(float(value), loss(net(data["tokens"]), data).item(), 12)
            self.assertEqual(f"{value:.3f}", f"{float(value):.3f}")

    def test_averages_other_schedules_and_profiles(self):
        net, data = made(), batches(4)
        average = None  # begins with the parameters after the first step, as that of torch.optim.swa_utils
        with rannc.Trainer(net, data[0], loss=loss, optimizer="sgd", learning_rate=0.1, ema=0.5, micro_batches=[2],
                           **TWO_STAGES) as trainer:
            for batch in data:
                trainer.step(batch)
                current = trainer.state_dict()
                average = {name: 0.5 * average[name] + 0.5 * tensor if average else tensor for name, tensor in current.items()}
            self.assertLess(largest_difference(trainer.state_dict(averaged=True), average), EXACT)
            plain = trainer.evaluate(data[0]).loss
            with trainer.averages():
                self.assertNotEqual(trainer.evaluate(data[0]).loss, plain)
            profile = trainer.profile()
            self.assertIn("stage 1", str(profile))
            self.assertIn("<svg", profile.report())
            before = trainer.facts["micro_batches"]
            expected_loss = trainer.evaluate(data[0]).loss
            trainer.reschedule(micro_batches=4, schedule="gpipe", recompute="except-last")
            self.assertEqual((before, trainer.facts["micro_batches"], trainer.facts["schedule"]), (2, 4, "gpipe"))
            self.assertLess(abs(float(trainer.step(data[0])) - expected_loss), EXACT)

    def test_half_precision_of_the_user_and_of_mixed_training(self):
        for precision in ("bf16", "fp16"):
            net, data = made(torch.float32), batches(1)[0]
            with rannc.Trainer(net, data, loss=loss, optimizer="adam", learning_rate=1e-2, precision=precision,
                               **TWO_STAGES) as trainer:
                losses = self.steps(trainer, [data] * 20)
            self.assertLess(losses[-1], losses[0] / 2)

    def interrupted(self, *arguments, interrupts):
        script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "python_interrupted.py")
        worker = subprocess.Popen([sys.executable, "-B", script, BIN, *arguments], stdout=subprocess.PIPE, text=True)
        self.assertEqual(worker.stdout.readline(), "begun\n")
        for _ in range(interrupts):
            worker.send_signal(signal.SIGINT)
            if select.select([worker.stdout], [], [], 1)[0]:
                break
        rest = worker.communicate(timeout=programs.HANG_SECONDS)[0]
        self.assertEqual(worker.returncode, 0)
        return rest

    def test_an_interrupt_ends_after_the_step_and_a_second_one_at_once(self):
        self.assertRegex(self.interrupted(interrupts=1), r"interrupted after step \d+, saved\n")
        self.assertRegex(self.interrupted("hanging", interrupts=20), "then: interrupted\n")


class Plans(unittest.TestCase):
    def test_a_module_without_numbers_is_planned_for_a_cluster_that_is_not_here(self):
        with torch.device("meta"):
            net = nn.Sequential(*(nn.Sequential(nn.Linear(4096, 4096), nn.ReLU()) for _ in range(40)), nn.Linear(4096, 1000))
        data = torch.empty(64, 4096, device="meta"), torch.empty(64, dtype=torch.long, device="meta")
        plan = rannc.plan(net, data, loss=lambda outputs, batch: nn.functional.cross_entropy(outputs, batch[1]),
                          cluster="2x-h100-8", mini_batch=4096, optimizer="adamw")
        self.assertEqual(sum(stage.tasks for stage in plan.stages), 40 * 2 + 2)
        self.assertGreater(plan.step_ms, 0)
        self.assertIsNotNone(plan.gap)
        self.assertIn("<iframe", plan._repr_html_())
        self.assertIn("what would help", plan.explain())
        self.assertIn("planner", plan.facts)

    def test_names_of_parameters_and_inputs_are_the_users(self):
        program = rannc.export.export(made(), batches(1)[0], loss=loss)
        self.assertEqual(program.layout.names, ("tokens", "labels"))
        self.assertEqual(set(program.program.state_dict), set(made().state_dict()))
        self.assertEqual(program.outputs, ("loss", "output"))


class Uses(unittest.TestCase):
    def test_sizes_that_vary_are_planned_as_in_the_example(self):
        net, data = made(), batches(1)[0]
        with rannc.Trainer(net, data, loss=loss, optimizer="sgd", dynamic={"tokens": {1: "length"}}, costs="analytic",
                           **TWO_STAGES) as trainer:
            sizes = [line.split()[-1] for line in trainer.bundle.plan.text().splitlines() if line.startswith("size ")]
            self.assertEqual(sizes, ["6"])
            for length in (6, 3):
                batch = {**data, "tokens": data["tokens"][:, :length]}
                self.assertLess(abs(trainer.evaluate(batch).loss - loss(net(batch["tokens"]), batch).item()), EXACT)
            with self.assertWarnsRegex(rannc.Warning, "= 12 .planned 6"):
                float(trainer.step({**data, "tokens": data["tokens"].repeat(1, 2)}))

    def test_samples_may_be_on_axis_1_of_all_entries(self):
        class Recurrent(nn.Module):
            def __init__(self):
                super().__init__()
                self.layer, self.head = nn.LSTM(4, 6), nn.Linear(6, 3)

            def forward(self, x):
                return self.head(self.layer(x)[0])

        def mean(outputs, batch):
            return nn.functional.cross_entropy(outputs.flatten(0, 1), batch[1].flatten())

        net, data = Recurrent().double(), (torch.randn(5, 8, 4).double(), torch.randint(3, (5, 8)))
        with rannc.Trainer(net, data, loss=mean, optimizer="sgd", batch_axis=1, costs="analytic", micro_batches=2,
                           **TWO_STAGES) as trainer:
            self.assertLess(abs(float(trainer.step(data)) - mean(net(data[0]), data).item()), EXACT)

    def test_losses_of_torch_nn_and_tuples_without_labels(self):
        net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
        x, y = torch.randn(6, 4), torch.randint(3, (6,))
        with rannc.Trainer(net, (x, y), loss=nn.CrossEntropyLoss(label_smoothing=0.1), optimizer="sgd", **TWO_STAGES) as trainer:
            wanted = nn.CrossEntropyLoss(label_smoothing=0.1)(net(x), y).item()
            self.assertLess(abs(trainer.evaluate((x, y)).loss - wanted), 1e-6)
            for given in (x, (x,)):
                self.assertLess(float((trainer.evaluate(given).outputs["output"] - net(x)).abs().max()), 1e-6)

    def test_an_error_is_raised_once(self):
        net, data = made(), batches(1)[0]
        with rannc.Trainer(net, data, loss=loss, optimizer="sgd", **TWO_STAGES) as trainer:
            value = trainer.step({**data, "labels": data["labels"] + 5})
            with self.assertRaisesRegex(rannc.Error, "the classes are 0 to 4"):
                float(value)
            self.assertAlmostEqual(float(trainer.step(data)), loss(net(data["tokens"]), data).item(), 9)
            trainer.step({**data, "labels": data["labels"] + 5})
            with self.assertRaisesRegex(rannc.Error, "the classes are 0 to 4"):
                trainer.step(data)

    def test_trainers_that_nobody_closes_end(self):
        for _ in range(4):
            net, data = made(), batches(1)[0]
            rannc.Trainer(net, data, loss=loss, optimizer=adamw(net), **TWO_STAGES).step(data)
        left = [None]
        for _ in range(100):  # a step that runs keeps its trainer
            gc.collect()
            left = [thread for thread in threading.enumerate() if thread.name.startswith("rannc")]
            if not left:
                break
            left[0].join(0.1)
        self.assertEqual(left, [])


class Memory(unittest.TestCase):
    def test_a_module_in_memory_is_compiled_as_its_file(self):
        class Tied(nn.Module):
            def __init__(self):
                super().__init__()
                self.inner, self.out = made(), nn.Linear(5, 5, bias=False)
                self.turned = nn.Parameter(torch.randn(5, 7).double().t())  # not contiguous
                self.again = self.turned
                self.register_buffer("shift", torch.arange(5).double())
                self.register_buffer("scale", torch.full((5,), 2.0).double(), persistent=False)

            def forward(self, tokens):
                logits = self.out(self.inner(tokens)) + self.shift * self.scale
                return logits @ self.turned.t() @ self.again

        torch.manual_seed(1)
        net, data = Tied().double(), batches(1)[0]
        with tempfile.TemporaryDirectory() as folder:
            own, other, file = (os.path.join(folder, name) for name in ("own.rannc", "other.rannc", "module.pt2"))
            rannc.compile(net, data, own, loss=loss, optimizer="adam", costs="analytic", **TWO_STAGES)
            program = rannc.export.export(net, data, loss=loss)
            torch.export.save(program.program, file)
            flags = [f"--output-name={name}" for name in program.outputs]
            subprocess.run([BIN / "rannc-compile", "module.pt2", "-o", other, "--loss=in_graph(output=loss)", "--costs=analytic",
                            "--cluster=local:2", "--stages=2", "--mini-batch=8", *flags], check=True, capture_output=True, cwd=folder)
            for name in ("plan.rir", "stage0.safetensors", "stage1.safetensors"):
                with open(os.path.join(own, name), "rb") as mine, open(os.path.join(other, name), "rb") as theirs:
                    self.assertEqual(mine.read(), theirs.read(), name)
            with rannc.Trainer(own, optimizer="adam") as trainer:
                state = trainer.state_dict()
            self.assertEqual(largest_difference(state, net.state_dict()), 0)

    def test_weights_are_not_copied(self):
        net = made()
        content, weights = rannc.export.export(net, batches(1)[0], loss=loss).in_memory(True)
        self.assertLess(len(content), 100_000)
        for name, parameter in net.named_parameters():
            self.assertEqual(weights[name].data_ptr(), parameter.data_ptr(), name)


class Processes(unittest.TestCase):
    """The worker's script trains, and prints what this process compares."""

    def launched(self, *arguments, launcher=True):
        script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "python_worker.py")
        torchrun = ["-m", "torch.distributed.run", "--nproc-per-node", "2", "--master-port", str(programs.free_port())]
        done = subprocess.run([sys.executable, "-B", *(torchrun if launcher else []), script, str(BIN), *arguments],
                              capture_output=True, text=True, timeout=programs.HANG_SECONDS)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return sorted(line for line in done.stdout.splitlines() if line.startswith("rank "))

    def test_two_processes_compute_what_one_does(self):
        alone = self.launched("stages", launcher=False)
        self.assertEqual(len(alone), 1)
        for arguments in (["stages"], ["stages", "group"], ["stages", "blind"], ["stages", "twice"]):
            with self.subTest(arguments=arguments):
                both = self.launched(*arguments)
                self.assertEqual(both, [alone[0], alone[0].replace("rank 0", "rank 1")])

    def test_a_process_reads_the_samples_that_it_computes(self):
        whole, parts = self.launched("replicas"), self.launched("replicas", "sampler")
        self.assertEqual(whole, parts)

    def test_processes_without_work_get_a_stage(self):
        self.assertEqual(self.launched("planned"), self.launched("stages"))

    def test_a_notebook_launches_workers(self):
        self.assertEqual(self.launched("launch", launcher=False), self.launched("stages"))


if __name__ == "__main__":
    assert FOLDER.is_dir()
    programs.main()
