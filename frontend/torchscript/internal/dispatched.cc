#include "frontend/torchscript/internal/dispatched.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "frontend/torchscript/foreign.h"
#include "ir/op/foreign.h"

namespace rannc::frontend::torchscript {

namespace {

/// Converts the arguments of a call to those of a task, with tensors as operands.
class Arguments {
 public:
  explicit Arguments(Call& call) : call_(call) {
    for (const Call::Argument& each : call.arguments()) add(each);
  }
  const std::vector<ForeignArgument>& all() const { return all_; }
  /// Operands in the order of the task. A parameter that is None may have an absent operand.
  std::vector<ValueId> in_order(const ir::ForeignCall& said) const {
    std::vector<ValueId> ordered;
    for (const ir::ForeignOperand& each : said.operands) {
      const auto found = operands_.find(each.parameter);
      if (found == operands_.end()) ordered.emplace_back();
      if (found != operands_.end()) ordered.insert(ordered.end(), found->second.begin(), found->second.end());
    }
    return ordered;
  }

 private:
  void add(const Call::Argument& argument) {
    const Item& item = argument.item;
    const std::string& name = argument.name;
    if (item.is_none()) return give(name, ForeignArgument::None{});
    if (item.get<Device>()) return give(name, ForeignArgument::Device{});
    if (item.get<TensorRef>()) return give(name, operand(item, name));
    if (const auto* size = item.get<ir::Dim>()) return give(name, ir::Attribute(*size));
    if (const auto* truth = item.get<bool>()) return give(name, ir::Attribute(*truth));
    if (const auto* number = item.get<double>()) return give(name, ir::Attribute(*number));
    if (const auto* text = item.get<std::string>()) return give(name, ir::Attribute(*text));
    if (const Sequence* const list = item.sequence()) return add(name, *list);
    call_.fail(fmt::format("{}: {} is {}, which a task cannot represent", call_.schema(), name, describe(item)));
  }

  void add(const std::string& name, const Sequence& list) {
    const bool of_tensors = std::any_of(list.elements.begin(), list.elements.end(),
                                        [](const Item& each) { return each.get<TensorRef>() != nullptr; });
    const bool of_numbers = std::any_of(list.elements.begin(), list.elements.end(),
                                        [](const Item& each) { return each.get<double>() != nullptr; });
    if (of_numbers) return add_numbers(name, list);
    if (!of_tensors) return give(name, ir::Attribute(call_.sizes(name)));
    ForeignArgument::Tensors types;
    operands_[name];
    for (const Item& each : list.elements) {
      if (each.is_none()) {
        operands_[name].emplace_back();
        types.emplace_back();
      } else {
        types.emplace_back(operand(each, name));
      }
    }
    give(name, std::move(types));
  }

  void add_numbers(const std::string& name, const Sequence& list) {
    std::vector<double> numbers;
    for (const Item& each : list.elements) {
      const auto number = Call::number_of(each);
      if (!number) return call_.fail(fmt::format("{}: {} has {} among numbers", call_.schema(), name, describe(each)));
      numbers.push_back(*number);
    }
    give(name, ir::Attribute(std::move(numbers)));
  }

  ir::ValueType operand(const Item& item, const std::string& name) {
    const ValueId value = operands_[name].emplace_back(call_.tensor(item, name));
    return call_.type(value);
  }

  template <class T>
  void give(const std::string& name, T value) {
    all_.push_back({name, std::move(value)});
  }

  Call& call_;
  std::vector<ForeignArgument> all_;
  std::map<std::string, std::vector<ValueId>> operands_;  ///< by parameter
};

}  // namespace

bool dispatch(Call& call) {
  const Arguments arguments(call);
  if (!call.good()) return false;
  const auto task = foreign_task(call.schema(), arguments.all(), call.batch_symbol());
  if (!task.ok()) return call.fail(task.diagnostic().message), false;
  const auto said = ir::foreign_call(task->attributes);
  if (!said.ok()) return call.fail(said.diagnostic().message), false;
  call.result_foreign(task->op, arguments.in_order(*said), *said);
  return call.good();
}

}  // namespace rannc::frontend::torchscript
