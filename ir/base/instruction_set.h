/// Vector instructions of processors, which determine oneDNN's convolution kernels and the memory that these need.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace rannc::ir {

/// Ascending: each has the instructions of those before it. Extensions for other element types than f32, such as VNNI
/// and AMX, do not count.
enum class InstructionSet : uint8_t { kSse41, kAvx, kAvx2, kAvx512 };

/// Set of a device whose description names none.
constexpr InstructionSet kDefaultInstructions = InstructionSet::kAvx512;

constexpr InstructionSet kInstructionSets[] = {InstructionSet::kSse41, InstructionSet::kAvx, InstructionSet::kAvx2,
                                               InstructionSet::kAvx512};

/// The name in cluster files and plans: `sse41`, `avx`, `avx2`, `avx512`.
inline std::string_view str(InstructionSet set) {
  constexpr std::string_view kNames[] = {"sse41", "avx", "avx2", "avx512"};
  return kNames[static_cast<size_t>(set)];
}

/// The set with that name, if there is one.
inline std::optional<InstructionSet> instruction_set(std::string_view name) {
  for (const InstructionSet set : kInstructionSets) {
    if (name == str(set)) return set;
  }
  return std::nullopt;
}

}  // namespace rannc::ir
