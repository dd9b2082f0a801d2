// Splits the statements of a loop into passes over the columns of a row.
//
// A statement belongs to the first pass in which everything that it reads is known. A sum over columns is known after
// its pass. A value that a later pass reads again comes from a result or a row of scratch memory.
#include "codegen/internal/native_loop.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "codegen/internal/native_expression.h"

namespace rannc::codegen {

namespace {

using ir::LoopNode;
using ir::LoopOp;
using ir::LoopStatement;
using ir::LoopValue;
using ir::ProgramLoop;

class LoopWriter {
 public:
  LoopWriter(std::string name, const ProgramLoop& loop) : name_(std::move(name)), loop_(loop) {}

  NativeLoop write() {
    collect();
    text_ = fmt::format("void {}(const LoopRun& run, int64_t first, int64_t last) {{\n", name_);
    line(1, fmt::format("using T = {};", loop_.dtype == ir::DType::kF64 ? "double" : "float"));
    line(1, "for (int64_t r = first; r < last; ++r) {");
    line(2, "const int64_t columns = length_of(run, r);");
    head();
    size_t passes = 0;
    for (const Value& each : values_) passes = std::max(passes, each.pass + 1);
    for (size_t pass = 0; pass < passes; ++pass) write(pass);
    line(1, "}");
    return {text_ + "}\n", scratch_};
  }

 private:
  /// A statement of a member, or an input.
  struct Value {
    std::string name;
    LoopStatement::Kind kind = LoopStatement::Kind::kEach;
    std::string expression;
    bool counts = false;             ///< reads the number of the column
    size_t pass = 0;                 ///< in which it is computed; of a row's value: after which
    std::optional<uint32_t> output;  ///< of the loop
    bool truth = false;
    std::set<size_t> reads;           ///< statements
    std::set<uint32_t> inputs;        ///< read by it
    bool again = false;               ///< a later pass reads it
    std::optional<uint32_t> scratch;  ///< row
  };

  void line(int depth, const std::string& text) {
    text_ += std::string(static_cast<size_t>(2 * depth), ' ') + text + "\n";
  }

  static bool per_row(const Value& value) {
    return value.kind != LoopStatement::Kind::kEach && value.kind != LoopStatement::Kind::kColumnSum;
  }

  /// Whether a value is computed once per row, behind the pass before.
  static bool behind_pass(const Value& value) {
    return value.kind == LoopStatement::Kind::kRow || value.kind == LoopStatement::Kind::kTotal;
  }

  /// The first pass that may read a value.
  static size_t known(const Value& value) { return per_row(value) ? value.pass + 1 : value.pass; }

  bool loaded_per_row(uint32_t input) const { return loop_.inputs[input].value.kind == LoopValue::Kind::kScalars; }

  void collect() {
    std::map<std::pair<uint32_t, uint32_t>, size_t> results;  // of members
    for (uint32_t m = 0; m < loop_.members.size(); ++m) {
      const ProgramLoop::Member& member = loop_.members[m];
      const size_t first = values_.size();
      for (const LoopStatement& statement : member.loop.body) {
        Value value{.name = fmt::format("s{}", values_.size()), .kind = statement.kind};
        for (const LoopNode& node : statement.expression) {
          counts_ = counts_ || node.op == LoopOp::kColumns;
          value.counts = value.counts || node.op == LoopOp::kColumn;
        }
        value.expression = native_expression(statement.expression, [&](const LoopNode& node) {
          if (node.op == LoopOp::kStatement) return read(value, first + node.index);
          const ProgramLoop::Operand& operand = *member.operands.at(node.index);
          if (operand.is_made) return read(value, results.at({operand.index, operand.result}));
          value.inputs.insert(operand.index);
          return fmt::format("i{}", operand.index);
        });
        for (const size_t each : value.reads) value.pass = std::max(value.pass, known(values_[each]));
        if (behind_pass(value) && value.pass > 0) --value.pass;
        for (const size_t each : value.reads) {
          Value& from = values_[each];
          if (!per_row(from) && from.pass < value.pass) from.again = true;
        }
        if (statement.result) {
          results[{m, *statement.result}] = values_.size();
          value.truth = member.types.at(*statement.result) == ir::DType::kBool;
        }
        values_.push_back(std::move(value));
      }
    }
    for (uint32_t k = 0; k < loop_.outputs.size(); ++k) {
      if (loop_.outputs[k].random) continue;
      Value& value = values_[results.at({loop_.outputs[k].member, loop_.outputs[k].result})];
      value.output = k;
    }
    for (Value& value : values_) {
      if (value.again && !value.output) value.scratch = scratch_++;
    }
  }

