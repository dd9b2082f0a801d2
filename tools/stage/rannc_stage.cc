// rannc-stage: runs a device of the bundle that contains it, under the name of a stage.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <nlohmann/json.hpp>

#include "tools/common/driver.h"
#include "tools/common/launcher.h"
#include "tools/common/programs.h"
#include "tools/run/run_bundle.h"
#include "tools/stage/describe_stage.h"
#include "tools/stage/own_stage.h"

namespace {

namespace runtime = rannc::runtime;
namespace tools = rannc::tools;
using rannc::Result;
using rannc::StageId;

struct Flags {
  tools::RunFlags run;
  bool describes = false, json = false;
};

std::string devices_of(const runtime::Bundle& bundle, StageId stage) {
  std::vector<size_t> devices;
  for (const rannc::DeviceId home : bundle.plan.stages[stage.index()].devices) devices.push_back(home.index());
  return fmt::format("{}", fmt::join(devices, ", "));
}

/// An explicit --rank must be one of the stage's devices. A launcher starts one program for all ranks, so that its
/// ranks need not be.
Result<void> check_rank(const tools::RunFlags& flags, const tools::OwnStage& own, const std::string& program) {
  RANNC_ASSIGN(const auto worker, tools::read_worker_environment(flags.worker));
  if (flags.transport == "local" && worker && worker->workers > 1)
    return rannc::error("--transport local: the program of a stage runs one device; rannc-run runs all in one process");
  if (worker && !worker->by_flags) return {};
  RANNC_ASSIGN(const runtime::Bundle bundle, runtime::open_bundle(own.bundle, {.stage = own.stage}));
  const size_t devices = bundle.plan.devices.size();
  if (!worker) {
    if (devices == 1) return {};
    return rannc::error({own.bundle, 0, 0, {}},
                        fmt::format("the plan is for {} devices: {}, or use rannc-run", devices, tools::kHowToStart))
        .note(
            fmt::format("with torchrun: torchrun --no-python --nproc-per-node {} -- {} …; without `--` it takes flags "
                        "such as --log for its own",
                        devices, program));
  }
  const runtime::HostedStages hosted{.device = rannc::DeviceId(worker->rank)};
  if (worker->workers != devices || hosted.contains(bundle.plan, own.stage)) return {};  // `prepare_run` reports worlds
  return rannc::error({own.bundle, 0, 0, {}},
                      fmt::format("--rank {} is not a device of stage {}, which runs on {}", worker->rank,
                                  own.stage.index(), devices_of(bundle, own.stage)));
}

Result<void> describe(const tools::OwnStage& own, const Flags& flags) {
  RANNC_ASSIGN(const runtime::Bundle bundle, runtime::open_bundle(own.bundle, {.stage = own.stage}));
  const auto described = tools::stage_json(bundle, own.stage);
  fmt::print("{}", flags.json ? described.dump(1) + "\n" : tools::stage_text(described));
  return {};
}

Result<void> run(Flags& flags, const std::vector<std::string>& arguments) {
  const std::string program = tools::own_program();
  RANNC_ASSIGN(const tools::OwnStage own, tools::own_stage(program));
  if (flags.describes) return describe(own, flags);
  flags.run.bundle = own.bundle;
  RANNC_TRY(check_rank(flags.run, own, program));
  return tools::run_bundle(
      flags.run, {.name = program, .arguments = arguments, .workers = tools::RunProgram::Workers::kNotStarted});
}

}  // namespace

int rannc::tools::stage_main(int argc, char** argv) {
  CLI::App app("Runs the device of its rank in the bundle that contains this program.", "rannc-stage");
  Flags flags;
  add_run_flags(app, flags.run);
  auto* describe = app.add_flag("--describe", flags.describes, "print the stage's tasks, values, weights and files");
  app.add_flag("--json", flags.json, "with --describe: as JSON")->needs(describe);
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  return run_tool(app, argc, argv, [&] { return run(flags, arguments); });
}
