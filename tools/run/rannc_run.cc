// rannc-run: trains or evaluates a bundle with the workers of this machine, or as one worker of a launcher.
#include "tools/common/driver.h"
#include "tools/common/programs.h"
#include "tools/run/run_bundle.h"

int rannc::tools::run_main(int argc, char** argv) {
  CLI::App app("Trains a bundle, or evaluates it if it has no loss.", "rannc-run");
  RunFlags flags;
  app.add_option("bundle", flags.bundle, "bundle written by rannc-compile")->required();
  add_run_flags(app, flags);
  const RunProgram program{.name = "rannc-run", .arguments = std::vector<std::string>(argv + 1, argv + argc)};
  return run_tool(app, argc, argv, [&] { return run_bundle(flags, program); });
}
