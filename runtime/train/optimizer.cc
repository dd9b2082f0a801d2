#include "runtime/train/optimizer.h"

#include <ATen/ops/_fused_adam.h>
#include <ATen/ops/_fused_adamw.h>
#include <ATen/ops/_fused_sgd.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>
#include <c10/core/GradMode.h>
#include <c10/core/InferenceMode.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <numbers>

#include "ir/plan/step_copies.h"
#include "runtime/internal/reason.h"
#include "runtime/internal/share_exchange.h"
#include "runtime/internal/torch_value.h"

namespace rannc::runtime {

namespace {

constexpr std::array<std::string_view, 3> kKinds = {"sgd", "adam", "adamw"};
constexpr std::array<std::string_view, 5> kDecays = {"cosine", "linear", "wsd", "inverse-sqrt", "constant"};

template <class Choice, size_t N>
Result<Choice> parse_choice(const char* what, std::string_view name, const std::array<std::string_view, N>& names) {
  const auto found = std::find(names.begin(), names.end(), name);
  if (found != names.end()) return static_cast<Choice>(found - names.begin());
  return error(fmt::format("{} '{}' is not one of {}", what, name, fmt::join(names, ", ")));
}

}  // namespace

std::string_view str(OptimizerKind kind) { return kKinds[static_cast<size_t>(kind)]; }
Result<OptimizerKind> parse_optimizer(std::string_view name) {
  return parse_choice<OptimizerKind>("optimizer", name, kKinds);
}

std::string_view str(Decay decay) { return kDecays[static_cast<size_t>(decay)]; }
Result<Decay> parse_decay(std::string_view name) { return parse_choice<Decay>("decay", name, kDecays); }

uint64_t OptimizerOptions::decay_begin() const {
  const bool is_late = decay == Decay::kWsd && decay_from == 0;
  return std::max(warmup_steps, is_late ? decay_steps - decay_steps / 5 : decay_from);
}

double OptimizerOptions::learning_rate_at(uint64_t update) const {
  if (update < warmup_steps) return learning_rate * static_cast<double>(update + 1) / static_cast<double>(warmup_steps);
  if (decay == Decay::kInverseSqrt) {
    const auto scale = static_cast<double>(std::max<uint64_t>(warmup_steps, 1));
    return learning_rate * std::sqrt(scale / (scale + static_cast<double>(update - warmup_steps)));
  }
  const uint64_t begin = decay_begin();
  if (decay == Decay::kConstant || decay_steps <= begin || update < begin) return learning_rate;
  const double done = std::min(1.0, static_cast<double>(update - begin) / static_cast<double>(decay_steps - begin));
  const double left = decay == Decay::kCosine ? 0.5 * (1 + std::cos(std::numbers::pi * done)) : 1 - done;
  return learning_rate * (decay_to + (1 - decay_to) * left);
}

uint32_t OptimizerOptions::states() const {
  if (kind == OptimizerKind::kSgd) return momentum != 0 ? 1 : 0;
  return 2;
}

namespace {

// A parameter with its gradient and optimizer state.
struct Trained {
  at::Tensor parameter, gradient;
  std::vector<at::Tensor> states;
};

// Operands of one call of LibTorch's fused kernels. A kernel processes its tensors separately, so the result for a
// parameter does not depend on the rest of the group.
struct Group {
  explicit Group(size_t states) : states(states) {}
  void add(const Trained& trained) {
    parameters.push_back(trained.parameter);
    gradients.push_back(trained.gradient);
    for (size_t s = 0; s < states.size(); ++s) states[s].push_back(trained.states[s]);
  }

