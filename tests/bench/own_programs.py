"""Runs the programs of a build for benchmarks that need no package but Python's own."""
import pathlib
import subprocess
import sys


class OwnPrograms:
    """`flags.bin` is the folder of the programs, `flags.folder` that of what they write."""

    def __init__(self, flags):
        self.flags = flags
        self.folder = pathlib.Path(flags.folder)
        self.folder.mkdir(parents=True, exist_ok=True)

    def run(self, program, *arguments):
        """Standard output. An error ends the benchmark."""
        command = [str(pathlib.Path(self.flags.bin) / program), *map(str, arguments)]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(f"{' '.join(command)}\n{done.stdout}{done.stderr}")
        return done.stdout
