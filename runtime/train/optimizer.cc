#include "runtime/train/optimizer.h"

#include <ATen/ops/_foreach_lerp.h>
#include <ATen/ops/_fused_adam.h>
#include <ATen/ops/_fused_adamw.h>
#include <ATen/ops/_fused_sgd.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/full.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/zeros.h>
#include <c10/core/GradMode.h>
#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include "ir/plan/step_copies.h"
#include "runtime/internal/reason.h"
#include "runtime/internal/torch_value.h"
#include "runtime/train/internal/whole_update.h"

namespace rannc::runtime {

StageUpdates stage_updates(const ir::ParameterUpdates& updates, const Signature& stage) {
  StageUpdates found;
  for (const ir::UpdateGroup& group : updates.groups()) found.rules.push_back(group.rule);
  for (const Weight& parameter : stage.parameters) found.parameters.push_back(updates.of(parameter.value));
  return found;
}

namespace {

StageUpdates uniform_updates(const ir::UpdateRule& rule, const Program& program) {
  StageUpdates found{{rule}, {}};
  for (const Value& parameter : program.parameters())
    found.parameters.push_back({{{0, 0, to_tensor(parameter).numel()}}, {}, element_states(rule)});
  return found;
}

// A parameter with its gradient and optimizer state, and its average if it has one.
struct Trained {
  at::Tensor parameter, gradient;
  std::vector<at::Tensor> states;
  at::Tensor average;
};

// Operands of one call of LibTorch's fused kernels. A kernel processes its tensors separately, so the result for a
// parameter does not depend on the rest of the group.
struct Group {
  Group() = default;
  explicit Group(const std::vector<Trained>& all) {
    for (const Trained& trained : all) add(trained);
  }
  void add(const Trained& trained) {
    parameters.push_back(trained.parameter);
    gradients.push_back(trained.gradient);
    states.push_back(trained.states);
  }
  /// The same state of all parameters; empty if they have none.
  std::vector<at::Tensor> state(size_t s) const {
    std::vector<at::Tensor> found;
    for (const auto& own : states) {
      if (s < own.size()) found.push_back(own[s]);
    }
    return found;
  }

  std::vector<at::Tensor> parameters, gradients;
  std::vector<std::vector<at::Tensor>> states;  // by parameter, then by state
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

// A view of the elements of a stored tensor that a part of a tensor of the program is, in the program's orientation, as
// rows of its shape.
at::Tensor view_of(const at::Tensor& stored, const ir::StatePart& part, const std::vector<int64_t>& shape) {
  at::Tensor view = stored;
  for (size_t axis = 0; axis < part.begin.size(); ++axis)
    view = view.narrow(static_cast<int64_t>(axis), part.begin[axis], part.extent[axis]);
  view = view.permute(part.axes);
  std::vector<int64_t> rows = shape;
  int64_t inner = 1;
  for (size_t axis = 1; axis < shape.size(); ++axis) inner *= shape[axis];
  if (!rows.empty()) rows[0] = inner == 0 ? 0 : view.numel() / inner;
  return view.view(rows);
}

}  // namespace

class StageOptimizer::Impl {
 public:
  Impl(const OptimizerOptions& options, StageUpdates updates, Program& program, std::vector<bool> left_alone,
       Share share, Device& device)
      : options_(options),
        rules_(std::move(updates.rules)),
        updates_(std::move(updates.parameters)),
        program_(program),
        left_alone_(std::move(left_alone)),
        share_(std::move(share)),
        device_(device),
        places_(program.parameters().size()),
        wholes_(program.parameters().size()) {
    if (share_) {
      for (const ir::ParameterSlice& slice : *share_) add_states(slice.parameter, slice);
    } else {
      for (uint32_t i = 0; i < program.parameters().size(); ++i) add_states(i, std::nullopt);
    }
    restart_averages();
  }

