// Prints the instructions of a flat program as calls of LibTorch's typed operators.
#include "codegen/internal/native_function.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>

#include "codegen/internal/native_argument.h"
#include "codegen/internal/native_loop.h"
#include "codegen/internal/native_product.h"
#include "codegen/internal/native_text.h"
#include "ir/op/op.h"

namespace rannc::codegen {

namespace {

using runtime::FlatArgument;
using runtime::FlatCode;
using runtime::FlatInstruction;
using Kind = FlatArgument::Kind;

class FunctionPrinter {
 public:
  FunctionPrinter(const NativeFunction& function, std::set<std::string>& headers, NativeKernels& kernels)
      : function_(function), code_(function.code), headers_(headers), kernels_(kernels) {}

  Result<std::string> print() {
    take_arguments();
    for (index_ = 0; index_ < code_.instructions.size(); ++index_) RANNC_TRY(instruction(code_.instructions[index_]));
    give_results();
    std::string head =
        fmt::format("void {}(const Run& run, at::Tensor* arguments, at::Tensor* results) {{\n", function_.name);
    if (values_ > 0) head += fmt::format("  Tensors v({});\n", values_);
    if (!temporaries_.empty()) head += fmt::format("  Tensors t({});\n", temporaries_.size());
    if (reads_sizes_) head += "  const int64_t* const s = run.sizes;\n";
    if (reads_fixed_) head += "  const at::Tensor* const w = run.fixed;\n";
    return head + body_ + "}\n";
  }

 private:
  // --- names

  std::string slot(uint32_t index) {
    const ValueId value = code_.values[index];
    if (!value.valid()) return fmt::format("t[{}]", temporary(index));
    values_ = std::max(values_, value.index() + 1);
    return fmt::format("v[{}]", value.index());
  }

  uint32_t temporary(uint32_t slot) {
    return temporaries_.emplace(slot, static_cast<uint32_t>(temporaries_.size())).first->second;
  }

  std::string tensor(const FlatArgument& argument) {
    if (argument.kind == Kind::kSlot) return slot(argument.index);
    if (argument.kind != Kind::kFixed) return "at::Tensor()";
    reads_fixed_ = true;
    return fmt::format("w[{}]", argument.index);
  }

  /// An operand that is passed by value.
  std::string taken(const FlatArgument& argument) {
    const std::string name = tensor(argument);
    return argument.last && argument.kind == Kind::kSlot ? fmt::format("std::move({})", name) : name;
  }

  const FlatArgument& argument(const FlatInstruction& of, uint32_t i) const { return code_.arguments[of.first + i]; }

  /// What a call with several results is assigned to.
  std::string results(const FlatInstruction& of) {
    std::vector<std::string> names;
    for (uint32_t i = 0; i < of.results; ++i) names.push_back(slot(of.slot + i));
    return names.size() == 1 ? names[0] : fmt::format("std::tie({})", fmt::join(names, ", "));
  }

  // --- statements

  void take_arguments() {
    std::vector<uint32_t> values;
    for (uint32_t i = 0; i < code_.argument_count(); ++i) values.push_back(code_.values[i].index());
    if (values.empty()) return;
    values_ = std::max(values_, *std::max_element(values.begin(), values.end()) + 1);
    statement(fmt::format("take(arguments, v, {{{}}});", fmt::join(values, ", ")));
  }

  void give_results() {
    const auto is_last = [&](const FlatArgument& result) {
      return result.kind == Kind::kSlot && result.last && code_.values[result.index].valid();
    };
    if (!code_.results.empty() && std::all_of(code_.results.begin(), code_.results.end(), is_last)) {
      std::vector<uint32_t> values;
      for (const FlatArgument& result : code_.results) values.push_back(code_.values[result.index].index());
      return statement(fmt::format("give(v, {{{}}}, results);", fmt::join(values, ", ")));
    }
    for (size_t i = 0; i < code_.results.size(); ++i) {
      body_ += fmt::format("  results[{}] = {};\n", i, taken(code_.results[i]));
    }
  }

  void statement(const std::string& text, const std::string& more = "") { body_ += wrapped(text, more); }

