/// Values of a TorchScript program during interpretation.
#pragma once

#include <ATen/core/ivalue.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "frontend/torchscript/internal/ratio.h"
#include "ir/dim/dim.h"
#include "ir/graph/graph.h"

namespace rannc::frontend::torchscript {

struct Item;
class Tensor;

using TensorRef = std::shared_ptr<Tensor>;

struct None {};

/// A list or a tuple. Lists are shared by reference as in Python.
struct Sequence {
  bool is_tuple = false;
  std::vector<Item> elements;
  bool is_fixed = false;  ///< outside the body that reads it, which must not change it
};

/// A dictionary in insertion order.
struct Dictionary {
  std::vector<std::pair<Item, Item>> entries;
  bool is_fixed = false;  ///< as for `Sequence`
};

/// A module or another object of a class of the program.
struct Object {
  std::string path;   ///< attribute path from the root: `bert.encoder`; empty for the root
  size_t handle = 0;  ///< index of the object in `State`
};

/// A device that the program mentions. All devices are the one on which it will run.
struct Device {};

/// A complex tensor. `parts` is real, with the real and imaginary parts on an additional last axis of extent 2. A
/// translator that does not mention complex numbers cannot read it.
struct Complex {
  TensorRef parts;
};

/// A value that is unknown before the model runs although the program uses it to branch or compute: a boolean that
/// depends on sizes, or a number or boolean that depends on data.
struct Undecided {
  std::string what;        ///< for messages
  TensorRef of = nullptr;  ///< one-element tensor that contains the value; null: the graph has none
};

/// One value of the program. Integers are expressions of sizes. Numbers are known or are quotients of sizes.
struct Item {
  using Kind = std::variant<None, TensorRef, ir::Dim, double, bool, std::string, std::shared_ptr<Sequence>,
                            std::shared_ptr<Dictionary>, Object, Device, Complex, Undecided, Ratio>;
  Kind kind;

  Item() = default;
  template <class T>
  requires(!std::is_same_v<std::remove_cvref_t<T>, Item>) Item(T&& given)
      : kind(std::forward<T>(given)) {}  // NOLINT(google-explicit-constructor)

  bool is_none() const { return std::holds_alternative<None>(kind); }
  template <class T>
  const T* get() const {
    return std::get_if<T>(&kind);
  }
  /// Whether it is a data-dependent number or boolean in a tensor.
  bool is_of_data() const { return get<Undecided>() && get<Undecided>()->of; }
  const Sequence* sequence() const {
    const auto* found = get<std::shared_ptr<Sequence>>();
    return found ? found->get() : nullptr;
  }
  const Dictionary* dictionary() const {
    const auto* found = get<std::shared_ptr<Dictionary>>();
    return found ? found->get() : nullptr;
  }
};

/// The tensor that contains the numbers of a tensor or of a complex tensor, or null.
const TensorRef* tensor_of(const Item& item);
/// Converts a value without tensors and objects: None, a number, a boolean, a string, a device or a list of these.
/// Returns nothing for any other value.
std::optional<Item> plain_item(const at::IValue& value);
/// Returns a number or boolean that is the only element of a tensor.
Item of_data(TensorRef tensor, std::string what);
/// Whether both are the same None, integer, number, boolean, string, device or object.
bool is_same_plain(const Item& a, const Item& b);
Item list_of(std::vector<Item> elements);
Item tuple_of(std::vector<Item> elements);
/// Describes the kind of a value for messages: `a list of 3`, `a tensor`.
std::string describe(const Item& item);

}  // namespace rannc::frontend::torchscript
