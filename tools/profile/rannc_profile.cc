// rannc-profile: measures models, links and collectives on this machine into a profile database.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "ir/base/replacement.h"
#include "ir/base/stopwatch.h"
#include "runtime/train/process.h"
#include "tools/common/driver.h"
#include "tools/common/hardware.h"
#include "tools/common/libraries.h"
#include "tools/common/number_checks.h"
#include "tools/common/programs.h"
#include "tools/common/units.h"
#include "tools/compile/compile_flags.h"
#include "tools/compiler/compiler.h"
#include "tools/compiler/foreign_calls.h"
#include "tools/compiler/kernel_choice.h"
#include "tools/compiler/planning_sizes.h"
#include "tools/measure/measure.h"
#include "tools/measure/measured_cluster.h"

namespace {

using rannc::Result;
using rannc::partition::ProfileDatabase;
namespace tools = rannc::tools;

constexpr double kSaveSeconds = 15;

struct Flags {
  rannc::compiler::ReadOptions read;
  tools::PassFlags passes;
  std::vector<std::string> models;
  std::string database;
  std::vector<uint64_t> sizes;
  uint32_t repeat = 5;
  uint32_t threads = 1;
  uint64_t memory_bytes = 0;
  size_t blocks = 8;
  tools::ExchangeChoice exchanges;
  std::string cluster;
  uint32_t workers = 2;
  std::string device = "cpu";
};

Result<ProfileDatabase> open_database(const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  if (fs::exists(path, ignored)) return ProfileDatabase::read(path);
  const fs::path folder = fs::absolute(path, ignored).parent_path();
  if (!fs::is_directory(folder, ignored)) {  // fail before hours of measuring, not after
    return rannc::error({path, 0, 0, {}}, "cannot write the profile database: there is no folder " + folder.string());
  }
  return ProfileDatabase();
}

/// Measures into an in-memory database and keeps the file up to date.
class Profiler {
 public:
  /// `device` outlives this; null: the processor.
  Profiler(const Flags& flags, ProfileDatabase database, rannc::runtime::Device* device)
      : flags_(flags), read_(std::move(database)), database_(read_) {
    options_.device = device;
    const uint32_t mini_batch = flags.read.mini_batch.value_or(tools::kMiniBatch);
    options_.sizes = flags.sizes.empty() ? tools::measured_sizes(mini_batch) : flags.sizes;
    options_.repeat = flags.repeat;
    options_.threads = flags.threads;
    options_.memory_bytes = flags.memory_bytes;
    options_.step = [this](const std::string& text) { step(text); };
  }

  Result<void> run() {
    const Result<void> done = measure_all();
    if (terminal_) fmt::print(stderr, "\r\033[K");
    if (!(database_ == read_))
      RANNC_TRY(database_.write(flags_.database));  // even after an error, since finished measurements are valid
    RANNC_TRY(done);
    if (!flags_.cluster.empty()) {
      RANNC_TRY(rannc::write_file(
          flags_.cluster, rannc::partition::print_cluster(tools::measured_cluster(database_, kind_, flags_.workers))));
    }
    print_summary();
    return {};
  }

 private:
  Result<void> measure_all() {
    if (flags_.exchanges.messages || flags_.exchanges.collectives) {
      RANNC_ASSIGN(const auto count, tools::measure_exchanges(flags_.exchanges, options_, database_));
      add(count);
    }
    for (const std::string& model : flags_.models) {
      name_ = model + ": ";
      RANNC_TRY(measure_model(model));
    }
    return {};
  }

