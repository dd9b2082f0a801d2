/// What all processes of a run must have in common.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "ir/base/device_type.h"
#include "runtime/bundle/bundle.h"
#include "runtime/train/trainer.h"

namespace rannc::runtime {

/// Returns the options and files of a bundle on which results depend. Files of stages that are not hosted are absent.
SharedFacts shared_facts(const Bundle& bundle, const TrainerOptions& options);

/// Returns the settings of LibTorch in this process on which the results of a kind of hardware depend.
SharedFacts process_facts(ir::DeviceType hardware);

/// Returns facts as text for other processes.
std::string to_text(const SharedFacts& facts);

/// Compares the facts of one process after the other.
class FactComparison {
 public:
  /// Takes the `to_text` of a process. Error: an earlier process has another value of one of the facts.
  Result<void> add(uint32_t process, const std::string& text);

 private:
  std::map<std::string, std::pair<uint32_t, std::string>> known_;  // by name: the first process with it, and its value
};

}  // namespace rannc::runtime
