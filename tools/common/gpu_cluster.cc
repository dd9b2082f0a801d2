#include "tools/common/gpu_cluster.h"

#include <fmt/format.h>

#include "runtime/device/devices.h"

namespace rannc::tools {

Result<partition::Cluster> gpu_cluster(const std::string& plugin) {
  const auto opened = runtime::open_plugin(plugin);
  if (!opened.ok()) return error("--cluster local:cuda: " + opened.diagnostic().message);
  const runtime::DeviceFacts first = (*opened)->facts(0);
  for (uint32_t i = 1; i < (*opened)->count(); ++i) {
    const runtime::DeviceFacts other = (*opened)->facts(i);
    if (other.name == first.name) continue;
    return error(fmt::format("--cluster local:cuda: GPU 0 is {}, but GPU {} is {}; describe them in a cluster file",
                             first.name, i, other.name));
  }
  return partition::cluster_of_gpus(first.name, first.memory_bytes, (*opened)->count());
}

}  // namespace rannc::tools
