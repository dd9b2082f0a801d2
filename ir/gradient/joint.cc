#include "ir/gradient/joint.h"

#include <fmt/format.h>

#include "ir/internal/text_joint.h"
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

namespace {

void append_border(std::string& text, const Graph& graph, std::string_view word, const Joint::BorderGradient& border) {
  text += word;
  append_name(text, '%', graph.value(border.gradient).name);
  text += " of ";
  append_name(text, '%', graph.value(border.value).name);
  text += '\n';
}

}  // namespace

void append_joint(std::string& text, const Joint& joint) {
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
  for (const auto& output : joint.outputs) append_border(text, joint.graph, "output_gradient ", output);
  for (const auto& input : joint.inputs) append_border(text, joint.graph, "input_gradient ", input);
  for (const Joint::ParameterGradient& part : joint.gradients) {
    text += "part ";
    name(part.gradient);
    text += " of ";
    name(part.parameter);
    fmt::format_to(std::back_inserter(text), " in #{}\n", part.reader.index());
  }
}

std::string print(const Joint& joint) {
  std::string text = "rannc.joint 1\n";
  append_joint(text, joint);
  return text;
}

Result<bool> JointReader::read(TextCursor& line) {
  RANNC_ASSIGN(const bool known, graph_.read(line));
  if (known) return true;
  for (const auto& [word, statement] : kStatements) {
    if (!line.accept_word(word)) continue;
    RANNC_TRY((this->*statement)(line));
    return true;
  }
  return false;
}

const std::pair<std::string_view, JointReader::Statement> JointReader::kStatements[5] = {
    {"gradient", &JointReader::origin},
    {"seed", &JointReader::seed},
    {"output_gradient", &JointReader::output_gradient},
    {"input_gradient", &JointReader::input_gradient},
    {"part", &JointReader::part},
};

Result<Joint> JointReader::finish() && {
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
    if (term >= joint_.seeds.size()) return error({}, fmt::format("a seed of term {}, which is not there", term), "J3");
    joint_.seeds[term] = value;
  }
  RANNC_TRY(as_result(verify(joint_.graph)));
  return std::move(joint_);
}

Result<ValueId> JointReader::value(TextCursor& line) {
  const size_t begin = line.column();
  RANNC_ASSIGN(const std::string name, line.name('%', "a value"));
  const ValueId found = graph_.graph().find(name);
  if (found.valid()) return found;
  return line.fault(begin, fmt::format("the graph has no value %{}", name));
}

Result<TaskId> JointReader::task(TextCursor& line) {
  RANNC_ASSIGN(const uint32_t index, line.index("#", graph_.graph().task_count(), "a task"));
  return TaskId(index);
}

Result<void> JointReader::origin(TextCursor& line) {
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

Result<void> JointReader::seed(TextCursor& line) {
  RANNC_ASSIGN(const ValueId seed, value(line));
  RANNC_TRY(line.expect("of"));
  RANNC_ASSIGN(const uint64_t term, line.unsigned_integer("a loss term", UINT32_MAX));
  seeds_.emplace_back(term, seed);
  return line.expect_end();
}

Result<Joint::BorderGradient> JointReader::border(TextCursor& line) {
  Joint::BorderGradient found;
  RANNC_ASSIGN(found.gradient, value(line));
  RANNC_TRY(line.expect("of"));
  RANNC_ASSIGN(found.value, value(line));
  RANNC_TRY(line.expect_end());
  return found;
}

Result<void> JointReader::output_gradient(TextCursor& line) {
  RANNC_ASSIGN(const Joint::BorderGradient found, border(line));
  joint_.outputs.push_back(found);
  return {};
}

Result<void> JointReader::input_gradient(TextCursor& line) {
  RANNC_ASSIGN(const Joint::BorderGradient found, border(line));
  joint_.inputs.push_back(found);
  return {};
}

Result<void> JointReader::part(TextCursor& line) {
  Joint::ParameterGradient part;
  RANNC_ASSIGN(part.gradient, value(line));
  RANNC_TRY(line.expect("of"));
  RANNC_ASSIGN(part.parameter, value(line));
  RANNC_TRY(line.expect("in"));
  RANNC_ASSIGN(part.reader, task(line));
  joint_.gradients.push_back(part);
  return line.expect_end();
}

Result<Joint> parse_joint(std::string_view text, const std::string& file) {
  JointReader reader(file);
  RANNC_TRY(each_statement(text, file, "rannc.joint", [&](TextCursor& line) -> Result<void> {
    RANNC_ASSIGN(const bool known, reader.read(line));
    if (known) return {};
    return line.expected("a statement of a graph, or one of gradient seed output_gradient input_gradient part");
  }));
  return std::move(reader).finish();
}

bool equal(const Joint& a, const Joint& b) {
  return equal(a.graph, b.graph) && a.origins == b.origins && a.seeds == b.seeds && a.outputs == b.outputs &&
         a.inputs == b.inputs && a.gradients == b.gradients;
}

}  // namespace rannc::ir
