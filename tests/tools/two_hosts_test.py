"""Workers of two hosts: shared memory within a host, Gloo between them, and the loss of the link. Network namespaces act as hosts."""
import os
import re
import shutil
import subprocess
import time

import programs
import workers_test

WORKERS, PER_HOST = 4, 2


def ip(*arguments):
    return subprocess.run(["ip", *arguments], capture_output=True, text=True, check=False)


class TwoHosts(workers_test.WorkersTest):
    def setUp(self):
        super().setUp()
        self.hosts = [f"rannc-{os.getpid()}-{i}" for i in range(2)]
        self.links = [f"rn{os.getpid() % 10**6}x{i}" for i in range(2)]
        self.connect()

    def connect(self):
        """Two hosts with a link between them."""
        steps = [("netns", "add", host) for host in self.hosts]
        steps.append(("link", "add", self.links[0], "netns", self.hosts[0], "type", "veth", "peer", "name", self.links[1], "netns",
                      self.hosts[1]))
        for i, host in enumerate(self.hosts):
            steps += [("-n", host, "link", "set", "lo", "up"), ("-n", host, "link", "set", self.links[i], "up"),
                      ("-n", host, "address", "add", f"10.203.7.{i + 1}/24", "dev", self.links[i])]
        if shutil.which("ip") is None:
            self.skipTest("no program ip")
        for host in self.hosts:
            self.addCleanup(ip, "netns", "delete", host)
        for step in steps:
            done = ip(*step)
            if done.returncode != 0:
                self.skipTest(f"network namespaces are not permitted: ip {' '.join(step)}: {done.stderr.strip()}")

    def start_all(self, steps, timeout):
        port = programs.free_port()
        self.log = self.scratch / "steps.log"
        bundle = self.bundle(WORKERS)
        running = []
        for rank in range(WORKERS):
            host = rank // PER_HOST
            command = ["ip", "netns", "exec", self.hosts[host], programs.program("rannc-run"), bundle, "-o", self.scratch / f"host-{host}",
                       "--data", workers_test.MLP / "batch.safetensors", "--steps", steps, "--timeout", timeout, "--rank", rank, "--world",
                       WORKERS, "--master", f"10.203.7.1:{port}"] + (["--loss-log", self.log] if rank == 0 else [])
            running.append(subprocess.Popen(list(map(str, command)), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                            env={**os.environ, "RANNC_SECRET": "a secret of both hosts"}))
            self.addCleanup(running[-1].communicate)
            self.addCleanup(running[-1].kill)
        return running

    def shared_files(self, worker):
        """Memory files that the worker has mapped."""
        with open(f"/proc/{worker.pid}/maps") as maps:
            return {match[1] for line in maps if (match := re.search(r" (\d+) +/memfd:rannc", line))}

    def test_shared_memory_within_and_gloo_between(self):
        """The losses are those of one process."""
        for worker in self.start_all(20, workers_test.TIMEOUT * 5):
            _, errors = worker.communicate(timeout=programs.HANG_SECONDS)
            self.assertEqual(worker.returncode, 0, errors)
        self.succeed("rannc-run", self.bundle(WORKERS), "-o", self.scratch / "one", "--data", workers_test.MLP / "batch.safetensors",
                     "--steps", 20, "--transport", "local", "--loss-log", self.scratch / "one.log")
        self.assertEqual(self.log.read_text(), (self.scratch / "one.log").read_text())

    def test_lost_link(self):
        workers = self.start_all(10**9, workers_test.TIMEOUT)
        self.await_step(workers[0])
        files = [self.shared_files(worker) for worker in workers]
        for i in range(WORKERS):
            self.assertEqual(len(files[i]), PER_HOST, "its own, and its neighbour's")
            for other in range(WORKERS):
                self.assertEqual(files[i] == files[other], i // PER_HOST == other // PER_HOST)
        self.assertEqual(ip("-n", self.hosts[0], "link", "set", self.links[0], "down").returncode, 0)
        lost = time.monotonic()
        for rank, worker in enumerate(workers):
            errors = self.ends(worker)
            self.assertEqual(errors.count("error: "), 1, errors)
            self.assertRegex(errors, r"worker [23] has not been heard from" if rank < PER_HOST else r"worker 0 has not answered")
        self.assertLess(time.monotonic() - lost, workers_test.SECONDS_TO_END)


if __name__ == "__main__":
    programs.main()
