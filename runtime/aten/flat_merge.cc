// Finds calls of one kernel with the same operands, nearby in a program.
#include "runtime/aten/internal/flat_merge.h"

#include <ATen/core/List.h>

#include <algorithm>
#include <array>
#include <string>

#include "runtime/aten/torch_types.h"

namespace rannc::runtime {

namespace {

using ArgumentKind = FlatArgument::Kind;
using InstructionKind = FlatInstruction::Kind;

constexpr size_t kNearby = 12;  // instructions from the first call to one that joins it

/// A kernel with one gradient per mask bit. Position 0 is the result's gradient, the last one the mask.
struct GradientKernel {
  std::string_view name;
  uint32_t mask;                         ///< position
  std::array<uint32_t, 2> shape_only;    ///< positions that some calls fill with a tensor of which only sizes count
  int bias_sizes = -1, bias_shape = -1;  ///< position that a wanted bias gradient needs: its sizes, or a tensor
};

constexpr std::array<GradientKernel, 4> kKernels = {{
    {"aten::convolution_backward", 10, {1, 2}, 3, -1},
    {"aten::native_layer_norm_backward", 7, {5, 5}, -1, 6},
    {"aten::native_batch_norm_backward", 9, {2, 2}, -1, -1},
    {"aten::native_group_norm_backward", 9, {4, 4}, -1, -1},
}};

class Merger {
 public:
  explicit Merger(FlatCode& code) : code_(code), replaced_(code.slot_count) {
    for (uint32_t slot = 0; slot < code.slot_count; ++slot) replaced_[slot] = slot;
  }

  void run() {
    find_placeholders();
    for (size_t i = 0; i < code_.instructions.size(); ++i) {
      if (const GradientKernel* kernel = kernel_of(code_.instructions[i])) join_with(i, *kernel);
    }
    redirect();
    drop_unread_placeholders();
  }

 private:
  static const GradientKernel* kernel_of(const FlatInstruction& instruction) {
    if (instruction.kind != InstructionKind::kCall) return nullptr;
    const std::string& name = instruction.handle->schema().name();
    const auto found =
        std::find_if(kKernels.begin(), kKernels.end(), [&](const auto& each) { return each.name == name; });
    return found == kKernels.end() ? nullptr : &*found;
  }

  FlatArgument& argument(const FlatInstruction& instruction, uint32_t index) {
    return code_.arguments[instruction.first + index];
  }

  /// Marks slots that hold memory without content.
  void find_placeholders() {
    empty_.assign(code_.slot_count, false);
    made_at_.assign(code_.slot_count, 0);
    for (size_t i = 0; i < code_.instructions.size(); ++i) {
      const FlatInstruction& instruction = code_.instructions[i];
      for (uint32_t k = 0; k < instruction.results; ++k) made_at_[instruction.slot + k] = i;
      if (instruction.kind != InstructionKind::kCall || instruction.results != 1) continue;
      const std::string& name = instruction.handle->schema().name();
      const FlatArgument& first = argument(instruction, 0);
      const bool of_empty = first.kind == ArgumentKind::kSlot && empty_[first.index];
      const bool keeps_empty = name == "aten::expand" || name == "aten::empty_like";
      empty_[instruction.slot] = name == "aten::new_empty" || (keeps_empty && of_empty);
    }
  }

  bool is_placeholder(const FlatArgument& argument) const {
    return argument.kind == ArgumentKind::kAbsent || (argument.kind == ArgumentKind::kSlot && empty_[argument.index]);
  }

  bool same(const FlatArgument& a, const FlatArgument& b) const {
    if (a.kind != b.kind) return false;
    switch (a.kind) {
      case ArgumentKind::kConstant:
        return code_.constants[a.index] == code_.constants[b.index];
      case ArgumentKind::kSize:
        return code_.sizes[a.index] == code_.sizes[b.index];
      case ArgumentKind::kSizes:
        return code_.size_lists[a.index] == code_.size_lists[b.index];
      case ArgumentKind::kTensors:
        return false;
      default:
        return a.index == b.index;
    }
  }

  /// Whether a value exists when instruction `at` runs.
  bool exists(const FlatArgument& argument, size_t at) const {
    return argument.kind != ArgumentKind::kSlot || argument.index < code_.argument_count ||
           made_at_[argument.index] < at;
  }