  void update(uint64_t updates, double scale) {
    using Types = std::pair<at::ScalarType, at::ScalarType>;
    std::map<std::pair<uint32_t, Types>, std::vector<Trained>> alike;
    const std::vector<Piece> pieces = all_pieces();
    for (const Piece& piece : pieces) {
      for (const ir::UpdateRun& run : updates_[piece.slice.parameter].runs) {
        const int64_t first = std::max(run.first, piece.slice.first), last = std::min(run.last, piece.slice.last);
        if (first >= last) continue;
        const Trained trained = element_wise(piece, run.group, first, last);
        alike[{run.group, {trained.gradient.scalar_type(), trained.parameter.scalar_type()}}].push_back(trained);
      }
    }
    averaged_.clear();
    for (const auto& [of, tensors] : alike) {
      const ir::UpdateRule& rule = rules_[of.first];
      if (update_by_device(rule, tensors, updates, scale)) continue;
      const bool copies = rule.kind == OptimizerKind::kLion;  // makes a temporary
      if (scale == 1 && of.second.first == of.second.second && !copies) {
        apply(rule, Group(tensors), updates);
      } else {
        update_copies(rule, tensors, updates, scale);
      }
    }
    for (const Piece& piece : pieces) {
      const ir::StoredUpdate& stored = updates_[piece.slice.parameter];
      for (size_t w = 0; w < stored.wholes.size(); ++w) update_as_a_whole(piece, w, updates, scale);
    }
    if (options_.grouping.average > 0) average(updates);
  }

  void set_options(const OptimizerOptions& options, std::vector<ir::UpdateRule> rules) {
    RANNC_CHECK(rules.size() == rules_.size()) << "groups stay";
    options_ = options;
    rules_ = std::move(rules);
  }

  void take_states(const Impl& other) {
    for (OptimizerState& state : states_) {
      const auto same = [&](const OptimizerState& old) {
        return std::tie(old.name, old.parameter, old.tensor) == std::tie(state.name, state.parameter, state.tensor);
      };
      const auto found = std::find_if(other.states_.begin(), other.states_.end(), same);
      if (found != other.states_.end()) state.value = found->value;
    }
  }

  const std::vector<OptimizerState>& states() const { return states_; }
  Value state(std::string_view name, uint32_t parameter) const {
    const auto found = places_[parameter].find(name);
    return found == places_[parameter].end() ? Value() : states_[found->second].value;
  }

  void restart_averages() const {
    for (const auto& [average, parameter] : averages()) average.copy_(parameter);
  }
  void swap_averages() const {
    for (const auto& [average, parameter] : averages()) {
      const int64_t most = copied_bytes(parameter) / static_cast<int64_t>(parameter.element_size());
      for_each_chunk({{parameter, average, {}}}, most, [&](const std::vector<Slice>& chunk) {
        for (const Slice& slice : chunk) {
          const at::Tensor now = part_of(parameter, slice), kept = part_of(average, slice), copy = now.clone();
          now.copy_(kept);
          kept.copy_(copy);
        }
      });
    }
  }

 private:
  // Elements of a parameter in the shape of their state.
  at::Tensor elements(const at::Tensor& tensor, int64_t first, int64_t last) const {
    return part_of(share_ ? tensor.view(-1) : tensor, {0, first, last - first});
  }

  // A parameter, or the slice of it in the share, with its gradient.
  struct Piece {
    ir::ParameterSlice slice;
    at::Tensor parameter, gradient;  // all of it
  };

  at::Tensor stored(uint32_t index) const {
    const at::Tensor& tensor = to_tensor(program_.parameters()[index]);
    RANNC_CHECK(tensor.is_contiguous()) << "weights are read into contiguous tensors";
    return tensor;
  }

  void add_state(std::string name, uint32_t index, std::string tensor, std::optional<ir::ParameterSlice> slice,
                 const std::vector<int64_t>& shape) {
    const auto options = to_tensor(program_.parameters()[index]).options();
    states_.push_back({std::move(name), index, std::move(tensor), slice, to_value(at::zeros(shape, options))});
  }

  // A parameter that is not divisible has its states whole, though it is part of a share.
  void add_states(uint32_t index, std::optional<ir::ParameterSlice> slice) {
    const ir::StoredUpdate& stored = updates_[index];
    const at::Tensor& tensor = to_tensor(program_.parameters()[index]);
    std::vector<std::string> names(stored.states.begin(), stored.states.end());
    if (options_.grouping.average > 0 && tensor.is_floating_point()) names.emplace_back("average");
    for (std::string& name : names) {
      places_[index].emplace(name, states_.size());
      add_state(std::move(name), index, {}, slice, slice ? std::vector<int64_t>{slice->size()} : tensor.sizes().vec());
    }
    for (const ir::WholeUpdate& whole : stored.wholes) {
      wholes_[index].push_back(states_.size());
      for (const ir::WholeState& state : whole_states(rules_[whole.group].kind, whole.shape))
        add_state(std::string(state.name), index, whole.name, std::nullopt, state.shape);
    }
  }

  bool is_updated(uint32_t index) const {
    if (index < left_alone_.size() && left_alone_[index]) return false;
    const at::Tensor& tensor = to_tensor(program_.parameters()[index]);
    return tensor.is_floating_point() && tensor.numel() > 0;
  }

