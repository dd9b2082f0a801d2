/// What a kind of device adds to LibTorch's interfaces of streams, events and memory.
///
/// A plug-in is a shared library with one C function. It contains no code of rannc: it implements these interfaces and
/// calls nothing else, so that a process has one copy of the runtime.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "runtime/device/nccl_table.h"

namespace rannc::runtime {

/// Numbers to generate in device memory. The counterpart of `fill` (`runtime/execute/random.h`) for several samples.
/// Factors of dropout are bit-identical to those of a CPU, normal numbers up to the rounding of the device's
/// logarithm and cosine.
struct DeviceRandom {
  enum class Of : uint8_t { kUniform, kNormal, kBernoulli };

  float* numbers = nullptr;  ///< device memory, [samples, elements]
  uint64_t samples = 0, elements = 0;
  Of of = Of::kUniform;
  double drop = 0;  ///< of kBernoulli
  uint64_t key = 0;
  uint64_t first_sample = 0;
  /// Device memory with key and first sample, read when the kernel runs; null: the two fields above.
  const uint64_t* key_and_sample = nullptr;
};

/// A step of an element-wise optimizer for many tensors of one type, which computes the numbers of `StageOptimizer` in
/// float32, or in float64 for parameters of that type, and rounds each result once.
struct DeviceUpdate {
  enum class Rule : uint8_t { kSgd, kAdam, kAdamW, kLion };
  enum class Number : uint8_t { kFloat32, kFloat64, kBFloat16, kFloat16 };
  static constexpr int kStates = 3;
  /// Device memory, contiguous.
  struct Tensor {
    void* parameter = nullptr;
    const void* gradient = nullptr;
    void* states[kStates] = {};  ///< as `element_states` lists them; null: the rule has none
    void* average = nullptr;     ///< of the parameter; null: none
    uint64_t elements = 0;
  };

  Rule rule = Rule::kSgd;
  Number number = Number::kFloat32;  ///< of all but gradients, which are float32 where this is narrower
  bool nesterov = false;
  double rate = 0, weight_decay = 0, momentum = 0, beta1 = 0, beta2 = 0, epsilon = 0;
  uint64_t updates = 0;       ///< that came before
  double gradient_scale = 1;  ///< factor of gradients
  double average = 0;         ///< weight of the average so far
  const Tensor* tensors = nullptr;
  size_t count = 0;
};

/// Properties of one device.
struct DeviceFacts {
  std::string name;              ///< `NVIDIA H100 80GB HBM3`
  uint64_t memory_bytes = 0;     ///< in all
  uint64_t clock_khz = 0;        ///< highest clock of its multiprocessors; 0: unknown
  bool flash_attention = false;  ///< LibTorch's flash attention runs on it
};

/// Work that was recorded once and runs again without the host's calls.
class RecordedWork {
 public:
  virtual ~RecordedWork() = default;
  /// Enqueues the work on the current stream.
  virtual void replay() = 0;
};

/// One kind of device. Thread-safe. Functions work on the current device and stream of the calling thread, and throw
/// exceptions derived from `std::exception`.
class DevicePlugin {
 public:
  virtual ~DevicePlugin() = default;
  /// LibTorch's name of the device type: `cuda`.
  virtual std::string_view type() const = 0;
  virtual uint32_t count() const = 0;
  virtual DeviceFacts facts(uint32_t index) const = 0;
  /// Enqueues the generation of random numbers.
  virtual void fill(const DeviceRandom& random_input) = 0;
  /// Enqueues an optimizer step. Returns false if this kind of device has no kernel for it.
  virtual bool update(const DeviceUpdate& update) = 0;
  /// Records what `work` enqueues on the current stream, instead of running it. Other threads may use the device
  /// meanwhile. Memory that `work` allocates comes from the pool `pool`, which all recordings with that number share.
  /// Null if this kind of device cannot record.
  virtual std::unique_ptr<RecordedWork> record(const std::function<void()>& work, uint64_t pool) = 0;
  /// Messages between devices of this kind; null if there are none. Lives as long as the process.
  virtual const NcclTable* nccl() = 0;
};

/// Number of this interface. A plug-in that was built for another one is refused.
inline constexpr uint32_t kDevicePluginVersion = 5;

/// The plug-in's function, by the name `rannc_device_plugin`. Returns null if no device can be used, with the reason
/// as one sentence without a period in `reason`, cut to `size` bytes. The result lives as long as the process.
using OpenDevicePlugin = DevicePlugin* (*)(uint32_t version, char* reason, size_t size);
inline constexpr const char* kDevicePluginEntry = "rannc_device_plugin";

}  // namespace rannc::runtime