  Result<void> measure_model(const std::string& path) {
    RANNC_ASSIGN(tools::PreparedModel model, tools::prepare_model(path, flags_.read));
    if (flags_.passes.time_passes) fmt::print(stderr, "{}", model.report.time_table());
    RANNC_TRY(tools::foreign_calls(model.graph));
    const auto& assumed = flags_.read.assumed_sizes;
    RANNC_ASSIGN(tools::PlanningSizes sizes, tools::planning_sizes(model.graph, {assumed.begin(), assumed.end()}));
    if (!sizes.guessed.empty()) fmt::print(stderr, "note: {}\n", tools::describe_guess(sizes));
    options_.assume = std::move(sizes.sizes);
    RANNC_ASSIGN(tools::MeasureCount tasks, tools::measure_tasks(model.graph, options_, database_));
    RANNC_TRY(measure_planned_layouts(model, tasks));
    RANNC_ASSIGN(const auto kernels, tools::measure_alternatives(model.graph, options_, database_));
    RANNC_ASSIGN(const auto blocks,
                 tools::measure_blocks(model.graph, model.atoms, flags_.blocks, options_, database_));
    RANNC_ASSIGN(kind_, tools::measured_kind(model.graph, options_, database_, kind_));
    add(tasks);
    add(kernels);
    add(blocks);
    fmt::print("{}: {} tasks of {} kinds: {} measured, {} reused{}; {} blocks: {} measured, {} reused{}\n", path,
               model.graph.task_count(), tasks.entries(), tasks.measured, tasks.reused, excluded(tasks),
               blocks.entries(), blocks.measured, blocks.reused, excluded(blocks));
    return {};
  }

  /// Switches the model to the memory formats that a plan for the device has, and measures tasks that only it has.
  Result<void> measure_planned_layouts(tools::PreparedModel& model, tools::MeasureCount& tasks) {
    if (options_.device == nullptr) return {};
    RANNC_ASSIGN(const bool changed,
                 tools::choose_cuda_layouts(model, options_.assume, rannc::passes::TensorCores::kSixteenBits));
    if (!changed) return {};
    RANNC_ASSIGN(const auto more, tools::measure_tasks(model.graph, options_, database_));
    tasks.measured += more.measured;
    tasks.too_large += more.too_large;
    return {};
  }

  static std::string excluded(const tools::MeasureCount& count) {
    return count.too_large > 0 ? fmt::format(", {} too large for some sizes", count.too_large) : "";
  }

  void add(const tools::MeasureCount& count) {
    measured_ += count.measured;
    reused_ += count.reused;
  }

  void step(const std::string& text) {
    if (terminal_) fmt::print(stderr, "\r\033[K{}{}", name_, text);
    if (saved_.seconds() < kSaveSeconds) return;
    saved_.restart();
    (void)database_.write(flags_.database).ok();  // errors are reported by the last write
  }

  void print_summary() const {
    const std::string environment = tools::environment_name(options_);
    for (const auto& [samples, fusion] : database_.fusion(environment)) {
      fmt::print(
          "run together, {} samples: forward {:.2f}, recompute {:.2f}, backward {:.2f}, kept bytes {:.2f} of the "
          "tasks' "
          "sums\n",
          samples, fusion.forward, fusion.rebuild, fusion.backward, fusion.saved);
    }
    const uint64_t khz = options_.device != nullptr ? options_.device->clock_khz() : 0;
    fmt::print("{}: {} entries measured, {} reused, {:.1f} s, for '{}'{}\n", flags_.database, measured_, reused_,
               watch_.seconds(), environment, khz > 0 ? fmt::format(" at up to {} MHz", khz / 1000) : "");
  }

