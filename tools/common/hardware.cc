#include "tools/common/hardware.h"

#include <fmt/format.h>

#include <filesystem>

#include "ir/base/number_range.h"
#include "runtime/device/devices.h"
#include "tools/common/launcher.h"

namespace rannc::tools {

namespace {

namespace fs = std::filesystem;
constexpr std::string_view kCpu = "cpu", kCuda = "cuda", kOneCuda = "cuda:", kLibrary = ".so";

Result<std::vector<std::shared_ptr<runtime::Device>>> open_devices(const std::string& device) {
  const std::string path = device.ends_with(kLibrary) ? fs::absolute(device).string() : cuda_plugin();
  RANNC_ASSIGN(runtime::DevicePlugin* const plugin, runtime::open_plugin(path));
  std::vector<std::shared_ptr<runtime::Device>> all = runtime::devices_of(*plugin);
  if (!device.starts_with(kOneCuda)) return all;
  const size_t index = std::stoul(device.substr(kOneCuda.size()));
  if (index >= all.size()) return error(fmt::format("{} does not exist: this machine has {} GPUs", device, all.size()));
  return std::vector{all[index]};
}

}  // namespace

std::string wrong_device(const std::string& device) {
  if (device.empty() || device == kCpu || device == kCuda || device.ends_with(kLibrary)) return {};
  const std::string_view index = device;
  if (index.starts_with(kOneCuda) && parse_number(index.substr(kOneCuda.size()), WholeRange{0, UINT32_MAX})) return {};
  return "expected cpu, cuda, cuda:N or the file of a plug-in, found " + device;
}

std::string cuda_plugin() {
  const fs::path beside = fs::path(own_program()).parent_path().parent_path() / "lib" / runtime::kCudaPlugin;
  std::error_code ignored;
  return fs::exists(beside, ignored) ? beside.string() : runtime::kCudaPlugin;
}

std::vector<runtime::Device*> Hardware::all() const {
  std::vector<runtime::Device*> found;
  for (const auto& device : devices) found.push_back(device.get());
  return found;
}

uint64_t Hardware::peak_bytes() const {
  uint64_t bytes = 0;
  for (const auto& device : devices) bytes += device->peak_bytes();
  return bytes;
}

void Hardware::restart_peak() const {
  for (const auto& device : devices) device->restart_peak();
}

void add_device_flag(CLI::App& app, std::string& device) {
  app.add_option("--device", device,
                 "cpu, cuda (all GPUs of this machine; device i of the plan on GPU i, then from the first again) or "
                 "cuda:N (default: GPUs if the plan is for them and there are any)")
      ->check(wrong_device);
}

void add_measured_device_flag(CLI::App& app, std::string& device) {
  app.add_option("--device", device, "device to measure: cpu, cuda (the first GPU), cuda:N or the file of a plug-in")
      ->check(wrong_device)
      ->capture_default_str();
}

Result<Hardware> open_hardware(const std::string& device, ir::DeviceType planned) {
  Hardware hardware;
  if (device == kCpu || (device.empty() && planned == ir::DeviceType::kCpu)) return hardware;
  auto opened = open_devices(device);
  if (opened.ok()) {
    hardware.devices = *std::move(opened);
    return hardware;
  }
  if (!device.empty()) return error("--device " + device + ": " + opened.diagnostic().message);
  hardware.note = "the plan is for GPUs, but this run uses the processor: " + opened.diagnostic().message;
  return hardware;
}

}  // namespace rannc::tools
