// Reads programs, statement by statement.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>

#include "ir/internal/text_graph.h"
#include "ir/program/internal/text_program.h"
#include "ir/program/program_text.h"

namespace rannc::ir {

namespace {

using Kind = Instruction::Kind;

class ProgramReader {
 public:
  Result<void> statement(TextCursor& line) {
    if (line.accept_word("program")) return begin(line);
    if (parsed_.programs.empty()) return line.expected("`program`");
    for (const auto& [word, kind] : {std::pair("fixed", Leaf::kFixed), std::pair("memory", Leaf::kMemory),
                                     std::pair("argument", Leaf::kArgument)}) {
      if (line.accept_word(word)) return leaf(line, kind);
    }
    if (calls_open_) {
      RANNC_ASSIGN(const bool read, inside_calls(line));
      if (read) return {};
    }
    if (!program().loops.empty()) {
      const auto value = [&](const std::string& name) { return value_named(name); };
      RANNC_ASSIGN(const bool read, read_loop_line(line, program().loops.back(), value));
      if (read) return {};
    }
    RANNC_TRY(end_calls(line));
    return instruction(line);
  }

  Result<ParsedPrograms> end(const std::string& file) && {
    TextCursor nothing({}, 0, file);
    RANNC_TRY(end_calls(nothing));
    return std::move(parsed_);
  }

 private:
  enum class Leaf : uint8_t { kFixed, kMemory, kArgument };

  Program& program() { return parsed_.programs.back(); }
  Instruction& open() { return program().instructions.back(); }
  Graph& graph() { return *parsed_.graphs.back(); }

  // --- head

  Result<void> begin(TextCursor& line) {
    RANNC_TRY(end_calls(line));
    RANNC_ASSIGN(const std::string name, line.word("the name of a program"));
    RANNC_TRY(line.expect("stage"));
    RANNC_ASSIGN(const uint64_t stage, line.unsigned_integer("a stage"));
    RANNC_TRY(line.expect("device"));
    const bool cuda = line.accept_word(str(DeviceType::kCuda));
    if (!cuda && !line.accept_word(str(DeviceType::kCpu))) return line.expected("cpu or cuda");
    if (parsed_.stages.empty() || parsed_.stages.back() != stage) {
      parsed_.graphs.push_back(std::make_unique<Graph>());
      values_.clear();
    }
    parsed_.stages.push_back(stage);
    places_.clear();
    parsed_.programs.push_back(
        {.name = name, .graph = &graph(), .device = cuda ? DeviceType::kCuda : DeviceType::kCpu});
    return line.expect_end();
  }

  ValueId value_named(const std::string& name) {
    const auto [found, fresh] = values_.try_emplace(name);
    if (fresh) found->second = graph().add_value(ValueKind::kInput, name, {});
    return found->second;
  }

  /// Reads `%y : f32[4]`. A value has one type in all programs of a stage.
  Result<ValueId> typed(TextCursor& line, bool& dead) {
    const size_t begin = line.column();
    RANNC_ASSIGN(const std::string name, line.name('%', "a value"));
    dead = line.accept("!");
    RANNC_TRY(line.expect(":"));
    RANNC_ASSIGN(ValueType type, line.type());
    const bool known = values_.contains(name);
    const ValueId value = value_named(name);
    if (known && graph().type(value) != type && graph().type(value) != ValueType()) {
      return line.fault(begin, fmt::format("%{} has another type before", name), "L1");
    }
    graph().set_type(value, std::move(type));
    return value;
  }

  Result<void> leaf(TextCursor& line, Leaf kind) {
    bool dead = false;
    if (kind == Leaf::kArgument) {
      RANNC_TRY(definition(line, dead));
      ++program().arguments;
      return line.expect_end();
    }
    RANNC_ASSIGN(const ValueId value, typed(line, dead));
    if (kind == Leaf::kFixed) places_[value] = {ProgramOperand::Kind::kFixed, false, value.index()};
    return line.expect_end();
  }