  const Flags& flags_;
  const ProfileDatabase read_;
  ProfileDatabase database_;
  tools::MeasureOptions options_;
  rannc::partition::DeviceKind kind_ = rannc::partition::preset_cluster("local:1").value().kinds.front();
  std::string name_;
  bool terminal_ = isatty(STDERR_FILENO) != 0;
  size_t measured_ = 0, reused_ = 0;
  rannc::Stopwatch watch_, saved_;
};

/// Refuses what is measured between workers on the processor.
Result<void> check_device(const Flags& flags) {
  if (flags.device.empty() || flags.device == "cpu") return {};
  const char* const flag = flags.exchanges.messages      ? "--links"
                           : flags.exchanges.collectives ? "--collectives"
                           : !flags.cluster.empty()      ? "--cluster"
                                                         : nullptr;
  if (flag == nullptr) return {};
  return rannc::error(
      fmt::format("{} describes workers on the processor, not --device {}; use --device cpu", flag, flags.device));
}

Result<void> profile(const Flags& flags, const tools::Hardware& hardware) {
  if (flags.models.empty() && !flags.exchanges.messages && !flags.exchanges.collectives) {
    return rannc::error("nothing to measure: specify a model, --links or --collectives");
  }
  RANNC_ASSIGN(ProfileDatabase database, open_database(flags.database));
  return Profiler(flags, std::move(database), hardware.devices.empty() ? nullptr : hardware.devices.front().get())
      .run();
}

}  // namespace

int rannc::tools::profile_main(int argc, char** argv) {
  CLI::App app(
      "Measures models on a device of this machine, and its links and collectives, into a profile database for "
      "rannc-compile --costs.",
      "rannc-profile");
  Flags flags;
  flags.read.without_weights = true;
  app.add_option("models", flags.models, "ONNX, TorchScript or torch.export files, or graphs as text (.rir)");
  app.add_option("--database", flags.database, "profile database to create or to extend")->required();
  auto* sizes = app.add_option("--sizes", flags.sizes, "micro-batch sizes to measure, in samples")
                    ->delimiter(',')
                    ->transform(tools::whole_number(1, 1U << 24));
  app.add_option("--mini-batch", flags.read.mini_batch,
                 "measure the sizes that rannc-compile needs for this mini-batch")
      ->transform(tools::whole_number(1, 1U << 24))
      ->excludes(sizes)
      ->capture_default_str();
  app.add_option("--repeat", flags.repeat, "minimum number of timed runs")
      ->transform(tools::whole_number(1, 1000))
      ->capture_default_str();
  app.add_option("--threads", flags.threads, "threads per operator")
      ->transform(tools::whole_number(1, 1024))
      ->capture_default_str();
  app.add_option("--memory", flags.memory_bytes,
                 "skip runs that need more memory, such as 2GB (default: half of the free memory)")
      ->transform(tools::parsed_by(&tools::parse_bytes, "SIZE"));
  app.add_option("--blocks", flags.blocks, "number of distinct blocks of a model to measure as one program each")
      ->transform(tools::whole_number(0, 1U << 24))
      ->capture_default_str();
  app.add_flag("--links", flags.exchanges.messages, "measure messages between two workers of this machine");
  app.add_flag("--collectives", flags.exchanges.collectives,
               "measure all-reduces and all-gathers between workers of this machine");
  app.add_option("--cluster", flags.cluster, "write a cluster file of this machine with the measured rates and links");
  app.add_option("--workers", flags.workers, "number of devices in that cluster")
      ->transform(tools::whole_number(1, 1U << 16))
      ->capture_default_str();
  tools::add_measured_device_flag(app, flags.device);
  tools::FlagTable table(app, compiler::kMeasuredModel);
  tools::add_read_flags(table, flags.read, flags.passes);
  app.final_callback([&] { require_usage(check(flags.read)); });
  return tools::run_tool(app, argc, argv, [&]() -> Result<void> {
    rannc::runtime::keep_freed_memory();
    rannc::runtime::set_threads(static_cast<int>(flags.threads));
    std::sort(flags.sizes.begin(), flags.sizes.end());
    flags.sizes.erase(std::unique(flags.sizes.begin(), flags.sizes.end()), flags.sizes.end());
    RANNC_TRY(check_device(flags));
    RANNC_ASSIGN(const tools::Hardware hardware, tools::open_hardware(flags.device));
    RANNC_TRY(tools::load_libraries(flags.read.libraries));
    return profile(flags, hardware);
  });
}