  std::string read(Value& value, size_t from) {
    value.reads.insert(from);
    return values_[from].name;
  }

  void head() {
    if (counts_) line(2, "const Vec<T> n = T(columns);");
    for (uint32_t i = 0; i < loop_.inputs.size(); ++i) head_of_input(i);
    for (const Value& value : values_) head_of(value);
  }

  void head_of_input(uint32_t i) {
    const ProgramLoop::Input& input = loop_.inputs[i];
    const std::string type = element(input.dtype), more = type == "T" ? "" : ", " + type;
    const char* const periodic = ir::has_all_rows(input.value, loop_.members[0].loop.rows) ? "" : "periodic_";
    if (input.random) {
      const bool drops = input.random->random.of == ir::RandomInput::Of::kBernoulli;
      line(2, fmt::format("const T* const p{0} = random_row<T>(run, {0}, r, {1}, {2});", i, place_of_random(i),
                          drops ? fmt::format("dropped({})", input.random->random.drop) : "Uniform()"));
    } else if (!loaded_per_row(i)) {
      line(2, fmt::format("const {1}* const p{0} = {2}row_of<{1}>(run, {0}, r);", i, type, periodic));
    } else {
      line(2, fmt::format("const auto i{0} = {1}element_of<T{2}>(run, {0}, r){3};", i, periodic, more,
                          type == "bool" ? " != 0" : ""));
    }
  }

  /// The row that random numbers are put into.
  std::string place_of_random(uint32_t input) {
    const auto kept = std::find_if(loop_.outputs.begin(), loop_.outputs.end(),
                                   [&](const ProgramLoop::Output& each) { return each.random == input; });
    if (kept == loop_.outputs.end()) return fmt::format("scratch_row<T, T>(run, {})", scratch_++);
    return fmt::format("result_row<T>(run, {}, r)", kept - loop_.outputs.begin());
  }

  void head_of(const Value& value) {
    if (value.output && value.kind == LoopStatement::Kind::kEach) {
      const char* const type = element(loop_.outputs[*value.output].dtype);
      line(2, fmt::format("{1}* const q{0} = result_row<{1}>(run, {0}, r);", *value.output, type));
    }
    if (value.kind == LoopStatement::Kind::kColumnSum) {
      line(2, fmt::format("T* const q{0} = result_row<T>(run, {0}, 0);", *value.output));
    }
    if (value.scratch) {
      line(2, fmt::format("{1}* const kept{0} = scratch_row<T, {1}>(run, {0});", *value.scratch,
                          value.truth ? "bool" : "T"));
    }
  }

  /// The statement that loads an input's columns.
  std::string load_of(uint32_t input) const {
    const std::string type = element(loop_.inputs[input].dtype);
    const char* const load = type == "bool" ? "template truths<T>" : type == "T" ? "load" : "template numbers<T>";
    return fmt::format("const auto i{0} = lanes.{1}(p{0} + j);", input, load);
  }

  static const char* element(ir::DType dtype) {
    switch (dtype) {
      case ir::DType::kBool:
        return "bool";
      case ir::DType::kI64:
        return "int64_t";
      case ir::DType::kI32:
        return "int32_t";
      default:
        return "T";
    }
  }

