// Prints and reads loops of programs.
#include <fmt/format.h>

#include "ir/internal/text_graph.h"
#include "ir/internal/text_loop.h"
#include "ir/internal/text_writer.h"
#include "ir/program/internal/text_program.h"

namespace rannc::ir {

namespace {

using Made = LoopStatement::Kind;
constexpr std::array<std::string_view, 3> kLies = {"full", "rows", "scalars"};  // in the order of `LoopValue::Kind`
// In the order of `LoopStatement::Kind`.
constexpr std::array<std::string_view, 6> kMade = {"each", "row", "row-sum", "row-max", "column-sum", "total"};

template <class Enum, size_t n>
Result<Enum> one_of(TextCursor& line, const std::array<std::string_view, n>& words, std::string_view what) {
  const auto found = std::find(words.begin(), words.end(), line.peek_word());
  if (found == words.end()) return line.expected(what);
  line.accept_word(*found);
  return static_cast<Enum>(found - words.begin());
}

void append_made(std::string& to, const ProgramLoop::Operand& operand) {
  to += operand.is_made ? fmt::format("m{}.{}", operand.index, operand.result) : fmt::format("i{}", operand.index);
}

/// Reads `i0` or `m1.0`.
Result<ProgramLoop::Operand> read_made(TextCursor& line) {
  constexpr uint64_t kMost = UINT32_MAX - 1;
  ProgramLoop::Operand operand;
  operand.is_made = line.accept("m");
  if (!operand.is_made) RANNC_TRY(line.expect("i"));
  RANNC_ASSIGN(operand.index, line.unsigned_integer("a number", kMost));
  if (!operand.is_made) return operand;
  RANNC_TRY(line.expect("."));
  RANNC_ASSIGN(operand.result, line.unsigned_integer("a number", kMost));
  return operand;
}

void append_input(std::string& to, const ProgramLoop::Input& input, const Graph& graph, std::string& comment) {
  const LoopValue& lies = input.value;
  fmt::format_to(std::back_inserter(to), "  input {} {}", kLies[static_cast<size_t>(lies.kind)], str(input.dtype));
  fmt::format_to(std::back_inserter(to), " [{}, {}, {}, {}]", lies.divisor.str(), lies.period.str(),
                 lies.outer_divisor.str(), lies.outer_period.str());
  if (input.ignored) fmt::format_to(std::back_inserter(to), " ignored {}", *input.ignored);
  if (!input.random) return;
  to += " random ";
  append_name(to, '%', graph.value(input.random->value).name);
  to += " elements [" + input.random->elements.str() + "] = ";
  append_random_input(to, input.random->random, comment);
}

Result<ProgramLoop::Input> read_input(TextCursor& line, const std::function<ValueId(const std::string&)>& value) {
  ProgramLoop::Input input;
  RANNC_ASSIGN(input.value.kind, one_of<LoopValue::Kind>(line, kLies, "full, rows or scalars"));
  RANNC_ASSIGN(input.dtype, line.dtype());
  RANNC_ASSIGN(const Shape lies, line.dims());
  if (lies.size() != 4) return line.expected("four sizes before this");
  input.value.divisor = lies[0], input.value.period = lies[1];
  input.value.outer_divisor = lies[2], input.value.outer_period = lies[3];
  if (line.accept_word("ignored")) {
    RANNC_ASSIGN(input.ignored, line.integer("a label"));
  }
  if (line.accept_word("random")) {
    RANNC_ASSIGN(const std::string name, line.name('%', "a random input"));
    RANNC_TRY(line.expect("elements"));
    RANNC_ASSIGN(const Shape elements, line.dims());
    if (elements.size() != 1) return line.expected("one size before this");
    RANNC_TRY(line.expect("="));
    RANNC_ASSIGN(const RandomInput random, read_random_input(line));
    input.random = {value(name), random, elements[0]};
  }
  return input;
}

void append_member(std::string& to, const ProgramLoop::Member& member) {
  fmt::format_to(std::back_inserter(to), "  member #{} (", member.task.index());
  for (size_t i = 0; i < member.operands.size(); ++i) {
    if (i != 0) to += ", ";
    if (member.operands[i]) append_made(to, *member.operands[i]);
    if (!member.operands[i]) to += "none";
  }
  to += ")";
  for (size_t i = 0; i < member.types.size(); ++i)
    fmt::format_to(std::back_inserter(to), " {} {}", kMade[static_cast<size_t>(member.loop.results[i])],
                   str(member.types[i]));
  to += " " + print(member.loop.body);
}

Result<ProgramLoop::Member> read_member(TextCursor& line) {
  ProgramLoop::Member member;
  RANNC_ASSIGN(const uint32_t task, line.index("#", UINT32_MAX, "a task"));
  member.task = TaskId(task);
  RANNC_TRY(line.expect("("));
  while (!line.accept(")")) {
    if (!member.operands.empty()) RANNC_TRY(line.expect(","));
    if (line.accept_word("none")) {
      member.operands.emplace_back();
      continue;
    }
    RANNC_ASSIGN(const ProgramLoop::Operand operand, read_made(line));
    member.operands.emplace_back(operand);
  }
  while (!line.peek_word().empty()) {
    RANNC_ASSIGN(const Made made, one_of<Made>(line, kMade, "how a result is made"));
    member.loop.results.push_back(made);
    RANNC_ASSIGN(const DType type, line.dtype());
    member.types.push_back(type);
  }
  RANNC_ASSIGN(member.loop.body, read_loop_body(line));
  return member;
}

void append_output(std::string& to, const ProgramLoop::Output& output) {
  to += "  output ";
  append_made(to, output.random ? ProgramLoop::Operand{false, *output.random, 0}
                                : ProgramLoop::Operand{true, output.member, output.result});
  fmt::format_to(std::back_inserter(to), " {} [", str(output.dtype));
  for (size_t i = 0; i < output.sizes.size(); ++i) to += (i == 0 ? "" : ", ") + output.sizes[i].str();
  to += "]";
}

Result<ProgramLoop::Output> read_output(TextCursor& line) {
  ProgramLoop::Output output;
  RANNC_ASSIGN(const ProgramLoop::Operand made, read_made(line));
  if (made.is_made) output.member = made.index, output.result = made.result;
  if (!made.is_made) output.random = made.index;
  RANNC_ASSIGN(output.dtype, line.dtype());
  RANNC_ASSIGN(output.sizes, line.dims());
  return output;
}

}  // namespace

void append_loop(std::string& to, const ProgramLoop& loop, const Graph& graph) {
  std::string comment;
  fmt::format_to(std::back_inserter(to), "  loop {} [{}, {}]{}\n", str(loop.dtype), loop.rows.str(), loop.columns.str(),
                 loop.by_rows ? " by-rows" : "");
  for (const ProgramLoop::Input& input : loop.inputs) append_input(to, input, graph, comment), end_line(to, comment);
  for (const ProgramLoop::Member& member : loop.members) append_member(to, member), end_line(to, comment);
  for (const ProgramLoop::Output& output : loop.outputs) append_output(to, output), end_line(to, comment);
}

Result<bool> read_loop_line(TextCursor& line, ProgramLoop& loop,
                            const std::function<ValueId(const std::string&)>& value) {
  if (line.accept_word("loop")) {
    RANNC_ASSIGN(loop.dtype, line.dtype());
    RANNC_ASSIGN(const Shape sizes, line.dims());
    if (sizes.size() != 2) return line.expected("two sizes before this");
    loop.rows = sizes[0], loop.columns = sizes[1];
    loop.by_rows = line.accept_word("by-rows");
  } else if (line.accept_word("input")) {
    RANNC_ASSIGN(ProgramLoop::Input input, read_input(line, value));
    loop.inputs.push_back(std::move(input));
  } else if (line.accept_word("member")) {
    RANNC_ASSIGN(ProgramLoop::Member member, read_member(line));
    member.loop.rows = loop.rows, member.loop.columns = loop.columns;
    loop.members.push_back(std::move(member));
  } else if (line.accept_word("output")) {
    RANNC_ASSIGN(ProgramLoop::Output output, read_output(line));
    loop.outputs.push_back(std::move(output));
  } else {
    return false;
  }
  RANNC_TRY(line.expect_end());
  return true;
}

}  // namespace rannc::ir
