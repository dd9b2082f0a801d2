// Reads and writes PipeDream's text graphs.
#include "partition/formats/pipedream_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>

namespace rannc::partition {
namespace {

constexpr std::string_view kSeparator = " -- ";

std::vector<std::string_view> split(std::string_view text, std::string_view by) {
  std::vector<std::string_view> parts;
  for (size_t begin = 0;;) {
    const size_t end = text.find(by, begin);
    parts.push_back(text.substr(begin, end == std::string_view::npos ? end : end - begin));
    if (end == std::string_view::npos) return parts;
    begin = end + by.size();
  }
}

std::string_view trim(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t' || text.back() == '\r')) text.remove_suffix(1);
  return text;
}

std::optional<double> number(std::string_view text) {
  text = trim(text);
  double value = 0;
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (failed != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

/// Returns the text after `key=` up to the next field. Lists in brackets may contain commas.
std::optional<std::string_view> field(std::string_view fields, std::string_view key) {
  const std::string wanted = std::string(key) + "=";
  size_t at = fields.find(wanted);
  while (at != std::string_view::npos && at > 0 && fields[at - 1] != ' ' && fields[at - 1] != ',') {
    at = fields.find(wanted, at + 1);
  }
  if (at == std::string_view::npos) return std::nullopt;
  std::string_view rest = fields.substr(at + wanted.size());
  if (!rest.empty() && rest.front() == '[') return rest.substr(0, std::min(rest.size(), rest.find(']') + 1));
  return rest.substr(0, rest.find(','));
}

class Reader {
 public:
  Reader(std::string_view text, const std::string& file) : text_(text), where_{file, 0, 0, {}} {}

  Result<PipedreamProfile> read() {
    std::vector<std::pair<std::string_view, Location>> edge_lines;
    for (std::string_view line : split(text_, "\n")) {
      ++where_.line;
      if (trim(line).empty()) continue;
      if (line.front() == ' ' || line.front() == '\t') {
        edge_lines.emplace_back(trim(line), where_);
      } else {
        RANNC_TRY(read_node(line));
      }
    }
    for (const auto& [line, where] : edge_lines) {
      where_ = where;
      RANNC_TRY(read_edge(line));
    }
    return std::move(profile_);
  }

 private:
  Result<double> read_number(std::string_view fields, std::string_view key) {
    const auto text = field(fields, key);
    if (!text) return error(where_, fmt::format("field '{}' is missing", key));
    const auto value = number(*text);
    if (!value) return error(where_, fmt::format("'{}' of field '{}' is not a number", *text, key));
    return *value;
  }

  Result<void> read_node(std::string_view line) {
    const auto parts = split(line, kSeparator);
    if (parts.size() < 3) {
      return error(where_, fmt::format("found {} parts where 'node -- description -- costs' has 3", parts.size()));
    }
    ProfileNode node;
    // A description may contain the separator: costs are the last part, or the last but one before a stage.
    size_t costs = parts.size() - 1;
    if (const auto stage = field(parts[costs], "stage_id"); stage && parts.size() > 3) {
      const auto value = number(*stage);
      if (!value || *value < 0 || *value > 1e9) return error(where_, fmt::format("stage '{}' is not a number", *stage));
      node.stage = static_cast<uint32_t>(*value);
      --costs;
    }
    node.name = trim(parts[0]);
    for (size_t i = 1; i < costs; ++i)
      node.description += (i > 1 ? std::string(kSeparator) : "") + std::string(parts[i]);
    RANNC_ASSIGN(node.forward_ms, read_number(parts[costs], "forward_compute_time"));
    RANNC_ASSIGN(node.backward_ms, read_number(parts[costs], "backward_compute_time"));
    RANNC_ASSIGN(node.parameter_bytes, read_number(parts[costs], "parameter_size"));
    RANNC_TRY(read_activations(parts[costs], node));
    if (!ids_.emplace(node.name, profile_.nodes.size()).second) {
      return error(where_, fmt::format("node '{}' is defined twice", node.name));
    }
    profile_.nodes.push_back(std::move(node));
    return {};
  }

  Result<void> read_activations(std::string_view fields, ProfileNode& node) {
    const auto text = field(fields, "activation_size");
    if (!text) return error(where_, "field 'activation_size' is missing");
    std::string_view list = *text;
    if (!list.empty() && list.front() == '[') {
      if (list.back() != ']') return error(where_, "the list of 'activation_size' does not end");
      list = list.substr(1, list.size() - 2);
    }
    for (std::string_view item : split(list, ";")) {
      const auto value = number(item);
      if (!value) return error(where_, fmt::format("'{}' of field 'activation_size' is not a number", item));
      node.activation_bytes.push_back(*value);
    }
    return {};
  }

  Result<void> read_edge(std::string_view line) {
    const auto ends = split(line, kSeparator);
    if (ends.size() != 2) return error(where_, fmt::format("found {} ends where an edge has 2", ends.size()));
    uint32_t ids[2];
    for (int i = 0; i < 2; ++i) {
      const auto found = ids_.find(std::string(trim(ends[i])));
      if (found == ids_.end())
        return error(where_, fmt::format("the edge names '{}', which is not a node", trim(ends[i])));
      ids[i] = static_cast<uint32_t>(found->second);
    }
    profile_.edges.emplace_back(ids[0], ids[1]);
    return {};
  }

  std::string_view text_;
  Location where_;
  PipedreamProfile profile_;
  std::map<std::string, size_t> ids_;
};

/// Converts bytes to an integer. A value that does not fit is left to `validate`, which rejects its cost.
uint64_t whole_bytes(double bytes) {
  return bytes > 0 && bytes < 1e18 ? static_cast<uint64_t>(std::llround(bytes)) : 0;
}

}  // namespace

double ProfileNode::activation_sum() const {
  double sum = 0;
  for (double bytes : activation_bytes) sum += bytes;
  return sum;
}

Result<PipedreamProfile> read_pipedream(std::string_view text, const std::string& file) {
  return Reader(text, file).read();
}

std::string write_pipedream(const PipedreamProfile& profile) {
  std::string out;
  for (const ProfileNode& node : profile.nodes) {
    std::string sizes;
    for (double bytes : node.activation_bytes) sizes += (sizes.empty() ? "" : "; ") + fmt::format("{}", bytes);
    if (node.activation_bytes.size() != 1) sizes = "[" + sizes + "]";
    out += fmt::format(
        "{} -- {} -- forward_compute_time={}, backward_compute_time={}, activation_size={}, "
        "parameter_size={}",
        node.name, node.description, node.forward_ms, node.backward_ms, sizes, node.parameter_bytes);
    if (node.stage) out += fmt::format(" -- stage_id={}", *node.stage);
    out += '\n';
  }
  for (const auto& [from, to] : profile.edges) {
    out += fmt::format("\t{} -- {}\n", profile.nodes[from].name, profile.nodes[to].name);
  }
  return out;
}

Dag dag_of_profile(const PipedreamProfile& profile, double bytes_per_second, double transfers) {
  Dag dag;
  std::vector<std::vector<uint32_t>> readers(profile.nodes.size());
  for (const auto& [from, to] : profile.edges) readers[from].push_back(to);
  dag.value_readers.offsets.push_back(0);
  for (uint32_t t = 0; t < profile.nodes.size(); ++t) {
    const ProfileNode& node = profile.nodes[t];
    dag.forward.push_back(node.forward_ms);
    dag.backward.push_back(node.backward_ms);
    dag.resident_bytes.push_back(whole_bytes(node.parameter_bytes));
    dag.stashed_bytes.push_back(whole_bytes(node.activation_sum()));
    dag.names.push_back(node.name);
    if (readers[t].empty()) continue;
    std::sort(readers[t].begin(), readers[t].end());
    readers[t].erase(std::unique(readers[t].begin(), readers[t].end()), readers[t].end());
    dag.value_producer.push_back(t);
    dag.value_bytes.push_back(whole_bytes(node.activation_sum()));
    dag.value_cost.push_back(transfers * node.activation_sum() / bytes_per_second * 1e3);
    dag.value_readers.items.insert(dag.value_readers.items.end(), readers[t].begin(), readers[t].end());
    dag.value_readers.offsets.push_back(static_cast<uint32_t>(dag.value_readers.items.size()));
  }
  index_tasks(dag);
  return dag;
}

}  // namespace rannc::partition
