"""Processes that do not belong to a run: they reach the port of worker 0, and neither join nor disturb it."""
import os
import re
import resource
import socket
import struct
import subprocess
import time

import programs
import workers_test

SECRET = "7e1c5f0b2d9a4836"
STEPS = 20
IDLE = 100
FEW_DESCRIPTORS = 64  # enough for a worker, and not for so many strangers
MOST_GROWTH_KIB = 32 << 10


def text(value):
    return struct.pack("<Q", len(value)) + value


def frame(*parts):
    body = b"".join(struct.pack("<Q", part) if isinstance(part, int) else text(part) for part in parts)
    return struct.pack("<I", len(body)) + body


def peak_kib(pid):
    with open(f"/proc/{pid}/status") as status:
        return int(re.search(r"VmHWM:\s+(\d+) kB", status.read())[1])


def environment_of(pid):
    with open(f"/proc/{pid}/environ", "rb") as file:
        return dict(entry.split("=", 1) for entry in file.read().decode().split("\0") if "=" in entry)


def addresses(port):
    """Local addresses that listen on the port."""
    found = []
    for table in ("tcp", "tcp6"):
        with open(f"/proc/net/{table}") as lines:
            rows = [line.split() for line in lines][1:]
        found += [row[1].split(":")[0] for row in rows if row[3] == "0A" and int(row[1].split(":")[1], 16) == port]
    return found


class Strangers(workers_test.WorkersTest):
    def worker(self, rank, host, port, *more, secret=SECRET, steps=STEPS, timeout=30, descriptors=None):
        command = [programs.program("rannc-run"), self.bundle(), "-o", self.scratch / f"host-{rank}", "--data",
                   workers_test.MLP / "batch.safetensors", "--steps", steps, "--timeout", timeout, "--rank", rank, "--world", 2, "--master",
                   f"{host}:{port}", "--transport", "gloo", *more]
        variables = {name: value for name, value in os.environ.items() if name != "RANNC_SECRET"}
        if secret:
            variables["RANNC_SECRET"] = secret
        limit = None
        if descriptors:
            def limit():
                resource.setrlimit(resource.RLIMIT_NOFILE, (descriptors, descriptors))
        running = subprocess.Popen(list(map(str, command)), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=variables,
                                   preexec_fn=limit)
        self.addCleanup(running.communicate)
        self.addCleanup(running.kill)
        return running

    def connect(self, port):
        limit = time.monotonic() + programs.HANG_SECONDS
        while True:
            try:
                made = socket.create_connection(("127.0.0.1", port), timeout=programs.HANG_SECONDS)
                self.addCleanup(made.close)
                return made
            except ConnectionRefusedError:
                self.assertLess(time.monotonic(), limit, "worker 0 does not listen")
                time.sleep(0.01)

    def attack(self, port):
        """Idle connections, garbage, and a process that knows the public part of the protocol, of today and of before."""
        for _ in range(IDLE):
            self.connect(port)
        try:
            self.connect(port).sendall(bytes(4 << 20))
        except (BrokenPipeError, ConnectionResetError):
            pass
        for frames in ([frame(0, b"rannc-store-2", 1, 2)], [frame(0, b"rannc-store-3", b"a" * 64), frame(7, 1, 2, b"b" * 32)]):
            stranger = self.connect(port)
            for each in frames:
                stranger.sendall(each)
                answer = stranger.recv(4096)
            self.assertEqual(struct.unpack("<Q", answer[4:12])[0], 1, f"refused: {answer}")

    def test_a_run_among_strangers(self):
        """Worker 0 listens on the given address alone; the losses are those of a run without strangers."""
        port = programs.free_port()
        log = self.scratch / "losses"
        first = self.worker(0, "127.0.0.1", port, "--loss-log", log, descriptors=FEW_DESCRIPTORS)
        self.connect(port)
        self.assertEqual(addresses(port), ["0100007F"])
        before = peak_kib(first.pid)
        self.attack(port)
        self.assertLess(peak_kib(first.pid) - before, MOST_GROWTH_KIB)
        self.assertEqual(environment_of(first.pid).get("RANNC_SECRET", ""), "", "as ps shows it")
        said = ""
        for worker in (first, self.worker(1, "127.0.0.1", port)):
            output, errors = worker.communicate(timeout=programs.HANG_SECONDS)
            self.assertEqual(worker.returncode, 0, errors)
            said += output + errors
        self.succeed("rannc-run", self.bundle(), "-o", self.scratch / "one", "--data", workers_test.MLP / "batch.safetensors", "--steps",
                     STEPS, "--transport", "local", "--loss-log", self.scratch / "one.log")
        self.assertEqual(log.read_text(), (self.scratch / "one.log").read_text())
        self.assertNotIn(SECRET, said)
        written = [path for rank in range(2) for path in (self.scratch / f"host-{rank}").rglob("*") if path.is_file()]
        self.assertIn("trace.json", {path.name for path in written})
        for path in [*written, *(path for path in self.bundle().rglob("*") if path.is_file())]:
            self.assertNotIn(SECRET.encode(), path.read_bytes(), path)

    def test_our_launcher_makes_a_secret(self):
        launcher = self.start(self.bundle(), "--transport", "gloo", "--loss-log", self.scratch / "steps.log")
        self.await_step(launcher)
        for worker in programs.children(launcher.pid):
            self.assertEqual(environment_of(worker)["RANNC_SECRET"], "", "overwritten")
        self.attack(int(environment_of(worker)["MASTER_PORT"]))
        self.await_step(launcher, self.log.read_text().count("\n") + 100)

    def test_a_wrong_secret_is_named_on_both_sides(self):
        with socket.create_server(("127.0.0.1", 0)) as listener:  # closes the connection: worker 1 tries again
            listener.settimeout(programs.HANG_SECONDS)
            port = listener.getsockname()[1]
            second = self.worker(1, "127.0.0.1", port, secret="another secret of 32 characters")
            listener.accept()[0].close()
        for worker in [second, self.worker(0, "127.0.0.1", port, timeout=1)]:
            errors = self.ends(worker)
            self.assertEqual(errors.count("error: "), 1, errors)
            self.assertRegex(errors, r"could not join at 127\.0\.0\.1:.*worker 1 .*does not have the secret of worker 0 \(RANNC_SECRET\)")

    def test_other_machines_need_a_secret(self):
        port = programs.free_port()
        self.assertIn(f"other machines can reach 0.0.0.0:{port}, and the workers have no secret",
                      self.ends(self.worker(0, "0.0.0.0", port, secret=None)))
        self.assertIn("'RANNC_SECRET': error: environment variable has 3 characters", self.ends(self.worker(0, "127.0.0.1", port, secret="abc")))
        for worker in [self.worker(0, "0.0.0.0", port, "--insecure", secret=None, steps=1),
                       self.worker(1, "127.0.0.1", port, secret=None, steps=1)]:
            _, errors = worker.communicate(timeout=programs.HANG_SECONDS)
            self.assertEqual(worker.returncode, 0, errors)


if __name__ == "__main__":
    programs.main()
