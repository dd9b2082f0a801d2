// Interprets the instructions of a flat program.
#include "runtime/flat/flat_program.h"

#include <ATen/ATen.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/List.h>
#include <c10/core/GradMode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <algorithm>

#include "runtime/aten/graph_run.h"
#include "runtime/aten/torch_types.h"
#include "runtime/flat/flat_code.h"

namespace rannc::runtime {

using Kind = FlatArgument::Kind;
using Tensors = std::vector<at::Tensor>;

uint32_t SizeTable::number(const ir::Dim& dim) {
  const auto [found, fresh] = numbers_.emplace(dim.str(), static_cast<uint32_t>(dims_.size()));
  if (fresh) {
    dims_.push_back(dim);
    bindings_.clear();
    values_.clear();
  }
  return found->second;
}

Result<void> SizeTable::bind(const ir::Bindings& bindings) {
  if (values_.size() == dims_.size() && bindings == bindings_) return {};
  values_.clear();
  for (const ir::Dim& dim : dims_) {
    const auto value = dim.evaluate(bindings);
    if (!value) return error("`" + dim.str() + "` has no value here");
    values_.push_back(*value);
  }
  bindings_ = bindings;
  return {};
}

namespace {

/// Adds a term to a sum. The first term becomes the sum if nobody else holds its memory and its layout is that of a
/// fresh tensor; else it is copied.
void add_term(at::Tensor& sum, at::Tensor term) {
  if (sum.defined()) {
    sum.add_(term);
    return;
  }
  const c10::ScalarType type = sum_type(term.scalar_type());
  const bool own = term.layout() == at::kStrided && term.use_count() == 1 && term.storage().use_count() == 1 &&
                   term.is_contiguous() && term.storage().nbytes() == term.nbytes() && term.scalar_type() == type;
  if (own) {
    sum = std::move(term);
  } else if (term.layout() == at::kStrided) {
    sum = at::empty(term.sizes(), term.options().dtype(type)).copy_(term);
  } else {
    sum = term.to_dense().to(type);
  }
}

void add_product(at::Tensor& sum, const at::Tensor& a, const at::Tensor& b) {
  const c10::ScalarType type = sum_type(a.scalar_type());
  if (type == a.scalar_type()) {
    sum = sum.defined() ? sum.addmm_(a, b) : at::mm(a, b);
  } else if (!a.is_cuda()) {  // other devices have no kernel that adds in a wider type
    add_term(sum, at::mm(a, b));
  } else {
    sum = sum.defined() ? at::addmm_out(sum, sum, a, b, type) : at::mm(a, b, type);
  }
}

}  // namespace

/// One run of a program.
class FlatInterpreter {
 public:
  FlatInterpreter(FlatCode& code, Tensors arguments, const FlatRun& run)
      : code_(code), run_(run), outer_(c10::impl::tls_local_dispatch_key_set()), slots_(std::move(arguments)) {
    slots_.resize(code.slot_count);
    if (run.nonfinite) watch_.emplace(code, run, slots_);
  }

  /// The task that runs.
  TaskId task() const { return code_.native != nullptr ? task_ : code_.instructions[position_].task; }
  void set_outer(const c10::impl::LocalDispatchKeySet& outer) { outer_ = outer; }

  bool has_ended() const { return position_ > code_.instructions.size(); }

  /// Runs the compiled function.
  Tensors native_results() {
    native::Run run{.fixed = run_.fixed.data(), .sums = run_.sums.data(), .sizes = code_.size_table->values()};
    static_assert(sizeof(TaskId) == sizeof(uint32_t) && std::is_standard_layout_v<TaskId>);
    run.training = run_.training;
    run.task = reinterpret_cast<uint32_t*>(run_.running != nullptr ? run_.running : &task_);
    run.context = this;
    run.random_input = [](void* context, uint32_t instruction) {
      return static_cast<FlatInterpreter*>(context)->random_input(instruction);
    };
    run.mark = [](void* context, uint32_t bucket) { static_cast<FlatInterpreter*>(context)->mark(bucket); };
    run.numbers = [](void* context, uint32_t value) {
      return static_cast<FlatInterpreter*>(context)->run_.numbers(ValueId(value));
    };
    run.other = [](void* context, uint32_t instruction, at::Tensor* operands, at::Tensor* results) {
      static_cast<FlatInterpreter*>(context)->other(instruction, operands, results);
    };
    run.add = add_term;
    run.add_product = add_product;
    Tensors results(code_.results.size());
    try {
      code_.native(run, slots_.data(), results.data());
    } catch (...) {
      if (run_.running != nullptr) task_ = *run_.running;
      throw;
    }
    return results;
  }

  Result<Tensors> results() {
    Result<Tensors> last = Tensors();
    while (last.ok() && !has_ended()) last = segment();
    return last;
  }

