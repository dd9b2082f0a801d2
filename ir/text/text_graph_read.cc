// Parser of graph statements. It checks the preconditions of `Graph` (operands exist, names are unique). Everything
// else is left to the verifier, so that invalid graphs can be written as text and inspected.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "ir/graph/constant.h"
#include "ir/internal/text_graph.h"
#include "ir/internal/text_names.h"
#include "ir/internal/text_writer.h"
#include "ir/op/op.h"
#include "ir/state/state.h"

namespace rannc::ir {

namespace {
constexpr std::string_view kDropout = "core.dropout";  // of older texts
constexpr int kDeepest = 64;                           // nesting depth of bodies
}  // namespace

GraphReader::GraphReader(const std::string& file, int depth) : depth_(depth) {
  const size_t slash = file.rfind('/');
  if (slash != std::string::npos) folder_ = file.substr(0, slash + 1);
}

Result<void> GraphReader::open_body(TextCursor& line) {
  const size_t begin = line.column();
  RANNC_ASSIGN(const uint32_t number, line.index("@b", UINT32_MAX, "a body"));
  if (number != bodies_.size()) {
    return line.fault(
        begin, fmt::format("expected body @b{}, found @b{}: bodies are numbered in order", bodies_.size(), number));
  }
  if (depth_ == kDeepest) return line.fault(begin, fmt::format("bodies are nested more than {} deep", kDeepest));
  inner_ = std::make_unique<GraphReader>(folder_, depth_ + 1);
  return {};
}

// Reads a statement of the open body, which has its own graph, or the end of the body.
Result<bool> GraphReader::read_in_body(TextCursor& line) {
  if (inner_->inner_ || !line.accept_word("end")) return inner_->read(line);
  RANNC_ASSIGN(const uint32_t number, line.index("@b", UINT32_MAX, "a body"));
  if (number != bodies_.size())
    return line.fault(0, fmt::format("@b{} ends where @b{} is open", number, bodies_.size()));
  RANNC_TRY(line.expect_end());
  bodies_.emplace_back(std::move(*inner_).take());
  inner_.reset();
  return true;
}

Result<void> GraphReader::check_end(const std::string& file) const {
  if (!inner_) return {};
  return error(Location{file}, fmt::format("body @b{} has no `end @b{}`", bodies_.size(), bodies_.size()));
}

Result<bool> GraphReader::read(TextCursor& line) {
  if (inner_) return read_in_body(line);
  const TextCursor start = line;
  if (line.accept("#")) {
    line = start;
    RANNC_TRY(read_task(line));
    return true;
  }
  for (const ValueKind kind : kValueKinds) {
    if (!line.accept_word(str(kind))) continue;
    RANNC_TRY(read_leaf(line, kind));
    return true;
  }
  Result<void> done;
  if (line.accept_word("graph")) {
    done = read_name(line);
  } else if (line.accept_word("batch")) {
    done = read_batch(line);
  } else if (line.accept_word("assume")) {
    done = read_assumption(line);
  } else if (line.accept_word("inputs")) {
    done = read_list(line, true);
  } else if (line.accept_word("outputs")) {
    done = read_list(line, false);
  } else if (line.accept_word("loss")) {
    done = read_loss(line);
  } else if (line.accept_word("statistics")) {
    done = read_statistics(line);
  } else if (line.accept_word("state")) {
    done = read_state(line);
  } else if (line.accept_word("body")) {
    done = open_body(line);
  } else {
    RANNC_ASSIGN(const bool known, read_totals(line));
    if (!known) return false;
  }
  RANNC_TRY(std::move(done));
  RANNC_TRY(line.expect_end());
  return true;
}

Result<void> GraphReader::read_name(TextCursor& line) {
  const size_t begin = line.column();
  RANNC_ASSIGN(std::string name, line.quoted("the name of the graph"));
  if (!graph_.name().empty()) return line.fault(begin, "the graph has a name already");
  graph_.set_name(std::move(name));
  return {};
}

Result<void> GraphReader::read_batch(TextCursor& line) {
  const size_t begin = line.column();
  RANNC_ASSIGN(std::string symbol, line.word("the batch symbol"));
  if (!graph_.batch_symbol().empty()) return line.fault(begin, "the graph has a batch symbol already");
  graph_.set_batch_symbol(std::move(symbol));
  return {};
}

Result<void> GraphReader::read_assumption(TextCursor& line) {
  if (!line.accept_word("equal")) return line.expected("`equal`");
  const size_t begin = line.column();
  RANNC_ASSIGN(Shape sides, line.dims());
  if (sides.size() != 2) return line.fault(begin, fmt::format("{} sizes are equal; expected two", sides.size()));
  RANNC_ASSIGN(Location where, read_location(line));
  std::vector<Assumption> all = graph_.assumptions();
  all.push_back({std::move(sides[0]), std::move(sides[1]), std::move(where)});
  graph_.set_assumptions(std::move(all));
  return {};
}

Result<std::string> GraphReader::fresh_name(TextCursor& line) {
  const size_t begin = line.column();
  RANNC_ASSIGN(std::string name, line.name('%', "a value"));
  const bool taken =
      graph_.find(name).valid() || std::find(output_names_.begin(), output_names_.end(), name) != output_names_.end();
  if (taken) return line.fault(begin, fmt::format("%{} is defined a second time", name), "G1");
  return name;
}

Result<ValueId> GraphReader::read_value(TextCursor& line) {
  const size_t begin = line.column();
  RANNC_ASSIGN(const std::string name, line.name('%', "a value"));
  const ValueId id = graph_.find(name);
  if (id.valid()) return id;
  return line.fault(begin, fmt::format("%{} is not defined before it is read", name), "G2");
}

Result<TensorData> GraphReader::read_data(TextCursor& line) {
  if (line.accept_word("hex")) {
    RANNC_ASSIGN(std::vector<std::byte> bytes, line.bytes());
    return TensorData::in_memory(std::move(bytes));
  }
  if (!line.accept_word("file")) return line.expected("`hex` or `file`");
  const size_t begin = line.column();
  RANNC_ASSIGN(std::string path, line.quoted("the path of a file"));
  if (path.empty()) return line.fault(begin, "the path is empty");
  RANNC_TRY(line.expect("offset"));
  RANNC_ASSIGN(const uint64_t offset, line.unsigned_integer("an offset"));
  RANNC_TRY(line.expect("bytes"));
  RANNC_ASSIGN(const uint64_t length, line.unsigned_integer("a number of bytes"));
  return TensorData::in_file(path.front() == '/' ? path : folder_ + path, offset, length);
}

Result<RandomInput> read_random_input(TextCursor& line) {
  const auto word = std::find(kDistributions.begin(), kDistributions.end(), line.peek_word());
  if (word == kDistributions.end()) return line.expected("a distribution (uniform normal bernoulli)");
  line.accept_word(*word);
  RandomInput random_input{.of = static_cast<RandomInput::Of>(word - kDistributions.begin())};
  if (random_input.of == RandomInput::Of::kBernoulli) {
    RANNC_TRY(line.expect("drop"));
    RANNC_ASSIGN(random_input.drop, line.number("a drop probability"));
  }
  RANNC_TRY(line.expect("key"));
  RANNC_ASSIGN(random_input.key, line.unsigned_integer("a key"));
  return random_input;
}

Result<void> GraphReader::read_leaf(TextCursor& line, ValueKind kind) {
  RANNC_ASSIGN(const std::string name, fresh_name(line));
  RANNC_TRY(line.expect(":"));
  RANNC_ASSIGN(ValueType type, line.type());
  if (kind == ValueKind::kRandomInput) {
    RANNC_TRY(line.expect("="));
    RANNC_ASSIGN(const RandomInput random_input, read_random_input(line));
    RANNC_TRY(line.expect_end());
    graph_.add_random_input(name, std::move(type), random_input);
    return {};
  }
  TensorData data;
  if (line.accept("=")) {
    RANNC_ASSIGN(data, read_data(line));
  }
  RANNC_TRY(line.expect_end());
  graph_.add_value(kind, name, std::move(type), std::move(data));
  return {};
}

Result<const OpInfo*> GraphReader::read_op(TextCursor& line) {
  const size_t begin = line.column();
  RANNC_ASSIGN(const std::string name, line.word("an operator"));
  if (name == kDropout) return nullptr;
  if (const OpInfo* known = find_op(name)) return known;
  if (name.starts_with("core.")) return line.fault(begin, fmt::format("there is no operator {}", name), "G3");
  return &graph_.foreign_op(name);
}

Result<Location> GraphReader::read_location(TextCursor& line) {
  Location location;
  if (line.accept_word("at")) {
    RANNC_ASSIGN(location.file, line.quoted("a file"));
    if (line.accept(":")) {
      RANNC_ASSIGN(const uint64_t row, line.unsigned_integer("a line", UINT32_MAX));
      RANNC_TRY(line.expect(":"));
      RANNC_ASSIGN(const uint64_t column, line.unsigned_integer("a column", UINT32_MAX));
      location.line = static_cast<uint32_t>(row);
      location.column = static_cast<uint32_t>(column);
    }
  }
  if (line.accept_word("node")) {
    RANNC_ASSIGN(location.node, line.quoted("a node's name"));
  }
  return location;
}

// Older texts have a dropout operator that generated its factor itself. It becomes a product with a random input.
Result<void> GraphReader::add_factor(TextCursor& line, const Attributes& given) {
  if (operands_.size() != 1 || output_names_.size() != 1)
    return line.fault(0, fmt::format("{} has one operand and one output", kDropout), "G3");
  RandomInput random_input{.of = RandomInput::Of::kBernoulli, .drop = 0.5, .key = graph_.task_count()};
  for (const auto& [name, value] : given) {
    const auto* const ratio = name == "ratio" ? std::get_if<double>(&value) : nullptr;
    const auto* const key = name == "key" ? std::get_if<Dim>(&value) : nullptr;
    if (ratio == nullptr && (key == nullptr || !key->is_constant()))
      return line.fault(0, fmt::format("{} has a number ratio and an integer key, not this {}", kDropout, name), "G4");
    if (ratio != nullptr) random_input.drop = *ratio;
    if (key != nullptr) random_input.key = static_cast<uint64_t>(key->constant());
  }
  ValueType type = output_types_[0];
  type.batch.mix = Mix::kNone;
  type.contents.reset();
  operands_.push_back(graph_.add_random_input(output_names_[0] + ".random", std::move(type), random_input));
  return {};
}

Result<void> GraphReader::read_task(TextCursor& line) {
  const size_t begin = line.column();
  RANNC_ASSIGN(const uint32_t number, line.index("#", UINT32_MAX, "a task"));
  if (number != graph_.task_count()) {
    return line.fault(
        begin, fmt::format("expected task #{}, found #{}: tasks are numbered in order", graph_.task_count(), number),
        "G2");
  }
  output_names_.clear();
  output_types_.clear();
  while (!line.accept("=")) {
    if (!output_names_.empty()) RANNC_TRY(line.expect(","));
    RANNC_ASSIGN(std::string name, fresh_name(line));
    output_names_.push_back(std::move(name));
    RANNC_TRY(line.expect(":"));
    RANNC_ASSIGN(ValueType type, line.type());
    output_types_.push_back(std::move(type));
  }
  RANNC_ASSIGN(const OpInfo* op, read_op(line));  // null: kDropout
  RANNC_TRY(line.expect("("));
  operands_.clear();
  while (!line.accept(")")) {
    if (!operands_.empty()) RANNC_TRY(line.expect(","));
    if (line.accept("_")) {
      operands_.emplace_back();
      continue;
    }
    RANNC_ASSIGN(const ValueId operand, read_value(line));
    operands_.push_back(operand);
  }
  Attributes attributes;
  const TextCursor mark = line;
  if (line.accept("{")) {
    line = mark;
    RANNC_ASSIGN(attributes, line.attributes(bodies_));
  }
  RANNC_ASSIGN(Location location, read_location(line));
  RANNC_TRY(line.expect_end());
  if (op == nullptr) {
    op = &core("mul");
    RANNC_TRY(add_factor(line, std::exchange(attributes, {})));
  }
  const TaskId task = graph_.add_task(*op, operands_, std::move(attributes), output_names_, location);
  for (size_t i = 0; i < output_types_.size(); ++i)
    graph_.set_type(graph_.outputs(task)[i], std::move(output_types_[i]));
  output_names_.clear();
  return {};
}

Result<void> GraphReader::read_list(TextCursor& line, bool inputs) {
  bool& seen = inputs ? has_inputs_ : has_outputs_;
  if (seen) return line.fault(0, "a second list of the same kind");
  seen = true;
  RANNC_ASSIGN(const std::vector<ValueId> values, read_values(line));
  for (const ValueId value : values) {
    if (inputs) {
      graph_.add_input(value);
    } else {
      graph_.add_output(value);
    }
  }
  return {};
}

Result<std::vector<ValueId>> GraphReader::read_values(TextCursor& line) {
  std::vector<ValueId> values;
  RANNC_TRY(line.expect("["));
  if (line.accept("]")) return values;
  do {
    RANNC_ASSIGN(values.emplace_back(), read_value(line));
  } while (line.accept(","));
  RANNC_TRY(line.expect("]"));
  return values;
}

Result<void> GraphReader::read_loss(TextCursor& line) {
  LossTerm term;
  RANNC_ASSIGN(term.numerator, read_value(line));
  RANNC_TRY(line.expect("weight"));
  RANNC_ASSIGN(term.weight, line.number("a weight"));
  for (const auto& [word, place] : {std::pair{"factor", &term.factor}, std::pair{"divisor", &term.divisor}}) {
    if (!line.accept_word(word)) continue;
    RANNC_ASSIGN(*place, read_coefficient(line));
  }
  graph_.add_loss(std::move(term));
  return {};
}

Result<uint32_t> GraphReader::read_coefficient(TextCursor& line) {
  RANNC_ASSIGN(const uint64_t number, line.unsigned_integer("a coefficient", UINT32_MAX));
  return static_cast<uint32_t>(number);
}

Result<Body> GraphReader::read_body(TextCursor& line) {
  RANNC_ASSIGN(const uint32_t number, line.index("@b", bodies_.size(), "a body that stands before"));
  return bodies_[number];
}

// Returns false if the statement is not about totals.
Result<bool> GraphReader::read_totals(TextCursor& line) {
  if (line.accept_word("count")) {
    RANNC_ASSIGN(Body body, read_body(line));
    totals_.counts.push_back(std::move(body));
  } else if (line.accept_word("coefficients")) {
    RANNC_ASSIGN(totals_.coefficients, read_body(line));
  } else if (line.accept_word("given")) {
    Totals::Given given;
    RANNC_ASSIGN(given.input, read_value(line));
    RANNC_TRY(line.expect("="));
    RANNC_ASSIGN(given.coefficient, read_coefficient(line));
    totals_.given.push_back(given);
  } else if (line.accept_word("metrics")) {
    RANNC_ASSIGN(totals_.metrics, read_body(line));
    RANNC_ASSIGN(totals_.sums, read_values(line));
  } else {
    return false;
  }
  return true;
}

Result<void> GraphReader::read_statistics(TextCursor& line) {
  Statistics statistics;
  RANNC_ASSIGN(statistics.running_mean, read_value(line));
  RANNC_TRY(line.expect(","));
  RANNC_ASSIGN(statistics.running_variance, read_value(line));
  RANNC_TRY(line.expect("="));
  RANNC_ASSIGN(statistics.mean, read_value(line));
  RANNC_TRY(line.expect(","));
  RANNC_ASSIGN(statistics.variance, read_value(line));
  graph_.add_statistics(statistics);
  return {};
}

namespace {

/// `[4,0]`.
Result<std::vector<int64_t>> integers(TextCursor& line) {
  RANNC_TRY(line.expect("["));
  std::vector<int64_t> found;
  if (line.accept("]")) return found;
  do {
    RANNC_ASSIGN(const int64_t number, line.integer("a number"));
    found.push_back(number);
  } while (line.accept(","));
  RANNC_TRY(line.expect("]"));
  return found;
}

}  // namespace

Result<StatePart> GraphReader::read_state_part(TextCursor& line) {
  const size_t begin = line.column();
  RANNC_ASSIGN(const ValueId value, read_value(line));
  if (line.accept_word("from")) {
    StatePart part{value, {}, {}, {}};
    RANNC_ASSIGN(part.begin, integers(line));
    RANNC_TRY(line.expect("extent"));
    RANNC_ASSIGN(part.extent, integers(line));
    RANNC_TRY(line.expect("axes"));
    RANNC_ASSIGN(part.axes, integers(line));
    return part;
  }
  if (static_count(graph_.type(value))) return whole(graph_, value);
  return line.fault(
      begin, fmt::format("a state tensor needs the shape of %{}, which is unknown", graph_.value(value).name), "G20");
}

Result<void> GraphReader::read_state(TextCursor& line) {
  StateTensor tensor;
  RANNC_ASSIGN(tensor.name, line.quoted("the name of a tensor of state"));
  RANNC_ASSIGN(tensor.shape, integers(line));
  RANNC_TRY(line.expect("="));
  do {
    RANNC_ASSIGN(StatePart part, read_state_part(line));
    tensor.parts.push_back(std::move(part));
  } while (line.accept("+"));
  graph_.add_state(std::move(tensor));
  return {};
}

}  // namespace rannc::ir