  /// Frees what this instruction reads last, and results that nothing reads.
  std::string releases(const FlatInstruction& of) {
    std::vector<std::string> names;
    const auto collect = [&](const FlatArgument& each) {
      if (each.kind == Kind::kSlot && each.last) names.push_back(slot(each.index));
    };
    for (uint32_t i = 0; i < of.count; ++i) {
      const FlatArgument& each = argument(of, i);
      collect(each);
      if (each.kind != Kind::kTensors) continue;
      for (const FlatArgument& item : code_.lists[each.index].items) collect(item);
    }
    return release(std::move(names));
  }

  std::string release(std::vector<std::string> names) {
    for (const uint32_t dead : code_.dead[index_]) names.push_back(slot(dead));
    return names.empty() ? "" : fmt::format("release({});", fmt::join(names, ", "));
  }

  Result<void> instruction(const FlatInstruction& of) {
    if (of.task.valid() && of.task != task_) {
      task_ = of.task;
      body_ += fmt::format("  *run.task = {};  // {}\n", task_.index(), function_.place(task_));
    }
    switch (of.kind) {
      case FlatInstruction::Kind::kCall:
        return call(of);
      case FlatInstruction::Kind::kTask:
      case FlatInstruction::Kind::kKernel:
        other(of);
        return {};
      case FlatInstruction::Kind::kRandomInput:
        statement(fmt::format("{} = run.random_input(run.context, {});", slot(of.slot), index_), release({}));
        return {};
      case FlatInstruction::Kind::kLoop:
        loop(of);
        return {};
      case FlatInstruction::Kind::kAdd:
        statement(fmt::format("run.add(*run.sums[{}], {});", of.index, taken(argument(of, 0))));
        return {};
      case FlatInstruction::Kind::kAddProduct:
        add_product(of);
        return {};
      case FlatInstruction::Kind::kMark:
        statement(fmt::format("run.mark(run.context, {});", of.index));
        return {};
    }
    return {};
  }

  void add_product(const FlatInstruction& of) {
    const std::string operands = fmt::format("{}, {}", tensor(argument(of, 0)), tensor(argument(of, 1)));
    if (is_small(of)) {
      statement(fmt::format("add_small_product(run, *run.sums[{}], {});", of.index, operands), releases(of));
    } else {
      statement(fmt::format("run.add_product(*run.sums[{}], {});", of.index, operands), releases(of));
    }
  }

  /// Whether an instruction is a product that a kernel of the stage computes.
  bool is_small(const FlatInstruction& of) {
    const bool small = kernels_.allowed() && is_small_product(code_, of);
    if (small) kernels_.add_products();
    return small;
  }

  /// Views and small products, which need no dispatched call; nullopt: another operator.
  std::optional<std::string> direct(const FlatInstruction& of, std::string_view name) {
    if (name == "aten::t") return fmt::format("transposed({})", tensor(argument(of, 0)));
    if (const auto order = permutation(of, name)) {
      return fmt::format("permuted({}, {{{}}})", tensor(argument(of, 0)), fmt::join(*order, ", "));
    }
    const bool linear = name == "aten::linear";
    if ((!linear && name != "aten::mm" && name != "aten::matmul") || !is_small(of)) return std::nullopt;
    std::string operands = fmt::format("{}, {}", tensor(argument(of, 0)), tensor(argument(of, 1)));
    if (linear && argument(of, 2).is_tensor()) operands += ", " + tensor(argument(of, 2));
    return fmt::format("{}({})", linear ? "small_linear" : "small_mm", operands);
  }

  /// The order of axes, counted from the first, if the operator permutes them.
  std::optional<std::vector<int64_t>> permutation(const FlatInstruction& of, std::string_view name) const {
    if (name != "aten::permute" || argument(of, 1).kind != Kind::kConstant) return std::nullopt;
    std::vector<int64_t> order = code_.constants[argument(of, 1).index].toIntVector();
    if (order.empty()) return std::nullopt;
    for (int64_t& axis : order) axis += axis < 0 ? static_cast<int64_t>(order.size()) : 0;
    return order;
  }

