/// A translator's interface to one call of an ATen operator.
#pragma once

#include <initializer_list>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "frontend/import.h"
#include "frontend/internal/task_writer.h"
#include "frontend/torchscript/internal/aliases.h"
#include "frontend/torchscript/internal/buffer_writes.h"
#include "frontend/torchscript/internal/item.h"
#include "ir/op/foreign.h"

namespace rannc::frontend::torchscript {

/// Arguments by the names in the operator's schema, with the graph that tasks are added to. Integers of the program are
/// expressions of sizes. A number is converted to a tensor of rank 0 if a tensor is requested.
class Call : public TaskWriter {
 public:
  struct Argument {
    std::string name;
    Item item;
  };
  /// `schema` includes the overload: `aten::add.Tensor`. `stem` is the name of the first result.
  Call(ir::Graph& graph, Location where, std::string schema, std::string stem, std::vector<Argument> arguments,
       ImportNotes& notes);

  const std::string& schema() const { return schema_; }
  /// The schema without overload and ATen's namespace: `add`.
  const std::string& op() const { return op_; }
  const std::vector<Argument>& arguments() const { return arguments_; }
  /// Returns another call at the same place, whose names derive from this call's.
  Call another(std::string schema, std::vector<Argument> arguments) const {
    return {graph(), where(), std::move(schema), stem() + ".part", std::move(arguments), notes_};
  }
  /// Makes LibTorch's dispatcher run the call. A translator that does so has emitted nothing.
  void use_dispatcher() { for_dispatcher_ = true; }
  bool is_for_dispatcher() const { return for_dispatcher_; }
  /// Changes the operator and keeps the arguments.
  void become(std::string schema);
  /// Changes the arguments.
  void become(std::vector<Argument> arguments) { arguments_ = std::move(arguments); }

  // --- arguments. A missing argument or one of another kind is an error.
  /// None if the schema has no such argument.
  const Item& item(std::string_view name) const;
  const Item& item(size_t index) const;
  bool has(std::string_view name) const { return !item(name).is_none(); }  ///< exists and is not None
  bool is_tensor(std::string_view name) const { return item(name).get<TensorRef>() != nullptr; }
  /// The current value of a tensor, or of a number as a tensor.
  ValueId tensor(std::string_view name) { return tensor(item(name), name); }
  ValueId tensor(const Item& item, std::string_view name);
  /// Likewise, or invalid if the argument is None.
  ValueId optional_tensor(std::string_view name) { return has(name) ? tensor(name) : ValueId(); }
  std::vector<ValueId> tensors(std::string_view name);
  ir::Dim size(std::string_view name);
  int64_t integer(std::string_view name);  ///< a plain integer
  double number(std::string_view name);
  bool flag(std::string_view name);
  std::string text(std::string_view name);
  /// A list of integers. A single integer is a list of one.
  ir::Shape sizes(std::string_view name);
  std::vector<int64_t> integers(std::string_view name);
  /// An element type by its number, or `otherwise` if it is None.
  ir::DType dtype(std::string_view name, ir::DType otherwise);
  using TaskWriter::dtype;
  using TaskWriter::integers;
  using TaskWriter::number;

  /// An item as an integer or a number. Nothing if it has another kind.
  std::optional<ir::Dim> size_of(const Item& item);
  static std::optional<double> number_of(const Item& item);
  /// The rank of a value. An error if it is unknown.
  int64_t rank(ValueId value);

  // --- results, in order
  void give(Item item) { results_.push_back(std::move(item)); }
  /// Adds a tensor that shares no memory.
  void give(ValueId value) { give(Item(std::make_shared<Tensor>(value))); }
  /// Adds the only result of a task, named after the call.
  void result(std::string_view op, std::span<const ValueId> operands, ir::Attributes attributes = {});
  void result(std::string_view op, std::initializer_list<ValueId> operands, ir::Attributes attributes = {});
  /// Adds the first result of a task. Returns its `auxiliary` other results.
  std::vector<ValueId> result_with_auxiliary(std::string_view op, std::span<const ValueId> operands,
                                             ir::Attributes attributes, size_t auxiliary);
  /// Adds all results of a foreign operator task, as one list if the schema returns a list.
  void result_foreign(const std::string& op, std::span<const ValueId> operands, const ir::ForeignCall& call);
  const std::string& batch_symbol() const { return graph().batch_symbol(); }
  /// A view of a tensor argument.
  Item view(const Item& of, std::string_view op, ir::Attributes attributes);
  void result_view(std::string_view argument, std::string_view op, ir::Attributes attributes) {
    give(view(item(argument), op, std::move(attributes)));
  }
  /// Adds a view or a copy: ATen decides by the memory layout.
  void result_unsure(std::string_view argument, std::string_view op, ir::Attributes attributes);
  /// Adds the argument itself.
  void pass(std::string_view argument) { give(item(argument)); }
  std::vector<Item>& results() { return results_; }

  /// Adds a remark for users. Calls with the same remark are counted.
  void remark(std::string_view text) { ++notes_.counted_remarks[std::string(text)]; }
  ImportNotes& notes() { return notes_; }
  /// Records that the call writes to a buffer of the model.
  void add_write(const std::string& buffer) {
    writes_.push_back(buffer_write(graph(), buffer, where(), schema_ + " writes into"));
  }
  const std::vector<BufferWrite>& buffer_writes() const { return writes_; }
  using TaskWriter::graph;
  using TaskWriter::stem;
  using TaskWriter::where;

 private:
  std::string schema_, op_;
  std::vector<Argument> arguments_;
  std::vector<Item> results_;
  std::vector<BufferWrite> writes_;
  bool for_dispatcher_ = false;
  ImportNotes& notes_;
};

/// Returns the element type in which ATen computes. Tensors with axes take precedence over tensors of rank 0, which
/// take precedence over numbers, unless the latter have a higher kind (booleans < integers < floats).
std::optional<ir::DType> common_type(const Call& call, std::span<const Item> items);
/// Returns the operands converted to one type by ATen's promotion.
std::vector<ValueId> promoted(Call& call, std::span<const Item> items);
std::vector<ValueId> promoted(Call& call, std::initializer_list<std::string_view> names);

/// Gives the results of a call another element type.
void convert_results(Call& call, ir::DType dtype);
/// Translates a call of tensors of 16-bit floats in float32, as ATen computes those that round their result alone.
void rounded_once(Call& call, void (*translate)(Call&));
template <void (*translate)(Call&)>
void rounded_once(Call& call) {
  rounded_once(call, translate);
}

}  // namespace rannc::frontend::torchscript
