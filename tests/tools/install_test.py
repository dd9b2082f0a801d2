"""The installed package, moved, is all that programs outside the tree need to compile a model and to train it."""
import os
import pathlib
import re
import shutil
import subprocess

import programs

EXAMPLES = {"train": programs.SOURCE / "runtime" / "examples", "compile": programs.SOURCE / "tools" / "compiler" / "examples"}
CMAKE = os.environ.get("RANNC_CMAKE", "cmake")
LOSS = re.compile(r"loss (\S+)$", re.MULTILINE)
# What the headers of rannc::compiler hide.
HIDDEN = re.compile(r"/(torch|ATen|c10|onnx|google/protobuf|boost|fmt|nlohmann|CLI)/")


class Installed(programs.ProgramTest):
    def call(self, *command, **options):
        done = subprocess.run([str(part) for part in command], capture_output=True, text=True, timeout=240, **options)
        self.assertEqual(done.returncode, 0, f"{done.args}\n{done.stdout}{done.stderr}")
        return done.stdout

    def install(self):
        """Installs, moves the prefix, and takes a copy of the examples out of the tree."""
        build = programs.bin_folder.parent
        self.call(CMAKE, "--install", build, "--prefix", self.scratch / "first")
        prefix = self.scratch / "moved" / "rannc"
        prefix.parent.mkdir()
        (self.scratch / "first").rename(prefix)
        for name, folder in EXAMPLES.items():
            shutil.copytree(folder, self.scratch / name)
        return prefix

    def configure(self, prefix, source, name, *arguments):
        build = self.scratch / name
        self.call(CMAKE, "-G", "Ninja", "-S", source, "-B", build, f"-DCMAKE_PREFIX_PATH={prefix}", *arguments)
        return build

    def no_foreign_path(self, prefix):
        """No file of the package names the tree, the build, the first prefix or the user's home."""
        foreign = [str(programs.SOURCE), str(programs.bin_folder.parent), str(self.scratch), str(pathlib.Path.home())]
        for path in [*prefix.rglob("*.cmake"), *prefix.rglob("*.h")]:
            for folder in foreign:
                self.assertNotIn(folder, path.read_text(), f"{path} names a folder of this machine")

    def every_header_compiles(self, prefix):
        headers = sorted(path.relative_to(prefix / "include" / "rannc") for path in prefix.rglob("*.h"))
        headers = [header for header in headers if header.name != "compiler.h" and header.parts[0] != "compiler"]
        self.assertTrue({"runtime/train/trainer.h", "runtime/data/dataset.h", "ir/graph/graph.h", "partition/cluster.h"} <= {str(h) for h in headers})
        self.assertFalse([header for header in headers if "internal" in header.parts])
        source = self.scratch / "headers"
        source.mkdir()
        (source / "all.cc").write_text("".join(f'#include "{header}"\n' for header in headers if header.name != "tensor.h") +
                                       "int main() {}\n")
        (source / "CMakeLists.txt").write_text(
            "cmake_minimum_required(VERSION 3.25)\nproject(headers LANGUAGES CXX)\n"
            "find_package(rannc REQUIRED COMPONENTS ir partition)\n"
            "add_executable(headers all.cc)\ntarget_link_libraries(headers PRIVATE rannc::partition rannc::ir)\n")
        # Neither component needs LibTorch: a folder without one is not looked into.
        self.call(CMAKE, "--build", self.configure(prefix, source, "headers-build", "-DRANNC_TORCH_DIR=/nowhere"))

    def compiler_headers_are_plain(self, prefix):
        """Those of rannc::compiler compile with the package's folders alone, and include nothing of third parties."""
        include = prefix / "include"
        headers = sorted(path.relative_to(include) for path in [*include.glob("rannc/compiler.h"), *include.glob("rannc/compiler/*.h")])
        self.assertEqual({header.name for header in headers}, {"compiler.h", "option_row.h", "plan_options.h", "read_options.h"})
        for header in headers:
            read = self.call(os.environ.get("CXX", "c++"), "-std=c++20", "-Wall", "-Wextra", "-Werror", "-M", "-x", "c++", f"-I{include}", f"-I{include}/rannc",
                             "-include", include / header, "/dev/null")
            self.assertIsNone(HIDDEN.search(read), header)

    def compile_and_train(self, prefix, train):
        """A program on rannc::compiler writes a bundle, which a program on rannc::runtime trains."""
        build = self.configure(prefix, self.scratch / "compile", "compile-build", "-DCMAKE_CXX_FLAGS=-Wall -Wextra -Werror")
        self.call(CMAKE, "--build", build)
        model, loss = programs.DATA / "small_mlp" / "model.onnx", "cross_entropy(output=logits,labels=y)"
        bundle = self.scratch / "compiled.rannc"
        shown = self.call(build / "compile", model, loss, "local:2", bundle)
        self.assertRegex(shown, r"model.onnx: \d+ nodes → \d+ tasks; \S+ parameters")
        self.assertRegex(shown, r"stage 1 on \S+: \S+ ... \S+; forward \d+.\d+ ms, backward \d+.\d+ ms; \d+.\d of \d+.\d MiB")
        self.assertRegex(shown, r"step \d+.\d+ ms, measured; \d+ micro-batches, schedule \S+")
        self.assertRegex(shown, r"gap to the lower bound \(.+\): \d+.\d+ %")
        losses = [float(loss) for loss in LOSS.findall(self.call(train, bundle, self.scratch / "compiled", 100))]
        self.assertEqual(len(losses), 3)
        self.assertLess(losses[-1], 1.2, "on points that no step has seen; 1.9 before training")
        for arguments, message in [((self.scratch / "none.onnx", loss, "local:2"), "none.onnx: error: "),
                                   ((model, "cross_entropy(output=none)", "local:2"), "none"),
                                   ((model, loss, "local:x"), "local:x")]:
            wrong = subprocess.run([build / "compile", *arguments, self.scratch / "wrong.rannc"], capture_output=True, text=True)
            self.assertEqual(wrong.returncode, 1, wrong.stderr)
            self.assertIn(message, wrong.stderr)
            self.assertFalse((self.scratch / "wrong.rannc").exists())

    def train(self, example, folder, steps):
        return self.call(example, self.scratch / "mlp.rannc", self.scratch / folder, steps)

    def train_by_workers(self, example, folder, steps):
        shared = {**os.environ, "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(programs.free_port())}
        command = [str(example), str(self.scratch / "mlp.rannc"), str(self.scratch / folder), str(steps)]
        workers = [subprocess.Popen(command, env={**shared, "RANK": str(rank)}, stdout=subprocess.PIPE, text=True)
                   for rank in range(2)]
        outputs = [worker.communicate(timeout=120)[0] for worker in workers]
        self.assertEqual([worker.returncode for worker in workers], [0, 0])
        self.assertEqual(outputs[1], "")
        return outputs[0]

    def four_batches(self):
        """The samples of the model's folder four times: a mini-batch of 32."""
        tensors = programs.read_safetensors(programs.DATA / "small_mlp" / "batch.safetensors")
        programs.write_safetensors(self.scratch / "data.safetensors",
                                   {name: (dtype, [4 * shape[0], *shape[1:]], 4 * data) for name, (dtype, shape, data) in tensors.items()})
        return self.scratch / "data.safetensors"

    def test_programs_outside_the_tree(self):
        prefix = self.install()
        self.no_foreign_path(prefix)
        self.every_header_compiles(prefix)
        self.compiler_headers_are_plain(prefix)
        missing = subprocess.run([CMAKE, "-G", "Ninja", "-S", self.scratch / "train", "-B", self.scratch / "none",
                                  f"-DCMAKE_PREFIX_PATH={prefix}", "-DRANNC_TORCH_DIR=/nowhere"], capture_output=True, text=True)
        self.assertNotEqual(missing.returncode, 0)
        self.assertIn("No LibTorch >= 2.11 in '/nowhere'", missing.stderr)

        build = self.configure(prefix, self.scratch / "train", "train-build")
        self.call(CMAKE, "--build", build)
        self.call(prefix / "bin" / "rannc-compile", programs.DATA / "small_mlp" / "model.onnx", "-o", self.scratch / "mlp.rannc",
                  "--cluster", "local:2", "--stages", 2, "--mini-batch", 32, "--optimizer", "sgd",
                  "--loss", "cross_entropy(output=logits,labels=y)")
        whole = [float(loss) for loss in LOSS.findall(self.train(build / "train", "whole", 400))]
        self.assertEqual(len(whole), 9)
        self.assertGreater(whole[0], 1.5)
        self.assertLess(whole[-1], 0.5, "the loss on points that no step has seen")
        # Saved, taken up again, and a process for each stage: the same numbers.
        self.train(build / "train", "parts", 120)
        resumed = [float(loss) for loss in LOSS.findall(self.train_by_workers(build / "train", "parts", 400))]
        self.assertEqual(resumed, whole[3:])
        on_file = self.call(build / "train", self.scratch / "mlp.rannc", self.scratch / "on-file", 40, self.four_batches())
        self.assertEqual(len(LOSS.findall(on_file)), 2)
        wrong = subprocess.run([build / "train", self.scratch / "none.rannc", self.scratch / "x", "1"], capture_output=True, text=True)
        self.assertEqual(wrong.returncode, 1)
        self.assertIn("none.rannc", wrong.stderr)
        self.compile_and_train(prefix, build / "train")


if __name__ == "__main__":
    programs.main()