  std::vector<at::Tensor> parameters, gradients;
  std::vector<std::vector<at::Tensor>> states;  // by state
};

// Bytes of copies at a time. Copies are made in slices, possibly of several tensors, so that they stay in cache and no
// second set of gradients exists.
int64_t copied_bytes(const at::Tensor& gradient) {
  return ir::step_copy_bytes(gradient.is_cuda() ? ir::DeviceType::kCuda : ir::DeviceType::kCpu);
}
// Slices begin at multiples of all vector lengths, so that the results are bit-identical to those of whole tensors.
constexpr int64_t kAligned = 1024;

struct Slice {
  size_t of;  // index of the tensor
  int64_t first, size;
};

at::Tensor part_of(const at::Tensor& tensor, const Slice& slice) {
  if (slice.size == tensor.numel()) return tensor;
  return tensor.as_strided({slice.size}, {1}, tensor.storage_offset() + slice.first);
}

// Calls `use` with groups of slices of at most `most` elements per group. Together they cover all tensors in order.
template <class Use>
void for_each_chunk(const std::vector<Trained>& tensors, int64_t most, Use&& use) {
  std::vector<Slice> chunk;
  int64_t elements = 0;
  const auto flush = [&] {
    if (!chunk.empty()) use(chunk);
    chunk.clear();
    elements = 0;
  };
  for (size_t of = 0; of < tensors.size(); ++of) {
    const int64_t all = tensors[of].parameter.numel();
    for (int64_t first = 0; first < all; first += most) {
      const int64_t size = std::min(most, all - first);
      if (elements + size > most) flush();
      chunk.push_back({of, first, size});
      elements += size;
    }
  }
  flush();
}

}  // namespace

class StageOptimizer::Impl {
 public:
  Impl(const OptimizerOptions& options, Program& program, std::vector<bool> left_alone, Share share)
      : options(options), program(program), left_alone(std::move(left_alone)), share(std::move(share)) {
    if (options.kind != OptimizerKind::kSgd) {
      names = {"exp_avg", "exp_avg_sq"};
    } else if (options.momentum != 0) {
      names = {"momentum"};
    }
    for (size_t i = 0; i < names.size(); ++i) {
      states.push_back(this->share ? zeros_of(*this->share) : zeros_of_all());
    }
  }

  void update(uint64_t updates, double gradient_scale) {
    Group whole(states.size());
    std::map<std::pair<at::ScalarType, at::ScalarType>, std::vector<Trained>> copied;  // by types
    for (const Trained& each : everything()) {
      const std::pair types(each.gradient.scalar_type(), each.parameter.scalar_type());
      if (gradient_scale == 1 && types.first == types.second) {
        whole.add(each);
      } else {
        copied[types].push_back(each);
      }
    }
    if (!whole.parameters.empty()) apply(whole, updates);
    for (const auto& [types, tensors] : copied) update_copies(tensors, updates, gradient_scale);
  }

  OptimizerOptions options;
  Program& program;
  std::vector<bool> left_alone;  // by parameter
  Share share;
  std::vector<std::string> names;
  std::vector<Values> states;  // [state][parameter]

 private:
  Values zeros_of_all() const {
    Values zeros;
    for (const Value& parameter : program.parameters()) zeros.push_back(to_value(at::zeros_like(to_tensor(parameter))));
    return zeros;
  }

  Values zeros_of(const std::vector<ir::ParameterSlice>& slices) const {
    Values zeros(program.parameters().size());
    for (const ir::ParameterSlice& slice : slices)
      zeros[slice.parameter] =
          to_value(at::zeros({slice.size()}, to_tensor(program.parameters()[slice.parameter]).options()));
    return zeros;
  }

  // Gradients are scaled in a copy, because other members of a collective may share them. Parameters narrower than the
  // sum of their gradients are updated in the sum's type and rounded once.
  void update_copies(const std::vector<Trained>& tensors, uint64_t updates, double gradient_scale) const {
    const c10::InferenceMode views_are_cheap;
    const at::TensorOptions wide = tensors.front().gradient.options();
    const bool widens = tensors.front().parameter.scalar_type() != tensors.front().gradient.scalar_type();
    const auto copies = static_cast<int64_t>((gradient_scale != 1 ? 1 : 0) + (widens ? 1 + states.size() : 0));
    const int64_t bytes = copied_bytes(tensors.front().gradient);
    const int64_t most = bytes / (copies * static_cast<int64_t>(wide.dtype().itemsize())) / kAligned * kAligned;
    int64_t elements = 0;
    for (const Trained& each : tensors) elements += each.parameter.numel();
    const at::Tensor scaled = at::empty({gradient_scale != 1 ? std::min(most, elements) : 0}, wide);
    const at::Tensor factor = at::scalar_tensor(gradient_scale, at::kDouble);  // a scalar keeps the type
    for_each_chunk(tensors, most, [&](const std::vector<Slice>& chunk) {
      std::vector<std::pair<at::Tensor, at::Tensor>> narrow;  // destination and updated wide copy
      Group group(states.size());
      int64_t at = 0;
      for (const Slice& slice : chunk) {
        const Trained& all = tensors[slice.of];
        const auto take = [&](const at::Tensor& tensor) {
          const at::Tensor place = part_of(tensor, slice);
          if (!widens) return place;
          narrow.emplace_back(place, place.to(all.gradient.scalar_type()));
          return narrow.back().second;
        };
        at::Tensor gradient = part_of(all.gradient, slice);
        if (gradient_scale != 1) {
          at::Tensor copy = scaled.as_strided(gradient.sizes(), gradient.strides(), at);
          gradient = at::mul_out(copy, gradient, factor);
        }
        at += slice.size;
        group.parameters.push_back(take(all.parameter));
        group.gradients.push_back(std::move(gradient));
        for (size_t s = 0; s < states.size(); ++s) group.states[s].push_back(take(all.states[s]));
      }
      apply(group, updates);
      for (const auto& [place, updated] : narrow) place.copy_(updated);
    });
  }

