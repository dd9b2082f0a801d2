#include "ir/gradient/joint.h"

#include <fmt/format.h>

#include "ir/internal/text_graph.h"
#include "ir/internal/text_writer.h"
#include "ir/verify.h"

namespace rannc::ir {

std::string_view str(Phase phase) {
  constexpr std::string_view kNames[] = {"F", "I", "W"};
  return kNames[static_cast<size_t>(phase)];
}

uint32_t Joint::forward_count() const {
  uint32_t count = 0;
  while (count < origins.size() && origins[count].phase == Phase::kForward) ++count;
  return count;
}

std::vector<ValueId> Joint::copies_of(const Graph& planning) const {
  std::vector<ValueId> copies(planning.value_count());
  for (const ValueId value : planning.values()) {
    if (!planning.producer(value).valid()) copies[value.index()] = graph.find(planning.value(value).name);
  }
  for (const TaskId task : planning.tasks()) {
    const auto from = planning.outputs(task);
    const auto to = graph.outputs(task);
    for (size_t i = 0; i < std::min(from.size(), to.size()); ++i) copies[from[i].index()] = to[i];
  }
  return copies;
}

std::string print(const Joint& joint) {
  std::string text = "rannc.joint 1\n";
  append_graph(text, joint.graph);
  const auto name = [&](ValueId value) { append_name(text, '%', joint.graph.value(value).name); };
  for (uint32_t i = joint.forward_count(); i < joint.origins.size(); ++i) {
    fmt::format_to(std::back_inserter(text), "gradient #{} of #{} phase {}\n", i, joint.origins[i].task.index(),
                   str(joint.origins[i].phase));
  }
  for (size_t term = 0; term < joint.seeds.size(); ++term) {
    if (!joint.seeds[term].valid()) continue;
    text += "seed ";
    name(joint.seeds[term]);
    fmt::format_to(std::back_inserter(text), " of {}\n", term);
  }
  for (const Joint::ParameterGradient& part : joint.gradients) {
    text += "part ";
    name(part.gradient);
    text += " of ";
    name(part.parameter);
    fmt::format_to(std::back_inserter(text), " in #{}\n", part.reader.index());
  }
  return text;
}

namespace {

class JointReader {
 public:
  explicit JointReader(const std::string& file) : file_(file), graph_(file) {}

  Result<void> read(TextCursor& line) {
    RANNC_ASSIGN(const bool known, graph_.read(line));
    if (known) return {};
    if (line.accept_word("gradient")) return origin(line);
    if (line.accept_word("seed")) return seed(line);
    if (line.accept_word("part")) return part(line);
    return line.expected("a statement of a graph, or one of gradient seed part");
  }

  Result<Joint> finish() && {
    RANNC_TRY(graph_.check_end(file_));
    joint_.graph = std::move(graph_).take();
    const size_t tasks = joint_.graph.task_count();
    if (joint_.origins.size() > tasks) return error({}, "there are more gradient tasks than tasks", "J2");
    std::vector<Joint::Origin> all;
    for (uint32_t i = 0; i < tasks - joint_.origins.size(); ++i) all.push_back({TaskId(i), Phase::kForward});
    all.insert(all.end(), joint_.origins.begin(), joint_.origins.end());
    joint_.origins = std::move(all);
    joint_.seeds.resize(joint_.graph.losses().size());
    for (const auto& [term, value] : seeds_) {
      if (term >= joint_.seeds.size())
        return error({}, fmt::format("a seed of term {}, which is not there", term), "J3");
      joint_.seeds[term] = value;
    }
    RANNC_TRY(as_result(verify(joint_.graph)));
    return std::move(joint_);
  }

 private:
  Result<ValueId> value(TextCursor& line) {
    const size_t begin = line.column();
    RANNC_ASSIGN(const std::string name, line.name('%', "a value"));
    const ValueId found = graph_.graph().find(name);
    if (found.valid()) return found;
    return line.fault(begin, fmt::format("the graph has no value %{}", name));
  }
  Result<TaskId> task(TextCursor& line) {
    RANNC_ASSIGN(const uint32_t index, line.index("#", graph_.graph().task_count(), "a task"));
    return TaskId(index);
  }

  Result<void> origin(TextCursor& line) {
    const size_t begin = line.column();
    RANNC_ASSIGN(const TaskId gradient, task(line));
    const bool next = first_ == 0 || gradient.index() == first_ + joint_.origins.size();
    if (!next) return line.fault(begin, "gradient tasks must be in order", "J2");
    if (first_ == 0) first_ = gradient.index();
    RANNC_TRY(line.expect("of"));
    RANNC_ASSIGN(const TaskId of, task(line));
    RANNC_TRY(line.expect("phase"));
    const bool input = line.accept_word("I");
    if (!input && !line.accept_word("W")) return line.expected("a phase, I or W");
    joint_.origins.push_back({of, input ? Phase::kInput : Phase::kWeight});
    return line.expect_end();
  }
  Result<void> seed(TextCursor& line) {
    RANNC_ASSIGN(const ValueId seed, value(line));
    RANNC_TRY(line.expect("of"));
    RANNC_ASSIGN(const uint64_t term, line.unsigned_integer("a loss term", UINT32_MAX));
    seeds_.emplace_back(term, seed);
    return line.expect_end();
  }
  Result<void> part(TextCursor& line) {
    Joint::ParameterGradient part;
    RANNC_ASSIGN(part.gradient, value(line));
    RANNC_TRY(line.expect("of"));
    RANNC_ASSIGN(part.parameter, value(line));
    RANNC_TRY(line.expect("in"));
    RANNC_ASSIGN(part.reader, task(line));
    joint_.gradients.push_back(part);
    return line.expect_end();
  }

  const std::string& file_;
  GraphReader graph_;
  Joint joint_;  // origins of gradient tasks alone until the end
  uint32_t first_ = 0;
  std::vector<std::pair<uint64_t, ValueId>> seeds_;
};

}  // namespace

Result<Joint> parse_joint(std::string_view text, const std::string& file) {
  JointReader reader(file);
  RANNC_TRY(each_statement(text, file, "rannc.joint", [&](TextCursor& line) { return reader.read(line); }));
  return std::move(reader).finish();
}

bool equal(const Joint& a, const Joint& b) {
  return equal(a.graph, b.graph) && a.origins == b.origins && a.seeds == b.seeds && a.gradients == b.gradients;
}

}  // namespace rannc::ir
