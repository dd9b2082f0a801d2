// Whether import and passes keep up with the depth of a model: seconds, and the exponents by which they grow.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <ctime>
#include <filesystem>

#include "frontend/onnx/import.h"
#include "ir/op/op.h"
#include "ir/verify.h"
#include "passes/loss/join_loss.h"
#include "passes/pipeline.h"
#include "passes/training/differentiate.h"
#include "runtime/train/process.h"
#include "tests/frontend/support/deepened.h"
#include "tests/frontend/support/shared_models.h"
#include "tools/check/reference.h"
#include "tools/compiler/torch_evaluator.h"

namespace rannc {
namespace {

namespace fs = std::filesystem;

constexpr double kMostImportSeconds = 0.1;  // of an export of 48 layers
// Four times the tasks take at most seven times the time: linear work takes four, what sorts or misses the caches of
// the processor more often a little more, quadratic work sixteen.
constexpr double kMostExponent = 1.4;
constexpr double kShortest = 0.05;  // seconds below which an exponent is noise

// Of both exporters and of several kinds: residuals over the whole depth, a tied embedding, a mask that every layer
// reads, sizes that every layer computes, dropout.
constexpr const char* kPublished[] = {"bert48_dynamo_dyn", "bert48_legacy_b8", "gpt2_legacy_dyn", "bert_dropout_legacy",
                                      "llama_dynamo_dyn"};
constexpr int kLayers = 48;

struct Flags {
  std::vector<std::string> folders;
  std::vector<uint64_t> tasks = {62500, 250000, 1000000};
  int rounds = 3;
  std::string scratch = fs::temp_directory_path().string();
};

// Processor time, which other programs on the machine do not lengthen; all of this runs in one thread.
template <class F>
double seconds(F&& f) {
  const std::clock_t start = std::clock();
  f();
  return static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
}

double median(std::vector<double> times) {
  std::nth_element(times.begin(), times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2), times.end());
  return times[times.size() / 2];
}

/// A model of one size: what each step took in each round.
struct Measured {
  uint32_t tasks = 0;  ///< as imported
  std::vector<std::string> steps;
  std::vector<std::vector<double>> times;  ///< by step
};

/// A loss in a graph of its own: the mean square of an output of the model.
ir::Graph mean_square(const ir::Graph& model, ValueId output) {
  ir::Graph loss;
  loss.set_batch_symbol(model.batch_symbol());
  const ValueId x = loss.add_value(ir::ValueKind::kInput, model.value(output).name, model.type(output));
  loss.add_input(x);
  const ValueId square = loss.add(ir::core("mul"), {x, x}, {}, "square");
  ir::Shape axes;
  for (size_t axis = 0; axis < model.type(output).shape->size(); ++axis) axes.emplace_back(static_cast<int64_t>(axis));
  loss.add_output(loss.add(ir::core("mean"), {square}, {{"axes", axes}}, "mean_square"));
  for (const TaskId task : loss.tasks()) ir::infer_types(loss, task).value();
  return loss;
}

ValueId float_in_the_middle(const ir::Graph& graph) {
  for (uint32_t i = graph.task_count() / 2;; ++i) {
    const ValueId made = graph.outputs(TaskId(i))[0];
    if (ir::is_float(graph.type(made).dtype)) return made;
  }
}

/// One round: every step from the file to the backward pass.
void measure(const fs::path& model, const std::string& loss, Measured& found) {
  size_t step = 0;
  const auto timed = [&](std::string_view name, const auto& body) {
    if (step == found.steps.size()) {
      found.steps.emplace_back(name);
      found.times.emplace_back();
    }
    found.times[step++].push_back(seconds(body));
  };
  frontend::Imported imported;
  timed("import", [&] { imported = frontend::read_onnx(model).value(); });
  ir::Graph& graph = imported.graph;
  found.tasks = graph.task_count();
  timed("verify", [&] { ir::as_result(ir::verify(graph)).value(); });
  passes::PipelineOptions options;
  options.stored.file = std::move(imported.notes.stored);
  options.baked = passes::BakedBatch{{}, options.stored.file};
  options.losses = passes::parse_losses(loss).value();
  options.lost.stopped.emplace(graph.value(float_in_the_middle(graph)).name);
  timed("join-loss", [&] {
    const ir::Graph apart = mean_square(graph, graph.outputs()[0]);
    for (passes::LossSpec& term : passes::join_loss(graph, apart, {}).value()) options.losses.push_back(term);
  });
  const tools::TorchEvaluator evaluator;
  passes::PassContext context{.evaluator = &evaluator};
  const passes::PassManager manager = passes::standard_pipeline(options);
  for (const auto& pass : manager.passes()) {
    timed(pass->name(), [&] { pass->run(graph, context).value(); });
  }
  ir::Joint joint;
  timed("differentiate", [&] { joint = passes::differentiate(graph).value(); });
  timed("verify-joint", [&] { ir::as_result(ir::verify(joint, graph)).value(); });
}

/// An export as deep as `tasks` asks for: a node may become several tasks, or none.
void deepen(const fs::path& model, uint64_t tasks, test::LayerWeights weights, const fs::path& file) {
  constexpr uint64_t kProbe = 4000;
  test::write_deepened(model, kProbe, file, weights).value();
  const double each = frontend::import_onnx(file).value().task_count() / static_cast<double>(kProbe);
  test::write_deepened(model, static_cast<uint64_t>(static_cast<double>(tasks) / each), file, weights).value();
}

/// Prints a line per step; whether all grow as they may.
bool report(const std::vector<Measured>& sizes) {
  fmt::print("  {:<19}", "tasks");
  for (const Measured& each : sizes) fmt::print("{:>12}", each.tasks);
  fmt::print("    exponent\n");
  bool good = true;
  const Measured& largest = sizes.back();
  const Measured& before = sizes[sizes.size() - 2];
  for (size_t step = 0; step < largest.steps.size(); ++step) {
    fmt::print("  {:<19}", largest.steps[step]);
    for (const Measured& each : sizes) fmt::print("{:>10.3f} s", median(each.times[step]));
    const double then = median(before.times[step]), now = median(largest.times[step]);
    if (now < kShortest) {
      fmt::print("{:>12}\n", "-");
      continue;
    }
    const double exponent = std::log(now / then) / std::log(static_cast<double>(largest.tasks) / before.tasks);
    const bool fits = exponent <= kMostExponent;
    good = good && fits;
    fmt::print("{:>12.2f}{}\n", exponent, fits ? "" : fmt::format("  MISSED: at most {}", kMostExponent));
  }
  std::fflush(stdout);  // the next export takes minutes
  return good;
}

bool scales(const std::string& folder, test::LayerWeights weights, const Flags& flags) {
  const tools::CheckFolder card = tools::read_model_folder(folder).value();
  const fs::path file = fs::path(flags.scratch) / "rannc-bench-scale.onnx";
  fmt::print("{}{}, {}\n", folder, weights == test::LayerWeights::kShared ? ", layers of shared weights" : "",
             card.loss);
  std::vector<Measured> sizes;
  for (const uint64_t tasks : flags.tasks) {
    deepen(card.model, tasks, weights, file);
    Measured& size = sizes.emplace_back();
    for (int round = 0; round < flags.rounds; ++round) measure(file, card.loss, size);
  }
  fs::remove(file);
  fs::remove(file.string() + ".weights");
  return report(sizes);
}

bool imports_quickly(const fs::path& model, const std::string& name) {
  constexpr int kRounds = 11;
  std::vector<double> times;
  uint32_t tasks = 0;
  for (int i = 0; i < kRounds; ++i) {
    times.push_back(seconds([&] { tasks = frontend::import_onnx(model).value().task_count(); }));
  }
  const bool quick = median(times) < kMostImportSeconds;
  fmt::print("{}, {} layers, {} tasks: imported in {:.1f} ms (first time {:.1f} ms){}\n", name, kLayers, tasks,
             median(times) * 1e3, times[0] * 1e3,
             quick ? "" : fmt::format("  MISSED: at most {} ms", kMostImportSeconds * 1e3));
  return quick;
}

/// Of the small export, made that deep, and of the published ones that are.
bool import_48_layers(const fs::path& small, const std::optional<fs::path>& published, const Flags& flags) {
  constexpr uint64_t kNodesOfLayer = 34, kNodesOfTwoLayers = 74;
  const fs::path file = fs::path(flags.scratch) / "rannc-bench-scale.onnx";
  test::write_deepened(small / "model.onnx", kNodesOfTwoLayers + (kLayers - 2) * kNodesOfLayer, file).value();
  bool good = imports_quickly(file, "small_gpt");
  for (const char* name : {"bert48_dynamo_dyn", "bert48_legacy_b8"}) {
    if (published) good = imports_quickly(*published / name / "model.onnx", name) && good;
  }
  return good;
}

bool run(const Flags& flags) {
  const auto published = test::shared_models();
  const fs::path small = fs::path(RANNC_SOURCE_DIR) / "tests" / "data" / "small_gpt";
  if (!flags.folders.empty()) {
    return std::all_of(flags.folders.begin(), flags.folders.end(),
                       [&](const std::string& folder) { return scales(folder, test::LayerWeights::kOwn, flags); });
  }
  if (!published) fmt::print("no published models here (RANNC_SHARED_DIR): small_gpt alone\n");
  bool good = import_48_layers(small, published, flags);
  for (const auto weights : {test::LayerWeights::kOwn, test::LayerWeights::kShared}) {
    good = scales(small.string(), weights, flags) && good;
  }
  for (const char* name : kPublished) {
    if (published) good = scales((*published / name).string(), test::LayerWeights::kOwn, flags) && good;
  }
  return good;
}

}  // namespace
}  // namespace rannc

int main(int argc, char** argv) {
  CLI::App app("Times import and passes on exports of growing depth", "bench-scale");
  rannc::Flags flags;
  app.add_option("folders", flags.folders, "of models and cards; default: small_gpt and published ones");
  app.add_option("--tasks", flags.tasks, "sizes, ascending")->delimiter(',')->expected(2, 8)->capture_default_str();
  app.add_option("--rounds", flags.rounds, "of each; medians are printed")->capture_default_str();
  app.add_option("--scratch", flags.scratch, "folder for models, of up to 3 GB each")->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  rannc::runtime::keep_freed_memory();  // as rannc-compile does
  rannc::runtime::set_threads(1);
  try {
    return rannc::run(flags) ? 0 : 1;
  } catch (const rannc::Error& failure) {
    fmt::print(stderr, "{}\n", failure.what());
    return 1;
  }
}
