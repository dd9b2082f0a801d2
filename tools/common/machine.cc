#include "tools/common/machine.h"

#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <fstream>
#include <string>
#include <thread>

#include "tools/common/environment.h"

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

ir::InstructionSet processor_instructions() {
#if defined(__x86_64__)
  using enum ir::InstructionSet;
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
      __builtin_cpu_supports("avx512dq")) {
    return kAvx512;
  }
  if (__builtin_cpu_supports("avx2")) return kAvx2;
  return __builtin_cpu_supports("avx") ? kAvx : kSse41;
#else
  return ir::kDefaultInstructions;
#endif
}

}  // namespace

ir::InstructionSet limited_instructions(ir::InstructionSet best, std::string_view limit) {
  std::string name(limit);
  std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return std::tolower(c); });
  if (name.starts_with("avx2_")) name = "avx2";  // extensions for other element types
  const auto most = ir::instruction_set(name);
  return most ? std::min(best, *most) : best;
}

ir::InstructionSet machine_instructions() {
  for (const char* const name : {"ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA"}) {
    const std::string limit = environment_variable(name);
    if (!limit.empty()) return limited_instructions(processor_instructions(), limit);
  }
  return processor_instructions();
}

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