  /// Reads `%y : f32[4] in %x` into a new slot.
  Result<void> definition(TextCursor& line, bool& dead) {
    const size_t begin = line.column();
    RANNC_ASSIGN(const ValueId value, typed(line, dead));
    ValueId memory = value;
    if (line.accept_word("in")) {
      memory = ValueId();
      if (!line.accept_word("fixed")) {
        RANNC_ASSIGN(const std::string name, line.name('%', "a value, or `fixed`"));
        memory = value_named(name);
      }
    }
    const auto slot = static_cast<uint32_t>(program().slots.size());
    if (!places_.try_emplace(value, ProgramOperand{ProgramOperand::Kind::kSlot, false, slot}).second)
      return line.fault(begin, "the value exists already", "L1");
    program().slots.push_back({value, memory});
    return {};
  }

  // --- instructions

  Result<void> instruction(TextCursor& line) {
    program().instructions.emplace_back();
    open().first_result = static_cast<uint32_t>(program().slots.size());
    while (line.accept("#")) {
      RANNC_ASSIGN(const uint64_t task, line.unsigned_integer("a task", UINT32_MAX - 1));
      open().tasks.emplace_back(static_cast<uint32_t>(task));
      if (!line.accept(",")) break;
    }
    if (line.accept_word("calls")) {
      calls_open_ = true;
      begin_calls();
      return flags(line);
    }
    TextCursor ahead = line;
    if (ahead.accept("%")) RANNC_TRY(results(line));
    RANNC_TRY(body(line));
    return flags(line);
  }

  /// Reads `%y : f32[4], %m : f32[4] = `.
  Result<void> results(TextCursor& line) {
    do {
      bool dead = false;
      RANNC_TRY(definition(line, dead));
      if (dead) open().dead.push_back(open().first_result + open().results);
      ++open().results;
    } while (line.accept(","));
    return line.expect("=");
  }

  Result<void> flags(TextCursor& line) {
    open().grad_mode = line.accept_word("grad-mode");
    open().records = line.accept_word("records");
    return line.expect_end();
  }

  Result<void> body(TextCursor& line) {
    constexpr std::pair<std::string_view, Kind> kWords[] = {
        {"task", Kind::kTask},          {"exchange", Kind::kExchange}, {"loop", Kind::kLoop},
        {"random", Kind::kRandomInput}, {"add", Kind::kAdd},           {"add-product", Kind::kAddProduct},
        {"return", Kind::kReturn}};
    for (const auto& [word, kind] : kWords) {
      if (!line.accept_word(word)) continue;
      open().kind = kind;
      RANNC_TRY(operands(line));
      if (kind == Kind::kLoop) {
        open().number = static_cast<uint32_t>(program().loops.size());
        program().loops.emplace_back();
      }
      if (kind == Kind::kRandomInput && open().results > 0)
        open().number = program().slots[open().first_result].value.index();
      if (!open().adds()) return {};
      RANNC_TRY(line.expect("to"));
      RANNC_ASSIGN(open().number, line.unsigned_integer("a sum", UINT32_MAX));
      return {};
    }
    if (line.accept_word("mark")) {
      open().kind = Kind::kMark;
      RANNC_ASSIGN(open().number, line.unsigned_integer("a bucket", UINT32_MAX));
      return {};
    }
    begin_calls();
    RANNC_TRY(call(line, open().results));
    for (uint32_t i = 0; i < open().results; ++i) lowering_->results.emplace_back(aten::Made{0, i});
    open().lowering = std::move(lowering_);
    return {};
  }

  Result<void> operands(TextCursor& line) {
    RANNC_TRY(line.expect("("));
    while (!line.accept(")")) {
      if (!open().operands.empty()) RANNC_TRY(line.expect(","));
      RANNC_ASSIGN(const ProgramOperand operand, this->operand(line));
      open().operands.push_back(operand);
    }
    return {};
  }

  Result<ProgramOperand> operand(TextCursor& line) {
    if (line.accept_word("none")) return ProgramOperand();
    const size_t begin = line.column();
    RANNC_ASSIGN(const std::string name, line.name('%', "a value, or `none`"));
    const auto place = places_.find(value_named(name));
    if (place == places_.end()) return line.fault(begin, fmt::format("%{} is read before it is made", name), "L2");
    ProgramOperand operand = place->second;
    operand.last = line.accept("!");
    return operand;
  }