  /// Calls a loop. Its comment names all tasks.
  void loop(const FlatInstruction& of) {
    const ir::ProgramLoop& loop = code_.program.loops[of.index];
    std::string operators;
    for (const auto& member : loop.members) {
      if (member.task != of.task) body_ += fmt::format("  // {}\n", function_.place(member.task));
      operators += (operators.empty() ? "" : ", ") + code_.graph().op(member.task).name;
    }
    const auto [number, scratch] = kernels_.add(loop, operators);
    std::vector<std::string> in, out;
    for (uint32_t i = 0; i < of.count; ++i) in.push_back(loop_input(argument(of, i), loop.inputs[i], loop));
    for (uint32_t i = 0; i < of.results; ++i) out.push_back(loop_output(slot(of.slot + i), loop.outputs[i], loop));
    statement(fmt::format("loop(loops()[{}], {{at::k{}, {}, {}, {}, {}}}, {{{}}}, {{{}}});", number,
                          loop.dtype == ir::DType::kF64 ? "Double" : "Float", size(loop.rows), size(loop.columns),
                          loop.by_rows, scratch, fmt::join(in, ", "), fmt::join(out, ", ")),
              releases(of));
  }

  std::string loop_input(const FlatArgument& argument, const ir::ProgramLoop::Input& input,
                         const ir::ProgramLoop& loop) {
    if (input.random) {
      return fmt::format("random(run, {}, {})", input.random->value.index(), size(input.random->elements));
    }
    std::string from = tensor(argument);
    if (input.ignored) from = fmt::format("labels({}, {}, {})", from, size(loop.columns), *input.ignored);
    if (ir::has_all_rows(input.value, loop.members[0].loop.rows) || is_one_row(input.value)) {
      return fmt::format("{{{}}}", from);
    }
    std::string text = fmt::format("{{{}, {}, {}", from, size(input.value.divisor), size(input.value.period));
    if (input.value.outer_period != ir::Dim(1)) {
      text += fmt::format(", {}, {}", size(input.value.outer_divisor), size(input.value.outer_period));
    }
    return text + "}";
  }

  static bool is_one_row(const ir::LoopValue& value) {
    return value.period == ir::Dim(1) && value.outer_period == ir::Dim(1);
  }

  std::string loop_output(const std::string& place, const ir::ProgramLoop::Output& output,
                          const ir::ProgramLoop& loop) {
    std::vector<std::string> sizes;
    for (const ir::Dim& each : output.sizes) sizes.push_back(size(each));
    std::string text = fmt::format("{{{}, ints({{{}}})", place, fmt::join(sizes, ", "));
    const auto kind =
        output.random ? ir::LoopStatement::Kind::kEach : loop.members[output.member].loop.results[output.result];
    const bool truths = output.dtype == ir::DType::kBool;
    if (kind != ir::LoopStatement::Kind::kEach || truths) text += fmt::format(", Made::{}", made_as(kind));
    return text + (truths ? ", true}" : "}");
  }

  static const char* made_as(ir::LoopStatement::Kind kind) {
    switch (kind) {
      case ir::LoopStatement::Kind::kEach:
        return "kEach";
      case ir::LoopStatement::Kind::kColumnSum:
        return "kColumn";
      case ir::LoopStatement::Kind::kTotal:
        return "kTotal";
      default:
        return "kRow";
    }
  }

  void other(const FlatInstruction& of) {
    std::vector<std::string> operands;
    for (uint32_t i = 0; i < of.count; ++i) operands.push_back(tensor(argument(of, i)));
    const std::string made = of.results == 1 ? fmt::format("std::tie({})", results(of)) : results(of);
    statement(fmt::format("{} = other<{}>(run, {}, {{{}}});", made, of.results, index_, fmt::join(operands, ", ")),
              releases(of));
  }

