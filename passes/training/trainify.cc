#include "passes/training/trainify.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "passes/internal/named_parts.h"
#include "passes/training/internal/inserted_dropout.h"
#include "passes/training/internal/trained_batch_norm.h"
#include "passes/training/internal/written_batch_norm.h"

namespace rannc::passes {

namespace {

using ir::Graph;

std::string name_of(const Graph& graph, ValueId value) { return std::string(graph.value(value).name); }

/// Returns the error for a pattern that matches nothing.
Diagnostic finds_nothing(const std::string& what, const NamedParts& parts, const std::string& pattern) {
  const std::string near = parts.near(pattern);
  return error(what + (near.empty() ? "" : "; similar names: " + near));
}

bool any_names(const std::set<std::string>& patterns, const NamedParts& parts, TaskId task) {
  return std::any_of(patterns.begin(), patterns.end(),
                     [&](const std::string& pattern) { return parts.names(pattern, task); });
}

// --- batch normalisation

/// Replaces arithmetic that a pattern names by a task. Returns whether there was any.
bool recognise_named(Graph& graph, const TrainingRequest& request, const ir::TrainingNotes& notes,
                     PassContext& context) {
  if (request.batch_norms.empty()) return false;
  const NamedParts parts(graph, notes);
  std::vector<std::string> results;
  for (const TaskId task : written_batch_norms(graph)) results.push_back(name_of(graph, graph.outputs(task)[0]));
  recognise_batch_norms(graph, [&](TaskId task) { return any_names(request.batch_norms, parts, task); });
  bool any = false;
  for (const std::string& result : results) {
    const ValueId value = graph.find(result);
    if (!value.valid() || !is_batch_norm(graph, graph.producer(value))) continue;
    any = true;
    context.remarks.push_back(
        {graph.location(graph.producer(value)),
         fmt::format("'{}' is a batch normalisation that was written out as arithmetic", result)});
  }
  return any;
}

Result<void> check_batch_norms(const Graph& graph, const TrainingRequest& request, const NamedParts& parts) {
  std::vector<TaskId> all;
  for (const TaskId task : graph.tasks()) {
    if (is_batch_norm(graph, task)) all.push_back(task);
  }
  if (request.batch_norm && all.empty()) {
    const size_t written = written_batch_norms(graph).size();
    const std::string known =
        written == 0
            ? "normalisations that an exporter folded into weights cannot be restored"
            : fmt::format("{} are written out as arithmetic, which --train-batch-norm=PATTERN trains", written);
    return error("--train-batch-norm: the model has no batch normalisation of its own; " + known);
  }
  for (const std::string& pattern : request.batch_norms) {
    const bool any = std::any_of(all.begin(), all.end(), [&](TaskId task) { return parts.names(pattern, task); });
    if (any) continue;
    return finds_nothing(fmt::format("--train-batch-norm={}: matches none of the model's {} batch normalisations, by "
                                     "module, node or value",
                                     pattern, all.size()),
                         parts, pattern);
  }
  return {};
}

Result<bool> train_named(Graph& graph, const TrainingRequest& request, const ir::TrainingNotes& notes,
                         PassContext& context) {
  const bool recognised = recognise_named(graph, request, notes, context);
  const NamedParts parts(graph, notes);
  RANNC_TRY(check_batch_norms(graph, request, parts));
  const TrainedBatchNorms wanted{
      [&](TaskId task) { return request.batch_norm || any_names(request.batch_norms, parts, task); }, request.momentum};
  RANNC_ASSIGN(const bool trained, train_batch_norms(graph, wanted, context));
  return recognised || trained;
}

// --- dropout

/// The dropout probability of each value, and its pattern.
struct Share {
  double drop = 0;
  std::string pattern;
};
using Shares = std::map<ValueId, Share>;

Result<void> find_results(const Graph& graph, const NamedParts& parts, const std::string& pattern, double drop,
                          Shares& shares) {
  const std::vector<ValueId> results = parts.results(pattern);
  if (results.empty()) {
    const auto tasks = graph.tasks();
    bool any = false;
    for (const TaskId task : tasks) any = any || parts.names(pattern, task);
    if (any) {
      return error(
          fmt::format("--dropout {}={}: the named part has no float result that depends on an input", pattern, drop));
    }
    return finds_nothing(fmt::format("--dropout {}={}: matches no module, node or value", pattern, drop), parts,
                         pattern);
  }
  for (const ValueId result : results) {
    const ValueId value = dropped_value(graph, result);
    const auto [known, fresh] = shares.emplace(value, Share{drop, pattern});
    if (fresh || known->second.drop == drop) continue;
    return error(fmt::format("--dropout {}={} and {}={} both name '{}'", known->second.pattern, known->second.drop,
                             pattern, drop, name_of(graph, value)));
  }
  return {};
}

Result<void> find_lost(const Graph& graph, const ir::TrainingNotes& notes, Shares& shares, PassContext& context) {
  if (notes.dropouts.empty()) {
    return error(
        "--train-dropout: the file has no dropout that is off and records none that was omitted; "
        "--dropout PATTERN=RATIO inserts one after each match");
  }
  for (const auto& [name, dropout] : notes.dropouts) {
    const ValueId value = graph.find(name);
    if (value.valid() && graph.producer(value).valid()) {
      shares.emplace(dropped_value(graph, value), Share{dropout.drop, {}});
    } else {
      context.open.push_back(
          {{}, fmt::format("the dropout of '{}' is not restored: no task computes this value", name)});
    }
  }
  return {};
}

Result<bool> drop_named(Graph& graph, const TrainingRequest& request, const ir::TrainingNotes& notes,
                        PassContext& context) {
  const NamedParts parts(graph, notes);
  Shares shares;
  for (const auto& [pattern, drop] : request.dropout) RANNC_TRY(find_results(graph, parts, pattern, drop, shares));
  if (request.lost_dropout) RANNC_TRY(find_lost(graph, notes, shares, context));
  std::map<ValueId, double> changed;
  for (const auto& [value, share] : shares) {
    if (dropped_share(graph, value) == share.drop) continue;
    changed.emplace(value, share.drop);
    context.remarks.push_back(
        {graph.location(graph.producer(value)),
         fmt::format("'{}' drops a share of {:.6g} of its elements in training", name_of(graph, value), share.drop)});
  }
  if (changed.empty()) return false;
  RANNC_ASSIGN(graph, with_dropouts(graph, changed));
  return true;
}

// --- what is left as it is

/// `requested`: by the exported program, which was in training mode.
struct Left {
  size_t requested = 0, others = 0;
};

void tell_batch_norms(const Graph& graph, const ir::TrainingNotes& notes, PassContext& context) {
  Left left;
  for (const TaskId task : graph.tasks()) {
    if (!has_fixed_statistics(graph, task)) continue;
    ++(notes.normalised.contains(name_of(graph, graph.outputs(task)[0])) ? left.requested : left.others);
  }
  if (left.requested > 0) {
    context.warnings.push_back(
        {{},
         fmt::format("{} batch normalisations of the exported program were in training mode, but the file has fixed "
                     "statistics for them: it is an inference graph; --train-batch-norm trains them",
                     left.requested)});
  }
  if (left.others > 0) {
    context.open.push_back({{},
                            fmt::format("{} batch normalisations use fixed statistics, as in a model exported for "
                                        "inference: --train-batch-norm trains them",
                                        left.others)});
  }
  const size_t written = written_batch_norms(graph).size();
  if (written == 0) return;
  context.open.push_back({{},
                          fmt::format("{} batch normalisations by fixed statistics are written out as arithmetic, as "
                                      "frozen ones are: --train-batch-norm=PATTERN trains those that match",
                                      written)});
}

void tell_dropouts(const Graph& graph, const ir::TrainingNotes& notes, PassContext& context) {
  Left left;
  for (const auto& [name, dropout] : notes.dropouts) {
    const ValueId value = graph.find(name);
    if (!value.valid() || dropped_share(graph, dropped_value(graph, value))) continue;
    ++(dropout.requested ? left.requested : left.others);
  }
  if (left.requested > 0) {
    context.warnings.push_back(
        {{},
         fmt::format("{} dropouts of the exported program are off or not in the file, so training omits them: "
                     "--train-dropout restores them",
                     left.requested)});
  }
  if (left.others > 0) {
    context.open.push_back({{},
                            fmt::format("{} dropouts are off, as in a model exported for inference: --train-dropout "
                                        "enables them",
                                        left.others)});
  }
}

bool is_number(std::string_view text, double& number) {
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), number);
  return status == std::errc() && end == text.data() + text.size();
}

}  // namespace

