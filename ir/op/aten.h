/// Calls of ATen as data: what an operator is lowered to. Printed as TorchScript, run by the dispatcher, read by
/// checks.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "ir/dim/dim.h"
#include "ir/graph/attributes.h"
#include "ir/graph/type.h"

namespace rannc::ir::aten {

/// An operand of the task. Where the task leaves it out it stands for `None`.
struct Operand {
  uint32_t index = 0;
  bool operator==(const Operand&) const = default;
};

/// A result of an earlier call of the same lowering; of a call with one list result, an element of it.
struct Made {
  uint32_t call = 0;
  uint32_t index = 0;
  bool operator==(const Made&) const = default;
};

/// A tensor.
using Value = std::variant<Operand, Made>;

struct None {
  bool operator==(const None&) const = default;
};
/// The device on which the program runs: every factory takes it.
struct Device {
  bool operator==(const Device&) const = default;
};
/// Whether the run trains or evaluates, said when it runs.
struct Training {
  bool operator==(const Training&) const = default;
};
struct Text {
  std::string text;
  bool operator==(const Text&) const = default;
};
/// A number where ATen takes any; `of` says how it is spelled.
struct Scalar {
  std::variant<Dim, double, bool> number;
  bool operator==(const Scalar&) const = default;
};
enum class MemoryFormat : uint8_t { kContiguous, kPreserve, kChannelsLast };

/// One argument. Integers may be expressions of sizes.
struct Argument {
  using Kind = std::variant<None, Value, std::vector<Value>, Dim, Shape, Scalar, double, std::vector<double>, bool,
                            std::vector<bool>, DType, MemoryFormat, Device, Training, Text>;
  std::string name;  ///< of the schema's parameter; empty: by position
  Kind value;

  template <class T>
  requires(!std::is_same_v<std::remove_cvref_t<T>, Argument>) Argument(T&& given)
      : value(kind_of(std::forward<T>(given))) {}  // NOLINT(google-explicit-constructor)
  template <class T>
  Argument(std::string parameter, T&& given) : name(std::move(parameter)), value(kind_of(std::forward<T>(given))) {}
  bool operator==(const Argument&) const = default;

 private:
  template <class T>
  static Kind kind_of(T&& given) {
    using Given = std::remove_cvref_t<T>;
    if constexpr (std::is_same_v<Given, Operand> || std::is_same_v<Given, Made>) {
      return Value(given);
    } else if constexpr (std::is_integral_v<Given> && !std::is_same_v<Given, bool>) {
      return Dim(static_cast<int64_t>(given));
    } else if constexpr (std::is_same_v<Given, std::vector<int64_t>>) {
      return Shape(given.begin(), given.end());
    } else {
      return Kind(std::forward<T>(given));
    }
  }
};

struct Lowering;

/// What a branch or a loop runs: a lowering whose operands are what is handed to it, in order.
class Block {
 public:
  explicit Block(Lowering lowering);
  const Lowering& lowering() const { return *lowering_; }
  bool operator==(const Block& other) const;

 private:
  std::shared_ptr<const Lowering> lowering_;
};

/// `schema` with its overload: `aten::add.Tensor`. Arguments by position, then by name; the rest take their defaults.
/// Two calls are no operators of ATen, but control, and have blocks:
///   `kIf`(condition, operands) with two blocks, of which the first runs where the condition holds: both make its
///   results.
///   `kLoop`(trips, condition, states, scanned, captured, most) with one block that takes the number of the trip, the
///   condition, the states, a row of each scanned tensor, then what is captured, and makes the condition of the next
///   trip where there is one, the next states, and rows: its results are the last states, then all rows of each,
///   stacked. Trips are a size or a tensor; they or the condition may be none. `most` is a size: one trip more is an
///   error of the run.
struct Call {
  std::string schema;
  std::vector<Argument> arguments;
  uint32_t results = 1;
  bool list = false;  ///< the one result is a list of `results` tensors
  std::vector<Block> blocks = {};
  bool operator==(const Call&) const = default;
};
inline constexpr std::string_view kIf = "control::if", kLoop = "control::loop";
/// An operand that nobody hands over.
inline constexpr Operand kAbsent{UINT32_MAX};

/// What stands in an entry for the value of one of its attributes.
struct FromAttribute {
  std::string_view name;
};

/// A lowering of one call whose arguments are operands, attributes and literals: it can be read both ways.
struct Template {
  struct Slot {
    std::string name;
    std::variant<Argument::Kind, FromAttribute> value;
  };
  std::string schema;
  std::vector<Slot> slots;
};

/// What an operator is lowered to: calls in order, and which of the values are its results.
struct Lowering {
  std::vector<Call> calls;
  std::vector<Value> results;
  bool operator==(const Lowering&) const = default;
};

inline Block::Block(Lowering lowering) : lowering_(std::make_shared<const Lowering>(std::move(lowering))) {}
inline bool Block::operator==(const Block& other) const { return *lowering_ == *other.lowering_; }

}  // namespace rannc::ir::aten
