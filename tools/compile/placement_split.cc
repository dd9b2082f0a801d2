#include "tools/compile/placement_split.h"

#include <fmt/format.h>

#include <algorithm>

#include "ir/base/stopwatch.h"
#include "tools/common/units.h"

namespace rannc::tools {

namespace {

using Json = nlohmann::ordered_json;
using partition::SplitProblem;
using partition::SplitResult;

constexpr const char* kObjective = "work and messages of the busiest device, in the file's unit of time";

/// Nodes and load of one device.
struct Share {
  size_t nodes = 0;
  double work = 0, messages = 0;
  uint64_t bytes = 0;
};

std::vector<Share> shares_of(const SplitAnswer& answer) {
  const std::vector<uint32_t>& device_of = *answer.result.device_of;
  std::vector<Share> shares(answer.devices);
  std::vector<uint32_t> of_unit(answer.problem.units());
  for (size_t node = 0; node < device_of.size(); ++node) {
    Share& share = shares[device_of[node]];
    ++share.nodes;
    share.work += answer.input.source.work[node];
    share.bytes += answer.input.source.bytes[node];
    of_unit[answer.problem.unit_of[node]] = device_of[node];
  }
  const std::vector<double> loads = partition::split_loads(answer.problem, of_unit, answer.devices);
  for (size_t d = 0; d < shares.size(); ++d) shares[d].messages = std::max(0.0, loads[d] - shares[d].work);
  return shares;
}

double gap(const SplitResult& result) {
  return result.lower_bound > 0 ? (result.largest_load - result.lower_bound) / result.lower_bound : 0;
}

bool exact(const SplitResult& result) { return result.largest_load <= result.lower_bound * (1 + 1e-9); }

partition::SplitOptions split_options(const SplitRequest& request, uint32_t devices) {
  partition::SplitOptions options;
  options.devices = devices;
  options.exact = request.exact;
  return options;
}

std::string remedy(const std::string& what, const SplitResult& changed, double now) {
  if (!changed.device_of) return fmt::format("  {}: still no split\n", what);
  return fmt::format("  {}: {:.7g} ({:+.1f} %)\n", what, changed.largest_load,
                     now > 0 ? 100 * (changed.largest_load / now - 1) : 0);
}

}  // namespace

Result<SplitAnswer> split_placement(std::string_view text, const SplitRequest& request, std::stop_token stop) {
  SplitAnswer answer;
  RANNC_ASSIGN(answer.input, partition::read_placement(text, request.file));
  answer.devices = request.devices.value_or(answer.input.devices);
  auto problem = partition::make_split_problem(answer.input.source);
  if (!problem.ok()) {
    Diagnostic failure = problem.diagnostic();
    failure.where.file = request.file;
    return failure;
  }
  answer.problem = *std::move(problem);
  if (request.memory_bytes) answer.problem.memory_limit = std::min(answer.problem.memory_limit, *request.memory_bytes);
  const Stopwatch watch;
  partition::SplitOptions options = split_options(request, answer.devices);
  options.stop = std::move(stop);
  answer.result = partition::solve_split(answer.problem, options);
  answer.seconds = watch.seconds();
  if (!answer.result.device_of) return answer;
  if (!exact(answer.result)) {
    answer.warnings.push_back(fmt::format("not proved optimal: the gap to the bound is {:.2f} %{}",
                                          100 * gap(answer.result),
                                          request.exact ? "" : "; --exact continues the search"));
  }
  return answer;
}

Json split_summary(const SplitAnswer& answer) {
  const SplitResult& result = answer.result;
  Json devices = Json::array();
  for (const Share& share : shares_of(answer)) {
    devices.push_back({{"tasks", share.nodes},
                       {"load", share.work + share.messages},
                       {"work", share.work},
                       {"messages", share.messages},
                       {"bytes", share.bytes}});
  }
  return {{"planner", "contiguous-split"},
          {"objective_name", kObjective},
          {"objective", result.largest_load},
          {"lower_bound", result.lower_bound},
          {"bound", result.bound},
          {"gap", gap(result)},
          {"exact", exact(result)},
          {"seconds", answer.seconds},
          {"devices", answer.devices},
          {"stages", std::move(devices)},
          {"runners_up", Json::array()},
          {"warnings", answer.warnings}};
}

std::string split_file(const SplitAnswer& answer) {
  const SplitResult& result = answer.result;
  Json nodes = Json::array();
  for (size_t node = 0; node < result.device_of->size(); ++node) {
    nodes.push_back(
        {{"id", Json::parse(answer.input.names[node], nullptr, false)}, {"device", (*result.device_of)[node]}});
  }
  const Json file{{"format", "rannc-split"},           {"version", 1},
                  {"devices", answer.devices},         {"objective", result.largest_load},
                  {"lower_bound", result.lower_bound}, {"bound", result.bound},
                  {"nodes", std::move(nodes)}};
  return file.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string split_text(const SplitAnswer& answer) {
  std::string text = fmt::format("{} nodes, {} units, {} devices\n", answer.input.names.size(), answer.problem.units(),
                                 answer.devices);
  const std::vector<Share> shares = shares_of(answer);
  for (size_t d = 0; d < shares.size(); ++d) {
    text += fmt::format("  device {}: {} nodes; load {:.7g}: work {:.7g}, messages {:.7g}; {}\n", d, shares[d].nodes,
                        shares[d].work + shares[d].messages, shares[d].work, shares[d].messages,
                        bytes(static_cast<double>(shares[d].bytes)));
  }
  const SplitResult& result = answer.result;
  return text + fmt::format("largest load {:.9g}; no split is below {:.9g} ({}): gap {:.2f} %\n", result.largest_load,
                            result.lower_bound, result.bound, 100 * gap(result));
}

std::string explain_split(const SplitAnswer& answer, const SplitRequest& request) {
  const std::vector<Share> shares = shares_of(answer);
  const auto load = [](const Share& share) { return share.work + share.messages; };
  const auto worst =
      std::max_element(shares.begin(), shares.end(), [&](const Share& a, const Share& b) { return load(a) < load(b); });
  double work = 0;
  for (const Share& share : shares) work += share.work;
  const double now = answer.result.largest_load;
  std::string text = fmt::format("bottleneck: device {} with {} nodes; {:.1f} % of its load is messages\n",
                                 worst - shares.begin(), worst->nodes, now > 0 ? 100 * worst->messages / now : 0);
  text += fmt::format("all work over all devices would be {:.7g}; bounded by: {}\n",
                      work / static_cast<double>(answer.devices), answer.result.bound);
  text += "what would help:\n";
  text += remedy("one more device", solve_split(answer.problem, split_options(request, answer.devices + 1)), now);
  SplitProblem links = answer.problem;
  for (double& cost : links.cost) cost /= 2;
  text += remedy("links twice as fast", solve_split(links, split_options(request, answer.devices)), now);
  SplitProblem memory = answer.problem;
  memory.memory_limit = memory.memory_limit > UINT64_MAX / 2 ? UINT64_MAX : 2 * memory.memory_limit;
  return text + remedy("twice the memory", solve_split(memory, split_options(request, answer.devices)), now);
}

}  // namespace rannc::tools
