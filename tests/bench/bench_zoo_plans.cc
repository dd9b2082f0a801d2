// Benchmark e: the papers' models from file to plan (RaNNC IV.B, torchgpipe 4.2).
//
// Writes the zoo's models without weights, then reads, prepares and plans them with analytic costs on the papers'
// clusters. One line per model, cluster, planner and number of blocks; `--json` prints an object a line. All seconds
// are CPU seconds.
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>

#include "frontend/onnx/import.h"
#include "frontend/zoo/amoebanet.h"
#include "frontend/zoo/bert.h"
#include "frontend/zoo/resnet.h"
#include "frontend/zoo/unet.h"
#include "frontend/zoo/xlnet.h"
#include "ir/text/text.h"
#include "ir/verify.h"
#include "partition/cost/analytic.h"
#include "partition/model/given_plan.h"
#include "partition/model/lap.h"
#include "partition/model/plan_model.h"
#include "passes/fusions/fuse.h"
#include "passes/pipeline.h"
#include "tests/support/planning.h"

namespace {

namespace fs = std::filesystem;
namespace zoo = rannc::frontend::zoo;
namespace partition = rannc::partition;
using rannc::Result;

constexpr uint32_t kWithoutBlocks = UINT32_MAX;  // every atom is a block

/// A model, how it is trained, and the mini-batch per device count.
struct Case {
  std::string name;
  std::function<Result<void>(zoo::OnnxWriter&)> write;
  std::string loss;
  rannc::ir::PlanOptimizer optimizer;
  std::map<uint32_t, uint32_t> mini_batch;  // by devices; other counts: in proportion to the nearest
};

constexpr const char* kMillion = "bert-million";  // only where --models names it

std::vector<Case> cases() {
  const rannc::ir::PlanOptimizer kAdam{"adam", 0, false, {}}, kMomentum{"sgd", 0.9, false, {}},
      kSgd{"sgd", 0, false, {}};
  const std::string bert_loss = "cross_entropy(output=logits)+cross_entropy(output=next_sentence)";
  std::vector<Case> all;
  const auto bert = [&](const std::string& name, const zoo::BertConfig& config) {
    all.push_back({name,
                   [config](auto& writer) { return zoo::write_bert(writer, config); },
                   bert_loss,
                   kAdam,
                   {{8, 64}, {32, 256}}});
  };
  for (const int64_t width : {1024, 1536, 2048}) {
    for (const int64_t layers : {24, 48, 96, 144, 192, 256}) {
      zoo::BertConfig config;
      config.layers = layers;
      config.width = width;
      bert(fmt::format("bert-{}x{}", layers, width), config);
    }
  }
  zoo::BertConfig unfused;  // as RaNNC traces it: about 15,000 atoms (III.B)
  unfused.layers = 256;
  unfused.width = 2048;
  unfused.unfused = true;
  unfused.dropout = 0.1F;
  bert("bert-256x2048-unfused", unfused);
  zoo::BertConfig million;  // 1,002,023 tasks: for the planner's speed alone
  million.layers = 33400;
  million.width = 64;
  bert(kMillion, million);
  all.back().mini_batch = {{4096, 8192}};
  for (const int64_t depth : {50, 101, 152}) {
    zoo::ResNetConfig config;
    config.depth = depth;
    config.width = 8;
    all.push_back({fmt::format("resnet{}x8", depth),
                   [config](auto& writer) { return zoo::write_resnet(writer, config); },
                   "cross_entropy(output=logits)",
                   kMomentum,
                   {{8, 128}, {32, 512}}});
  }
  for (const auto& [blocks, channels] :
       {std::pair<int64_t, int64_t>{6, 72}, {11, 128}, {24, 128}, {24, 160}, {48, 160}}) {
    zoo::UNetConfig config;
    config.blocks = blocks;
    config.channels = channels;
    all.push_back({fmt::format("unet-{}x{}", blocks, channels),
                   [config](auto& writer) { return zoo::write_unet(writer, config); },
                   "mse(output=mask)",
                   kSgd,
                   {{8, 32}, {32, 128}}});
  }
  for (const auto& [layers, filters] : {std::pair<int64_t, int64_t>{18, 208}, {18, 256}, {36, 512}, {36, 544}}) {
    zoo::AmoebaNetConfig config;
    config.layers = layers;
    config.filters = filters;
    all.push_back({fmt::format("amoebanet-{}x{}", layers, filters),
                   [config](auto& writer) { return zoo::write_amoebanet(writer, config); },
                   "cross_entropy(output=logits)",
                   kSgd,
                   {{8, 128}, {32, 512}}});
  }
  all.push_back({"xlnet-36x1024",
                 [](auto& writer) { return zoo::write_xlnet(writer, {}); },
                 "cross_entropy(output=start)+cross_entropy(output=end)",
                 kAdam,
                 {{8, 64}, {32, 256}}});
  return all;
}

uint32_t mini_batch_of(const Case& model, uint32_t devices) {
  const auto given = model.mini_batch.find(devices);
  if (given != model.mini_batch.end()) return given->second;
  const auto& [count, samples] = *model.mini_batch.begin();
  return std::max(1U, static_cast<uint32_t>(uint64_t{samples} * devices / count));
}

Result<partition::Cluster> cluster_of(uint32_t devices) {
  if (devices == 8) return partition::preset_cluster("rannc-1x8");
  if (devices % 8 != 0) return partition::preset_cluster("flat:" + std::to_string(devices));
  RANNC_ASSIGN(const partition::Cluster four, partition::preset_cluster("rannc-4x8"));
  return partition::make_cluster(fmt::format("rannc-{}x8", devices / 8), four.kinds.front(), devices / 8, 8,
                                 four.nodes.front().inside, four.between);
}

struct Prepared {
  rannc::ir::Graph graph;
  rannc::ir::Atoms atoms;
  uint64_t parameters = 0;
  double import = 0, verify = 0, passes = 0;
  double seconds() const { return import + verify + passes; }
};

Result<void> write_if_missing(const fs::path& file, const Case& model) {
  if (fs::exists(file)) return {};
  zoo::WriterOptions options;
  options.weights = zoo::Weights::kAbsent;
  zoo::OnnxWriter writer(model.name, options);
  RANNC_TRY(model.write(writer));
  return writer.save(file);
}

Result<Prepared> prepare(const fs::path& file, const Case& model) {
  Prepared prepared;
  partition::Lap watch;
  rannc::frontend::ImportOptions import;
  import.missing_weights = true;
  RANNC_ASSIGN(prepared.graph, rannc::frontend::import_onnx(file, import));
  prepared.import = watch.seconds();
  RANNC_TRY(rannc::ir::as_result(rannc::ir::verify(prepared.graph)));
  prepared.verify = watch.seconds();
  rannc::passes::PipelineOptions options;
  options.excluded = rannc::passes::shortening_passes();  // operators as papers count them
  RANNC_ASSIGN(options.losses, rannc::passes::parse_losses(model.loss));
  rannc::passes::PassContext context;
  const auto report = rannc::passes::standard_pipeline(options).run(prepared.graph, context);
  if (!report.ok()) return *report.failure;
  prepared.atoms = std::move(*context.atoms);
  prepared.passes = watch.seconds();
  for (const rannc::ValueId id : prepared.graph.values()) {
    const auto& value = prepared.graph.value(id);
    if (value.kind != rannc::ir::ValueKind::kParameter) continue;
    prepared.parameters += static_cast<uint64_t>(rannc::ir::element_count(*value.type.shape).constant());
  }
  return prepared;
}

/// What one run of a planner is about.
struct Job {
  const Case* model;
  const Prepared* prepared;
  uint32_t devices;
  std::string planner;
  uint32_t blocks;
  uint32_t lost = 0;  ///< the last devices, which are lost after a first plan
};

nlohmann::ordered_json header(const Job& job) {
  return {{"file", job.model->name + ".onnx"},
          {"devices", job.devices},
          {"planner", job.lost == 0 ? job.planner : fmt::format("{}-{}", job.planner, job.lost)},
          {"asked_blocks",
           job.blocks == kWithoutBlocks ? nlohmann::ordered_json("none") : nlohmann::ordered_json(job.blocks)},
          {"mini_batch", mini_batch_of(*job.model, job.devices)},
          {"atoms", job.prepared->atoms.tasks.size()},
          {"parameters", job.prepared->parameters}};
}

std::string shape_of(const rannc::ir::Plan& plan) {
  std::string replicas;
  for (const rannc::ir::Stage& stage : plan.stages)
    replicas += fmt::format("{}{}{}", replicas.empty() ? "" : ":", stage.devices.size(), stage.recompute ? "r" : "");
  return replicas;
}

void add_plan(const partition::PlannedModel& planned, nlohmann::ordered_json& line) {
  const rannc::ir::Plan& plan = planned.plan;
  uint64_t fullest = 0;
  for (const auto& prediction : plan.predictions) fullest = std::max(fullest, prediction.peak_bytes);
  double judged = 0;
  for (const auto& stage : planned.stages.stages) judged = std::max(judged, stage.peak_bytes);
  line["objective"] = plan.step_ns;
  line["lower_bound"] = plan.lower_bound_ns;
  line["gap"] = static_cast<double>(plan.step_ns) / static_cast<double>(std::max<int64_t>(1, plan.lower_bound_ns)) - 1;
  line["blocks"] = planned.blocks.partition.count;
  line["stages"] = shape_of(plan);
  line["micro_batches"] = plan.micro_batches.size();
  line["schedule"] = plan.schedule.name;
  line["peak_bytes"] = fullest;
  line["planned_peak_bytes"] = judged;
  line["planner_objective"] = planned.stages.objective;
  line["planner_lower_bound"] = planned.stages.lower_bound;
  line["planner_gap"] = planned.stages.gap();
  line["remarks"] = planned.remarks;
}

void add_seconds(const Prepared& prepared, const partition::PlanTimes& times, double planning,
                 nlohmann::ordered_json& line) {
  const auto seconds = [](int64_t ns) { return static_cast<double>(ns) / 1e9; };
  line["seconds"] = prepared.seconds() + planning;
  line["parts"] = {{"import", prepared.import},           {"verify", prepared.verify},
                   {"passes", prepared.passes},           {"price", seconds(times.price)},
                   {"blocks", seconds(times.blocks)},     {"stages", seconds(times.stages)},
                   {"schedule", seconds(times.schedule)}, {"simulate", seconds(times.simulate)},
                   {"verify_plan", seconds(times.verify)}};
}

/// Removes the last devices from the cluster. The next plan starts from `last`.
Result<void> lose_devices(const partition::PlannedModel& last, uint32_t count, partition::PlanOptions& options) {
  options.cluster = options.cluster.first(options.cluster.size() - count);
  rannc::ir::Plan plan = last.plan.clone();
  plan.functions.clear();
  RANNC_ASSIGN(const rannc::ir::PlanDraft draft, rannc::ir::parse_draft(rannc::ir::print(plan), "last.rir"));
  RANNC_ASSIGN(partition::GivenPlan given, partition::last_plan(draft, options.cluster, "last.rir"));
  options.last = std::make_shared<const partition::GivenPlan>(std::move(given));
  return {};
}

Result<nlohmann::ordered_json> run(const Job& job) {
  nlohmann::ordered_json line = header(job);
  partition::PlanOptions options;
  RANNC_ASSIGN(options.cluster, cluster_of(job.devices));
  options.costs = partition::analytic_costs();
  options.mini_batch = mini_batch_of(*job.model, job.devices);
  options.optimizer = job.model->optimizer;
  options.planner = job.planner;
  options.blocks = job.blocks;
  options = rannc::test::with_passes(job.prepared->graph, options);
  if (job.lost > 0) {
    RANNC_ASSIGN(const auto before, partition::plan_model(job.prepared->graph, job.prepared->atoms, options));
    const auto* last = std::get_if<partition::PlannedModel>(&before);
    if (last != nullptr) RANNC_TRY(lose_devices(*last, job.lost, options));
  }
  partition::Lap watch;
  RANNC_ASSIGN(auto outcome, partition::plan_model(job.prepared->graph, job.prepared->atoms, options));
  const double planning = watch.seconds();
  if (const auto* infeasible = std::get_if<partition::Infeasible>(&outcome)) {
    line["infeasible"] = infeasible->reason;
    line["missing_bytes"] = infeasible->missing_bytes;
    line["objective"] = nullptr;
    line["lower_bound"] = nullptr;
    add_seconds(*job.prepared, {}, planning, line);
    return line;
  }
  const auto& planned = std::get<partition::PlannedModel>(outcome);
  add_plan(planned, line);
  add_seconds(*job.prepared, planned.times, planning, line);
  return line;
}

std::string text(const nlohmann::ordered_json& line) {
  const auto blocks = line["asked_blocks"].is_string() ? std::string("-") : line["asked_blocks"].dump();
  std::string shown =
      fmt::format("{:<26} {:>3} devices {:<11} k={:<3} {:>6} atoms {:>7.3f} B  ", line["file"].get<std::string>(),
                  line["devices"].get<int>(), line["planner"].get<std::string>(), blocks, line["atoms"].get<int>(),
                  line["parameters"].get<double>() / 1e9);
  if (line.contains("infeasible")) {
    shown += "no plan: " + line["infeasible"].get<std::string>() + "  ";
  } else {
    shown += fmt::format(
        "step {:>9.1f} ms  bound {:>9.1f} ms  gap {:>6.1f} % (of its blocks {:>5.1f} %)  {} at {} micro-batches  "
        "fullest {:.1f} GB  ",
        line["objective"].get<double>() / 1e6, line["lower_bound"].get<double>() / 1e6, 100 * line["gap"].get<double>(),
        100 * line["planner_gap"].get<double>(), line["stages"].get<std::string>(), line["micro_batches"].get<int>(),
        line["peak_bytes"].get<double>() / 1e9);
  }
  shown += fmt::format("{:.3f} s (", line["seconds"].get<double>());
  const char* separator = "";
  for (const auto& [part, seconds] : line["parts"].items()) {
    shown += fmt::format("{}{} {:.3f}", separator, part, seconds.get<double>());
    separator = ", ";
  }
  return shown + ")";
}

struct Flags {
  std::string folder, models;
  std::vector<uint32_t> devices{8, 32};
  std::vector<std::string> planners{"rannc", "rannc-paper", "rannc-anchored", "auto"};
  std::vector<uint32_t> blocks{32};
  uint32_t most_atoms = 1000;
  uint32_t lost = 0;
  double seconds = 600;
  bool json = false;
};

// `auto` invites planners whose searches grow faster with the blocks than the DP of `rannc`.
size_t most_atoms(const Flags& flags, const std::string& planner) {
  return planner == "auto" ? flags.most_atoms / 5 : flags.most_atoms;
}

Result<void> measure(const Flags& flags, const fs::path& folder) {
  for (const Case& model : cases()) {
    if (model.name.find(flags.models) == std::string::npos) continue;
    if (model.name == kMillion && flags.models != kMillion) continue;
    const fs::path file = folder / (model.name + ".onnx");
    RANNC_TRY(write_if_missing(file, model));
    RANNC_ASSIGN(const Prepared prepared, prepare(file, model));
    for (const uint32_t devices : flags.devices) {
      for (const std::string& planner : flags.planners) {
        std::vector<uint32_t> blocks = flags.blocks;
        if (prepared.atoms.tasks.size() <= most_atoms(flags, planner)) blocks.push_back(kWithoutBlocks);
        for (const uint32_t count : blocks) {
          if (static_cast<double>(std::clock()) / CLOCKS_PER_SEC > flags.seconds) return {};
          for (uint32_t lost = 0; lost <= flags.lost; lost += std::max(1U, flags.lost)) {
            if (lost > 0 && planner != "auto") continue;
            RANNC_ASSIGN(const auto line, run({&model, &prepared, devices, planner, count, lost}));
            fmt::print("{}\n", flags.json ? line.dump() : text(line));
            std::fflush(stdout);
          }
        }
      }
    }
  }
  return {};
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"The papers' models from file to plan"};
  Flags flags;
  app.add_option("folder", flags.folder,
                 "where the models lie; what is missing is written there (default: a temporary folder)");
  app.add_option("--models", flags.models, "only models whose name holds this text");
  app.add_option("--devices", flags.devices,
                 "8: rannc-1x8, 32: rannc-4x8, N of eight: nodes of eight like these, others flat")
      ->delimiter(',');
  app.add_option("--planners", flags.planners, "stage planners")->delimiter(',');
  app.add_option("--lost", flags.lost, "plan again from each plan of auto without so many of its last devices");
  app.add_option("--blocks", flags.blocks, "numbers of blocks")->delimiter(',');
  app.add_option("--most-atoms", flags.most_atoms,
                 "models up to so many atoms are also planned without blocks; by auto, a fifth");
  app.add_option("--seconds", flags.seconds, "start no further plan after so many CPU seconds");
  app.add_flag("--json", flags.json, "one object a line");
  CLI11_PARSE(app, argc, argv);
  const bool temporary = flags.folder.empty();
  const fs::path folder = temporary ? fs::temp_directory_path() / ("bench-zoo-plans-" + std::to_string(::getpid()))
                                    : fs::path(flags.folder);
  fs::create_directories(folder);
  const auto done = measure(flags, folder);
  if (temporary) fs::remove_all(folder);
  if (done.ok()) return 0;
  fmt::print(stderr, "{}\n", done.diagnostic().str());
  return 1;
}
