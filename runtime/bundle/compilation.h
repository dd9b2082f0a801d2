/// The record of how the stages of a bundle were compiled.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace rannc::runtime {

/// An instruction set that loops were compiled for.
struct InstructionSet {
  std::string name;                ///< `baseline`, `avx2`, `avx512`
  std::vector<std::string> flags;  ///< of the compiler, besides `Compilation::loop_flags`
  bool operator==(const InstructionSet&) const = default;
};

/// How the stages of a bundle of form `native` were compiled.
struct Compilation {
  std::string compiler;                          ///< path of the program
  std::string compiler_version;                  ///< first line of its `--version`
  std::vector<std::string> function_flags;       ///< flags of the functions
  std::vector<std::string> loop_flags;           ///< flags of the loops on every instruction set
  std::vector<InstructionSet> instruction_sets;  ///< of the loops; empty: all tasks call LibTorch's operators
  uint32_t interface_version = 0;                ///< `native::kInterfaceVersion`
  std::string torch_version;                     ///< `TORCH_VERSION`
  bool has_loops() const { return !instruction_sets.empty(); }
  bool operator==(const Compilation&) const = default;
};

}  // namespace rannc::runtime