  // --- calls

  void begin_calls() {
    lowering_ = std::make_shared<aten::Lowering>();
    made_.clear();
    numbers_.clear();
  }

  /// Reads a call, or `makes %y : f32[4] = ~0`. False: it is neither.
  Result<bool> inside_calls(TextCursor& line) {
    if (line.accept_word("makes")) {
      RANNC_TRY(results(line));
      RANNC_ASSIGN(const aten::Value value, temporary(line));
      lowering_->results.push_back(value);
      RANNC_TRY(line.expect_end());
      return true;
    }
    uint32_t results = 0;
    for (; line.accept("~"); line.accept(",")) {
      const size_t begin = line.column();
      RANNC_ASSIGN(const uint64_t number, line.unsigned_integer("a number"));
      if (number != made_.size()) return line.fault(begin, "results of calls are numbered in order", "L4");
      made_.push_back({static_cast<uint32_t>(lowering_->calls.size()), results++});
    }
    if (!line.accept("=")) return results == 0 ? Result<bool>(false) : Result<bool>(line.expected("`=`"));
    RANNC_TRY(call(line, results));
    RANNC_TRY(line.expect_end());
    return true;
  }

  Result<void> end_calls(TextCursor& line) {
    if (!std::exchange(calls_open_, false)) return {};
    if (lowering_->calls.empty()) return line.expected("a call");
    open().lowering = std::move(lowering_);
    return {};
  }

  Result<aten::Value> temporary(TextCursor& line) {
    const size_t begin = line.column();
    RANNC_TRY(line.expect("~"));
    RANNC_ASSIGN(const uint64_t number, line.unsigned_integer("a number"));
    const bool is_made = number < made_.size() && made_[number].call < lowering_->calls.size();
    if (!is_made) return line.fault(begin, fmt::format("~{} is read before it is made", number), "L4");
    return aten::Value(made_[number]);
  }

  Result<void> call(TextCursor& line, uint32_t results) {
    aten::Call made;
    RANNC_ASSIGN(made.schema, line.word("an operator"));
    made.results = results;
    RANNC_TRY(line.expect("("));
    while (!line.accept(")")) {
      if (!made.arguments.empty()) RANNC_TRY(line.expect(","));
      TextCursor ahead = line;
      const std::string name(ahead.peek_word());
      const bool named = !name.empty() && ahead.accept_word(name) && ahead.accept("=");
      if (named) line = ahead;
      RANNC_ASSIGN(aten::Argument::Kind value, argument(line));
      made.arguments.emplace_back(named ? name : std::string(), std::move(value));
    }
    made.list = line.accept_word("list");
    lowering_->calls.push_back(std::move(made));
    return {};
  }

  /// Reads a tensor. Equal ones are one operand of the instruction.
  Result<aten::Value> tensor(TextCursor& line) {
    TextCursor ahead = line;
    if (ahead.accept("~")) return temporary(line);
    RANNC_ASSIGN(const ProgramOperand operand, this->operand(line));
    if (operand.kind == ProgramOperand::Kind::kAbsent) return aten::Value(aten::kAbsent);
    const auto key = std::pair(operand.kind, operand.index);
    const auto [at, fresh] = numbers_.try_emplace(key, static_cast<uint32_t>(open().operands.size()));
    if (fresh) open().operands.push_back(operand);
    open().operands[at->second].last = operand.last;
    return aten::Value(aten::Operand{at->second});
  }

  template <class Item, class Read>
  Result<aten::Argument::Kind> list(TextCursor& line, std::vector<Item> items, Read&& read) {
    while (!line.accept("]")) {
      if (!items.empty()) RANNC_TRY(line.expect(","));
      RANNC_ASSIGN(auto item, read());
      items.push_back(std::move(item));
    }
    return aten::Argument::Kind(std::move(items));
  }

