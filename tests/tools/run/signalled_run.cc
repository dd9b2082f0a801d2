// rannc-run that sends itself signals after given actions.
//
// Each file in the folder RANNC_TEST_SIGNALS stands for one signal. Its name is `<device> <step> <action>`, such as
// `1 7 RA0.1<d0`, and its content the signal's number. The file is removed when the signal is sent.
#include <signal.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>

#include "runtime/execute/executor.h"
#include "tools/common/driver.h"
#include "tools/run/run_bundle.h"

namespace {

using namespace rannc;

class SignalAfterActions final : public runtime::Observer {
 public:
  explicit SignalAfterActions(std::string folder) : folder_(std::move(folder)) {}

  void finished(const runtime::ActionRecord& record) override {
    const std::string path = folder_ + "/" + std::to_string(record.device.index()) + " " + std::to_string(record.step) +
                             " " + ir::to_string(record.action);
    int number = 0;
    if (!(std::ifstream(path) >> number)) return;
    if (::unlink(path.c_str()) == 0) ::kill(::getpid(), number);
  }

 private:
  std::string folder_;
};

}  // namespace

int main(int argc, char** argv) {
  const char* const folder = std::getenv("RANNC_TEST_SIGNALS");
  SignalAfterActions observer(folder != nullptr ? folder : "");
  CLI::App app("rannc-run with signals", "rannc-run");
  tools::RunFlags flags;
  app.add_option("bundle", flags.bundle)->required();
  tools::add_run_flags(app, flags);
  const tools::RunProgram program{.name = "rannc-run", .arguments = {argv + 1, argv + argc}, .observer = &observer};
  return tools::run_tool(app, argc, argv, [&] { return tools::run_bundle(flags, program); });
}
