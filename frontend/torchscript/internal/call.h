/// One call of an operator of ATen as its translator sees it.
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
#include "frontend/torchscript/internal/item.h"
#include "ir/op/foreign.h"

namespace rannc::frontend::torchscript {

/// Arguments by the names of the operator's schema, and the graph that tasks go to. Integers of the program are
/// expressions of sizes; numbers stand for tensors of no axis where a tensor is asked for.
class Call : public TaskWriter {
 public:
  struct Argument {
    std::string name;
    Item item;
  };
  /// `schema` with its overload: `aten::add.Tensor`. `stem` is the name of the first result.
  Call(ir::Graph& graph, Location where, std::string schema, std::string stem, std::vector<Argument> arguments,
       ImportNotes& notes);

  const std::string& schema() const { return schema_; }
  /// Without the overload, and without the namespace of ATen: `add`.
  const std::string& op() const { return op_; }
  const std::vector<Argument>& arguments() const { return arguments_; }
  /// Another call in this one's place, whose names derive from its own.
  Call another(std::string schema, std::vector<Argument> arguments) const {
    return {graph(), where(), std::move(schema), stem() + ".part", std::move(arguments), notes_};
  }
  /// The call as one of another operator, of the same arguments.
  void become(std::string schema);

  // --- arguments. Asking for one that the call lacks, or that is something else, is an error.
  /// None where the schema has no such argument.
  const Item& item(std::string_view name) const;
  const Item& item(size_t index) const;
  bool has(std::string_view name) const { return !item(name).is_none(); }  ///< there, and not None
  bool is_tensor(std::string_view name) const { return item(name).get<TensorRef>() != nullptr; }
  /// The value that a tensor, or a number as a tensor, is now.
  ValueId tensor(std::string_view name) { return tensor(item(name), name); }
  ValueId tensor(const Item& item, std::string_view name);
  /// The same, or invalid where it is None.
  ValueId optional_tensor(std::string_view name) { return has(name) ? tensor(name) : ValueId(); }
  std::vector<ValueId> tensors(std::string_view name);
  ir::Dim size(std::string_view name);
  int64_t integer(std::string_view name);  ///< a plain one
  double number(std::string_view name);
  bool flag(std::string_view name);
  std::string text(std::string_view name);
  /// A list of integers; a single one stands for a list of one.
  ir::Shape sizes(std::string_view name);
  std::vector<int64_t> integers(std::string_view name);
  /// An element type by its number; `otherwise` where it is None.
  ir::DType dtype(std::string_view name, ir::DType otherwise);
  using TaskWriter::dtype;
  using TaskWriter::integers;
  using TaskWriter::number;

  /// An integer or a number of an item; nothing where it is neither.
  std::optional<ir::Dim> size_of(const Item& item);
  static std::optional<double> number_of(const Item& item);
  /// The rank of a value; an error where it is not known.
  int64_t rank(ValueId value);
  /// `x` as another type.
  ValueId cast(ValueId x, ir::DType dtype);

  // --- results, in order
  void give(Item item) { results_.push_back(std::move(item)); }
  /// A tensor of its own.
  void give(ValueId value) { give(Item(std::make_shared<Tensor>(value))); }
  /// A task's one result, under the call's name.
  void result(std::string_view op, std::span<const ValueId> operands, ir::Attributes attributes = {});
  void result(std::string_view op, std::initializer_list<ValueId> operands, ir::Attributes attributes = {});
  /// The first of the results is that of the task, the rest, which it returns, are that many auxiliary ones of it.
  std::vector<ValueId> result_with_auxiliary(std::string_view op, std::span<const ValueId> operands,
                                             ir::Attributes attributes, size_t auxiliary);
  /// All results of a task of an operator that is none of core's; one list where the schema gives one.
  void result_foreign(const std::string& op, std::span<const ValueId> operands, const ir::ForeignCall& call);
  const std::string& batch_symbol() const { return graph().batch_symbol(); }
  /// A view of a tensor argument.
  Item view(const Item& of, std::string_view op, ir::Attributes attributes);
  void result_view(std::string_view argument, std::string_view op, ir::Attributes attributes) {
    give(view(item(argument), op, std::move(attributes)));
  }
  /// What may be a view, or a copy: ATen decides by how memory lies.
  void result_unsure(std::string_view argument, std::string_view op, ir::Attributes attributes);
  /// The argument itself.
  void pass(std::string_view argument) { give(item(argument)); }
  std::vector<Item>& results() { return results_; }

  /// Something that users should know of such calls, which are counted.
  void remark(std::string_view text) { ++notes_.counted_remarks[std::string(text)]; }
  ImportNotes& notes() { return notes_; }
  using TaskWriter::graph;

 private:
  std::string schema_, op_;
  std::vector<Argument> arguments_;
  std::vector<Item> results_;
  ImportNotes& notes_;
};

/// The element type that ATen computes operands in: tensors that have axes decide before those that have none, and
/// these before numbers, as long as what decides later is of no higher kind (truth values, integers, floats).
std::optional<ir::DType> common_type(const Call& call, std::span<const Item> items);
/// Two operands of one type, as ATen promotes them.
std::vector<ValueId> promoted(Call& call, std::span<const Item> items);
std::vector<ValueId> promoted(Call& call, std::initializer_list<std::string_view> names);

}  // namespace rannc::frontend::torchscript