  Result<aten::Argument::Kind> list_argument(TextCursor& line) {
    TextCursor ahead = line;
    ahead.accept("[");
    const auto tensors = [&] { return list(line, std::vector<aten::Value>(), [&] { return tensor(line); }); };
    const auto flags = [&] {
      return list(line, std::vector<bool>(), [&]() -> Result<bool> {
        if (line.accept_word("true")) return true;
        if (line.accept_word("false")) return false;
        return line.expected("true or false");
      });
    };
    if (ahead.accept("0x") || ahead.accept("-0x")) {
      RANNC_ASSIGN(std::vector<double> numbers, line.numbers());
      return aten::Argument::Kind(std::move(numbers));
    }
    if (line.accept("[%]")) return aten::Argument::Kind(std::vector<aten::Value>());
    if (line.accept("[?]")) return aten::Argument::Kind(std::vector<bool>());
    const std::string_view word = ahead.peek_word();
    const bool of_tensors = ahead.accept("%") || ahead.accept("~") || word == "none";
    if (of_tensors || word == "true" || word == "false") {
      line.accept("[");
      return of_tensors ? tensors() : flags();
    }
    RANNC_ASSIGN(Shape sizes, line.dims());
    return aten::Argument::Kind(std::move(sizes));
  }

  Result<aten::Argument::Kind> argument(TextCursor& line) {
    TextCursor ahead = line;
    if (ahead.accept("%") || ahead.accept("~")) {
      RANNC_ASSIGN(aten::Value value, tensor(line));
      return aten::Argument::Kind(value);
    }
    if (ahead.accept("[")) return list_argument(line);
    if (ahead.accept("\"")) {
      RANNC_ASSIGN(std::string text, line.quoted("a text"));
      return aten::Argument::Kind(aten::Text{std::move(text)});
    }
    if (line.accept("!")) {
      RANNC_ASSIGN(const DType dtype, line.dtype());
      return aten::Argument::Kind(dtype);
    }
    if (ahead.accept("0x") || ahead.accept("-0x")) {
      RANNC_ASSIGN(const double number, line.number("a number"));
      return aten::Argument::Kind(number);
    }
    if (const auto word = word_argument(line)) return *word;
    RANNC_ASSIGN(Dim size, line.dim());
    return aten::Argument::Kind(std::move(size));
  }

  static std::optional<aten::Argument::Kind> word_argument(TextCursor& line) {
    const std::string_view word = line.peek_word();
    const auto found = std::find(kArgumentWords.begin(), kArgumentWords.end(), word);
    if (found == kArgumentWords.end()) return std::nullopt;
    line.accept_word(word);
    if (word == "none") return aten::None();
    if (word == "true" || word == "false") return word == "true";
    if (word == "device") return aten::Device();
    if (word == "training") return aten::Training();
    const auto format = std::find(kMemoryFormats.begin(), kMemoryFormats.end(), word) - kMemoryFormats.begin();
    return static_cast<aten::MemoryFormat>(format);
  }

  ParsedPrograms parsed_;
  std::map<std::string, ValueId> values_;                                  ///< of the stage, by name
  std::map<ValueId, ProgramOperand> places_;                               ///< of the program
  bool calls_open_ = false;                                                ///< the last instruction is `calls`
  std::shared_ptr<aten::Lowering> lowering_;                               ///< of the instruction that is read
  std::vector<aten::Made> made_;                                           ///< results of its calls
  std::map<std::pair<ProgramOperand::Kind, uint32_t>, uint32_t> numbers_;  ///< of its operands
};

}  // namespace

Result<ParsedPrograms> parse_programs(std::string_view text, const std::string& file) {
  ProgramReader reader;
  RANNC_TRY(each_statement(text, file, "rannc.programs", [&](TextCursor& line) { return reader.statement(line); }));
  RANNC_ASSIGN(ParsedPrograms parsed, std::move(reader).end(file));
  for (const Program& program : parsed.programs) {
    const std::vector<Diagnostic> faults = verify(program);
    if (faults.empty()) continue;
    return error({file, 0, 0, {}}, "program " + program.name + ": " + faults[0].message, faults[0].rule);
  }
  return parsed;
}

}  // namespace rannc::ir
