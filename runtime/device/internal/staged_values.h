/// Copies of host values that devices made ahead.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Storage.h>
#include <c10/util/intrusive_ptr.h>

#include <mutex>
#include <optional>
#include <vector>

#include "runtime/device/device.h"

namespace rannc::runtime {

/// The copies of this process. Each lives as long as the host memory that it is a copy of, and until `drop_expired`
/// after that. Thread-safe.
class StagedValues {
 public:
  struct Copy {
    at::Tensor tensor;
    EventRef ready;
  };

  /// `host` fills its storage and does not change any more.
  void add(const at::Tensor& host, Copy copy);
  /// The elements of a tensor of host memory, if that has a copy on `device`. They share the copy's memory.
  std::optional<Copy> find(const at::Tensor& host, c10::Device device);
  /// Frees the copies on `device` whose host memory is gone. Nothing may use them any more.
  void drop_expired(c10::Device device);

 private:
  struct Staged {
    c10::weak_intrusive_ptr<c10::StorageImpl> host;
    Copy copy;
  };
  std::mutex mutex_;
  std::vector<Staged> staged_;
};

/// Those of this process.
StagedValues& staged_values();

}  // namespace rannc::runtime