  bool is_updated(uint32_t parameter) const {
    if (parameter < left_alone.size() && left_alone[parameter]) return false;
    const at::Tensor& tensor = to_tensor(program.parameters()[parameter]);
    return tensor.is_floating_point() && tensor.numel() > 0;
  }

  // Returns all parameters to update, or their slices. Kernels process memory linearly, so all tensors of a parameter
  // are contiguous.
  std::vector<Trained> everything() const {
    std::vector<uint32_t> indices;
    std::vector<Slice> slices;  // of the share
    if (share) {
      for (const ir::ParameterSlice& slice : *share) {
        if (!is_updated(slice.parameter)) continue;
        indices.push_back(slice.parameter);
        slices.push_back({slice.parameter, slice.first, slice.size()});
      }
    } else {
      for (uint32_t i = 0; i < program.parameters().size(); ++i) {
        if (is_updated(i)) indices.push_back(i);
      }
    }
    const Values gradients = program.gradients(indices);
    std::vector<Trained> found;
    for (size_t k = 0; k < indices.size(); ++k) {
      Trained& each = found.emplace_back();
      each.parameter = to_tensor(program.parameters()[indices[k]]);
      RANNC_CHECK(each.parameter.is_contiguous()) << "weights are read into contiguous tensors";
      each.gradient = to_tensor(gradients[k]).contiguous();
      if (share) {
        each.parameter = part_of(each.parameter, slices[k]);
        each.gradient = part_of(each.gradient, slices[k]);
      }
      for (const Values& state : states) each.states.push_back(to_tensor(state[indices[k]]));
    }
    return found;
  }

