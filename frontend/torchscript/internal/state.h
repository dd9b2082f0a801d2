/// Converts a module's attributes to items, with stored tensors as constants of the graph.
#pragma once

#include <ATen/core/ivalue.h>

#include <map>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "frontend/import.h"
#include "frontend/torchscript/internal/aliases.h"
#include "frontend/torchscript/internal/archive/archive.h"
#include "frontend/torchscript/internal/item.h"
#include "frontend/torchscript/internal/stored.h"

namespace rannc::frontend::torchscript {

/// Numbers, booleans and strings in attributes of modules, by module and name.
using Attributes = std::map<std::pair<const void*, std::string>, Item>;

/// What another import of the program has found out.
struct CallBefore {
  std::set<std::string> written;  ///< values of buffers whose numbers are no contents of their types
  Attributes left;                ///< what the program left
};

class State {
 public:
  /// All arguments must outlive the state.
  State(const Archive& archive, ir::Graph& graph, ImportNotes& notes, const CallBefore& before);

  /// The root module.
  Object root();
  const at::IValue& object(const Object& object) const { return objects_[object.handle]; }
  /// Attribute of an object, with the last item set by `set_attribute`.
  Result<Item> attribute(const Object& object, const std::string& name, const Location& where);
  void set_attribute(const Object& object, const std::string& name, Item item);
  /// Attributes of modules that are not as they were before the program ran. None if some are tensors or objects.
  Attributes left() const;
  /// A constant in the program's code. A tensor in it is named `name`.
  Result<Item> literal(const at::IValue& value, const std::string& name, const Location& where);
  /// A new object of a class that is no module class.
  Item create(const at::IValue& value, std::string path);
  /// Returns an error if tensors of the module share memory that would diverge in training.
  Result<void> check_memory() { return memory_.check(archive_.path()); }
  /// Whether the module has no parameters, like a frozen one.
  bool has_no_parameters() const { return has_no_parameters_; }

 private:
  struct Naming {
    std::string name;
    bool is_literal = false, is_parameter = false;
  };
  /// Storage, offset, sizes, strides, element type. Equal places are one tensor.
  using Place = std::tuple<const void*, int64_t, std::vector<int64_t>, std::vector<int64_t>, int>;
  static Place place_of(const at::Tensor& tensor);
  Result<Item> item(const at::IValue& value, const Naming& how, const Location& where);
  Result<Item> tensor(const at::Tensor& tensor, const Naming& how, const Location& where);

  const Archive& archive_;
  ir::Graph& graph_;
  ImportNotes& notes_;
  const CallBefore& before_;
  std::vector<at::IValue> objects_;
  std::map<const void*, size_t> handles_;
  std::map<std::pair<size_t, std::string>, Item> attributes_;
  std::map<std::string, std::vector<std::string>> aliases_;  ///< other names of a tensor, by its first name
  std::map<Place, Naming> named_;                            ///< names as in `state_dict`
  std::map<Place, TensorRef> tensors_;
  SharedMemory memory_;
  uint64_t copied_ = 0;  ///< bytes of tensors in memory
  bool has_no_parameters_ = true;
};

}  // namespace rannc::frontend::torchscript
