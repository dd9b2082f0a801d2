/// Signature of an operator: operands, results, attributes and aliasing.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "ir/graph/attributes.h"

namespace rannc::ir {

/// Purpose of an operand.
enum class Role : uint8_t {
  kData,
  kWeight,      ///< trained unless it varies between samples
  kIndex,       ///< positions
  kSize,        ///< sizes, axes or bounds
  kStatistics,  ///< running statistics
  kShape,       ///< only its shape is read
};

enum class Presence : uint8_t {
  kRequired,
  kOptional,
  kVariadic  ///< any number; last only
};

struct OperandInfo {
  std::string_view name;
  Role role = Role::kData;
  Presence presence = Presence::kRequired;
  /// The attribute that may replace the operand if its contents are known; empty: none.
  std::string_view attribute = {};
};

/// A result of an operator. Optional results (auxiliary ones: statistics, positions) come last. A task has any number
/// of them, from the first on.
struct ResultInfo {
  std::string_view name;
  Presence presence = Presence::kRequired;
  /// The operand whose running statistics this result updates. The two results with it are the mean and the variance of
  /// one micro-batch, in this order (`ir/state/statistics.h`).
  std::optional<uint32_t> runs_on = {};
};

enum class AttributeKind : uint8_t {
  kInteger,
  kFlag,
  kNumber,
  kScalar,  ///< a number, an integer or a boolean
  kText,
  kDType,
  kIntegers,
  kSizes,  ///< integer expressions
  kBody,   ///< a graph whose inputs are the last operands
};

struct AttributeInfo {
  std::string_view name;
  AttributeKind kind;
  /// The default. Nothing: absence has a meaning of its own, or another attribute decides.
  std::optional<Attribute> otherwise = {};
  bool required = false;
  std::vector<std::string_view> allowed = {};  ///< values of a text; empty: any
  bool depends_on_training = false;            ///< for a flag: if set, the task depends on whether the run trains
};

/// The memory that the results share with operand 0.
enum class View : uint8_t {
  kNone,
  kSame,             ///< the operand itself
  kWhole,            ///< all of it in another shape
  kPart,             ///< some of its elements, possibly repeated
  kPermuted,         ///< all of it with permuted axes
  kWhereSameType,    ///< the operand itself if it has the result's element type, else a copy
  kWhereContiguous,  ///< all of it if it is contiguous, else a copy
};

/// Element type in which mixed precision computes an operator. The classes are those of `torch.autocast`.
enum class Autocast : uint8_t {
  kWidest,      ///< the widest type of its float operands
  kSixteenBit,  ///< the 16-bit type
  kFloat32,
};

/// The operands in which an operator is linear.
enum class Linear : uint8_t {
  kNo,
  kFirst,     ///< in operand 0
  kEach,      ///< in each of its data operands while the others are fixed
  kTogether,  ///< in all of its data operands jointly
  kWhole,     ///< in operand 0, whose sum over micro-batches and replicas it completes once per step
};

}  // namespace rannc::ir
