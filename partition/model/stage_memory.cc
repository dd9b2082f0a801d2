// Follows a stage's tasks forward in order and backward in reverse, like an interpreter with a tape. A value is live
// until its last reader has run, or until the backward pass of the last task that keeps it. A random input becomes live
// at its first reader.
#include "partition/model/stage_memory.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace rannc::partition {

StageFollower::StageFollower(const ir::Graph& graph, const Tape& tape)
    : graph_(graph), tape_(tape), base_(graph.value_count()), held_(graph.value_count(), 0) {
  last_use_.assign(graph.value_count(), 0);
  keepers_.assign(graph.value_count(), 0);
}

class StageFollower::Pass {
 public:
  Pass(StageFollower& owner, const std::vector<TaskId>& tasks, const std::vector<ValueId>& sent, double samples)
      : o_(owner), graph_(owner.graph_), tape_(owner.tape_), tasks_(tasks), sent_(sent), samples_(samples) {
    prepare();
  }

  StageMemory run() {
    StageMemory memory;
    memory.inputs = received_ + fed_;
    memory.passing = forward(false);
    memory.forward = forward(true);
    memory.saved = received_ + live_;
    memory.pending = pending();
    backward();
    memory.backward = peak_;
    memory.first_backward = first_peak_;
    return memory;
  }

 private:
  double bytes(ValueId value) const { return tape_.bytes(value).at(samples_); }
  bool resident(ValueId value) const {
    return !graph_.producer(value).valid() && graph_.kind(value) != ir::ValueKind::kInput && !is_random(value);
  }
  /// Whether it is the same for every micro-batch.
  bool fixed(ValueId value) const {
    const ir::BatchLayout& layout = graph_.type(value).batch;
    return resident(base(value)) || (!layout.has_batch() && layout.mix == ir::Mix::kNone && !is_random(value));
  }
  bool is_random(ValueId value) const { return graph_.kind(value) == ir::ValueKind::kRandomInput; }
  ValueId base(ValueId value) const { return o_.base_[value.index()]; }
  bool gradient(ValueId value) const { return tape_.needs_gradient(value); }

  // Bases within the stage: a value from outside is a base. Samples and received values are always present.
  void prepare() {
    std::vector<ValueId> touched;
    const auto touch = [&](ValueId value) {
      o_.base_[value.index()] = value;
      o_.keepers_[value.index()] = 0;
      o_.held_[value.index()] = 0;
      touched.push_back(value);
    };
    for (const TaskId task : tasks_) {
      for (const ValueId input : graph_.inputs(task)) {
        if (input.valid()) touch(input);
      }
      for (const ValueId output : graph_.outputs(task)) touch(output);
    }
    for (const TaskId task : tasks_) {
      for (const ValueId input : graph_.inputs(task)) {
        if (input.valid() && is_random(input)) made_.push_back(input);
      }
      for (const ValueId output : graph_.outputs(task)) {
        made_.push_back(output);
        if (tape_.is_view(task)) o_.base_[output.index()] = base(graph_.inputs(task)[0]);
      }
    }
    std::sort(made_.begin(), made_.end());
    made_.erase(std::unique(made_.begin(), made_.end()), made_.end());
    for (uint32_t at = 0; at < tasks_.size(); ++at) {
      for (const ValueId input : graph_.inputs(tasks_[at])) {
        if (!input.valid()) continue;
        o_.last_use_[base(input).index()] = at;
        if (base(input) != input || std::binary_search(made_.begin(), made_.end(), input) || resident(input)) continue;
        if (std::exchange(o_.held_[input.index()], bytes(input)) != 0 || bytes(input) == 0) continue;
        (graph_.producer(input).valid() ? received_ : fed_) += bytes(input);
        always_.push_back(input);
      }
      for (const ValueId output : graph_.outputs(tasks_[at])) o_.last_use_[base(output).index()] = at;
      for (const ValueId kept : tape_.kept(tasks_[at])) ++o_.keepers_[base(kept).index()];
    }
    for (const ValueId value : sent_) ++o_.keepers_[base(value).index()];
    std::sort(always_.begin(), always_.end());
  }

