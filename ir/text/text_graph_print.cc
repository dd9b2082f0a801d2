// Printer of graph statements. Leaf values are printed in the order of ids, so that reading the text assigns the same
// ids.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <functional>
#include <utility>

#include "ir/graph/results.h"
#include "ir/internal/text_graph.h"
#include "ir/internal/text_names.h"
#include "ir/internal/text_writer.h"
#include "ir/op/op.h"
#include "ir/state/state.h"
#include "ir/text/form.h"

namespace rannc::ir {

namespace {

class GraphPrinter {
 public:
  using IsNumber = std::function<bool(std::string_view)>;
  /// `is_number`: null, or that of `print_form`.
  GraphPrinter(std::string& to, const Graph& graph, const IsNumber* is_number = nullptr)
      : to_(to), graph_(graph), is_number_(is_number) {
    if (is_number != nullptr) results_ = results_of(graph);
  }

  /// The first file that could not be read.
  const Result<void>& read() const { return read_; }

  void print() {
    if (!graph_.name().empty()) to_ += "graph " + quote(graph_.name()) + "\n";
    if (!graph_.batch_symbol().empty()) {
      to_ += "batch ";
      append_word(to_, graph_.batch_symbol());
      to_ += '\n';
    }
    for (const Assumption& assumption : graph_.assumptions()) assume(assumption);
    for (const ValueId id : graph_.values()) {
      const TaskId producer = graph_.value(id).producer;
      if (!producer.valid()) {
        leaf(id);
      } else {
        while (next_task_ <= producer.index()) task(TaskId(next_task_++));
      }
    }
    while (next_task_ < graph_.task_count()) task(TaskId(next_task_++));
    list("inputs", graph_.inputs());
    list("outputs", graph_.outputs());
    totals();
    for (const LossTerm& term : graph_.losses()) loss(term);
    for (const Statistics& each : graph_.statistics()) statistics(each);
    for (const StateTensor& tensor : graph_.state()) state(tensor);
  }

 private:
  void name(ValueId id) {
    if (id.valid()) {
      append_name(to_, '%', graph_.value(id).name);
    } else {
      to_ += '_';
    }
  }

  void typed(ValueId id) {
    name(id);
    to_ += ": ";
    append_type(to_, graph_.type(id));
  }

  void leaf(ValueId id) {
    to_ += str(graph_.value(id).kind);
    to_ += ' ';
    typed(id);
    data(id);
    if (const RandomInput* random = graph_.random_input(id)) random_input(*random);
    end_line(to_, comment_);
  }

  void data(ValueId id) {
    const Graph::Value& value = graph_.value(id);
    if (is_number_ == nullptr) return append_data(to_, value, comment_);
    if (!graph_.has_uses(id) && !results_[id.index()]) return;
    if (!value.data.present() || (is_float(graph_.type(id).dtype) && !(*is_number_)(value.name))) return;
    auto bytes = value.data.read();
    if (!bytes.ok()) {
      if (read_.ok()) read_ = bytes.diagnostic();
      return;
    }
    const TensorData held = TensorData::in_memory(*std::move(bytes));
    append_data(to_, {value.name, value.kind, value.producer, value.output_index, value.type, held}, comment_);
  }

  void location(const Location& where) {
    if (is_number_ == nullptr) append_location(to_, where);
  }

  void random_input(const RandomInput& random_input) {
    to_ += " = ";
    append_random_input(to_, random_input, comment_);
  }

  /// Prints the statements of a body, indented, before its task.
  void body(const Body& body) {
    std::string text;
    GraphPrinter inner(text, body.graph(), is_number_);
    inner.print();
    if (read_.ok()) read_ = inner.read();
    fmt::format_to(std::back_inserter(to_), "body @b{}\n", bodies_);
    for (size_t at = 0; at < text.size();) {
      const size_t end = text.find('\n', at) + 1;
      to_.append("  ").append(text, at, end - at);
      at = end;
    }
    fmt::format_to(std::back_inserter(to_), "end @b{}\n", bodies_++);
  }

