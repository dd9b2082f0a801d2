#include "partition/model/block_memory.h"

#include <algorithm>
#include <set>

#include "ir/match/match.h"

namespace rannc::partition {

namespace {

using Kind = ir::FunctionKind;
using Ids = std::vector<ValueId>;

ir::Bindings sizes_of(ir::Bindings sizes, const std::string& batch, uint64_t samples) {
  if (!batch.empty()) sizes[batch] = static_cast<int64_t>(samples);
  return sizes;
}

Ids sorted(Ids values) {
  std::sort(values.begin(), values.end());
  values.erase(std::unique(values.begin(), values.end()), values.end());
  return values;
}

int64_t total(ir::ProgramMemory& memory, const Ids& values) {
  int64_t bytes = 0;
  for (const ValueId value : values) bytes += memory.bytes(value);
  return bytes;
}

}  // namespace

BlockFollower::BlockFollower(const TaskMemory& memory, uint64_t least, uint64_t most)
    : m_(memory),
      least_sizes_(sizes_of(memory.assume_, memory.graph_.batch_symbol(), least)),
      sizes_(sizes_of(memory.assume_, memory.graph_.batch_symbol(), most)),
      least_({memory.joint_, memory.views(), memory.instructions_, memory.samples_}, least_sizes_),
      most_({memory.joint_, memory.views(), memory.instructions_, memory.samples_}, sizes_),
      block_of_(memory.graph_.task_count()) {}

BlockFollower::Programs BlockFollower::lower(const std::vector<TaskId>& tasks, const Ids& sent) {
  ++block_;
  std::vector<TaskId> ahead;
  for (const TaskId task : tasks) {
    block_of_[task.index()] = block_;
    if (m_.place_[task.index()] == Kind::kForward) ahead.push_back(task);
  }
  const ir::ProgramSpec spec = forward(ahead, sent);
  std::vector<TaskId> back = backward_tasks(tasks);
  ir::Program ahead_program = m_.lowering_->lower(spec).value();
  ir::Program back_program = m_.lowering_->lower(backward(back)).value();
  return {spec.arguments, spec.results, std::move(back), std::move(ahead_program), std::move(back_program)};
}

BlockMemory BlockFollower::follow(const std::vector<TaskId>& tasks, const Ids& sent, bool training) {
  const Programs block = lower(tasks, sent);
  Ids left, samples, returned;
  std::set_intersection(block.arguments.begin(), block.arguments.end(), m_.samples_.begin(), m_.samples_.end(),
                        std::back_inserter(samples));
  for (const ValueId value : block.results) {
    if (m_.saved_[value.index()]) left.push_back(value);
  }
  for (const ValueId value : sent) {
    returned.push_back(m_.in_joint(value));
    const ValueId base = m_.views().base(returned.back());
    if (m_.joint_.graph.producer(base).valid() && in_block(m_.joint_.graph.producer(base))) left.push_back(base);
  }
  left = sorted(std::move(left));
  const auto temporary = [&](ir::ProgramMemory& memory) {
    const int64_t ahead_bytes = memory.peak(block.forward, {.keeps_arguments = true}) - total(memory, left);
    if (!training) return static_cast<double>(ahead_bytes + total(memory, samples));
    return static_cast<double>(std::max(ahead_bytes, memory.peak(block.backward, {}) + total(memory, returned)));
  };
  return {temporary(least_), temporary(most_), static_cast<double>(total(most_, pending(block.backward_tasks)))};
}

// Returns the values that tasks read and none of them makes, without fixed ones.
Ids BlockFollower::arguments(const std::vector<TaskId>& tasks) const {
  std::set<ValueId> made;
  Ids found;
  for (const TaskId task : tasks) {
    m_.each_operand(task, [&](ValueId value) {
      if (!m_.is_fixed(value) && !made.contains(value)) found.push_back(value);
    });
    const auto outputs = m_.joint_.graph.outputs(task);
    made.insert(outputs.begin(), outputs.end());
  }
  return sorted(std::move(found));
}

ir::ProgramSpec BlockFollower::forward(const std::vector<TaskId>& tasks, const Ids& sent) const {
  ir::ProgramSpec spec{"F", tasks, arguments(tasks), {}};
  const auto is_random = [&](ValueId value) { return m_.joint_.graph.kind(value) == ir::ValueKind::kRandomInput; };
  for (const ValueId value : spec.arguments) {
    if (is_random(value) && m_.saved_[value.index()]) spec.results.push_back(value);
  }
  std::erase_if(spec.arguments, is_random);
  const auto in_pass = [&](ir::Graph::Use use) {
    return m_.place_[use.task.index()] == Kind::kForward && in_block(use.task);
  };
  for (const TaskId task : tasks) {
    for (const ValueId output : m_.joint_.graph.outputs(task)) {
      if (m_.saved_[output.index()] || !m_.joint_.graph.any_use(output, in_pass)) spec.results.push_back(output);
    }
  }
  for (const ValueId value : sent) spec.results.push_back(m_.in_joint(value));
  return spec;
}

// What later blocks of the backward pass read is a result. Gradients of one value from outside leave as their sum.
ir::ProgramSpec BlockFollower::backward(const std::vector<TaskId>& tasks) const {
  static const ir::Ops kAdd{"add"};
  const ir::Graph& graph = m_.joint_.graph;
  ir::ProgramSpec spec{"B", tasks, arguments(tasks), {}};
  const auto later_reader = [&](ValueId value) {
    TaskId reader;
    graph.any_use(value, [&](ir::Graph::Use use) {
      const bool later = m_.is_backward(use.task) && use.task > tasks.back() && !in_block(use.task);
      return later && (reader = use.task, true);
    });
    return reader;
  };
  for (const ValueId value : spec.arguments) {
    if (later_reader(value).valid()) spec.results.push_back(value);
  }
  std::set<TaskId> sums;  // tasks of the model whose results get the sums
  for (const TaskId task : tasks) {
    for (const ValueId output : graph.outputs(task)) {
      const TaskId reader = later_reader(output);
      const bool added = reader.valid() && kAdd.contains(graph.op(reader)) &&
                         !sums.insert(m_.joint_.origins[reader.index()].task).second;
      if (added || m_.summed_[output.index()]) {
        spec.adds.emplace_back(output, 0);
      } else if (reader.valid()) {
        spec.results.push_back(output);
      }
    }
  }
  return spec;
}

// In the order of the backward pass.
std::vector<TaskId> BlockFollower::backward_tasks(const std::vector<TaskId>& tasks) const {
  std::vector<TaskId> found;
  for (size_t i = tasks.size(); i-- > 0;) {
    const auto of = m_.backward(tasks[i]);
    found.insert(found.end(), of.begin(), of.end());
  }
  return found;
}

Ids BlockFollower::pending(const std::vector<TaskId>& tasks) const {
  Ids read;
  for (const TaskId task : tasks) {
    if (m_.place_[task.index()] != Kind::kWeight) continue;
    m_.each_operand(task, [&](ValueId value) {
      const ValueId base = m_.views().base(value);
      const TaskId maker = m_.joint_.graph.producer(base);
      const bool late = maker.valid() && m_.place_[maker.index()] == Kind::kWeight;
      if (!late && !m_.is_fixed(base)) read.push_back(base);
    });
  }
  return sorted(std::move(read));
}

}  // namespace rannc::partition