  void join_with(size_t at, const GradientKernel& kernel) {
    const size_t end = std::min(code_.instructions.size(), at + 1 + kNearby);
    for (size_t next = at + 1; next < end; ++next) {
      const FlatInstruction& other = code_.instructions[next];
      if (other.kind != InstructionKind::kCall) continue;
      if (kernel_of(other) == &kernel) {
        join_call(at, next, kernel);
      } else if (other.handle->schema().name() == "aten::sum" &&
                 other.handle->schema().overload_name() == "dim_IntList") {
        join_sum(at, next, kernel);
      }
    }
  }

  static bool wants(const c10::IValue& mask, size_t index) { return mask.toBoolList().get(index); }

  void set_mask(FlatInstruction& instruction, const GradientKernel& kernel, const std::array<bool, 3>& wanted) {
    c10::List<bool> mask;
    for (const bool each : wanted) mask.push_back(each);
    code_.constants.emplace_back(std::move(mask));
    argument(instruction, kernel.mask) = {ArgumentKind::kConstant, false,
                                          static_cast<uint32_t>(code_.constants.size() - 1)};
  }

  std::array<bool, 3> wanted(FlatInstruction& instruction, const GradientKernel& kernel) {
    const c10::IValue& mask = code_.constants[argument(instruction, kernel.mask).index];
    return {wants(mask, 0), wants(mask, 1), wants(mask, 2)};
  }

  void join_call(size_t at, size_t next, const GradientKernel& kernel) {
    FlatInstruction &one = code_.instructions[at], &other = code_.instructions[next];
    std::vector<FlatArgument> arguments;
    for (uint32_t i = 0; i < one.count; ++i) {
      const FlatArgument a = argument(one, i), b = argument(other, i);
      const bool shape_only = i == kernel.shape_only[0] || i == kernel.shape_only[1];
      if (i == kernel.mask || same(a, b) || (shape_only && is_placeholder(b))) {
        arguments.push_back(a);
      } else if (shape_only && is_placeholder(a) && exists(b, at)) {
        arguments.push_back(b);
      } else {
        return;
      }
    }
    std::array<bool, 3> all = wanted(one, kernel);
    const std::array<bool, 3> more = wanted(other, kernel);
    for (size_t i = 0; i < 3; ++i) {
      if (all[i] && more[i]) return;
      all[i] = all[i] || more[i];
    }
    std::copy(arguments.begin(), arguments.end(), code_.arguments.begin() + one.first);
    set_mask(one, kernel, all);
    for (uint32_t i = 0; i < 3; ++i) replaced_[other.slot + i] = one.slot + i;
    other.kind = InstructionKind::kNothing;
  }

  /// The sum of the result's gradient over everything but the axes of a bias.
  void join_sum(size_t at, size_t next, const GradientKernel& kernel) {
    FlatInstruction &one = code_.instructions[at], &sum = code_.instructions[next];
    std::array<bool, 3> all = wanted(one, kernel);
    if (all[2] || !all[1] || !same(argument(one, 0), argument(sum, 0)) || !is_bias_gradient(sum, kernel)) return;
    if (kernel.bias_sizes >= 0) argument(one, static_cast<uint32_t>(kernel.bias_sizes)) = bias_sizes(sum);
    if (kernel.bias_shape >= 0) {
      const FlatArgument scale = argument(one, kernel.shape_only[0]);
      if (!scale.is_tensor()) return;
      argument(one, static_cast<uint32_t>(kernel.bias_shape)) = scale;
    }
    all[2] = true;
    set_mask(one, kernel, all);
    replaced_[sum.slot] = one.slot + 2;
    sum.kind = InstructionKind::kNothing;
  }

  FlatArgument bias_sizes(const FlatInstruction& sum) {
    const ir::ValueType& type = code_.graph->type(code_.graph->outputs(sum.task)[0]);
    c10::List<int64_t> sizes;
    sizes.push_back((*type.shape)[0].constant());
    code_.constants.emplace_back(std::move(sizes));
    return {ArgumentKind::kConstant, false, static_cast<uint32_t>(code_.constants.size() - 1)};
  }