  std::vector<ir::ParameterSlice> slices() const {
    if (share_) return *share_;
    std::vector<ir::ParameterSlice> all;
    for (uint32_t i = 0; i < program_.parameters().size(); ++i)
      all.push_back({i, 0, to_tensor(program_.parameters()[i]).numel()});
    return all;
  }

  // Kernels process memory linearly, so all tensors of a parameter are contiguous.
  std::vector<Piece> all_pieces() const {
    std::vector<uint32_t> indices;
    std::vector<Piece> pieces;
    for (const ir::ParameterSlice& slice : slices()) {
      if (!is_updated(slice.parameter)) continue;
      indices.push_back(slice.parameter);
      pieces.push_back({slice, stored(slice.parameter), {}});
    }
    const Values gradients = program_.gradients(indices);
    for (size_t i = 0; i < pieces.size(); ++i) pieces[i].gradient = to_tensor(gradients[i]).contiguous();
    return pieces;
  }

  Trained element_wise(const Piece& piece, uint32_t group, int64_t first, int64_t last) const {
    const uint32_t index = piece.slice.parameter;
    const int64_t begin = share_ ? piece.slice.first : 0;
    Trained trained{elements(piece.parameter, first, last), elements(piece.gradient, first, last), {}};
    for (const std::string_view name : element_states(rules_[group])) {
      const at::Tensor& state = to_tensor(states_[places_[index].find(name)->second].value);
      trained.states.push_back(elements(state, first - begin, last - begin));
    }
    const auto average = places_[index].find("average");
    if (average != places_[index].end() && first == piece.slice.first && last == piece.slice.last)
      trained.average = to_tensor(states_[average->second].value);
    return trained;
  }

  static std::optional<DeviceUpdate::Rule> device_rule(OptimizerKind kind) {
    switch (kind) {
      case OptimizerKind::kSgd:
        return DeviceUpdate::Rule::kSgd;
      case OptimizerKind::kAdam:
        return DeviceUpdate::Rule::kAdam;
      case OptimizerKind::kAdamW:
      case OptimizerKind::kMuon:  // leaves to AdamW what it does not update
        return DeviceUpdate::Rule::kAdamW;
      case OptimizerKind::kLion:
        return DeviceUpdate::Rule::kLion;
      case OptimizerKind::kAdafactor:
        break;
    }
    return std::nullopt;
  }

  static std::optional<DeviceUpdate::Number> device_number(at::ScalarType gradient, at::ScalarType parameter) {
    const bool narrow = gradient == at::kFloat;
    if (parameter == at::kFloat && narrow) return DeviceUpdate::Number::kFloat32;
    if (parameter == at::kBFloat16 && narrow) return DeviceUpdate::Number::kBFloat16;
    if (parameter == at::kHalf && narrow) return DeviceUpdate::Number::kFloat16;
    if (parameter == at::kDouble && gradient == at::kDouble) return DeviceUpdate::Number::kFloat64;
    return std::nullopt;
  }

  // Updates tensors of one rule and type, and their averages, by a kernel of the device. Returns false without one.
  bool update_by_device(const ir::UpdateRule& rule, const std::vector<Trained>& tensors, uint64_t updates,
                        double scale) {
    const auto kind = device_rule(rule.kind);
    const auto number = device_number(tensors[0].gradient.scalar_type(), tensors[0].parameter.scalar_type());
    if (!device_.is_asynchronous() || !kind || !number) return false;
    std::vector<DeviceUpdate::Tensor> all;
    for (const Trained& each : tensors) {
      DeviceUpdate::Tensor& tensor = all.emplace_back();
      tensor.parameter = each.parameter.data_ptr();
      tensor.gradient = each.gradient.const_data_ptr();
      for (size_t s = 0; s < each.states.size(); ++s) tensor.states[s] = each.states[s].data_ptr();
      if (each.average.defined()) tensor.average = each.average.data_ptr();
      tensor.elements = static_cast<uint64_t>(each.parameter.numel());
    }
    const DeviceUpdate update{.rule = *kind,
                              .number = *number,
                              .nesterov = rule.nesterov,
                              .rate = options_.rate_at(updates, rule.learning_rate),
                              .weight_decay = rule.weight_decay,
                              .momentum = rule.kind == OptimizerKind::kSgd ? rule.momentum : 0,
                              .beta1 = rule.beta1,
                              .beta2 = rule.beta2,
                              .epsilon = rule.epsilon,
                              .updates = updates,
                              .gradient_scale = scale,
                              .average = options_.grouping.average,
                              .tensors = all.data(),
                              .count = all.size()};
    if (!device_.update(update)) return false;
    for (const Trained& each : tensors) {
      if (each.average.defined()) averaged_.insert(each.average.unsafeGetTensorImpl());
    }
    return true;
  }