  void apply(const Group& group, uint64_t updates) const {
    const double rate = options.learning_rate_at(updates);
    if (options.kind == OptimizerKind::kSgd) {
      // The state begins as zeros, so that the first step is like the others.
      at::_fused_sgd_(group.parameters, group.gradients,
                      group.states.empty() ? std::vector<at::Tensor>{} : group.states[0], options.weight_decay,
                      options.momentum, rate, /*dampening=*/0, options.nesterov, /*maximize=*/false,
                      /*is_first_step=*/false);
      return;
    }
    const at::TensorOptions beside = at::TensorOptions().dtype(at::kFloat).device(group.parameters[0].device());
    const std::vector<at::Tensor> steps(group.parameters.size(),
                                        at::full({}, static_cast<double>(updates + 1), beside));
    const auto kernel =
        options.kind == OptimizerKind::kAdam ? &at::_ops::_fused_adam_::call : &at::_ops::_fused_adamw_::call;
    kernel(group.parameters, group.gradients, group.states[0], group.states[1], /*max_exp_avg_sqs=*/{}, steps, rate,
           options.beta1, options.beta2, options.weight_decay, options.epsilon, /*amsgrad=*/false, /*maximize=*/false,
           /*grad_scale=*/{}, /*found_inf=*/{});
  }
};

StageOptimizer::StageOptimizer(const OptimizerOptions& options, Program& program, std::vector<bool> left_alone,
                               Share share)
    : impl_(std::make_unique<Impl>(options, program, std::move(left_alone), std::move(share))) {}
StageOptimizer::~StageOptimizer() = default;

Result<void> StageOptimizer::update(uint64_t updates, double gradient_scale) {
  try {
    const c10::NoGradGuard no_grad;
    impl_->update(updates, gradient_scale);
  } catch (const InternalError&) {
    throw;
  } catch (const std::exception& failure) {
    return error("optimizer step failed: " + reason_of(failure));
  }
  return {};
}

void StageOptimizer::set_learning_rate(double rate) { impl_->options.learning_rate = rate; }

const std::vector<std::string>& StageOptimizer::state_names() const { return impl_->names; }
const std::vector<Values>& StageOptimizer::states() const { return impl_->states; }
const StageOptimizer::Share& StageOptimizer::share() const { return impl_->share; }

StageOptimizer::Share share_of(const ir::Stage& stage, DeviceId device, const Program& program) {
  if (!stage.sharded) return std::nullopt;
  const auto replica = std::find(stage.devices.begin(), stage.devices.end(), device) - stage.devices.begin();
  return ir::optimizer_share(parameter_elements(program), static_cast<size_t>(replica), stage.devices.size());
}

namespace {

// Elements per row. LibTorch sums the squares of a row in the row's type in one pass over memory. Rows are short, and
// their norms are squared and added in double precision.
constexpr int64_t kRow = 4096;

// A scalar on the device of the gradient.
at::Tensor sum_of_squares(const at::Tensor& flat) {
  const int64_t rows = flat.numel() / kRow, in_rows = rows * kRow;
  const auto squares = [](const at::Tensor& norms) { return norms.to(at::kDouble).square_().sum(); };
  at::Tensor sum = at::zeros({}, flat.options().dtype(at::kDouble));
  if (rows > 0) {
    const at::Tensor table = in_rows == flat.numel() ? flat : flat.narrow(0, 0, in_rows);
    sum += squares(at::linalg_vector_norm(table.view({rows, kRow}), 2, at::IntArrayRef{1}));
  }
  if (in_rows < flat.numel()) sum += squares(at::linalg_vector_norm(flat.narrow(0, in_rows, flat.numel() - in_rows)));
  return sum;
}

// Works in slices, because double precision needs more memory.
at::Tensor sum_of_wide_squares(const at::Tensor& flat) {
  const int64_t slice = copied_bytes(flat) / static_cast<int64_t>(sizeof(double));
  at::Tensor sum = at::zeros({}, flat.options().dtype(at::kDouble));
  for (int64_t first = 0; first < flat.numel(); first += slice)
    sum += sum_of_squares(flat.narrow(0, first, std::min(slice, flat.numel() - first)).to(at::kDouble));
  return sum;
}

// Reads scalars of one device with one wait.
std::vector<double> on_host(const std::vector<at::Tensor>& scalars) {
  if (scalars.empty()) return {};
  const at::Tensor numbers = at::stack(scalars).cpu();
  const auto* const first = numbers.const_data_ptr<double>();
  return {first, first + numbers.numel()};
}

}  // namespace

std::vector<double> squared_norms(Program& program, std::span<const ir::ParameterSlice> slices) {
  // Between these bounds float32 is accurate enough. Beyond them, squares may underflow or overflow.
  constexpr double kLeast = 1e-24, kMost = 1e38;
  const c10::NoGradGuard no_grad;
  std::vector<uint32_t> parameters;
  for (const ir::ParameterSlice& slice : slices) parameters.push_back(slice.parameter);
  const Values gradients = program.gradients(parameters);
  const c10::InferenceMode views_are_cheap;
  const auto is_half = [](const at::Tensor& flat) {
    return flat.scalar_type() != at::kFloat && flat.scalar_type() != at::kDouble;
  };
  std::vector<at::Tensor> parts, sums;
  for (size_t i = 0; i < slices.size(); ++i) {
    const at::Tensor flat = to_tensor(gradients[i]).contiguous().view(-1);
    parts.push_back(flat.narrow(0, slices[i].first, slices[i].size()));
    sums.push_back(is_half(flat) ? sum_of_wide_squares(parts[i]) : sum_of_squares(parts[i]));
  }
  std::vector<double> squares = on_host(sums);
  for (size_t i = 0; i < squares.size(); ++i) {
    const bool exact = squares[i] > kLeast && squares[i] < kMost;
    if (exact || parts[i].scalar_type() != at::kFloat) continue;
    squares[i] = on_host({sum_of_wide_squares(parts[i])})[0];
  }
  return squares;
}

std::vector<double> squared_norms(Program& program, std::span<const uint32_t> parameters) {
  const std::vector<int64_t> elements = parameter_elements(program);
  std::vector<ir::ParameterSlice> whole;
  for (const uint32_t parameter : parameters) whole.push_back({parameter, 0, elements[parameter]});
  return squared_norms(program, whole);
}

double clip_scale(double norm, double limit) { return std::min(1.0, limit / (norm + 1e-6)); }

}  // namespace rannc::runtime