  void task(TaskId id) {
    const uint32_t first_body = bodies_;
    for (const auto& [name, value] : graph_.attributes(id)) {
      if (const auto* given = std::get_if<Body>(&value)) body(*given);
    }
    fmt::format_to(std::back_inserter(to_), "#{}", id.index());
    const char* before = " ";
    for (const ValueId output : graph_.outputs(id)) {
      to_ += before;
      before = ", ";
      typed(output);
    }
    to_ += " = ";
    append_word(to_, graph_.op(id).name);
    to_ += '(';
    before = "";
    for (const ValueId input : graph_.inputs(id)) {
      to_ += before;
      before = ", ";
      name(input);
    }
    to_ += ')';
    append_attributes(to_, graph_.attributes(id), comment_, first_body);
    location(graph_.location(id));
    end_line(to_, comment_);
  }

  void assume(const Assumption& assumption) {
    to_ += "assume equal [" + assumption.left.str() + "," + assumption.right.str() + "]";
    location(assumption.where);
    to_ += '\n';
  }

  void list(std::string_view word, const std::vector<ValueId>& ids) {
    if (ids.empty()) return;
    to_ += word;
    values(ids);
  }

  void values(const std::vector<ValueId>& ids) {
    to_ += " [";
    const char* before = "";
    for (const ValueId id : ids) {
      to_ += std::exchange(before, ", ");
      name(id);
    }
    to_ += "]\n";
  }

  void loss(const LossTerm& term) {
    to_ += "loss ";
    name(term.numerator);
    to_ += " weight " + hexadecimal(term.weight);
    if (term.factor) fmt::format_to(std::back_inserter(to_), " factor {}", *term.factor);
    if (term.divisor) fmt::format_to(std::back_inserter(to_), " divisor {}", *term.divisor);
    fmt::format_to(std::back_inserter(comment_), "weight = {}", term.weight);
    end_line(to_, comment_);
  }

  // A statement about a body, which stands before it.
  void of_body(std::string_view word, const Body& given) {
    const uint32_t number = bodies_;
    body(given);
    fmt::format_to(std::back_inserter(to_), "{} @b{}", word, number);
  }

  void totals() {
    const Totals& totals = graph_.totals();
    for (const Body& count : totals.counts) {
      of_body("count", count);
      to_ += '\n';
    }
    if (totals.coefficients) {
      of_body("coefficients", *totals.coefficients);
      to_ += '\n';
    }
    for (const Totals::Given& given : totals.given) {
      to_ += "given ";
      name(given.input);
      fmt::format_to(std::back_inserter(to_), " = {}\n", given.coefficient);
    }
    if (totals.metrics) {
      of_body("metrics", *totals.metrics);
      values(totals.sums);
    }
  }

  void statistics(const Statistics& each) {
    to_ += "statistics ";
    name(each.running_mean);
    to_ += ", ";
    name(each.running_variance);
    to_ += " = ";
    name(each.mean);
    to_ += ", ";
    name(each.variance);
    to_ += '\n';
  }

  void numbers(std::string_view word, const std::vector<int64_t>& list) {
    fmt::format_to(std::back_inserter(to_), "{}[{}]", word, fmt::join(list, ","));
  }

  void state(const StateTensor& tensor) {
    to_ += "state " + quote(tensor.name);
    numbers(" ", tensor.shape);
    const char* before = " = ";
    for (const StatePart& part : tensor.parts) {
      to_ += std::exchange(before, " + ");
      name(part.value);
      if (is_whole(graph_, part)) continue;
      numbers(" from ", part.begin);
      numbers(" extent ", part.extent);
      numbers(" axes ", part.axes);
    }
    to_ += '\n';
  }

  std::string& to_;
  const Graph& graph_;
  const IsNumber* is_number_;
  Result<void> read_;
  std::vector<bool> results_;  // of `print_form`
  std::string comment_;
  uint32_t next_task_ = 0;
  uint32_t bodies_ = 0;
};

}  // namespace

void append_random_input(std::string& to, const RandomInput& random_input, std::string& comment) {
  to += kDistributions[static_cast<size_t>(random_input.of)];
  if (random_input.of == RandomInput::Of::kBernoulli) {
    to += " drop " + hexadecimal(random_input.drop);
    fmt::format_to(std::back_inserter(comment), "drop = {}", random_input.drop);
  }
  fmt::format_to(std::back_inserter(to), " key {}", random_input.key);
}

void append_graph(std::string& to, const Graph& graph) { GraphPrinter(to, graph).print(); }

Result<std::string> print_form(const Graph& graph, const std::function<bool(std::string_view)>& is_number) {
  std::string text;
  GraphPrinter printer(text, graph, &is_number);
  printer.print();
  RANNC_TRY(printer.read());
  return text;
}

}  // namespace rannc::ir