  void update_as_a_whole(const Piece& piece, size_t w, uint64_t updates, double scale) const {
    const uint32_t index = piece.slice.parameter;
    const ir::WholeUpdate& whole = updates_[index].wholes[w];
    const ir::UpdateRule& rule = rules_[whole.group];
    WholeTensor tensor;
    std::vector<at::Tensor> gradients;
    for (const ir::StatePart& part : whole.parts) {
      tensor.parts.push_back(view_of(piece.parameter, part, whole.shape));
      gradients.push_back(view_of(piece.gradient, part, whole.shape));
    }
    tensor.may_overwrite = gradients.size() > 1 || scale != 1;
    tensor.gradient = gradients.size() > 1 ? at::cat(gradients) : gradients[0];
    if (scale != 1) tensor.gradient = tensor.gradient * scale;
    for (size_t s = 0; s < whole_states(rule.kind, whole.shape).size(); ++s)
      tensor.states.push_back(to_tensor(states_[wholes_[index][w] + s].value));
    update_whole(rule, options_.rate_at(updates, rule.learning_rate), updates, std::move(tensor));
  }

  // Averages with the parameters that they are of, or with their slices.
  std::vector<std::pair<at::Tensor, at::Tensor>> averages() const {
    std::vector<std::pair<at::Tensor, at::Tensor>> found;
    for (const ir::ParameterSlice& slice : slices()) {
      const auto place = places_[slice.parameter].find("average");
      if (place == places_[slice.parameter].end() || slice.size() == 0) continue;
      found.emplace_back(to_tensor(states_[place->second].value),
                         elements(stored(slice.parameter), slice.first, slice.last));
    }
    return found;
  }

  // As torch.optim.swa_utils.AveragedModel.
  void average(uint64_t updates) const {
    std::vector<at::Tensor> kept, parameters;
    for (auto& [average, parameter] : averages()) {
      if (averaged_.contains(average.unsafeGetTensorImpl())) continue;
      if (updates == 0) average.copy_(parameter);
      kept.push_back(average);
      parameters.push_back(parameter);
    }
    if (!kept.empty() && updates > 0) at::_foreach_lerp_(kept, parameters, 1 - options_.grouping.average);
  }

  // Gradients are scaled in a copy, because other members of a collective may share them. Parameters narrower than the
  // sum of their gradients are updated in the sum's type and rounded once.
  void update_copies(const ir::UpdateRule& rule, const std::vector<Trained>& tensors, uint64_t updates,
                     double gradient_scale) const {
    const c10::InferenceMode views_are_cheap;
    const size_t states = tensors.front().states.size();
    const at::TensorOptions wide = tensors.front().gradient.options();
    const bool widens = tensors.front().parameter.scalar_type() != tensors.front().gradient.scalar_type();
    const auto copies = static_cast<int64_t>((gradient_scale != 1 ? 1 : 0) + (widens ? 1 + states : 0) +
                                             (rule.kind == OptimizerKind::kLion ? 1 : 0));
    const int64_t bytes = copied_bytes(tensors.front().gradient);
    const int64_t most = bytes / (copies * static_cast<int64_t>(wide.dtype().itemsize())) / kAligned * kAligned;
    int64_t elements = 0;
    for (const Trained& each : tensors) elements += each.parameter.numel();
    const at::Tensor scaled = at::empty({gradient_scale != 1 ? std::min(most, elements) : 0}, wide);
    const at::Tensor factor = at::scalar_tensor(gradient_scale, at::kDouble);  // a scalar keeps the type
    for_each_chunk(tensors, most, [&](const std::vector<Slice>& chunk) {
      std::vector<std::pair<at::Tensor, at::Tensor>> narrow;  // destination and updated wide copy
      Group group;
      int64_t at = 0;
      for (const Slice& slice : chunk) {
        const Trained& all = tensors[slice.of];
        const auto take = [&](const at::Tensor& tensor) {
          const at::Tensor place = part_of(tensor, slice);
          if (!widens) return place;
          narrow.emplace_back(place, place.to(all.gradient.scalar_type()));
          return narrow.back().second;
        };
        Trained part;
        part.gradient = part_of(all.gradient, slice);
        if (gradient_scale != 1) {
          at::Tensor copy = scaled.as_strided(part.gradient.sizes(), part.gradient.strides(), at);
          part.gradient = at::mul_out(copy, part.gradient, factor);
        }
        at += slice.size;
        part.parameter = take(all.parameter);
        for (const at::Tensor& state : all.states) part.states.push_back(take(state));
        group.add(part);
      }
      apply(rule, group, updates);
      for (const auto& [place, updated] : narrow) place.copy_(updated);
    });
  }

