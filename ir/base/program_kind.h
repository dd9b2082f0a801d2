/// The programs of a stage.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace rannc::ir {

/// F has one program for each set of values that it keeps.
enum class ProgramKind : uint8_t {
  kLoad,      ///< P, once per load
  kStep,      ///< P, once per step
  kEvaluate,  ///< F that keeps nothing
  kForward,   ///< F that keeps what the backward pass reads
  kBegin,     ///< F that keeps what R reads; only if the stage has an R
  kRebuild,   ///< R, if the stage has one
  kInput,     ///< I
  kWeight,    ///< W
  kBackward,  ///< B
  kEnd,       ///< E
};
inline constexpr size_t kProgramKinds = 10;
/// The name of a program in texts and generated sources: `P_load`, `P_step`, `F_evaluate`, `F`, `F_recomputed`, `R`,
/// `I`, `W`, `B`, `E`.
constexpr std::string_view name(ProgramKind kind) {
  constexpr std::array<std::string_view, kProgramKinds> kNames = {"P_load", "P_step", "F_evaluate", "F", "F_recomputed",
                                                                  "R",      "I",      "W",          "B", "E"};
  return kNames[static_cast<size_t>(kind)];
}

/// One item for each kind.
template <class Item>
struct ByProgram {
  std::array<Item, kProgramKinds> items{};

  Item& operator[](ProgramKind kind) { return items[static_cast<size_t>(kind)]; }
  const Item& operator[](ProgramKind kind) const { return items[static_cast<size_t>(kind)]; }
  bool operator==(const ByProgram&) const = default;
};

/// Peak bytes of a stage's programs above the memory in use before them, which includes their arguments. `Bytes`
/// without a value: unknown, or for `first` and `last` as usual.
template <class Bytes>
struct PassPeaks {
  ByProgram<Bytes> usual;
  ByProgram<Bytes> first;  ///< of a step's first B or W, which allocates the sums of gradients
  /// Of a step's last B or W, in which sums over replicas begin. A first one that is also the last counts them too.
  ByProgram<Bytes> last;
  bool operator==(const PassPeaks&) const = default;
};

}  // namespace rannc::ir