  /// Channels are axis 1 of a convolution or batch normalization; a layer normalization's scale covers the last axes.
  bool is_bias_gradient(const FlatInstruction& sum, const GradientKernel& kernel) {
    const ir::Graph& graph = *code_.graph;
    if (!is_whole_task(sum) || !keeps_dtype(sum)) return false;
    const auto& of = graph.type(graph.inputs(sum.task)[0]).shape;
    const auto& to = graph.type(graph.outputs(sum.task)[0]).shape;
    const FlatArgument& axes = argument(sum, 1);
    if (!of || !to || axes.kind != ArgumentKind::kConstant || !code_.constants[axes.index].isIntList()) return false;
    std::vector<int64_t> summed = code_.constants[axes.index].toIntVector();
    const auto rank = static_cast<int64_t>(of->size());
    for (int64_t& axis : summed) axis = axis < 0 ? axis + rank : axis;
    std::sort(summed.begin(), summed.end());
    if (static_cast<int64_t>(to->size() + summed.size()) != rank) return false;  // keeps axes of one element
    const bool rows = kernel.bias_shape >= 0;
    std::vector<int64_t> expected;
    for (int64_t axis = 0; axis < rank; ++axis) {
      if (rows ? axis < static_cast<int64_t>(summed.size()) : axis != 1) expected.push_back(axis);
    }
    if (summed != expected || !(*to)[0].is_constant()) return false;
    return !rows || normalised_axes(kernel, sum) == to->size();
  }

  /// Whether a sum is of the element type of its operand.
  bool keeps_dtype(const FlatInstruction& sum) {
    const FlatArgument& dtype = argument(sum, 3);
    if (dtype.kind == ArgumentKind::kAbsent) return true;
    const ir::DType of = code_.graph->type(code_.graph->inputs(sum.task)[0]).dtype;
    return dtype.kind == ArgumentKind::kConstant && code_.constants[dtype.index].toScalarType() == scalar_type(of);
  }

  /// Whether a call is all that its task does, so that the types of the task are those of the call.
  bool is_whole_task(const FlatInstruction& call) const {
    if (code_.graph->inputs(call.task).size() != 1 || code_.graph->outputs(call.task).size() != 1) return false;
    return std::count_if(code_.instructions.begin(), code_.instructions.end(), [&](const FlatInstruction& each) {
             return each.task == call.task && each.kind == InstructionKind::kCall;
           }) == 1;
  }

  /// Number of axes that the nearest call of the kernel before the sum normalizes.
  size_t normalised_axes(const GradientKernel& kernel, const FlatInstruction& sum) {
    const auto position = static_cast<size_t>(&sum - code_.instructions.data());
    for (size_t i = position; i-- > 0;) {
      if (kernel_of(code_.instructions[i]) != &kernel) continue;
      const FlatArgument& sizes = argument(code_.instructions[i], 2);
      if (sizes.kind != ArgumentKind::kConstant) return 0;
      return code_.constants[sizes.index].toIntVector().size();
    }
    return 0;
  }

  void redirect(FlatArgument& argument) {
    if (argument.kind == ArgumentKind::kSlot) argument.index = replaced_[argument.index];
  }
  void redirect() {
    for (FlatArgument& each : code_.arguments) redirect(each);
    for (FlatArgument& each : code_.results) redirect(each);
    for (auto& list : code_.lists) {
      for (FlatArgument& each : list.items) redirect(each);
    }
  }

  void drop_unread_placeholders() {
    std::vector<bool> read(code_.slot_count);
    const auto mark = [&](const FlatArgument& each) {
      if (each.kind == ArgumentKind::kSlot) read[each.index] = true;
    };
    for (const FlatArgument& each : code_.results) mark(each);
    for (const auto& list : code_.lists) std::for_each(list.items.begin(), list.items.end(), mark);
    for (size_t i = code_.instructions.size(); i-- > 0;) {
      FlatInstruction& instruction = code_.instructions[i];
      if (instruction.kind == InstructionKind::kCall && empty_[instruction.slot] && !read[instruction.slot])
        instruction.kind = InstructionKind::kNothing;
      if (instruction.kind == InstructionKind::kNothing) continue;
      for (uint32_t k = 0; k < instruction.count; ++k) mark(argument(instruction, k));
    }
    std::erase_if(code_.instructions, [](const auto& each) { return each.kind == InstructionKind::kNothing; });
  }

  FlatCode& code_;
  std::vector<uint32_t> replaced_;  // by slot
  std::vector<bool> empty_;         // by slot: memory without content
  std::vector<size_t> made_at_;     // by slot: instruction
};

}  // namespace

void merge_gradient_kernels(FlatCode& code) { Merger(code).run(); }

}  // namespace rannc::runtime
