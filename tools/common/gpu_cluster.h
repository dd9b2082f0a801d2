/// Describes the GPUs of this machine as a cluster.
#pragma once

#include <string>

#include "ir/base/diagnostic.h"
#include "partition/cluster.h"

namespace rannc::tools {

/// Returns the GPUs of this machine, which are all of one kind. `plugin` is the file of the plug-in for CUDA, or a name
/// that the dynamic linker finds. Call it before any other call of LibTorch.
Result<partition::Cluster> gpu_cluster(const std::string& plugin);

}  // namespace rannc::tools
