"""Processes that get ready beside each other, and stand still while others are measured.

- Some start at a time, in their order, as far as the GPU's memory allows.
- A process that gets ready runs on other cores than one that is measured. During a measurement it is stopped (SIGSTOP), so that it uses
  neither the GPU nor a core. Only compilers that it has started go on, on the other cores.
- torch.compile times kernels while it gets ready. Processes that do so exclude each other by the lock of a file (`raw_eager.py --lock`).
"""
import contextlib
import os
import signal
import subprocess
import threading
import time

from .sides import Ended

WARM_UP = 4  # steps: the first runs normally, the second is recorded, torch.compile's first ones compile
MEASURED_CORES, LEAST_CORES = 4, 8
LANE_ENVIRONMENT = {"TORCHINDUCTOR_COMPILE_THREADS": "4", "TOKENIZERS_PARALLELISM": "false"}
SETTLED_SECONDS = 0.3  # until a stopped process's work on the GPU is done


class Job:
    """A process to get ready. `start` returns it as a `Side`, or ends it and returns None; `needs`: jobs that must be ready before."""

    def __init__(self, name, bytes_needed, most_seconds, start, needs=()):
        self.name, self.bytes, self.most_seconds, self.start, self.needs = name, bytes_needed, most_seconds, start, tuple(needs)
        self.side, self.why, self.state = None, None, "waiting"  # then running, and ready or failed

    def is_done(self):
        return self.state in ("ready", "failed")

    def fail(self, why):
        self.why, self.state = why, "failed"


class Lanes:
    def __init__(self, count, bytes_of_gpu):
        self.bytes_of_gpu = bytes_of_gpu
        self.jobs, self.processes = [], {}  # {job: process that lives}
        self.gate = threading.Lock()  # held while processes stand still, so that none is started
        cores = sorted(os.sched_getaffinity(0))
        self.count = min(count, max(2, len(cores) // 2))
        parts = len(cores) >= LEAST_CORES
        self.measured = cores[:MEASURED_CORES] if parts else cores
        self.others = cores[MEASURED_CORES:] if parts else cores

    def add(self, job):
        self.jobs.append(job)
        return job

    # --- getting ready

    def dispatch(self):
        """Starts jobs whose needs are ready, in their order. One that memory is short for keeps later ones waiting."""
        for job in [job for job in self.jobs if job.state == "waiting"]:
            if failed := [need for need in job.needs if need.state == "failed"]:
                job.fail(failed[0].why)
                continue
            if any(need.state != "ready" for need in job.needs):
                continue
            if sum(other.state == "running" for other in self.jobs) >= self.count:
                return
            used = sum(other.bytes for other in self.jobs if other.state == "running" or other.side is not None)
            if used and used + job.bytes > self.bytes_of_gpu:
                return
            job.state = "running"
            threading.Thread(target=self.get_ready, args=(job,), daemon=True).start()

    def get_ready(self, job):
        ended = threading.Event()
        try:
            watch = threading.Timer(job.most_seconds, self.end_late, [job, ended])
            watch.start()
            try:
                job.side = job.start(lambda process: self.started(job, process))
                for _ in range(WARM_UP if job.side else 0):
                    job.side.step()
            finally:
                watch.cancel()
            job.state = "ready"
        except Ended as failure:
            job.side = None
            lines = str(failure).strip().splitlines()
            job.fail(f"not ready after {job.most_seconds:.0f} s" if ended.is_set() else lines[-1][-400:])
        except Exception as failure:  # of the script itself
            job.side = None
            job.fail(repr(failure))
        finally:
            if job.side is None:
                self.processes.pop(job, None)

    def end_late(self, job, ended):
        ended.set()
        if process := self.processes.get(job):
            process.kill()

    def started(self, job, process):
        process.send_signal(signal.SIGSTOP)
        with self.gate:  # not during a measurement
            self.processes[job] = process
            self.place(process.pid, self.others)
        process.send_signal(signal.SIGCONT)

    # --- measuring

    def place(self, pid, cores):
        """Moves all threads of a process."""
        with contextlib.suppress(OSError):
            for thread in os.listdir(f"/proc/{pid}/task"):
                with contextlib.suppress(OSError):
                    os.sched_setaffinity(int(thread), cores)

    @contextlib.contextmanager
    def alone(self, jobs):
        """All processes but those of `jobs` stand still."""
        with self.gate:
            others = [process for job, process in list(self.processes.items()) if job not in jobs]
            self.signal(others, signal.SIGSTOP)
            for job in jobs:
                self.place(self.processes[job].pid, self.measured)
            if others:
                time.sleep(SETTLED_SECONDS)
            try:
                yield
            finally:
                self.signal(others, signal.SIGCONT)

    @staticmethod
    def signal(processes, number):
        for process in processes:
            if process.poll() is None:
                process.send_signal(number)

    def end(self, jobs):
        for job in jobs:
            if process := self.processes.pop(job, None):
                process.kill()
                process.wait()
            if job.side:
                job.side.end()
            job.side = None
            if not job.is_done():
                job.fail("ended")


def run_process(job_name, command, started, **options):
    """Waits for a process that is no side."""
    process = subprocess.Popen(list(map(str, command)), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **options)
    started(process)
    output, _ = process.communicate()
    if process.returncode != 0:
        raise Ended(f"{job_name} ended with {process.returncode}\n{output}")
