/// Rows of the tables of options: `rows` of a struct of options lists the flags that fill its members.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace rannc::compiler {

/// Inputs of a command line, as bits of `OptionRow::inputs`.
enum Input : uint32_t {
  kModelFile = 1 << 0,
  kBundleFolder = 1 << 1,
  kProfileText = 1 << 2,     ///< published profiles
  kPlacementGraph = 1 << 3,  ///< likewise
  kSavedPlan = 1 << 4,       ///< `--plan`, besides a model, bundle or profile
  kSavedStages = 1 << 5,     ///< `--plan`, besides a profile
  kRebuiltBundle = 1 << 6,   ///< `--rebuild`
  kCheckFolder = 1 << 7,     ///< of `rannc-check`
  kMeasuredModel = 1 << 8,   ///< of `rannc-profile`
};
constexpr uint32_t kReadModel = kModelFile | kMeasuredModel | kSavedPlan;
constexpr uint32_t kCheckedModel = kReadModel | kCheckFolder;
constexpr uint32_t kPlannedModel = kModelFile | kBundleFolder;
constexpr uint32_t kPlanned = kPlannedModel | kProfileText;

/// A flag. `help` is Markdown; links are for the manual. Its end may be `(default: …)`.
struct OptionRow {
  const char* flag;  ///< `-o,--output`
  /// Form of the value, such as `N`; empty for switches and choices. With a comma, one flag takes a list.
  const char* value;
  uint32_t inputs;  ///< to which the flag applies
  std::string help;
};

/// Ranges of numbers, which a row states after the member: `table.row({…}, &Options::stages, Whole{1, 64})`.
struct Whole {
  uint64_t least = 1, most = 1U << 24;
};
struct Real {
  double least = -1e300, most = 1e300;
  bool above = false;  ///< without `least`
};
struct Bytes {  ///< with units, such as `16GiB`
  bool or_zero = false;
};
struct Duration {};         ///< likewise, such as `120ms`
struct RowOfTable {};       ///< negative ones count from the end
struct NumberOrBoolean {};  ///< `true` is 1, `false` is 0

/// Names of an enumeration's values, in order, or the texts that a flag accepts. An empty name cannot be chosen.
using Choices = std::vector<const char*>;

}  // namespace rannc::compiler