  /// Runs to the next mark and calls it and those that follow, or to the end, and returns the results.
  Result<Tensors> segment() {
    const auto is_mark = [&](size_t at) {
      return at < code_.instructions.size() && code_.instructions[at].kind == FlatInstruction::Kind::kMark;
    };
    for (; position_ < code_.instructions.size(); ++position_) {
      if (is_mark(position_)) {
        for (; is_mark(position_); ++position_) mark(code_.instructions[position_].index);
        return Tensors();
      }
      if (run_.running != nullptr) *run_.running = code_.instructions[position_].task;
      RANNC_TRY(watch_ ? watched_step(code_.instructions[position_]) : step(code_.instructions[position_]));
      for (const uint32_t slot : code_.dead[position_]) slots_[slot].reset();
    }
    ++position_;
    Tensors results;
    results.reserve(code_.results.size());
    for (const FlatArgument& result : code_.results) results.push_back(tensor(result));
    return results;
  }

 private:
  at::Tensor tensor(const FlatArgument& argument) {
    if (argument.kind == Kind::kFixed) return run_.fixed[argument.index];
    if (argument.kind != Kind::kSlot) return {};
    return argument.last ? std::move(slots_[argument.index]) : slots_[argument.index];
  }

  const FlatArgument& argument(const FlatInstruction& instruction, uint32_t index) const {
    return code_.arguments[instruction.first + index];
  }

  c10::IValue list(const FlatCode::TensorList& list) {
    if (!list.optional) {
      c10::List<at::Tensor> tensors;
      for (const FlatArgument& item : list.items) tensors.push_back(tensor(item));
      return tensors;
    }
    c10::List<std::optional<at::Tensor>> tensors;
    for (const FlatArgument& item : list.items) {
      tensors.push_back(item.is_tensor() ? std::optional(tensor(item)) : std::nullopt);
    }
    return tensors;
  }

  c10::IValue value(const FlatArgument& argument) {
    switch (argument.kind) {
      case Kind::kAbsent:
        return {};
      case Kind::kSlot:
      case Kind::kFixed:
        return tensor(argument);
      case Kind::kConstant:
        return code_.constants[argument.index];
      case Kind::kSize:
        return (*code_.size_table)[code_.sizes[argument.index]];
      case Kind::kSizes: {
        c10::List<int64_t> sizes;
        for (const uint32_t number : code_.size_lists[argument.index]) sizes.push_back((*code_.size_table)[number]);
        return sizes;
      }
      case Kind::kTensors:
        return list(code_.lists[argument.index]);
      case Kind::kTraining:
        return run_.training;
    }
    return {};
  }

  void call(const FlatInstruction& instruction) {
    stack_.clear();
    for (uint32_t i = 0; i < instruction.count; ++i) stack_.push_back(value(argument(instruction, i)));
    if (instruction.grad_mode) {
      const c10::AutoGradMode with_gradients(true);  // below autograd, so nothing is recorded
      instruction.handle->callBoxed(stack_);
    } else {
      instruction.handle->callBoxed(stack_);
    }
    uint32_t slot = instruction.slot;
    for (c10::IValue& result : stack_) {
      if (result.isTensorList()) {
        for (const at::Tensor& each : result.toTensorVector()) slots_[slot++] = each;
      } else {
        slots_[slot++] = result.isTensor() ? std::move(result).toTensor() : at::Tensor();  // no task reads integers
      }
    }
    stack_.clear();
  }

  Tensors operands(const FlatInstruction& instruction) {
    Tensors found;
    for (uint32_t i = 0; i < instruction.count; ++i) found.push_back(tensor(argument(instruction, i)));
    return found;
  }

  Result<void> keep(const FlatInstruction& instruction, Result<Tensors> made) {
    if (!made.ok()) return made.diagnostic();
    for (uint32_t i = 0; i < instruction.results; ++i) slots_[instruction.slot + i] = std::move((*made)[i]);
    return {};
  }

  Result<Tensors> task(const FlatInstruction& instruction, Tensors given) const {
    const c10::impl::ForceDispatchKeyGuard above(outer_);
    const c10::NoGradGuard no_tape;
    std::vector<std::optional<at::Tensor>> operands;
    for (at::Tensor& operand : given) {
      operands.push_back(operand.defined() ? std::optional(std::move(operand)) : std::nullopt);
    }
    const GraphRun with{.sizes = code_.size_table->bindings(),
                        .device = code_.device,
                        .training = run_.training,
                        .records = instruction.records};
    RANNC_ASSIGN(Tensors made, run_on(code_.graph(), instruction.task, with, operands));
    for (at::Tensor& each : made) {
      if (each.defined() && each.requires_grad()) each = each.detach();
    }
    return made;
  }

  Tensors kernel(const FlatInstruction& instruction, const Tensors& operands) const {
    return code_.kernels[instruction.index](operands, run_.training);
  }

  // --- for compiled functions, which expect exceptions

  template <class T>
  static T or_throw(Result<T> result) {
    if (!result.ok()) throw std::runtime_error(result.diagnostic().message);
    return *std::move(result);
  }

  at::Tensor random_input(uint32_t index) const {
    return or_throw(run_.random_input(ValueId(code_.instructions[index].index)));
  }

