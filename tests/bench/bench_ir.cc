// How long a large graph takes to be built, verified, printed, parsed, rewritten, and how much memory that needs.
#include <fmt/format.h>
#include <sys/resource.h>

#include <CLI/CLI.hpp>
#include <ctime>
#include <nlohmann/json.hpp>

#include "ir/match/rewrite_patterns.h"
#include "ir/op/op.h"
#include "ir/text/text.h"
#include "ir/verify.h"
#include "passes/training/differentiate.h"

namespace rannc {
namespace {

using namespace rannc::ir;

// A deep perceptron with residual additions; every eighth task has attributes, each has a location and a type.
Graph build(uint32_t tasks) {
  Graph graph;
  graph.set_name("bench");
  graph.set_batch_symbol("batch");
  ValueType activation{DType::kF32, Shape{Dim::symbol("batch"), 128, 256}, {}, {}};
  activation.batch.axis = 0;
  ValueId x = graph.add_value(ValueKind::kInput, "x", activation), skip = x;
  graph.add_input(x);
  const OpInfo &add = core("add"), &relu = core("relu"), &matmul = core("matmul"), &leaky = core("leaky_relu");
  ValueId weight;
  for (uint32_t i = 0; i < tasks; ++i) {
    const Location location{"bench.onnx", 0, 0, fmt::format("/layers.{}/node.{}", i / 8, i % 8)};
    const std::string name = fmt::format("/layers.{}/output.{}", i / 8, i % 8);
    if (i % 8 == 0) {
      weight = graph.add_value(ValueKind::kParameter, fmt::format("layers.{}.weight", i / 8),
                               {DType::kF32, Shape{256, 256}, {}, {}},
                               TensorData::in_file("weights.bin", uint64_t{i} * 32768, 262144));
      x = graph.add(matmul, {x, weight}, {}, name, location);
    } else if (i % 8 == 1) {
      x = graph.add(leaky, {x}, {{"alpha", 0.01}}, name, location);
    } else if (i % 8 == 7) {
      x = skip = graph.add(add, {x, skip}, {}, name, location);
    } else {
      x = graph.add(relu, {x}, {}, name, location);
    }
    infer_types(graph, graph.value(x).producer).value();
  }
  graph.add_output(x);
  const ValueId sum = graph.add(core("mse_sum"), {x, graph.inputs()[0]}, {}, "loss");
  infer_types(graph, graph.value(sum).producer).value();
  graph.add_loss({sum});
  return graph;
}

// Five of eight tasks are a chain of relu, which becomes one in three sweeps.
Rewritten shorten(Graph& graph) {
  constexpr Capture kX{0};
  const Rewrite rule = {"shorten", op("relu", op("relu", any(kX))),
                        [](const Match&, Builder& make) { return make.result("relu", {make[kX]}); }};
  return rewrite(graph, std::span(&rule, 1));
}

double peak_mebibytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / 1024;
}

// Processor time, which other programs on the machine do not lengthen; all of this runs in one thread.
template <class F>
double seconds(F&& f) {
  const std::clock_t start = std::clock();
  f();
  return static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
}

int run(uint32_t tasks, bool json) {
  Graph graph;
  std::string text;
  nlohmann::ordered_json line;
  line["tasks"] = tasks;
  line["build_s"] = seconds([&] { graph = build(tasks); });
  line["graph_mib"] = peak_mebibytes();
  size_t faults = 0;
  line["verify_s"] = seconds([&] { faults = verify(graph).size(); });
  line["print_s"] = seconds([&] { text = print(graph); });
  line["text_mib"] = static_cast<double>(text.size()) / (1 << 20);
  graph = Graph();
  line["parse_s"] = seconds([&] { graph = parse_graph(text, "bench.rir").value(); });
  line["peak_mib"] = peak_mebibytes();
  line["clone_s"] = seconds([&] { graph = graph.clone(); });
  line["same_text"] = print(graph) == text;
  line["faults"] = faults;
  line["differentiate_s"] =
      seconds([&] { line["joint_tasks"] = passes::differentiate(graph).value().graph.task_count(); });
  line["joint_peak_mib"] = peak_mebibytes();
  line["rewrite_s"] = seconds([&] { line["rewritten"] = shorten(graph).total(); });
  if (json) {
    fmt::print("{}\n", line.dump());
  } else {
    for (const auto& [key, value] : line.items()) fmt::print("{:<12} {}\n", key, value.dump());
  }
  return faults == 0 && line["same_text"] == true ? 0 : 1;
}

}  // namespace
}  // namespace rannc

int main(int argc, char** argv) {
  CLI::App app("Builds, verifies, prints and parses a graph", "bench-ir");
  uint32_t tasks = 1000000;
  bool json = false;
  app.add_option("--tasks", tasks)->capture_default_str();
  app.add_flag("--json", json);
  CLI11_PARSE(app, argc, argv);
  return rannc::run(tasks, json);
}