std::optional<std::string> fault_of(const TrainingRequest& request) {
  for (const auto& [pattern, drop] : request.dropout) {
    if (drop > 0 && drop < 1) continue;
    return fmt::format("--dropout {}={}: expected a ratio above 0 and below 1", pattern, drop);
  }
  if (!request.momentum) return std::nullopt;
  if (!(*request.momentum > 0 && *request.momentum <= 1)) {
    return fmt::format("--batch-norm-momentum {}: expected a number above 0 and at most 1", *request.momentum);
  }
  if (request.batch_norm || !request.batch_norms.empty()) return std::nullopt;
  return "--batch-norm-momentum requires --train-batch-norm";
}

std::string str(const TrainingRequest& request) {
  std::string text;
  const auto add = [&](const std::string& part) { text += (text.empty() ? "" : ",") + part; };
  if (request.batch_norm) add("batch-norm");
  for (const std::string& pattern : request.batch_norms) add("batch-norm=" + pattern);
  if (request.momentum) add(fmt::format("momentum={}", *request.momentum));
  for (const auto& [pattern, drop] : request.dropout) add(fmt::format("dropout={}:{}", pattern, drop));
  if (request.lost_dropout) add("lost-dropout");
  return text;
}

Result<TrainingRequest> parse_training(std::string_view text) {
  TrainingRequest request;
  while (!text.empty()) {
    const std::string_view part = text.substr(0, text.find(','));
    text.remove_prefix(std::min(part.size() + 1, text.size()));
    const size_t equals = part.find('=');
    const std::string_view key = part.substr(0, equals);
    const std::string_view value = equals == std::string_view::npos ? "" : part.substr(equals + 1);
    const size_t colon = value.rfind(':');
    double number = 0;
    if (part == "batch-norm") {
      request.batch_norm = true;
    } else if (part == "lost-dropout") {
      request.lost_dropout = true;
    } else if (key == "batch-norm" && !value.empty()) {
      request.batch_norms.emplace(value);
    } else if (key == "momentum" && is_number(value, number)) {
      request.momentum = number;
    } else if (key == "dropout" && colon != std::string_view::npos && is_number(value.substr(colon + 1), number)) {
      request.dropout[std::string(value.substr(0, colon))] = number;
    } else {
      return error(
          fmt::format("`{}` is none of batch-norm, batch-norm=PATTERN, momentum=NUMBER, dropout=PATTERN:SHARE "
                      "and lost-dropout",
                      part));
    }
  }
  if (const auto fault = fault_of(request)) return error(*fault);
  return request;
}

std::string Trainify::spelling() const {
  const std::string options = str(request_);
  return options.empty() ? "trainify" : "trainify{" + options + "}";
}

Result<Outcome> Trainify::run(Graph& graph, PassContext& context) const {
  if (const auto fault = fault_of(request_)) return error(*fault);
  Outcome outcome;
  if (request_.batch_norm || !request_.batch_norms.empty()) {
    RANNC_ASSIGN(outcome.changed, train_named(graph, request_, file_, context));
  }
  if (!request_.dropout.empty() || request_.lost_dropout) {
    RANNC_ASSIGN(const bool dropped, drop_named(graph, request_, file_, context));
    outcome.changed = outcome.changed || dropped;
  }
  tell_batch_norms(graph, file_, context);
  tell_dropouts(graph, file_, context);
  return outcome;
}

}  // namespace rannc::passes
