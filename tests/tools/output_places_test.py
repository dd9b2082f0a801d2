"""Outputs go to devices, FIFOs and through symbolic links, and never take a folder's place."""
import os
import stat
import threading

import programs
from workers_test import MLP

DIAGNOSTICS = 1
LOSS = "cross_entropy(output=logits,labels=y,ignore_index=-100)"


class OutputPlaces(programs.ProgramTest):
    def setUp(self):
        super().setUp()
        self.bundle = self.scratch / "m.rannc"
        self.succeed("rannc-compile", MLP / "model.onnx", "-o", self.bundle, "--mini-batch", 8, "--loss", LOSS, "--costs", "analytic")

    def run_with(self, flag, place, *more):
        return ["rannc-run", self.bundle, "--data", MLP / "batch.safetensors", "--steps", 2, "-o", self.scratch / "run", "--replace", flag, place,
                *more]

    def each_output(self):
        """Command lines, up to the place of their output."""
        compile_to = ["rannc-compile", MLP / "model.onnx", "--loss", LOSS, "--costs", "analytic"]
        yield lambda place: [*compile_to, "--emit=plan", "-o", place]
        for flag in ("--log", "--loss-log", "--export-weights"):
            yield lambda place, flag=flag: self.run_with(flag, place)

    def test_devices_stay(self):
        device = self.scratch / "null"
        try:
            os.mknod(device, stat.S_IFCHR | 0o666, os.makedev(1, 3))
        except PermissionError:
            device = None  # /dev/null is safe then
        for command in self.each_output():
            place = device or "/dev/null"
            self.succeed(*command(place))
            self.assertTrue(stat.S_ISCHR(os.stat(place).st_mode), command(place))
        self.assertEqual(sorted(self.scratch.glob("*partial*")), [])

    def test_a_full_device_is_an_error(self):
        for command in self.each_output():
            self.refuse(DIAGNOSTICS, ["/dev/full: error: cannot be written: No space left on device"], *command("/dev/full"))

    def test_fifos_receive(self):
        for command in self.each_output():
            fifo, received = self.scratch / "fifo", []
            os.mkfifo(fifo)
            reader = threading.Thread(target=lambda: received.append(fifo.read_bytes()))
            reader.start()
            self.succeed(*command(fifo))
            reader.join()
            self.assertTrue(received[0], command(fifo))
            self.assertTrue(stat.S_ISFIFO(os.stat(fifo).st_mode))
            fifo.unlink()

    def test_links_are_followed(self):
        (self.scratch / "elsewhere").mkdir()
        for number, command in enumerate(self.each_output()):
            link, target = self.scratch / f"link{number}", self.scratch / "elsewhere" / str(number)
            link.symlink_to(target)
            self.succeed(*command(link))
            self.assertTrue(link.is_symlink())
            self.assertGreater(target.stat().st_size, 0)

    def test_folders_stay(self):
        folder = self.scratch / "folder"
        folder.mkdir()
        (folder / "kept").write_text("kept")
        for command in self.each_output():
            self.refuse(DIAGNOSTICS, [f"{folder}: error: "], *command(folder))
            self.assertEqual((folder / "kept").read_text(), "kept")


if __name__ == "__main__":
    programs.main()
