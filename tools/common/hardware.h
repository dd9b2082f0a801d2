/// The flag that selects the hardware of a run.
#pragma once

#include <CLI/CLI.hpp>
#include <memory>
#include <string>
#include <vector>

#include "ir/base/device_type.h"
#include "ir/base/diagnostic.h"
#include "runtime/device/device.h"

namespace rannc::tools {

/// Returns why a text selects no device; empty if it does.
std::string wrong_device(const std::string& device);

/// Adds `--device`. The default is the type of the plan's devices.
void add_device_flag(CLI::App& app, std::string& device);
/// Adds `--device` of programs that measure one device. `cuda` is the first GPU.
void add_measured_device_flag(CLI::App& app, std::string& device);

/// The hardware of a process.
struct Hardware {
  std::vector<std::shared_ptr<runtime::Device>> devices;  ///< empty: the processor
  std::string note;                                       ///< what differs from the plan; empty if nothing does

  /// The device of worker `index` of this machine, or of device `index` of a plan.
  runtime::Device& at(uint32_t index) const {
    return devices.empty() ? runtime::cpu() : *devices[index % devices.size()];
  }
  std::vector<runtime::Device*> all() const;
  /// Peak bytes of all devices since `restart_peak`, added up.
  uint64_t peak_bytes() const;
  void restart_peak() const;
};

/// Opens what the flag selects: `cpu`, `cuda` (all GPUs of this machine), `cuda:N` or the file of another plug-in, of
/// which all devices are opened. Empty: GPUs if the plan is for that type and there are any, else the processor, with a
/// note. Call it before any other call of LibTorch. The error for a device that was selected and is not there says why.
Result<Hardware> open_hardware(const std::string& device, ir::DeviceType planned = ir::DeviceType::kCpu);

/// Returns the plug-in for CUDA of the build tree or installation that this program belongs to, or a name that the
/// dynamic linker finds.
std::string cuda_plugin();

}  // namespace rannc::tools
