#include "runtime/device/internal/staged_values.h"

#include <ATen/ops/as_strided.h>

#include <algorithm>

namespace rannc::runtime {

void StagedValues::add(const at::Tensor& host, Copy copy) {
  const std::lock_guard lock(mutex_);
  staged_.push_back({host.storage().getWeakStorageImpl(), std::move(copy)});
}

std::optional<StagedValues::Copy> StagedValues::find(const at::Tensor& host, c10::Device device) {
  const std::lock_guard lock(mutex_);
  const auto found = std::find_if(staged_.begin(), staged_.end(), [&](const Staged& each) {
    return !each.host.expired() && each.host._unsafe_get_target() == host.storage().unsafeGetStorageImpl() &&
           each.copy.tensor.device() == device && each.copy.tensor.scalar_type() == host.scalar_type();
  });
  if (found == staged_.end()) return std::nullopt;
  const at::Tensor& all = found->copy.tensor;
  return Copy{at::as_strided(all, host.sizes(), host.strides(), host.storage_offset()), found->copy.ready};
}

void StagedValues::drop_expired(c10::Device device) {
  std::vector<Staged> dropped;  // freed without the lock
  const std::lock_guard lock(mutex_);
  const auto kept = std::partition(staged_.begin(), staged_.end(), [&](const Staged& each) {
    return each.copy.tensor.device() != device || !each.host.expired();
  });
  std::move(kept, staged_.end(), std::back_inserter(dropped));
  staged_.erase(kept, staged_.end());
}

StagedValues& staged_values() {
  static auto* const values = new StagedValues;  // outlives every device
  return *values;
}

}  // namespace rannc::runtime
