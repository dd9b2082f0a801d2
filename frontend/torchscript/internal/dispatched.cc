#include "frontend/torchscript/internal/dispatched.h"

#include <fmt/format.h>

#include <algorithm>

#include "frontend/torchscript/foreign.h"

namespace rannc::frontend::torchscript {

namespace {

/// Arguments as the task says them, tensors as its operands.
class Arguments {
 public:
  explicit Arguments(Call& call) : call_(call) {
    for (const Call::Argument& each : call.arguments()) add(each);
  }
  const std::vector<ForeignArgument>& all() const { return all_; }
  const std::vector<ValueId>& operands() const { return operands_; }

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
    call_.fail(fmt::format("{}: {} is {}, which a task cannot say", call_.schema(), name, describe(item)));
  }

  void add(const std::string& name, const Sequence& list) {
    const bool of_tensors = std::any_of(list.elements.begin(), list.elements.end(),
                                        [](const Item& each) { return each.get<TensorRef>() != nullptr; });
    if (!of_tensors) return give(name, ir::Attribute(call_.sizes(name)));
    ForeignArgument::Tensors types;
    for (const Item& each : list.elements) {
      if (each.is_none()) {
        operands_.emplace_back();
        types.emplace_back();
      } else {
        types.emplace_back(operand(each, name));
      }
    }
    give(name, std::move(types));
  }

  ir::ValueType operand(const Item& item, const std::string& name) {
    operands_.push_back(call_.tensor(item, name));
    return call_.type(operands_.back());
  }

  template <class T>
  void give(const std::string& name, T value) {
    all_.push_back({name, std::move(value)});
  }

  Call& call_;
  std::vector<ForeignArgument> all_;
  std::vector<ValueId> operands_;
};

}  // namespace

bool dispatch(Call& call) {
  const Arguments arguments(call);
  if (!call.good()) return false;
  const auto task = foreign_task(call.schema(), arguments.all(), call.batch_symbol());
  if (task.ok()) {
    call.result_foreign(task->op, arguments.operands(), task->attributes, task->results.size());
  } else {
    call.fail(task.diagnostic().message);
  }
  return call.good();
}

}  // namespace rannc::frontend::torchscript
