/// The parts of an operator's entry that say what it takes and gives: operands, results, attributes, shared memory.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "ir/graph/attributes.h"

namespace rannc::ir {

/// What an operand is for.
enum class Role : uint8_t {
  kData,
  kWeight,      ///< what stands here and does not vary is trained
  kIndex,       ///< numbers of places
  kSize,        ///< sizes, axes or bounds
  kStatistics,  ///< running statistics
  kShape,       ///< its shape alone is read
};

enum class Presence : uint8_t {
  kRequired,
  kOptional,
  kVariadic  ///< any number, in the last place
};

struct OperandInfo {
  std::string_view name;
  Role role = Role::kData;
  Presence presence = Presence::kRequired;
  /// The attribute that may stand for it where its contents are known (the operand form); empty: none.
  std::string_view attribute = {};
};

/// Optional results (auxiliary ones: statistics, places) come last; a task asks for the first of them, any number.
struct ResultInfo {
  std::string_view name;
  Presence presence = Presence::kRequired;
  /// The operand that runs after it: what it says of one micro-batch, a mean and a variance in this order, goes into
  /// running statistics there (`ir/state/statistics.h`).
  std::optional<uint32_t> runs_on = {};
};

enum class AttributeKind : uint8_t {
  kInteger,
  kFlag,
  kNumber,
  kScalar,  ///< a number, an integer or a truth value
  kText,
  kDType,
  kIntegers,
  kSizes,  ///< integer expressions
  kBody,   ///< a graph; its inputs are the last operands
};

struct AttributeInfo {
  std::string_view name;
  AttributeKind kind;
  /// What an absent one stands for; nothing: its absence has a meaning of its own, or another one decides.
  std::optional<Attribute> otherwise = {};
  bool required = false;
  std::vector<std::string_view> allowed = {};  ///< of a text; empty: any
  bool asks_training = false;                  ///< a flag: where set, the task asks the run whether it trains
};

/// Which memory the results share with operand 0.
enum class View : uint8_t {
  kNone,
  kSame,             ///< the operand itself
  kWhole,            ///< all of it, seen in another shape
  kPart,             ///< some of its elements, or some of them several times
  kPermuted,         ///< all of it, in another order of axes
  kWhereSameType,    ///< the operand itself where it has the result's element type, else a copy
  kWhereContiguous,  ///< all of it where it lies in one piece, else a copy
};

/// In which operands an operator is homogeneous: scaling them by a number scales its results by it, and results of sums
/// are sums of results.
enum class Linear : uint8_t {
  kNo,
  kFirst,     ///< in operand 0
  kEach,      ///< in each of its data operands, the others being fixed
  kTogether,  ///< in all of its data operands together
  kWhole,     ///< in operand 0, whose sum over micro-batches and replicas it makes whole, once a step
};

}  // namespace rannc::ir