  void write(size_t pass) {
    std::vector<const Value*> inside, after;
    std::set<uint32_t> inputs;
    std::set<size_t> earlier;
    for (const Value& value : values_) {
      if (value.pass != pass) continue;
      if (behind_pass(value)) {
        after.push_back(&value);
        continue;
      }
      inside.push_back(&value);
      for (const uint32_t input : value.inputs) {
        if (!loaded_per_row(input)) inputs.insert(input);
      }
      for (const size_t from : value.reads) {
        if (!per_row(values_[from]) && values_[from].pass < pass) earlier.insert(from);
      }
    }
    // Values of rows that need no pass come first.
    for (const Value* value : after) {
      if (pass == 0 && reads_no_pass(*value)) assign_row(*value);
    }
    for (const Value* value : inside) {
      if (value->kind == LoopStatement::Kind::kRowSum) line(2, fmt::format("Vec<T> lanes_{} = T(0);", value->name));
      if (value->kind == LoopStatement::Kind::kRowMax)
        line(2, fmt::format("Vec<T> lanes_{} = -T(INFINITY);", value->name));
    }
    if (!inside.empty()) {
      line(2, "each<T>(columns, [&](int64_t j, auto lanes) __attribute__((always_inline)) {");
      const bool counts = std::any_of(inside.begin(), inside.end(), [](const Value* each) { return each->counts; });
      if (counts) line(3, "const auto column = lane_numbers<T>() + T(j);");
      for (const uint32_t input : inputs) line(3, load_of(input));
      for (const size_t from : earlier) {
        const Value& value = values_[from];
        const std::string place =
            value.scratch ? fmt::format("kept{}", *value.scratch) : fmt::format("q{}", *value.output);
        line(3, fmt::format("const auto {} = lanes.{}({} + j);", value.name,
                            value.truth ? "template truths<T>" : "load", place));
      }
      for (const Value* value : inside) statement(*value);
      line(2, "});");
    }
    for (const Value* value : inside) {
      if (value->kind == LoopStatement::Kind::kRowSum)
        line(2, fmt::format("const Vec<T> {0} = lane_sum(lanes_{0});", value->name));
      if (value->kind == LoopStatement::Kind::kRowMax)
        line(2, fmt::format("const Vec<T> {0} = lane_max(lanes_{0});", value->name));
    }
    for (const Value* value : after) {
      if (pass > 0 || !reads_no_pass(*value)) assign_row(*value);
    }
  }

  bool reads_no_pass(const Value& value) const { return value.reads.empty(); }

  void assign_row(const Value& value) {
    if (value.kind == LoopStatement::Kind::kTotal) {
      line(2, fmt::format("add_to_total<T>(run, {}, {});", *value.output, value.expression));
      return;
    }
    line(2, fmt::format("const Vec<T> {} = {};", value.name, value.expression));
    if (value.output) line(2, fmt::format("set_element<T>(run, {}, r, {});", *value.output, value.name));
  }

  void statement(const Value& value) {
    switch (value.kind) {
      case LoopStatement::Kind::kEach:
        line(3, fmt::format("const auto {} = {};", value.name, value.expression));
        if (value.output) line(3, fmt::format("lanes.store(q{} + j, {});", *value.output, value.name));
        if (value.scratch) line(3, fmt::format("lanes.store(kept{} + j, {});", *value.scratch, value.name));
        return;
      case LoopStatement::Kind::kRowSum:
        line(3, fmt::format("lanes_{0} = lanes_{0} + lanes.or_else(Vec<T>({1}), T(0));", value.name, value.expression));
        return;
      case LoopStatement::Kind::kRowMax:
        line(3, fmt::format("lanes_{0} = max(lanes_{0}, lanes.or_else(Vec<T>({1}), -T(INFINITY)));", value.name,
                            value.expression));
        return;
      case LoopStatement::Kind::kColumnSum:
        line(3, fmt::format("lanes.store(q{0} + j, lanes.load(q{0} + j) + ({1}));", *value.output, value.expression));
        return;
      case LoopStatement::Kind::kRow:
      case LoopStatement::Kind::kTotal:
        return;
    }
  }

  const std::string name_;
  const ProgramLoop& loop_;
  std::vector<Value> values_;
  bool counts_ = false;  ///< the columns
  uint32_t scratch_ = 0;
  std::string text_;
};

}  // namespace

NativeLoop native_loop(const std::string& name, const ProgramLoop& loop) { return LoopWriter(name, loop).write(); }

}  // namespace rannc::codegen