  bool own_memory(ValueId value) const {
    return base(value) == value && !resident(value) && !std::binary_search(always_.begin(), always_.end(), value);
  }
  void allocate(ValueId value) {
    if (!own_memory(value)) return;
    o_.held_[value.index()] = bytes(value);
    grow(bytes(value));
  }
  /// Scratch memory that the task's kernel allocates.
  ir::KernelScratch scratch(TaskId task) {
    const uint32_t kind = tape_.scratch_kind(task);
    if (kind == Tape::kNoScratch) return {};
    const auto samples = static_cast<uint64_t>(std::ceil(samples_));
    auto& by_kind = o_.scratch_[samples];
    by_kind.resize(tape_.scratch_kinds());
    if (!by_kind[kind]) by_kind[kind] = tape_.scratch(kind, samples);
    return *by_kind[kind];
  }
  void release(ValueId base) {
    if (!own_memory(base)) return;
    live_ -= o_.held_[base.index()];
    o_.held_[base.index()] = 0;
  }
  void grow(double bytes) {
    live_ += bytes;
    peak_ = std::max(peak_, live_);
    first_peak_ = std::max(first_peak_, live_ - added_ + summed_);
  }

  /// Returns the peak beyond received values. `live_` is then what stays.
  double forward(bool keeps) {
    live_ = peak_ = fed_;
    for (const ValueId value : made_) o_.held_[value.index()] = 0;
    for (uint32_t at = 0; at < tasks_.size(); ++at) {
      const TaskId task = tasks_[at];
      for (const ValueId input : graph_.inputs(task)) {
        if (input.valid() && is_random(input) && o_.held_[input.index()] == 0) allocate(input);
      }
      for (const ValueId output : graph_.outputs(task)) allocate(output);
      const double own = tape_.own(task).at(samples_), needed = static_cast<double>(scratch(task).forward);
      grow(own + needed);
      live_ -= needed;
      if (!keeps) live_ -= own;
      const auto drop = [&](ValueId value) {
        if (!value.valid() || o_.last_use_[base(value).index()] != at) return;
        if (keeps && o_.keepers_[base(value).index()] > 0) return;
        if (!keeps && std::find(sent_.begin(), sent_.end(), value) != sent_.end()) return;
        release(base(value));
      };
      for (const ValueId input : graph_.inputs(task)) drop(input);
      for (const ValueId output : graph_.outputs(task)) drop(output);
    }
    return peak_;
  }

  // For tasks whose parameters get their gradients from W: the values that they keep, each once, and the gradients of
  // their results.
  double pending() {
    double total = 0;
    std::vector<ValueId> counted;
    for (const TaskId task : tasks_) {
      const auto inputs = graph_.inputs(task);
      const auto trained = [&](ValueId v) { return v.valid() && gradient(v) && fixed(v); };
      if (std::none_of(inputs.begin(), inputs.end(), trained)) continue;
      const bool by_input = graph_.op(task).has_gradient_kernel(graph_.attributes(task)) && gradient(inputs[0]);
      if (by_input || fixed(graph_.outputs(task)[0])) continue;
      for (const ValueId kept : tape_.kept(task)) {
        if (!fixed(kept)) counted.push_back(base(kept));
      }
      total += tape_.own(task).at(samples_);
      for (const ValueId output : graph_.outputs(task)) total += gradient(output) ? bytes(output) : 0;
    }
    std::sort(counted.begin(), counted.end());
    counted.erase(std::unique(counted.begin(), counted.end()), counted.end());
    for (const ValueId value : counted) total += bytes(value);
    return total;
  }

  void backward() {
    live_ = peak_ = first_peak_ = summed_ = added_ = 0;
    std::vector<Gradient> of(made_.size());
    for (size_t i = tasks_.size(); i-- > 0;) go_back(tasks_[i], of);
  }

  /// The gradient of a value that the stage computed. Gradients may share memory.
  struct Gradient {
    bool known = false;
    uint32_t memory = UINT32_MAX;  // index into `blocks_`; none: memory of a received gradient
  };
  struct Block {
    double bytes = 0;
    uint32_t references = 0;
  };

  size_t index(ValueId value) const {
    const auto at = std::lower_bound(made_.begin(), made_.end(), value);
    return at != made_.end() && *at == value ? static_cast<size_t>(at - made_.begin()) : made_.size();
  }

  void unreference(uint32_t block) {
    if (block == UINT32_MAX || --blocks_[block].references > 0) return;
    live_ -= blocks_[block].bytes;
  }

