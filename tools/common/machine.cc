#include "tools/common/machine.h"

#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <string>
#include <thread>

namespace rannc::tools {

namespace {

// The number in a file, or `otherwise` if there is none, as for a control group without a limit.
uint64_t number_in(const char* path, uint64_t otherwise) {
  std::ifstream file(path);
  uint64_t number = 0;
  return file >> number ? number : otherwise;
}

uint64_t group_limit() {
  return std::min(number_in("/sys/fs/cgroup/memory.max", UINT64_MAX),
                  number_in("/sys/fs/cgroup/memory/memory.limit_in_bytes", UINT64_MAX));
}

uint64_t group_usage() {
  return number_in("/sys/fs/cgroup/memory.current", number_in("/sys/fs/cgroup/memory/memory.usage_in_bytes", 0));
}

uint64_t available() {
  std::ifstream file("/proc/meminfo");
  for (std::string word; file >> word;) {
    uint64_t kib = 0;
    if (word == "MemAvailable:" && file >> kib) return kib * 1024;
  }
  return machine_memory_bytes() / 2;
}

}  // namespace

uint64_t machine_memory_bytes() {
  const long pages = sysconf(_SC_PHYS_PAGES), size = sysconf(_SC_PAGE_SIZE);
  const uint64_t whole =
      pages > 0 && size > 0 ? static_cast<uint64_t>(pages) * static_cast<uint64_t>(size) : uint64_t{4} << 30;
  return std::min(whole, group_limit());
}

uint64_t free_memory_bytes() {
  const uint64_t limit = group_limit(), usage = group_usage();
  const uint64_t of_group = limit == UINT64_MAX ? UINT64_MAX : limit - std::min(limit, usage);
  return std::min(available(), of_group);
}

uint32_t machine_cores() { return std::max(std::thread::hardware_concurrency(), 1U); }

uint64_t worker_memory_bytes(uint32_t workers) { return machine_memory_bytes() / 4 * 3 / std::max(workers, 1U); }

}  // namespace rannc::tools