  void apply(const ir::UpdateRule& rule, const Group& group, uint64_t updates) const {
    const double rate = options_.rate_at(updates, rule.learning_rate);
    if (rule.kind == OptimizerKind::kSgd) {
      // The state begins as zeros, so that the first step is like the others.
      at::_fused_sgd_(group.parameters, group.gradients, group.state(0), rule.weight_decay, rule.momentum, rate,
                      /*dampening=*/0, rule.nesterov, /*maximize=*/false, /*is_first_step=*/false);
      return;
    }
    if (rule.kind == OptimizerKind::kLion) return lion(rule, rate, group);
    const at::TensorOptions beside = at::TensorOptions().dtype(at::kFloat).device(group.parameters[0].device());
    const std::vector<at::Tensor> steps(group.parameters.size(),
                                        at::full({}, static_cast<double>(updates + 1), beside));
    // Muon leaves to AdamW what it does not update.
    const auto kernel =
        rule.kind == OptimizerKind::kAdam ? &at::_ops::_fused_adam_::call : &at::_ops::_fused_adamw_::call;
    kernel(group.parameters, group.gradients, group.state(0), group.state(1), group.state(2), steps, rate, rule.beta1,
           rule.beta2, rule.weight_decay, rule.epsilon, rule.amsgrad, /*maximize=*/false, /*grad_scale=*/{},
           /*found_inf=*/{});
  }

  // Chen et al., Symbolic Discovery of Optimization Algorithms, 2023, program 1.
  static void lion(const ir::UpdateRule& rule, double rate, const Group& group) {
    for (size_t i = 0; i < group.parameters.size(); ++i) {
      const at::Tensor &momentum = group.states[i][0], &gradient = group.gradients[i], &parameter = group.parameters[i];
      const at::Tensor sign = (momentum * rule.beta1).add_(gradient, 1 - rule.beta1).sign_();
      parameter.mul_(1 - rate * rule.weight_decay).add_(sign, -rate);
      momentum.mul_(rule.beta2).add_(gradient, 1 - rule.beta2);
    }
  }

  OptimizerOptions options_;
  std::vector<ir::UpdateRule> rules_;      // by group
  std::vector<ir::StoredUpdate> updates_;  // by parameter
  Program& program_;
  std::vector<bool> left_alone_;  // by parameter
  Share share_;
  Device& device_;
  std::set<const c10::TensorImpl*> averaged_;  // averages that a kernel of the device has updated in this step
  std::vector<OptimizerState> states_;
  std::vector<std::map<std::string, size_t, std::less<>>> places_;  // by parameter and name: states of its shape
  std::vector<std::vector<size_t>> wholes_;  // by parameter and tensor updated as a whole: its first state
};

StageOptimizer::StageOptimizer(const OptimizerOptions& options, StageUpdates updates, Program& program,
                               std::vector<bool> left_alone, Share share, Device& device)
    : impl_(std::make_unique<Impl>(options, std::move(updates), program, std::move(left_alone), std::move(share),
                                   device)) {}
StageOptimizer::StageOptimizer(const OptimizerOptions& options, Program& program, std::vector<bool> left_alone,
                               Share share, Device& device)
    : StageOptimizer(options, uniform_updates(options, program), program, std::move(left_alone), std::move(share),
                     device) {}
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

void StageOptimizer::take_states(const StageOptimizer& other) { impl_->take_states(*other.impl_); }
void StageOptimizer::set_options(const OptimizerOptions& options, std::vector<ir::UpdateRule> rules) {
  impl_->set_options(options, std::move(rules));
}
const std::vector<OptimizerState>& StageOptimizer::states() const { return impl_->states(); }
Value StageOptimizer::state(std::string_view name, uint32_t parameter) const { return impl_->state(name, parameter); }
void StageOptimizer::restart_averages() {
  const c10::NoGradGuard no_grad;
  impl_->restart_averages();
}
void StageOptimizer::swap_averages() {
  const c10::NoGradGuard no_grad;
  impl_->swap_averages();
}

}  // namespace rannc::runtime
