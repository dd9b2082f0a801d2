// rannc-run: trains or evaluates a bundle with the workers of this machine, or as one worker of a launcher.
#include "tools/common/driver.h"
#include "tools/common/programs.h"
#include "tools/run/run_bundle.h"

namespace rannc::tools {

namespace {

int run(int argc, char** argv, int (*main)(int argc, char** argv)) {
  CLI::App app("Trains a bundle, or evaluates it if it has no loss.", "rannc-run");
  RunFlags flags;
  app.add_option("bundle", flags.bundle, "bundle written by rannc-compile")->required();
  add_run_flags(app, flags);
  const RunProgram program{
      .name = "rannc-run", .arguments = std::vector<std::string>(argv + 1, argv + argc), .main = main};
  return run_tool(app, argc, argv, [&] { return run_bundle(flags, program); });
}

}  // namespace

int run_main(int argc, char** argv) { return run(argc, argv, nullptr); }

int forking_run_main(int argc, char** argv) { return run(argc, argv, run_main); }

}  // namespace rannc::tools
