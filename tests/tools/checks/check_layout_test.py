"""Plants one violation per rule of tools/repository/check-layout and expects that rule to name it."""
import unittest

from planted import PlantedTest


LAW = {"ir": "", "frontend": "`ir/`", "passes": "`ir/`", "partition": "`ir/`", "runtime": "`ir/`",
       "codegen": "`ir/` `runtime/bundle/bundle.h` `runtime/flat/`", "tests": "all", "tools": "all"}


def table(law):
    """The folders in README.md and what they may include."""
    rows = "".join(f"| [`{folder}/`]({folder}/README.md) | | {allowed} |\n" for folder, allowed in law.items())
    return "# rannc\n\n| folder | content | may include |\n|---|---|---|\n" + rows


class CheckLayout(PlantedTest):
    CHECK = "check-layout"
    CLEAN = {
        "README.md": table(LAW),
        "ir/README.md": "",
        "ir/graph/graph.h": "#include <vector>\n",
        "ir/internal/arena.h": "",
        "ir/graph/graph.cc": '#include "ir/graph/graph.h"\n#include "ir/internal/arena.h"\n#include <fmt/core.h>\n',
        "passes/README.md": "",
        "passes/pass.cc": '#include "ir/graph/graph.h"\n',
        "partition/README.md": "",
        "partition/dag.h": "",
        "codegen/README.md": "",
        "codegen/emit.cc": '#include "runtime/bundle/bundle.h"\n#include <torch/torch.h>\n',
        "runtime/README.md": "",
        "runtime/bundle/bundle.h": "",
        "runtime/execute/program.h": "",
        "frontend/README.md": "",
        "frontend/onnx/read.cc": "#include <onnx/checker.h>\n#include <google/protobuf/message.h>\n",
        "tests/README.md": "",
        "tools/README.md": "",
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

    def test_L2_codegen_sees_single_folders_and_headers_of_the_runtime(self):
        self.expect_green({"codegen/good.cc": '#include "runtime/flat/code.h"\n'})
        for header in ("runtime/execute/program.h", "runtime/flatter/code.h", "runtime/bundle/bundle.html"):
            self.expect_red({"codegen/bad.cc": f'#include "{header}"\n'}, "L2", header, "may include ir/, runtime/bundle/bundle.h, runtime/flat/")

    def test_L2_the_law_is_the_table_of_the_readme(self):
        planted = {"partition/found.cc": '#include "passes/pass.h"\n'}
        self.expect_green({"README.md": table({**LAW, "partition": "`ir/` `passes/`"}), **planted})
        self.expect_red({"README.md": table({**LAW, "partition": "`ir/` `passes/plan/`"}), **planted}, "L2", "passes/pass.h")
        self.expect_red({"README.md": table({**LAW, "utils": "`ir/`"}), "utils/README.md": "", "utils/misc.cc": '#include "passes/pass.h"\n'},
                        "L2", "utils/misc.cc:1", "passes/pass.h")

    def test_L2_runtime_sees_ir_only(self):
        self.expect_red({"runtime/bad.cc": '#include "codegen/emit.h"\n'}, "L2", "codegen/emit.h")

    def test_L3_internal_header_of_another_folder(self):
        self.expect_red({"passes/bad.cc": '#include "ir/internal/arena.h"\n'}, "L3", "ir/internal/arena.h")
        self.expect_red({"tests/passes/bad.cc": '#include "ir/internal/arena.h"\n'}, "L3", "tests/passes/bad.cc")

    def test_L10_a_folder_that_builds_on_this_one(self):
        planted = '#include "partition/stages/search/auto.h"\n'
        self.expect_red({"partition/stages/pricing/bad.cc": planted}, "L10", "pricing/bad.cc:1", "search/auto.h")
        self.expect_green({"partition/stages/papers/good.cc": planted, "partition/stages/registry.cc": planted})
        planted = '#include "runtime/train/trainer.h"\n'
        self.expect_red({"runtime/data/bad.cc": planted}, "L10", "runtime/data/bad.cc:1", "trainer.h")
        self.expect_green({"runtime/measure/good.cc": planted, "runtime/execute/good.cc": planted})

    def test_L11_a_plugin_is_not_linked(self):
        tree = {"runtime/cuda/random.h": "", "runtime/device/plugin.h": ""}
        for header in ("runtime/execute/program.h", "ir/graph/graph.h"):
            self.expect_red({**tree, "runtime/cuda/bad.cu": f'#include "{header}"\n'}, "L11", "runtime/cuda/bad.cu:1", header)
        self.expect_red({**tree, "runtime/bad.cc": '#include "runtime/cuda/random.h"\n'}, "L11", "runtime/bad.cc:1", "random.h")
        self.expect_green({**tree, "runtime/cuda/good.cc": '#include "runtime/cuda/random.h"\n#include "runtime/device/plugin.h"\n',
                           "tests/runtime/cuda/good.cc": '#include "runtime/cuda/random.h"\n#include "ir/graph/graph.h"\n'})

    def test_L12_a_header_of_the_compiler_library_is_plain(self):
        header = "tools/compiler/include/rannc/compiler.h"
        for planted in ("ATen/ATen.h", "fmt/format.h", "nlohmann/json.hpp", "ir/graph/graph.h", "tools/compiler/compiler.h"):
            self.expect_red({header: f"#include <string>\n#include <{planted}>\n"}, "L12", f"{header}:2", planted)
        self.expect_green({header: '#include <stop_token>\n#include "ir/base/diagnostic.h"\n#include "rannc/compiler/read_options.h"\n'})

    def test_L4_libraries_out_of_place(self):
        self.expect_red({"passes/bad.cc": "#include <ATen/ATen.h>\n"}, "L4", "ATen/ATen.h")
        self.expect_red({"frontend/onnx/bad.cc": "#include <torch/torch.h>\n"}, "L4", "torch/torch.h")
        self.expect_red({"partition/bad.cc": "#include <onnx/checker.h>\n"}, "L4", "onnx/checker.h")

    def test_L4_cuda_outside_its_plugin(self):
        for header in ("cuda_runtime.h", "cuda.h", "cublas_v2.h", "nccl.h", "nvtx3/nvToolsExt.h", "ATen/cuda/CUDAContext.h",
                       "c10/cuda/CUDAStream.h", "torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp", "cub/cub.cuh", "cuda/atomic"):
            for path in ("runtime/engine/bad.cc", "runtime/device/bad.h", "tools/bad.cc", "tests/runtime/bad.cc"):
                with self.subTest(header=header, path=path):
                    self.expect_red({path: f"#include <{header}>\n"}, "L4", f"{path}:1", header)
            self.expect_green({"runtime/cuda/good.cc": f"#include <{header}>\n", "runtime/cuda/good.cu": f"#include <{header}>\n",
                               "tests/runtime/cuda/good.cc": f"#include <{header}>\n"})

    def test_L5_both_libraries_in_one_file(self):
        both = "#include <torch/torch.h>\n#include <onnx/checker.h>\n"
        self.expect_red({"frontend/torchscript/bad.cc": both}, "L5", "bad.cc:2", "torch/torch.h")

    def test_L6_relative_include(self):
        self.expect_red({"ir/graph/bad.cc": '#include "graph.h"\n'}, "L6", "graph.h")

    def test_L7_folder_without_readme(self):
        self.expect_red({"passes/README.md": None}, "L7", "passes")

    def test_L8_what_only_tools_may_do(self):
        for line in ("std::cerr << 1;", 'fmt::print("x");', "std::exit(1);", "_exit(1);", 'if (getenv("HOME")) {}', "sigaction(2, 0, 0);"):
            self.expect_red({"runtime/bad.cc": f"#include <vector>\n  {line}\n"}, "L8", "runtime/bad.cc:2")
            self.expect_green({"tools/good.cc": line, "runtime/examples/good.cc": line, "runtime/good.cc": f"// {line}\nwork->abort(); transport.exit();\n"})

    def test_L9_architectures_by_name(self):
        lines = {"frontend/onnx/bad.cc": 'if (name.contains("bert")) fuse();', "ir/op/rules/bad.h": "void fuse_gpt2();",
                 "passes/bad.cc": "struct ResNetBlock {};", "partition/bad.cc": '"model.vit.encoder"', "codegen/bad.cc": "int t5_bias = 0;",
                 "runtime/bad.cc": "bool is_unet;", "tools/bad.cc": '"mobilenet_v3"'}
        for path, line in lines.items():
            with self.subTest(path):
                self.expect_red({path: f"\n{line}\n"}, "L9", f"{path}:2", "architecture")

    def test_L9_comments_the_zoo_and_like_words(self):
        named = "struct ResNetBlock {};\n"
        self.expect_green({"frontend/zoo/good.cc": named, "tools/zoo/rannc_zoo.cc": named, "tests/ir/good.cc": named,
                           "passes/good.cc": '// as BERT has it\nreport("T5", invite, options, fuse_network);\n'})


if __name__ == "__main__":
    unittest.main()
