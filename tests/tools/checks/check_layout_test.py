"""Plants one violation per rule of tools/check-layout and expects that rule to name it."""
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from planted import TOOLS, PlantedTest

SETUP = """#!/usr/bin/env bash
source "$(dirname "$0")/setup-paths"
readonly needs="
g++|g++|GCC 12 or newer
python3|python3|Python 3.11 or newer
git|git|Git
libfmt-dev|fmt/core.h|{fmt} 9
libprotobuf-dev|google/protobuf/message.h|Protocol Buffers
libmetis-dev|metis.h|METIS
"
has_header() { echo "#include <$1>" | g++ -x c++ - 2>/dev/null; }
"""
# What the shell's grammar hides: none of these words is a command, but `git` and `sort` are.
SCRIPT = """#!/usr/bin/env bash
# rsync is no command in a comment
usage() { cat <<END
usage: rsync, in a here-document
END
}
names=(rsync curl) text="rsync 'here'" other='; rsync'
if [[ $1 == rsync || -e rsync ]]; then usage; fi
case $1 in
  rsync | curl) usage ;;
  *) git log --format=rsync | sort >rsync 2>&1 ;;
esac
(( rsync + 1 )) || echo rsync $((curl + 1)) <<<rsync
for rsync in curl; do usage; done
command -v wget >/dev/null && wget rsync
"$TOOL" rsync; ./rsync; env A=b git rsync
"""


