/// Values of TorchScript's own kinds as items, and stored tensors as constants of the graph.
#pragma once

#include <ATen/core/ivalue.h>

#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "frontend/import.h"
#include "frontend/torchscript/internal/aliases.h"
#include "frontend/torchscript/internal/archive/archive.h"
#include "frontend/torchscript/internal/item.h"
#include "frontend/torchscript/internal/stored.h"

namespace rannc::frontend::torchscript {

class State {
 public:
  /// All of it outlives the state.
  State(const Archive& archive, ir::Graph& graph, ImportNotes& notes);

  /// The module itself.
  Object root();
  const at::IValue& object(const Object& object) const { return objects_[object.handle]; }
  /// Attribute of an object; a write to one is what it is from then on.
  Result<Item> attribute(const Object& object, const std::string& name, const Location& where);
  void set_attribute(const Object& object, const std::string& name, Item item);
  /// A constant of the program's code; a tensor among it gets that name.
  Result<Item> literal(const at::IValue& value, const std::string& name, const Location& where);
  /// A fresh object of a class that is no module's.
  Item create(const at::IValue& value, std::string path);
  /// An error where tensors of the module share memory that training would part.
  Result<void> check_memory() { return memory_.check(archive_.path()); }
  /// Whether the module has none, as a frozen one.
  bool has_no_parameters() const { return has_no_parameters_; }

 private:
  struct Naming {
    std::string name;
    bool is_literal = false, is_parameter = false;
  };
  /// Storage, offset, sizes, strides, element type: equal ones are one tensor.
  using Place = std::tuple<const void*, int64_t, std::vector<int64_t>, std::vector<int64_t>, int>;
  static Place place_of(const at::Tensor& tensor);
  Result<Item> item(const at::IValue& value, const Naming& how, const Location& where);
  Result<Item> tensor(const at::Tensor& tensor, const Naming& how, const Location& where);

  const Archive& archive_;
  ir::Graph& graph_;
  ImportNotes& notes_;
  std::vector<at::IValue> objects_;
  std::map<const void*, size_t> handles_;
  std::map<std::pair<size_t, std::string>, Item> attributes_;
  std::map<std::string, std::vector<std::string>> aliases_;  ///< other names of a tensor, by its first
  std::map<Place, Naming> named_;                            ///< as `state_dict` has them
  std::map<Place, TensorRef> tensors_;
  SharedMemory memory_;
  bool has_no_parameters_ = true;
};

}  // namespace rannc::frontend::torchscript