  void other(uint32_t index, at::Tensor* operands, at::Tensor* results) const {
    const FlatInstruction& instruction = code_.instructions[index];
    Tensors given(std::make_move_iterator(operands), std::make_move_iterator(operands + instruction.count));
    const bool whole = instruction.kind == FlatInstruction::Kind::kTask;
    Tensors made = whole ? or_throw(task(instruction, std::move(given))) : kernel(instruction, given);
    std::move(made.begin(), made.begin() + instruction.results, results);
  }

  Result<void> watched_step(const FlatInstruction& instruction) {
    watch_->before(instruction);
    RANNC_TRY(step(instruction));
    watch_->after(instruction, slots_);
    return {};
  }

  Result<void> step(const FlatInstruction& instruction) {
    switch (instruction.kind) {
      case FlatInstruction::Kind::kCall:
        call(instruction);
        return {};
      case FlatInstruction::Kind::kTask:
        return keep(instruction, task(instruction, operands(instruction)));
      case FlatInstruction::Kind::kKernel:
        return keep(instruction, kernel(instruction, operands(instruction)));
      case FlatInstruction::Kind::kRandomInput: {
        RANNC_ASSIGN(slots_[instruction.slot], run_.random_input(ValueId(instruction.index)));
        return {};
      }
      case FlatInstruction::Kind::kAdd:
        add_term(*run_.sums[instruction.index], tensor(argument(instruction, 0)));
        return {};
      case FlatInstruction::Kind::kAddProduct: {
        const at::Tensor a = tensor(argument(instruction, 0)), b = tensor(argument(instruction, 1));
        add_product(*run_.sums[instruction.index], a, b);
        return {};
      }
      case FlatInstruction::Kind::kLoop:
        return error("a program with loops has to be compiled");
      case FlatInstruction::Kind::kMark:
        break;  // the end of a segment
    }
    return {};
  }

  void mark(uint32_t bucket) const {
    if (run_.mark) run_.mark(bucket);
  }

  FlatCode& code_;
  const FlatRun& run_;
  c10::impl::LocalDispatchKeySet outer_;  ///< of the caller
  Tensors slots_;
  torch::jit::Stack stack_;
  size_t position_ = 0;
  TaskId task_;  ///< of a compiled function
  std::optional<NonfiniteWatch> watch_;
};

FlatProgram::FlatProgram() = default;
FlatProgram::FlatProgram(FlatProgram&&) noexcept = default;
FlatProgram& FlatProgram::operator=(FlatProgram&&) noexcept = default;
FlatProgram::~FlatProgram() = default;

void FlatProgram::use(native::Function function) { code_->native = function; }

size_t FlatProgram::calls() const { return code_->instructions.size(); }

bool FlatProgram::only_calls() const {
  return code_ == nullptr ||
         std::none_of(code_->instructions.begin(), code_->instructions.end(), [](const FlatInstruction& instruction) {
           return instruction.kind == FlatInstruction::Kind::kTask;
         });
}

std::vector<std::vector<uint32_t>> FlatProgram::marks() const {
  std::vector<std::vector<uint32_t>> found;
  bool follows = false;
  for (const FlatInstruction& each : code_->instructions) {
    const bool is_mark = each.kind == FlatInstruction::Kind::kMark;
    if (is_mark && !follows) found.emplace_back();
    if (is_mark) found.back().push_back(each.index);
    follows = is_mark;
  }
  return found;
}

template <class Part>
Result<Tensors> FlatProgram::guarded(FlatInterpreter& interpreter, Part&& part) {
  interpreter.set_outer(c10::impl::tls_local_dispatch_key_set());
  const c10::NoGradGuard no_tape;
  const at::AutoDispatchBelowADInplaceOrView below;
  const auto fail = [&](const std::string& what) {
    failed_ = interpreter.task();
    return error(what);
  };
  try {
    Result<Tensors> results = part();
    if (!results.ok()) return fail(results.diagnostic().message);
    return results;
  } catch (const c10::Error& failure) {
    return fail(failure.what_without_backtrace());
  } catch (const std::exception& failure) {
    return fail(failure.what());
  }
}

void FlatProgram::begin(Tensors arguments, const FlatRun& with) {
  RANNC_CHECK(arguments.size() == code_->argument_count()) << arguments.size() << " arguments";
  begun_ = std::make_unique<FlatInterpreter>(*code_, std::move(arguments), with);
}

Result<Tensors> FlatProgram::run_segment() {
  RANNC_CHECK(begun_ != nullptr && code_->native == nullptr) << "a run in segments has begun";
  Result<Tensors> made = guarded(*begun_, [&] { return begun_->segment(); });
  if (!made.ok() || begun_->has_ended()) begun_.reset();
  return made;
}

Result<Tensors> FlatProgram::run(Tensors arguments, const FlatRun& run) {
  RANNC_CHECK(arguments.size() == code_->argument_count()) << arguments.size() << " arguments";
  FlatInterpreter interpreter(*code_, std::move(arguments), run);
  return guarded(interpreter,
                 [&] { return code_->native != nullptr ? interpreter.native_results() : interpreter.results(); });
}

}  // namespace rannc::runtime