class CheckLayout(PlantedTest):
    CHECK = "check-layout"
    CLEAN = {
        "README.md": "",
        "ir/README.md": "",
        "ir/graph.h": "#include <vector>\n",
        "ir/internal/arena.h": "",
        "ir/graph.cc": '#include "ir/graph.h"\n#include "ir/internal/arena.h"\n#include <fmt/core.h>\n',
        "passes/README.md": "",
        "passes/pass.cc": '#include "ir/graph.h"\n',
        "partition/README.md": "",
        "partition/dag.h": "",
        "codegen/README.md": "",
        "codegen/emit.cc": '#include "runtime/bundle.h"\n#include <torch/torch.h>\n',
        "runtime/README.md": "",
        "runtime/bundle.h": "",
        "runtime/program.h": "",
        "frontend/README.md": "",
        "frontend/onnx/read.cc": "#include <onnx/checker.h>\n#include <google/protobuf/message.h>\n",
        "tests/README.md": "",
        "tools/README.md": "",
        "tools/setup": SETUP,
        "tools/setup-versions": "RANNC_TORCH_VERSION=2\nRANNC_ONNX_VERSION=1\nRANNC_CMAKE_VERSION=3\n",
        "tools/script": SCRIPT,
        "tests/ir/arena_test.cc": '#include "ir/internal/arena.h"\n#include "tests/support/graphs.h"\n',
    }

    def test_clean_tree(self):
        self.expect_green({})

    def test_L1_unknown_folder(self):
        self.expect_red({"utils/misc.cc": ""}, "L1", "utils")

    def test_L1_unknown_file(self):
        self.expect_red({"notes.txt": ""}, "L1", "notes.txt")

    def test_L2_ir_depends_on_nothing(self):
        self.expect_red({"ir/bad.cc": '#include "passes/pass.h"\n'}, "L2", "ir/bad.cc:1", "passes/pass.h")

    def test_L2_passes_and_partition_do_not_know_each_other(self):
        self.expect_red({"passes/bad.cc": '\n#include "partition/dag.h"\n'}, "L2", "passes/bad.cc:2", "partition/dag.h")
        self.expect_red({"partition/bad.cc": '#include "passes/pass.h"\n'}, "L2", "passes/pass.h")

    def test_L2_codegen_sees_the_bundle_only(self):
        self.expect_red({"codegen/bad.cc": '#include "runtime/program.h"\n'}, "L2", "runtime/program.h")

    def test_L2_runtime_sees_ir_only(self):
        self.expect_red({"runtime/bad.cc": '#include "codegen/emit.h"\n'}, "L2", "codegen/emit.h")

    def test_L3_internal_header_of_another_folder(self):
        self.expect_red({"passes/bad.cc": '#include "ir/internal/arena.h"\n'}, "L3", "ir/internal/arena.h")
        self.expect_red({"tests/passes/bad.cc": '#include "ir/internal/arena.h"\n'}, "L3", "tests/passes/bad.cc")

    def test_L4_libraries_out_of_place(self):
        self.expect_red({"passes/bad.cc": "#include <ATen/ATen.h>\n"}, "L4", "ATen/ATen.h")
        self.expect_red({"frontend/onnx/bad.cc": "#include <torch/torch.h>\n"}, "L4", "torch/torch.h")
        self.expect_red({"partition/bad.cc": "#include <onnx/checker.h>\n"}, "L4", "onnx/checker.h")
        self.expect_red({"runtime/bad.cc": "#include <cuda_runtime.h>\n"}, "L4", "cuda_runtime.h")
        self.expect_green({"runtime/device_cuda.cc": "#include <cuda_runtime.h>\n"})

    def test_L5_both_libraries_in_one_file(self):
        both = "#include <torch/torch.h>\n#include <onnx/checker.h>\n"
        self.expect_red({"frontend/torchscript/bad.cc": both}, "L5", "bad.cc:2", "torch/torch.h")

    def test_L6_relative_include(self):
        self.expect_red({"ir/bad.cc": '#include "graph.h"\n'}, "L6", "graph.h")

    def test_L7_folder_without_readme(self):
        self.expect_red({"passes/README.md": None}, "L7", "passes")

    def test_L8_header_that_nothing_brings(self):
        bad = {"partition/bad.cc": "#include <vector>\n#include <boost/dynamic_bitset.hpp>\n"}
        self.expect_red(bad, "L8", "partition/bad.cc:2", "boost/dynamic_bitset.hpp")
        row = "libboost-graph-dev|boost/graph/adjacency_list.hpp|Boost\n"
        self.expect_green({**bad, "tools/setup": SETUP.replace("libfmt-dev", row + "libfmt-dev")})

    def test_L8_header_without_a_folder(self):
        self.expect_green({"partition/good.cc": "#include <metis.h>\n#include <sys/wait.h>\n#include <unistd.h>\n"})
        self.expect_red({"partition/bad.cc": "#include <zlib.h>\n"}, "L8", "zlib.h")

    def test_L8_pin_that_is_gone(self):
        versions = "RANNC_ONNX_VERSION=1\nRANNC_CMAKE_VERSION=3\n"
        self.expect_red({"tools/setup-versions": versions}, "L8", "codegen/emit.cc:2", "torch/torch.h")

    def test_L8_each_library_of_this_repository_needs_its_row(self):
        found = self.without_header_rows()
        for header in ("boost/", "fmt/", "gtest/", "gmock/", "nlohmann/", "CLI/", "toml++/", "xxhash.h", "metis.h"):
            self.assertRegex(found, rf"no row of tools/setup brings {re.escape(header)}.* \[L8\]")

    def without_header_rows(self):
        """What the check says of a copy of this repository in whose tools/setup no row brings a header."""
        with tempfile.TemporaryDirectory() as folder:
            for name in ("ir", "frontend", "passes", "partition", "codegen", "runtime", "tests", "tools"):
                wanted = shutil.ignore_patterns("data", "golden", "__pycache__", "seeds")
                shutil.copytree(TOOLS.parent / name, Path(folder) / name, ignore=wanted)
            setup = Path(folder) / "tools" / "setup"
            setup.write_text(re.sub(r"^[\w.+-]+\|[^|]+\.hp?p?\|.*\n", "", setup.read_text(), flags=re.MULTILINE))
            return subprocess.run([sys.executable, TOOLS / self.CHECK, folder], capture_output=True, text=True).stdout

    def test_L10_what_only_tools_may_do(self):
        for line in ("std::cerr << 1;", 'fmt::print("x");', "std::exit(1);", "_exit(1);", 'if (getenv("HOME")) {}', "sigaction(2, 0, 0);"):
            self.expect_red({"runtime/bad.cc": f"#include <vector>\n  {line}\n"}, "L10", "runtime/bad.cc:2")
            self.expect_green({"tools/good.cc": line, "runtime/examples/good.cc": line, "runtime/good.cc": f"// {line}\nwork->abort(); transport.exit();\n"})

    def test_L11_architectures_by_name(self):
        lines = {"frontend/onnx/bad.cc": 'if (name.contains("bert")) fuse();', "ir/ops/bad.h": "void fuse_gpt2();",
                 "passes/bad.cc": "struct ResNetBlock {};", "partition/bad.cc": '"model.vit.encoder"', "codegen/bad.cc": "int t5_bias = 0;",
                 "runtime/bad.cc": "bool is_unet;", "tools/bad.cc": '"mobilenet_v3"'}
        for path, line in lines.items():
            with self.subTest(path):
                self.expect_red({path: f"\n{line}\n"}, "L11", f"{path}:2", "architecture")

    def test_L11_comments_the_zoo_and_like_words(self):
        named = "struct ResNetBlock {};\n"
        self.expect_green({"frontend/zoo/good.cc": named, "tools/rannc_zoo.cc": named, "tests/ir/good.cc": named,
                           "passes/good.cc": '// as BERT has it\nreport("T5", invite, options, fuse_network);\n'})

    def test_L9_command_of_a_shell_script(self):
        for line in ("rsync a b", "true && rsync a", "a=$(rsync a)", 'echo "$(rsync a)"', "if rsync; then :; fi", "A=b rsync",
                     "f() { rsync; }", "cat x | rsync", "case $1 in a) rsync ;; esac", "xargs rsync", "sort <(rsync a)"):
            with self.subTest(line):
                self.expect_red({"tools/bad": f"#!/bin/bash\n\n{line}\n"}, "L9", "tools/bad:3", "rsync")

    def test_L9_command_of_a_python_script(self):
        bad = "import subprocess\nsubprocess.run([\"git\"])\nsubprocess.Popen([\"rsync\", \"a\"])\n"
        self.expect_red({"tests/tools/bad_test.py": bad}, "L9", "bad_test.py:3", "rsync")
        self.expect_red({"tools/bad": "#!/usr/bin/env python3\n" + bad}, "L9", "tools/bad:4", "rsync")

    def test_L9_command_of_cmake(self):
        good = "add_test(NAME a COMMAND python3 a.py)\nexecute_process(COMMAND cmake -E true COMMAND_ERROR_IS_FATAL ANY)\n"
        self.expect_green({"tests/CMakeLists.txt": good})
        self.expect_red({"tests/CMakeLists.txt": good + "execute_process(COMMAND rsync a)\n"}, "L9", ":3", "rsync")
        self.expect_red({"tools/cmake/A.cmake": "find_program(DOT NAMES dot)\n"}, "L9", "A.cmake:1", "dot")


if __name__ == "__main__":
    unittest.main()
