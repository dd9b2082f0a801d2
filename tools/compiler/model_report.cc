#include "tools/compiler/model_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <numeric>
#include <set>
#include <unordered_map>

#include "ir/graph/constant.h"
#include "ir/plan/fixed_samples.h"
#include "ir/state/name_source.h"
#include "ir/state/statistics.h"
#include "tools/common/units.h"

namespace rannc::tools {

namespace {

using ir::ValueKind;

std::string plural(uint64_t number, const std::string& word) {
  return fmt::format("{} {}{}", count(number), word, number == 1 ? "" : "s");
}

std::string batch(const PreparedModel& model) {
  if (model.graph.batch_symbol().empty()) return "no batch symbol";
  std::string places;
  for (const auto& [axis, inputs] : model.read.batch_axes) {
    places += fmt::format("{}axis {} of {}", places.empty() ? "" : ", ", axis, plural(inputs, "input"));
  }
  return fmt::format("batch symbol \"{}\"{}", model.graph.batch_symbol(),
                     model.read.samples ? fmt::format(" (made for {})", plural(*model.read.samples, "sample"))
                     : places.empty()   ? ""
                                        : fmt::format(" ({})", places));
}

std::string read_line(const PreparedModel& model, const std::string& file) {
  uint64_t parameters = 0, elements = 0, buffers = 0;
  for (const ValueId value : model.graph.values()) {
    const ValueKind kind = model.graph.kind(value);
    parameters += kind == ValueKind::kParameter;
    buffers += kind == ValueKind::kBuffer;
    if (kind != ValueKind::kParameter) continue;
    elements += static_cast<uint64_t>(ir::static_count(model.graph.type(value)).value_or(0));
  }
  const std::string tasks = plural(model.graph.task_count(), "task");
  return fmt::format("{}: {}; {} in {}{}; {}", std::filesystem::path(file).filename().string(),
                     model.read.nodes > 0 ? plural(model.read.nodes, "node") + " → " + tasks : tasks,
                     plural(elements, "parameter"), plural(parameters, "tensor"),
                     buffers > 0 ? ", " + plural(buffers, "buffer") : "", batch(model));
}

/// Returns a remark without its names and numbers.
std::string pattern_of(const std::string& text) {
  std::string pattern;
  bool quoted = false, named = false;
  for (const char c : text) {
    if (c == '\'') quoted = !quoted;
    if (c == '%') named = true;
    if (named && (c == ' ' || c == ':' || c == ',')) named = false;
    if (!quoted && !named && std::isdigit(static_cast<unsigned char>(c)) == 0) pattern += c;
  }
  return pattern;
}

std::vector<std::string> reported(const std::vector<Note>& remarks, Detail detail) {
  std::vector<std::string> lines;
  if (detail == Detail::kAll) {
    for (const Note& remark : remarks) {
      const std::string& node = remark.where.node;
      lines.push_back(node.empty() ? remark.message : fmt::format("{} (node '{}')", remark.message, node));
    }
    return lines;
  }
  std::unordered_map<std::string, size_t> at;
  std::vector<size_t> more;
  for (const Note& remark : remarks) {
    const auto [known, fresh] = at.emplace(pattern_of(remark.message), lines.size());
    if (fresh) {
      lines.push_back(remark.message);
      more.push_back(0);
    } else {
      ++more[known->second];
    }
  }
  for (size_t i = 0; i < lines.size(); ++i) {
    if (more[i] > 0) lines[i] += fmt::format(" (and {} more like it)", count(more[i]));
  }
  return lines;
}

std::vector<std::string> changes(const PreparedModel& model, Detail detail) {
  int64_t folded = 0;
  for (const passes::PassTime& pass : model.report.times) {
    if (pass.pass == "fold-constants") folded -= pass.added_tasks;
  }
  std::vector<std::string> lines = reported(model.remarks, detail);
  if (folded > 0) {
    lines.insert(lines.begin(), plural(static_cast<uint64_t>(folded), "task") +
                                    " of sizes and constants computed in advance, or removed as unused");
  }
  return lines;
}

/// Whether an exporter generated this name for a value that it computed from a parameter.
bool is_computed(std::string_view name) {
  return ir::is_folded(name) || (ir::is_synthetic(name) && ir::traced_op(name) == "val");
}

/// Reports the samples that batch normalization covers, the only way in which losses depend on the division of
/// mini-batches.
std::vector<std::string> normalisations(const PreparedModel& model) {
  if (model.graph.losses().empty()) return {};
  uint64_t all = 0, joint = 0;
  for (const TaskId task : model.graph.tasks()) {
    const std::optional<bool> synchronised = ir::synchronised(model.graph, task);
    all += synchronised.has_value();
    joint += synchronised.value_or(false);
  }
  std::vector<std::string> lines;
  if (joint > 0) {
    lines.push_back(
        fmt::format("{} over the samples of a micro-batch on all replicas: losses depend on the number of "
                    "micro-batches",
                    plural(joint, "batch normalisation")));
  }
  if (all > joint) {
    lines.push_back(
        fmt::format("{} over the samples of a micro-batch on one replica: losses depend on the numbers of "
                    "micro-batches and replicas (with --sync-batch-norm, only of micro-batches)",
                    plural(all - joint, "batch normalisation")));
  }
  return lines;
}

std::vector<std::string> limits(const PreparedModel& model, Detail detail) {
  std::vector<std::string> lines;
  const auto samples = ir::fixed_samples(model.graph);
  if (samples && model.batching.kind != BatchKind::kWhole) {
    lines.push_back(
        fmt::format("its batch size is static: the mini-batch of {} is one micro-batch; an export with a "
                    "dynamic batch dimension can be divided",
                    plural(*samples, "sample")));
  }
  uint64_t parameters = 0, generated = 0;
  std::string_view example;
  std::set<ValueId> known;
  for (const ir::StateTensor& tensor : model.graph.state()) {
    for (const ir::StatePart& part : tensor.parts) known.insert(part.value);
  }
  for (const ValueId value : model.graph.values()) {
    if (model.graph.kind(value) != ValueKind::kParameter) continue;
    ++parameters;
    const std::string_view name = model.graph.value(value).name;
    if (!is_computed(name) || known.contains(value)) continue;
    if (generated++ == 0) example = name;
  }
  if (generated > 0) {
    lines.push_back(
        fmt::format("the exporter generated the names of {} of {}, such as '{}'; the file lacks PyTorch's names",
                    count(generated), plural(parameters, "parameter tensor"), example));
  }
  for (std::string& line : reported(model.open, detail)) lines.push_back(std::move(line));
  return lines;
}

/// The number of which the sizes of a symbol must be multiples, if all conditions on it speak of it alone and hold for
/// exactly the multiples, by evaluation; 0 if there is no such number above 1.
int64_t step_of(const ir::Graph& graph, const std::string& symbol) {
  constexpr int64_t kMost = 2048;
  std::vector<const ir::Assumption*> about;
  for (const ir::Assumption& each : graph.assumptions()) {
    std::set<std::string> symbols;
    each.left.collect_symbols(symbols);
    each.right.collect_symbols(symbols);
    if (!symbols.contains(symbol)) continue;
    if (symbols.size() > 1) return 0;
    about.push_back(&each);
  }
  int64_t step = 0, found = 0;
  for (int64_t size = 1; size <= kMost; ++size) {
    const ir::Bindings sizes = {{symbol, size}};
    const auto holds = [&](const ir::Assumption* each) {
      const auto left = each->left.evaluate(sizes);
      return left && left == each->right.evaluate(sizes);
    };
    if (!std::all_of(about.begin(), about.end(), holds)) continue;
    step = std::gcd(step, size);
    ++found;
  }
  return step > 1 && found == kMost / step ? step : 0;
}

std::string block(std::string_view head, const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += fmt::format("{:<9}{}\n", text.empty() ? head : "", line);
  return text;
}

}  // namespace

std::vector<std::string> not_done(const PreparedModel& model, Detail detail) { return limits(model, detail); }

std::vector<std::string> conditions(const ir::Graph& graph) {
  std::vector<std::string> notes;
  std::set<std::string> symbols;
  for (const ir::Assumption& each : graph.assumptions()) {
    const std::string at = each.where.node.empty() ? "" : fmt::format(" (node '{}')", each.where.node);
    notes.push_back(fmt::format("requires {} = {}{}", each.left.str(), each.right.str(), at));
    each.left.collect_symbols(symbols);
    each.right.collect_symbols(symbols);
  }
  for (const std::string& symbol : symbols) {
    if (const int64_t step = step_of(graph, symbol)) {
      notes.push_back(fmt::format("what is required of {} holds for multiples of {}", symbol, step));
    }
  }
  return notes;
}

std::string model_report(const PreparedModel& model, const std::string& file, Detail detail) {
  std::string text = block("read", {read_line(model, file)}) + block("changed", changes(model, detail)) +
                     block("trains", normalisations(model)) + block("not done", limits(model, detail));
  for (const std::string& warning : model.warnings) text += fmt::format("{}: warning: {}\n", file, warning);
  for (const std::string& note : conditions(model.graph)) text += fmt::format("{}: note: {}\n", file, note);
  return text;
}

}  // namespace rannc::tools
