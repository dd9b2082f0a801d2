/// What becomes of each of ONNX's cases of single operators.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace rannc::test {

enum class Outcome : uint8_t {
  kPassed,
  kOutside,      ///< of no type or domain of ours, or random
  kRefused,      ///< by the importer or a pass
  kNotComputed,  ///< imported, but the run fails
  kWrong,        ///< another number or type than ONNX says
};
constexpr size_t kOutcomes = 5;
std::string_view str(Outcome outcome);

enum class GradientOutcome : uint8_t {
  kNone,          ///< nothing to differentiate, or the case did not pass
  kAsTheTape,     ///< the same as LibTorch's tape gives
  kByVjp,         ///< the same, by a tape of a task's own
  kCannotBeMade,  ///< differentiating or running it fails
  kWrong,
};
constexpr size_t kGradientOutcomes = 5;
std::string_view str(GradientOutcome outcome);

struct Row {
  std::string name;  ///< the case's folder
  std::string op;
  Outcome outcome = Outcome::kPassed;
  std::string why;  ///< where it did not pass
  GradientOutcome gradient = GradientOutcome::kNone;
  std::string gradient_why;
  std::vector<std::string> bound;  ///< operands given as constants: `Reshape.shape`
};

/// Runs one case.
Row run_case(const std::filesystem::path& folder);

}  // namespace rannc::test
