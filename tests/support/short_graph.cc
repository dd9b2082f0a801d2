#include "tests/support/short_graph.h"

#include <fmt/format.h>

#include <sstream>

#include "ir/graph/constant.h"
#include "ir/op/op.h"
#include "ir/text/text.h"

namespace rannc::test {

using ir::Graph;

namespace {

// Turns lines in short into lines of text IR.
class Shorthand {
 public:
  explicit Shorthand(std::string_view dtype) : dtype_(dtype) {}

  void read(const std::string& line) {
    std::istringstream words(line);
    std::string first, name;
    if (!(words >> first)) return;
    words >> name;
    if (first == "outputs") return read_outputs(line.substr(line.find(first) + first.size()));
    if (name == "=") return read_task(first, line.substr(line.find('=') + 1));
    std::string type;
    words >> type;
    const bool typed = ir::parse_dtype(type).has_value();
    std::string shape = type;
    if (typed) words >> shape;
    if (!typed) type = dtype_;
    if (first == "constant") return add_constant(name, type, shape, words);
    std::string rest;
    std::getline(words, rest);
    text_ += fmt::format("{} %{}: {}{}{}\n", first, name, type, shape, rest);
    if (first == "input") inputs_ += (inputs_.empty() ? "%" : ", %") + name;
  }

  std::string text() const {
    return fmt::format("rannc.graph 1\nbatch batch\n{}inputs [{}]\noutputs [{}]\n", text_, inputs_, outputs_);
  }

 private:
  void read_outputs(const std::string& names) {
    std::istringstream words(names);
    for (std::string name; words >> name;) outputs_ += (outputs_.empty() ? "%" : ", %") + name;
  }

  // `mul(x, half) {…}`; several results stand before the equals sign, `a,b`.
  void read_task(const std::string& results, const std::string& call) {
    const size_t open = call.find('('), close = call.find(')');
    RANNC_CHECK(open != std::string::npos && close != std::string::npos) << call;
    std::istringstream op(call.substr(0, open));
    std::string operator_name, operands, made, name;
    op >> operator_name;
    for (const char c : call.substr(open + 1, close - open - 1)) {
      const bool begins = operands.empty() || operands.back() == ' ';
      if (begins && c != ' ' && c != '_') operands += '%';
      operands += c;
    }
    std::istringstream names(results);
    while (std::getline(names, name, ',')) made += fmt::format("{}%{}: f32[*]", made.empty() ? "" : ", ", name);
    text_ += fmt::format("#{} {} = core.{}({}){}\n", tasks_++, made, operator_name, operands, call.substr(close + 1));
  }

  void add_constant(const std::string& name, const std::string& type, const std::string& shape,
                    std::istringstream& words) {
    std::vector<double> numbers;
    for (std::string word; words >> word;) numbers.push_back(std::strtod(word.c_str(), nullptr));
    const ir::DType dtype = *ir::parse_dtype(type);
    const std::vector<int64_t> integers(numbers.begin(), numbers.end());
    const ir::TensorData data =
        ir::is_float(dtype) ? ir::encode_numbers(dtype, numbers) : ir::encode_integers(dtype, integers);
    const auto bytes = data.read().value();
    std::string digits;
    for (const std::byte byte : bytes) digits += fmt::format("{:02x}", static_cast<int>(byte));
    text_ += fmt::format("constant %{}: {}{} = hex \"{}\"\n", name, type, shape, digits);
  }

  std::string_view dtype_;
  std::string text_, inputs_, outputs_;
  int tasks_ = 0;
};

}  // namespace

Graph short_graph(const std::string& text, std::string_view dtype) {
  Shorthand shorthand(dtype);
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) shorthand.read(line);
  auto graph = ir::parse_graph(shorthand.text(), "short.rir");
  RANNC_CHECK(graph.ok()) << graph.diagnostic().str() << "\n" << shorthand.text();
  for (const TaskId task : graph->tasks()) {
    const auto typed = ir::infer_types(*graph, task);
    RANNC_CHECK(typed.ok()) << typed.diagnostic().str() << "\n" << shorthand.text();
  }
  return *std::move(graph);
}

std::vector<std::string> operators(const Graph& graph) {
  std::vector<std::string> names;
  for (const TaskId task : graph.tasks()) names.push_back(graph.op(task).name.substr(5));
  return names;
}

}  // namespace rannc::test
