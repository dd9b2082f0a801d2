/// ATen calls as data: the target of lowering. LibTorch's dispatcher runs them, and checks inspect them.
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

/// An operand of the task; `None` if the task omits it.
struct Operand {
  uint32_t index = 0;
  bool operator==(const Operand&) const = default;
};

/// A result of an earlier call of the same lowering, or an element of that call's list result.
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
/// The device on which the program runs. Every factory function takes it.
struct Device {
  bool operator==(const Device&) const = default;
};
/// Whether the run trains or evaluates; determined at run time.
struct Training {
  bool operator==(const Training&) const = default;
};
struct Text {
  std::string text;
  bool operator==(const Text&) const = default;
};
/// An argument of ATen's type `Scalar`.
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

/// The body of a branch or a loop: a lowering whose operands are the values passed to it, in order.
class Block {
 public:
  explicit Block(Lowering lowering);
  const Lowering& lowering() const { return *lowering_; }
  bool operator==(const Block& other) const;

 private:
  std::shared_ptr<const Lowering> lowering_;
};

/// A call of an operator. `schema` includes the overload: `aten::add.Tensor`. Arguments are positional, then named; the
/// rest take their defaults. Two schemas are control flow instead of ATen operators and have blocks:
///   `kIf`(condition, operands) has two blocks, each of which returns all results. The first one
///     runs if the condition holds, else the second.
///   `kLoop`(trips, condition, states, scanned, captured, most) has one block.
///     The block takes the trip number, the condition, the states, a row of each scanned tensor, and the captured
///     values. It returns the next trip's condition if there is one, the next states, and rows.
///     The loop returns the last states, then the stacked rows of each row result.
///     `trips` is a size or a tensor. `trips` or `condition` may be none.
///     `most` is a size. More trips are a run-time error.
struct Call {
  std::string schema;
  std::vector<Argument> arguments;
  uint32_t results = 1;
  bool list = false;  ///< the one result is a list of `results` tensors
  std::vector<Block> blocks = {};
  bool operator==(const Call&) const = default;
};
inline constexpr std::string_view kIf = "control::if", kLoop = "control::loop";
/// An operand that is not passed.
inline constexpr Operand kAbsent{UINT32_MAX};

/// Placeholder in a template for the value of an attribute.
struct FromAttribute {
  std::string_view name;
};

/// A lowering to one call whose arguments are operands, attributes and literals. It works in both directions: from task
/// to call and from call to task.
struct Template {
  struct Slot {
    std::string name;
    std::variant<Argument::Kind, FromAttribute> value;
  };
  std::string schema;
  std::vector<Slot> slots;
};

/// The result of lowering a task: calls in order, and the values that are the task's results.
struct Lowering {
  std::vector<Call> calls;
  std::vector<Value> results;
  bool operator==(const Lowering&) const = default;
};

}  // namespace rannc::ir::aten
