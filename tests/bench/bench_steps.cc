// Trains a bundle a step at a time, each when a line of standard input asks for it, as tests/bench/raw_speed.py does.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <ctime>
#include <iostream>
#include <nlohmann/json.hpp>

#include "ir/base/replacement.h"
#include "ir/text/text.h"
#include "runtime/bundle/bundle.h"
#include "runtime/data/dataset.h"
#include "runtime/device/devices.h"
#include "runtime/engine/tensor.h"
#include "runtime/train/process.h"
#include "runtime/train/trainer.h"
#include "tests/runtime/measure/call_times.h"
#include "tests/runtime/measure/gpu_figures.h"
#include "tools/common/hardware.h"

namespace rannc {
namespace {

int64_t now_ns() { return std::chrono::steady_clock::now().time_since_epoch().count(); }

/// Time that this process ran, of all its threads: what other programs took meanwhile is not in it.
double process_seconds() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

runtime::StepResult step(runtime::Trainer& trainer, const runtime::Batch& batch) { return trainer.step(batch).value(); }

/// `seconds processor-seconds loss`
void answer_step(runtime::Trainer& trainer, const runtime::Batch& batch) {
  const int64_t start_ns = now_ns();
  const double ran = process_seconds();
  const double loss = step(trainer, batch).loss;
  const double taken = process_seconds() - ran;
  fmt::print("{:.9f} {:.9f} {:.9g}\n", 1e-9 * static_cast<double>(now_ns() - start_ns), taken, loss);
}

nlohmann::json profile_on_processor(runtime::Trainer& trainer, const runtime::Batch& batch, int steps) {
  const test::CallTimes times;
  const int64_t start_ns = now_ns();
  for (int i = 0; i < steps; ++i) step(trainer, batch);
  const double seconds = 1e-9 * static_cast<double>(now_ns() - start_ns - times.counting_ns()) / steps;
  nlohmann::json kernels = nlohmann::json::object();
  for (const auto& [name, found] : times.found())
    kernels[name] = {1e-9 * static_cast<double>(found.own_ns) / steps, static_cast<double>(found.calls) / steps};
  return {{"seconds", seconds}, {"kernels", kernels}};
}

nlohmann::json profile_on_gpu(runtime::Trainer& trainer, const runtime::Batch& batch, int steps) {
  test::GpuKernelTimes times;
  const int64_t start_ns = now_ns();
  for (int i = 0; i < steps; ++i) step(trainer, batch);
  const double seconds = 1e-9 * static_cast<double>(now_ns() - start_ns) / steps;
  nlohmann::json kernels = nlohmann::json::object();
  for (const auto& [name, found] : times.stop())
    kernels[name] = {1e-9 * static_cast<double>(found.ns) / steps, static_cast<double>(found.calls) / steps};
  return {{"seconds", seconds}, {"kernels", kernels}};
}

/// One object: `allocated` and `reserved`, the most bytes of LibTorch's allocator on the first device since the program
/// began, null on a processor; `unrecorded`, why stages run without recordings.
nlohmann::json memory(const runtime::Trainer& trainer, const tools::Hardware& hardware) {
  nlohmann::json unrecorded = nlohmann::json::array();
  for (const auto& [stage, why] : trainer.unrecorded_stages()) unrecorded.push_back(why);
  if (hardware.devices.empty()) return {{"allocated", nullptr}, {"reserved", nullptr}, {"unrecorded", unrecorded}};
  const test::PeakBytes found = test::peak_bytes(hardware.devices[0]->address());
  return {{"allocated", found.allocated}, {"reserved", found.reserved}, {"unrecorded", unrecorded}};
}

/// A plug-in without some of its mechanisms, to measure what they are worth.
class Without final : public runtime::DevicePlugin {
 public:
  Without(runtime::DevicePlugin& whole, bool updates) : whole_(whole), updates_(updates) {}
  std::string_view type() const override { return whole_.type(); }
  uint32_t count() const override { return whole_.count(); }
  runtime::DeviceFacts facts(uint32_t index) const override { return whole_.facts(index); }
  void fill(const runtime::DeviceRandom& random_input) override { whole_.fill(random_input); }
  bool update(const runtime::DeviceUpdate& update) override { return updates_ && whole_.update(update); }
  std::unique_ptr<runtime::RecordedWork> record(const std::function<void()>& work, uint64_t pool) override {
    return whole_.record(work, pool);
  }
  const runtime::NcclTable* nccl() override { return whole_.nccl(); }

