// What selective recompute of one stage offers, and how long its maximum flows take.
//
// The stage is a whole model: an ONNX file, or encoders of the zoo without weights. Costs are analytic. Prints the
// convex hull of kept bytes and recompute time.
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <filesystem>

#include "frontend/onnx/import.h"
#include "frontend/zoo/bert.h"
#include "partition/cost/analytic.h"
#include "partition/model/model_costs.h"
#include "partition/model/value_bytes.h"
#include "passes/pipeline.h"
#include "passes/training/selective_recompute.h"
#include "tests/runtime/support/plan_builder.h"

namespace rannc {
namespace {

namespace fs = std::filesystem;

struct Flags {
  std::string flow = "boost";
  std::string model, loss = "cross_entropy(output=logits)";
  int64_t layers = 12, width = 768, sequence = 1024;
  bool unfused = false;
  float dropout = 0;
  uint64_t samples = 4;
  double random_ns = 1;
  size_t points = passes::SelectiveRecompute::kHullPoints;
};

double milliseconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
}

Result<ir::Graph> graph_of(const fs::path& file, const Flags& flags) {
  if (flags.model.empty()) {
    frontend::zoo::WriterOptions writing;
    writing.weights = frontend::zoo::Weights::kAbsent;
    frontend::zoo::OnnxWriter writer("encoder", writing);
    frontend::zoo::BertConfig config;
    config.layers = flags.layers;
    config.width = flags.width;
    config.sequence = flags.sequence;
    config.unfused = flags.unfused;
    config.dropout = flags.dropout;
    RANNC_TRY(frontend::zoo::write_bert(writer, config));
    RANNC_TRY(writer.save(file));
  }
  frontend::ImportOptions import;
  import.missing_weights = true;
  RANNC_ASSIGN(ir::Graph graph, frontend::import_onnx(file, import));
  passes::PipelineOptions options;
  RANNC_ASSIGN(options.losses, passes::parse_losses(flags.loss));
  passes::PassContext context;
  const auto report = passes::standard_pipeline(options).run(graph, context);
  if (!report.ok()) return *report.failure;
  return graph;
}

/// Analytic prices on a V100. Inputs are samples, which are held anyway.
Result<passes::RecomputeCosts> costs_of(const ir::Graph& graph, uint32_t forward_tasks, const Flags& flags) {
  RANNC_ASSIGN(const partition::Cluster cluster, partition::preset_cluster("rannc-1x8"));
  const auto model = partition::analytic_costs();
  const auto roles = ir::gradient_roles(graph, ir::needs_gradient(graph));
  const auto samples = static_cast<double>(flags.samples);
  passes::RecomputeCosts costs;
  for (const ValueId value : graph.values()) {
    RANNC_ASSIGN(const partition::ByteLine line, partition::byte_line(graph, value, {}));
    const bool sample = graph.kind(value) == ir::ValueKind::kInput;
    costs.bytes.push_back(sample ? 0 : static_cast<int64_t>(line.at(samples)));
    costs.random_ns.push_back(static_cast<int64_t>(line.at(samples) / 4 * flags.random_ns));
  }
  costs.forward_ns.assign(graph.task_count(), 0);
  for (uint32_t i = 0; i < forward_tasks; ++i) {
    RANNC_ASSIGN(const auto facts, partition::task_facts(graph, TaskId(i), roles, flags.samples, {}));
    RANNC_ASSIGN(const auto cost, model->price(facts, flags.samples, cluster.kinds.front()));
    costs.forward_ns[i] = static_cast<int64_t>(cost.forward_ns);
  }
  return costs;
}

Result<void> measure(const fs::path& file, const Flags& flags) {
  RANNC_ASSIGN(ir::Graph graph, graph_of(file, flags));
  const ir::Plan plan = testing::build_plan(std::move(graph), {});
  const ir::Joint& joint = plan.functions[0]->joint;
  RANNC_ASSIGN(const passes::RecomputeCosts costs, costs_of(joint.graph, joint.forward_count(), flags));
  const ir::FunctionTable table = ir::function_table(joint, {});
  int64_t forward_ns = 0;
  for (const TaskId task : table[ir::FunctionKind::kForward].tasks) forward_ns += costs.forward_ns[task.index()];
  fmt::print("{} tasks forward ({:.3f} ms), {} in all, {} samples\n", joint.forward_count(),
             static_cast<double>(forward_ns) / 1e6, joint.graph.task_count(), flags.samples);
  auto start = std::chrono::steady_clock::now();
  const auto solver = flags.flow == "own" ? ir::CutNetwork::Solver::kDinic : ir::CutNetwork::Solver::kBoost;
  const passes::SelectiveRecompute selective(joint, costs, solver);
  const double building = milliseconds_since(start);
  start = std::chrono::steady_clock::now();
  selective.cheapest({1, 1});
  const double flow = milliseconds_since(start);
  start = std::chrono::steady_clock::now();
  const auto hull = selective.hull(flags.points);
  fmt::print("network {:.1f} ms, a flow {:.1f} ms, {} points {:.1f} ms\n", building, flow, hull.size(),
             milliseconds_since(start));
  for (const passes::KeptChoice& each : hull) {
    fmt::print("{:>10.1f} MB {:>10.3f} ms {:>6} values\n", static_cast<double>(each.kept_bytes) / 1e6,
               static_cast<double>(each.recompute_ns) / 1e6, each.kept.size());
  }
  return {};
}

}  // namespace
}  // namespace rannc

int main(int argc, char** argv) {
  CLI::App app{"Selective recompute of one stage: its convex hull and the time to find it"};
  rannc::Flags flags;
  app.add_option("model", flags.model, "ONNX file; none: an encoder of the zoo");
  app.add_option("--loss", flags.loss, "loss of the model");
  app.add_option("--layers", flags.layers, "of the encoder");
  app.add_option("--width", flags.width, "of the encoder");
  app.add_option("--sequence", flags.sequence, "of the encoder");
  app.add_flag("--unfused", flags.unfused, "the encoder in primitive operators");
  app.add_option("--dropout", flags.dropout, "ratio of the encoder");
  app.add_option("--samples", flags.samples, "of a micro-batch");
  app.add_option("--draw-ns", flags.random_ns, "time to generate a random number");
  app.add_option("--flow", flags.flow, "maximum flow: boost (Boost.Graph) or own (Dinic)")
      ->check(CLI::IsMember({"boost", "own"}));
  app.add_option("--points", flags.points, "most points of the hull");
  CLI11_PARSE(app, argc, argv);
  const bool temporary = flags.model.empty();
  const auto file = temporary ? std::filesystem::temp_directory_path() / ("recompute-" + std::to_string(::getpid()))
                              : std::filesystem::path(flags.model);
  const auto done = rannc::measure(file, flags);
  if (temporary) std::filesystem::remove(file);
  if (done.ok()) return 0;
  fmt::print(stderr, "{}\n", done.diagnostic().str());
  return 1;
}