  void go_back(TaskId task, std::vector<Gradient>& of) {
    const auto outputs = graph_.outputs(task);
    if (std::none_of(outputs.begin(), outputs.end(), [&](ValueId v) { return gradient(v); })) return;
    uint32_t shared = UINT32_MAX;
    for (const ValueId output : outputs) shared = of[index(output)].memory;
    double transient = tape_.workspace(task).at(samples_) + static_cast<double>(scratch(task).backward);
    grow(transient);
    const auto pass = [&](ValueId input) {
      if (!input.valid() || !gradient(input)) return;
      if (resident(input)) return add_to_sum(task, input, transient);
      // A part is sent as a copy.
      const bool passes = tape_.passes_gradient(task) || (tape_.returns_parts(task) && index(input) != made_.size());
      give(input, passes ? shared : UINT32_MAX, passes, of);
    };
    if (tape_.is_view(task)) {
      // For a part: the size of the whole.
      pass(graph_.inputs(task)[0]);
    } else {
      for (const ValueId input : graph_.inputs(task)) pass(input);
    }
    live_ -= transient + tape_.own(task).at(samples_);
    added_ = 0;
    for (const ValueId kept : tape_.kept(task)) {
      if (--o_.keepers_[base(kept).index()] == 0) release(base(kept));
    }
    for (const ValueId output : outputs) {
      unreference(of[index(output)].memory);
      of[index(output)] = {};
    }
  }

  /// A parameter's gradient is added to the sum and freed, one task at a time. The first gradient of a step becomes the
  /// sum, or, if it consists of rows, is added to zeros. The gradient of a view already exists; the first is copied
  /// into the parameter's order. A 16-bit gradient also exists once in the sum's type.
  void add_to_sum(TaskId task, ValueId parameter, double& transient) {
    const double ratio = sum_ratio(graph_.type(parameter).dtype), sum = bytes(parameter) * ratio;
    const bool as_rows = tape_.returns_rows(task), as_view = tape_.is_view(task) && tape_.passes_gradient(task);
    const double made = as_view ? 0 : as_rows ? bytes(graph_.outputs(task)[0]) : bytes(parameter);
    const double widened = ratio == 1 ? 0 : as_rows ? made * ratio : sum;  // beside the gradient that the task computed
    summed_ += sum;
    if (!as_rows) added_ += ratio == 1 ? made : widened;
    grow(made + widened);
    transient += made + widened;
  }

  /// Adds to the gradient of a value. The first gradient is taken as it is.
  void give(ValueId input, uint32_t shared, bool passes, std::vector<Gradient>& of) {
    const size_t at = index(input);
    if (at == made_.size()) {  // of a received value: stays, as a message
      if (!passes) grow(bytes(input));
      return;
    }
    Gradient& gradient = of[at];
    const bool fresh = !passes || shared == UINT32_MAX;
    if (passes && shared == UINT32_MAX && !gradient.known) {
      gradient.known = true;  // shares the memory of a gradient that was received
      return;
    }
    if (!gradient.known) {
      gradient.known = true;
      if (!fresh) {
        gradient.memory = shared;
        ++blocks_[shared].references;
        return;
      }
      gradient.memory = block(bytes(input));
      return;
    }
    // A sum is computed in the memory of one operand if nothing else uses it. For a moment both exist.
    const bool alone = gradient.memory != UINT32_MAX && blocks_[gradient.memory].references == 1;
    if (fresh && !(passes && shared == UINT32_MAX)) {
      grow(bytes(input));
      live_ -= bytes(input);
    }
    if (alone) return;
    const uint32_t sum = block(bytes(input));
    unreference(gradient.memory);
    gradient.memory = sum;
  }

  uint32_t block(double bytes) {
    blocks_.push_back({bytes, 1});
    grow(bytes);
    return static_cast<uint32_t>(blocks_.size() - 1);
  }

  StageFollower& o_;
  const ir::Graph& graph_;
  const Tape& tape_;
  const std::vector<TaskId>& tasks_;
  const std::vector<ValueId>& sent_;
  double samples_;
  double received_ = 0, fed_ = 0, live_ = 0, peak_ = 0;
  // In the first backward pass of a step: parameter gradients so far, and the part of `live_` that only later passes
  // hold twice.
  double first_peak_ = 0, summed_ = 0, added_ = 0;
  std::vector<ValueId> made_, always_;  // ascending; random inputs are in `made_`
  std::vector<Block> blocks_;
};

StageMemory StageFollower::follow(const std::vector<TaskId>& tasks, const std::vector<ValueId>& sent, double samples) {
  return Pass(*this, tasks, sent, samples).run();
}

}  // namespace rannc::partition
