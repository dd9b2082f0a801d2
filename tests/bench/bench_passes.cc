// How long passes take that compute or differentiate: constants by the dispatcher beside a module compiled for each,
// and the backward pass.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>

#include "frontend/onnx/import.h"
#include "ir/op/op.h"
#include "passes/pipeline.h"
#include "passes/simplify/fold_constants.h"
#include "passes/training/differentiate.h"
#include "tools/compiler/torch_evaluator.h"

namespace rannc {
namespace {

template <class F>
double milliseconds(F&& f) {
  const auto start = std::chrono::steady_clock::now();
  f();
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
}

double median(std::vector<double> times) {
  std::nth_element(times.begin(), times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2), times.end());
  return times[times.size() / 2];
}

double fold(const ir::Graph& before, const passes::Evaluator& evaluator, size_t* tasks = nullptr) {
  ir::Graph graph = before.clone();
  passes::PassContext context{.evaluator = &evaluator};
  const double time = milliseconds([&] { passes::FoldConstants().run(graph, context).value(); });
  if (tasks) *tasks = graph.task_count();
  return time;
}

/// A graph as it is when its constants are folded.
ir::Graph before_folding(const std::string& path, const passes::Evaluator& evaluator) {
  ir::Graph graph = frontend::import_onnx(path).value();
  passes::PassContext context{.evaluator = &evaluator};
  for (const char* name : {"infer-shapes", "recover-parameters"})
    passes::make_pass(name).value()->run(graph, context).value();
  return graph;
}

void report(const std::string& path, const std::string& loss, int rounds) {
  const tools::TorchEvaluator dispatcher;
  const ir::Graph before = before_folding(path, dispatcher);
  std::vector<double> folding;
  size_t tasks = 0;
  const double first = fold(before, dispatcher);
  for (int i = 0; i < rounds; ++i) folding.push_back(fold(before, dispatcher, &tasks));
  fmt::print("{}\n  fold-constants: {:.2f} ms (first use {:.1f} ms); {} tasks are left\n", path, median(folding), first,
             tasks);
  if (loss.empty()) return;
  ir::Graph graph = frontend::import_onnx(path).value();
  passes::PassContext context{.evaluator = &dispatcher};
  const auto made = passes::standard_pipeline({.losses = passes::parse_losses(loss).value()}).run(graph, context);
  if (made.failure) throw Error(*made.failure);
  std::vector<double> times;
  uint32_t joint = 0;
  for (int i = 0; i < rounds; ++i)
    times.push_back(milliseconds([&] { joint = passes::differentiate(graph).value().graph.task_count(); }));
  fmt::print("  differentiate: {:.2f} ms, {} forward tasks, {} in all\n", median(times), graph.task_count(), joint);
}

}  // namespace
}  // namespace rannc

int main(int argc, char** argv) {
  CLI::App app("Times passes that compute or differentiate, on models", "bench-passes");
  std::vector<std::string> models;
  std::string loss;
  int rounds = 7;
  app.add_option("models", models, "ONNX files")->required();
  app.add_option("--loss", loss, "of rannc-compile: differentiates too");
  app.add_option("--rounds", rounds, "of each, by turns; medians are printed")->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  try {
    for (const std::string& model : models) rannc::report(model, loss, rounds);
  } catch (const rannc::Error& failure) {
    fmt::print(stderr, "{}\n", failure.what());
    return 1;
  }
  return 0;
}
