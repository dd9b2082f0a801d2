/// What a name of a TorchScript program stands for while the program is read.
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

/// A list or a tuple. Lists are shared, as those of Python are: who appends to one appends for all that have it.
struct Sequence {
  bool is_tuple = false;
  std::vector<Item> elements;
  bool is_fixed = false;  ///< it stands outside of the body that sees it, which must not change it
};

/// A dictionary, in the order of its insertions.
struct Dictionary {
  std::vector<std::pair<Item, Item>> entries;
  bool is_fixed = false;  ///< as that of a list
};

/// A module, or another object of the program's own class.
struct Object {
  std::string path;   ///< attributes from the root on: `bert.encoder`; empty for the root
  size_t handle = 0;  ///< of the program that it belongs to
};

/// A device, of which the program asks: all of them are the one on which it will run.
struct Device {};

/// What is known only when the model runs, though the program decides or computes by it: a truth value of sizes, or a
/// number or truth value of data.
struct Undecided {
  std::string what;        ///< for messages
  TensorRef of = nullptr;  ///< a tensor of the one element that it is; none: the graph has none
};

/// One value of the program. Integers are expressions of sizes, numbers are known or quotients of sizes.
struct Item {
  using Kind = std::variant<None, TensorRef, ir::Dim, double, bool, std::string, std::shared_ptr<Sequence>,
                            std::shared_ptr<Dictionary>, Object, Device, Undecided, Ratio>;
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
  /// A number or truth value of data, which a tensor holds.
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

/// What has no tensor and no object in it: None, a number, a truth value, a text, a device, lists of these. Nothing for
/// the rest.
std::optional<Item> plain_item(const at::IValue& value);
/// A number or a truth value that the one element of a tensor is.
Item of_data(TensorRef tensor, std::string what);
/// Whether both are the same None, integer, number, truth value, text, device or object.
bool is_same_plain(const Item& a, const Item& b);
Item list_of(std::vector<Item> elements);
Item tuple_of(std::vector<Item> elements);
/// What kind of value it is, for messages: `a list of 3`, `a tensor`.
std::string describe(const Item& item);

}  // namespace rannc::frontend::torchscript