  Result<void> call(const FlatInstruction& of) {
    const c10::FunctionSchema& schema = of.handle->schema();
    const std::string_view name = schema.name();
    if (!name.starts_with("aten::")) return error("`" + std::string(name) + "` has no header of LibTorch");
    if (const auto text = direct(of, name)) {
      statement(fmt::format("{} = {};", results(of), *text), releases(of));
      return {};
    }
    std::string base(name.substr(6));
    if (joins_tensors(of)) base = "concat";
    std::string function = schema.overload_name().empty() ? base : base + "_" + schema.overload_name();
    if (base.ends_with("_") && !base.ends_with("__")) base.pop_back();
    headers_.insert(base);
    std::vector<std::string> given;
    for (uint32_t i = 0; i < of.count; ++i) {
      RANNC_ASSIGN(std::string text, converted(argument(of, i), NativeParameter(schema.arguments()[i])));
      given.push_back(std::move(text));
    }
    std::string text = fmt::format("aten::{}::call({})", function, fmt::join(given, ", "));
    // A kernel of one result returns no auxiliary ones.
    if (of.grad_mode && of.results > 1) text = fmt::format("in_grad_mode([&] {{ return {}; }})", text);
    const bool list = schema.returns().size() == 1 && schema.returns()[0].type()->kind() == c10::TypeKind::ListType;
    if (list) text = fmt::format("unpacked<{}>({})", of.results, text);
    const std::string made = list && of.results == 1 ? fmt::format("std::tie({})", results(of)) : results(of);
    statement(fmt::format("{} = {};", made, text), releases(of));
    return {};
  }

  // --- arguments

  Result<std::string> converted(const FlatArgument& argument, const NativeParameter& parameter) {
    switch (argument.kind) {
      case Kind::kAbsent:
        return std::string("std::nullopt");
      case Kind::kSlot:
      case Kind::kFixed:
        return tensor(argument);
      case Kind::kConstant:
        return native_constant(code_.constants[argument.index], parameter);
      case Kind::kSize:
        return size(code_.sizes[argument.index]);
      case Kind::kSizes: {
        std::vector<std::string> items;
        for (const uint32_t number : code_.size_lists[argument.index]) items.push_back(size(number));
        return native_integers(items, parameter);
      }
      case Kind::kTensors:
        return tensors(code_.lists[argument.index], parameter);
      case Kind::kTraining:
        return std::string("run.training");
    }
    return std::string();
  }

  std::string size(uint32_t number) { return size(code_.size_table->dim(number)); }
  std::string size(const ir::Dim& dim) {
    if (dim.is_constant()) return integer(dim.constant());
    reads_sizes_ = true;
    return fmt::format("s[{}]", code_.size_table->number(dim));
  }

  std::string tensors(const FlatCode::TensorList& list, const NativeParameter& parameter) {
    std::vector<std::string> items;
    for (const FlatArgument& item : list.items) items.push_back(item.is_tensor() ? tensor(item) : "std::nullopt");
    const bool optional = parameter.element() == c10::TypeKind::OptionalType;
    return fmt::format("{}({{{}}})", optional ? "optional_list" : "list", fmt::join(items, ", "));
  }

  const NativeFunction& function_;
  const FlatCode& code_;
  std::set<std::string>& headers_;
  NativeKernels& kernels_;
  std::string body_;
  uint32_t values_ = 0;                       // number of values up to the last one of the body
  std::map<uint32_t, uint32_t> temporaries_;  // by slot
  bool reads_sizes_ = false, reads_fixed_ = false;
  TaskId task_;
  uint32_t index_ = 0;
};

}  // namespace

bool joins_tensors(const runtime::FlatInstruction& of) {
  return of.handle && of.handle->schema().name() == "aten::cat" && of.handle->schema().overload_name().empty();
}

std::pair<uint32_t, uint32_t> NativeKernels::add(const ir::ProgramLoop& loop, const std::string& operators) {
  const NativeLoop written = native_loop("", loop);
  const auto [found, fresh] =
      numbers_.emplace(written.text, std::pair(static_cast<uint32_t>(texts_.size()), written.scratch));
  if (fresh) {
    texts_.push_back(
        fmt::format("\n// {}\n{}", operators, native_loop(fmt::format("loop{}", texts_.size()), loop).text));
  }
  return found->second;
}

std::string NativeKernels::loops() const {
  std::string text, table;
  for (size_t i = 0; i < texts_.size(); ++i) {
    text += texts_[i];
    table += fmt::format("{}loop{}", i == 0 ? "" : ", ", i);
  }
  return fmt::format("{}\nextern const Loop kLoops[];\nconst Loop kLoops[] = {{{}}};\n", text, table);
}

Result<std::string> native_function(const NativeFunction& function, std::set<std::string>& headers,
                                    NativeKernels& kernels) {
  return FunctionPrinter(function, headers, kernels).print();
}

}  // namespace rannc::codegen