 private:
  runtime::DevicePlugin& whole_;
  const bool updates_;
};

/// The devices of `--device` without the kernel for optimizer steps. The plug-in lives as long as the process.
tools::Hardware without_update_kernel(const std::string& device) {
  const std::string file = device.ends_with(".so") ? device : tools::cuda_plugin();
  static Without plugin(*runtime::open_plugin(file).value(), false);
  return {.devices = runtime::devices_of(plugin), .note = {}};
}

/// Host memory that devices copy from without making the host wait, as data loaders provide it.
runtime::Batch pinned(const runtime::Batch& batch) {
  runtime::Batch all;
  for (const auto& [name, value] : batch) all[name] = runtime::to_value(runtime::to_tensor(value).pin_memory());
  return all;
}

void serve(runtime::Trainer& trainer, const runtime::Batch& batch, const tools::Hardware& hardware,
           int profiled_steps) {
  const bool on_gpu = !hardware.devices.empty() && hardware.devices[0]->type() == ir::DeviceType::kCuda;
  fmt::print("ready\n");
  std::fflush(stdout);
  for (std::string line; std::getline(std::cin, line);) {
    if (line == "profile") {
      fmt::print("{}\n", (on_gpu ? profile_on_gpu : profile_on_processor)(trainer, batch, profiled_steps).dump());
    } else if (line == "peak") {
      fmt::print("{}\n", memory(trainer, hardware).dump());
    } else {
      answer_step(trainer, batch);
    }
    std::fflush(stdout);
  }
}

/// Makes the manifest of a bundle whose weights were written anew.
void renew_manifest(const std::string& bundle) {
  const std::string file = bundle + "/" + runtime::kPlanFile;
  const ir::Plan plan = ir::parse_plan(read_file(file).value(), file).value();
  runtime::write_manifest(bundle, plan).value();
}

}  // namespace
}  // namespace rannc

int main(int argc, char** argv) {
  CLI::App app(
      "Trains a bundle on one mini-batch: a step for each line `step` of standard input, kernel times for a line "
      "`profile`, bytes of memory for a line `peak`",
      "bench-steps");
  std::string bundle, data, optimizer = "adam";
  rannc::runtime::TrainerOptions options;
  std::string device, precision = "highest";
  int threads = 1, profiled_steps = 3;
  bool has_update_kernel = true, pageable = false, renews_manifest = false;
  app.add_option("bundle", bundle, "bundle of rannc-compile")->required();
  app.add_option("--data", data, ".safetensors file with the mini-batch: x/<input> and labels/<name>");
  app.add_option("--optimizer", optimizer, "sgd, adam or adamw");
  app.add_option("--learning-rate", options.optimizer.learning_rate, "");
  app.add_option("--momentum", options.optimizer.momentum, "of sgd");
  rannc::tools::add_device_flag(app, device);
  app.add_option("--matmul-precision", precision, "highest, or high for TF32")
      ->check(CLI::IsMember({"highest", "high"}));
  app.add_flag("!--no-cuda-graphs", options.records_steps, "enqueue each kernel in every step");
  app.add_flag("!--no-update-kernel", has_update_kernel, "run optimizer steps as operators of LibTorch");
  app.add_flag("--pageable", pageable, "read the mini-batch from memory that is not pinned");
  app.add_option("--threads", threads, "threads of a device");
  app.add_option("--profiled-steps", profiled_steps,
                 "steps for a line `profile`, which requests the time of each kernel");
  app.add_flag("--renew-manifest", renews_manifest, "write the manifest of a bundle with other weights, and end");
  CLI11_PARSE(app, argc, argv);
  try {
    if (renews_manifest) {
      rannc::renew_manifest(bundle);
      return 0;
    }
    rannc::runtime::keep_freed_memory();
    rannc::runtime::set_threads(threads);
    options.optimizer.kind = rannc::runtime::parse_optimizer(optimizer).value();
    const rannc::tools::Hardware hardware =
        has_update_kernel ? rannc::tools::open_hardware(device).value() : rannc::without_update_kernel(device);
    options.hardware = hardware.all();
    if (precision == "high") rannc::runtime::set_product_precision(rannc::runtime::ProductPrecision::kHigh);
    const auto trainer = rannc::runtime::Trainer::open(bundle, options).value();
    const rannc::runtime::Batch batch = rannc::runtime::read_batch(data).value();
    const bool pins = !hardware.devices.empty() && !pageable;
    rannc::serve(*trainer, pins ? rannc::pinned(batch) : batch, hardware, profiled_steps);
  } catch (const std::exception& failure) {
    fmt::print(stderr, "{}\n", failure.what());
    return 1;
  }
}
