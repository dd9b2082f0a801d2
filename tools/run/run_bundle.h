/// Runs a bundle as the command line requests.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ir/base/diagnostic.h"
#include "tools/run/run_flags.h"

namespace rannc::runtime {
class Observer;
}

namespace rannc::tools {

/// The program that runs a bundle.
struct RunProgram {
  std::string name;                    ///< of the command, for reports and hints
  std::vector<std::string> arguments;  ///< of the command line
  /// Whether the program may start workers, as copies of itself with these arguments.
  enum class Workers : uint8_t { kStarted, kNotStarted } workers = Workers::kStarted;
  /// See `Fleet::main`.
  int (*main)(int argc, char** argv) = nullptr;
  /// Receives the actions of training steps of this process, besides the run's own observers. Not owned.
  runtime::Observer* observer = nullptr;
};

/// Trains, evaluates or exports weights: with threads, as one worker of a launcher or of flags, or by starting workers.
/// Throws `Exit` after an error of a worker, which has been reported, and after a signal.
Result<void> run_bundle(const RunFlags& flags, const RunProgram& program);

}  // namespace rannc::tools
