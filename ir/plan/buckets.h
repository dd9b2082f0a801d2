/// Buckets: the gradients that the replicas of a stage sum together.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "ir/plan/plan.h"

namespace rannc::ir {

/// Limit of the bytes of a bucket by default. Sums between GPUs are fast, but each costs the host several calls.
constexpr uint64_t default_bucket_bytes(DeviceType device) { return device == DeviceType::kCuda ? 32 << 20 : 4 << 20; }
inline constexpr uint64_t kBucketBytes = default_bucket_bytes(DeviceType::kCpu);
/// Limit of the bytes of a bucket by those of the stage's largest gradient. Larger buckets would leave a small model
/// little to overlap; smaller ones would separate a bias from its weight.
inline constexpr uint64_t kLargestGradients = 2;

/// The parameters whose gradients the replicas of a stage sum in its ARs or SCs: those that it reads and shares with no
/// other stage, ascending. Empty if it has none.
std::vector<ValueId> summed_parameters(const Plan& plan, StageId stage);

/// By bucket of the stage: the last task of its joint graph that makes a part of a gradient of this bucket or of one
/// before it; nothing if E does, or if the plan has no functions.
std::vector<std::optional<TaskId>> final_tasks(const Plan& plan, StageId stage);

/// By bucket of the stage: parts of its gradients, as indices into `Joint::gradients`. The plan has functions.
std::vector<std::vector<uint32_t>> parts_of_buckets(const Plan& plan, StageId stage);

/// By bucket of the stage: bytes of its gradients.
std::vector<int64_t> bytes_of_buckets(const Plan& plan, StageId stage);
/// By bucket of the stage: peak bytes of its sum over the replicas, beside the gradients.
std::vector<int64_t> sum_bytes_of_buckets(const Plan& plan, StageId stage);

/// Fills `Stage::buckets` of all stages from the plan's stages, routes and functions. Parameters are taken in the order
/// in which the backward pass makes their gradients final, those that E completes last and apart. A bucket has at most
/// `limit` bytes and at most `kLargestGradients` times those of the largest gradient, or one gradient. Linear in the
/// joint graphs.
void choose_buckets(Plan& plan, uint64_t limit = kBucketBytes);

}  // namespace rannc::ir
