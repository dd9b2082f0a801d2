/// Random numbers for measurements.
#pragma once

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>

namespace rannc::runtime {

/// A generator of its own, so that measurements do not advance those of the process, on whose numbers its owner relies.
/// Not thread-safe.
class OwnRandom {
 public:
  explicit OwnRandom(at::Device device)
      : device_(device),
        random_(device.is_cuda() ? at::globalContext().defaultGenerator(device).clone()
                                 : at::detail::createCPUGenerator()) {}

  at::Tensor normal(at::IntArrayRef sizes, at::ScalarType type) {
    return at::randn(sizes, random_, made_as(type)).to(device_);
  }
  /// Integers of [0, limit).
  at::Tensor integers(int64_t limit, at::IntArrayRef sizes, at::ScalarType type) {
    return at::randint(limit, sizes, random_, made_as(type)).to(device_);
  }

 private:
  at::TensorOptions made_as(at::ScalarType type) const {
    return at::TensorOptions().dtype(type).device(random_.device());
  }

  at::Device device_;
  at::Generator random_;
};

}  // namespace rannc::runtime
