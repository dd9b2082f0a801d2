// Reads the placement graphs.
#include "partition/formats/placement_json.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

namespace rannc::partition {
namespace {

using Json = nlohmann::json;

class PlacementReader {
 public:
  explicit PlacementReader(const std::string& file) : file_(file) {}

  Result<PlacementInput> read(const Json& root) {
    if (!root.is_object()) return fail("", "the file is not a JSON object");
    RANNC_ASSIGN(const double devices, number(root, "maxFPGAs", "top level"));
    RANNC_ASSIGN(const double memory, number(root, "maxSizePerFPGA", "top level"));
    if (!(devices >= 1 && devices <= 1e6)) return fail("maxFPGAs", "a device count from 1 to 1000000 is allowed");
    if (!(memory >= 0)) return fail("maxSizePerFPGA", "a size >= 0 is allowed");
    input_.devices = static_cast<uint32_t>(devices);
    if (memory < 1e18) input_.source.memory_limit = static_cast<uint64_t>(memory);
    if (!root.contains("nodes") || !root["nodes"].is_array()) return fail("nodes", "an array is needed");
    if (!root.contains("edges") || !root["edges"].is_array()) return fail("edges", "an array is needed");
    for (const Json& node : root["nodes"]) RANNC_TRY(read_node(node));
    for (const Json& edge : root["edges"]) RANNC_TRY(read_edge(edge));
    order_classes();
    return std::move(input_);
  }

 private:
  Diagnostic fail(const std::string& node, const std::string& message) const {
    return error(Location{file_, 0, 0, node}, message);
  }

  Result<double> number(const Json& object, const char* key, const std::string& who) const {
    const auto found = object.find(key);
    if (found == object.end()) return fail(who, std::string("field '") + key + "' is missing");
    if (found->is_boolean()) return found->get<bool>() ? 1.0 : 0.0;
    if (!found->is_number()) return fail(who, std::string("field '") + key + "' is not a number");
    return found->get<double>();
  }

  static std::string id_text(const Json& object, const char* key) {
    const auto found = object.find(key);
    return found == object.end() || found->is_structured() ? std::string("?") : found->dump();
  }

  Result<void> read_node(const Json& node) {
    if (!node.is_object()) return fail("nodes", "an entry is not an object");
    for (const char* key : {"id", "colorClass"}) {
      const auto name = node.find(key);
      if (name != node.end() && name->is_structured())
        return fail("nodes", std::string("a field '") + key + "' is neither a number nor a text");
    }
    const std::string who = id_text(node, "id");
    RANNC_ASSIGN(const double work, number(node, "fpgaLatency", who));
    RANNC_ASSIGN(const double size, number(node, "size", who));
    if (!(size >= 0 && size < 1e18)) return fail(who, "the size is not a number of bytes");
    const uint32_t index = static_cast<uint32_t>(backward_.size());
    if (!ids_.emplace(who, index).second) return fail(who, "the node is defined twice");
    const auto backward = node.find("isBackwardNode");
    backward_.push_back(backward != node.end() &&
                        (backward->is_boolean() ? backward->get<bool>() : backward->is_number() && *backward != 0));
    // A node without a class is a class of its own; a prefix keeps the two kinds of keys apart.
    const auto colour = node.find("colorClass");
    const std::string key = colour == node.end() ? "n" + who : "c" + colour->dump();
    input_.source.group.push_back(classes_.emplace(key, static_cast<uint32_t>(classes_.size())).first->second);
    input_.source.work.push_back(work);
    input_.source.bytes.push_back(static_cast<uint64_t>(std::llround(size)));
    value_of_.push_back(UINT32_MAX);
    input_.names.push_back(who);
    return {};
  }

  Result<void> read_edge(const Json& edge) {
    if (!edge.is_object()) return fail("edges", "an entry is not an object");
    uint32_t ends[2];
    const char* keys[2] = {"sourceId", "destId"};
    for (int i = 0; i < 2; ++i) {
      const std::string who = id_text(edge, keys[i]);
      const auto found = ids_.find(who);
      if (found == ids_.end()) return fail(who, std::string(keys[i]) + " of an edge names no node");
      ends[i] = found->second;
    }
    const std::string who = id_text(edge, "sourceId") + " -> " + id_text(edge, "destId");
    RANNC_ASSIGN(const double cost, number(edge, "cost", who));
    uint32_t& value = value_of_[ends[0]];
    if (value == UINT32_MAX) {
      value = static_cast<uint32_t>(input_.source.values.size());
      input_.source.values.push_back({ends[0], {}, cost});
    }
    SplitSource::Value& output = input_.source.values[value];
    if (!(std::abs(output.cost - cost) <= 1e-9 * std::abs(output.cost))) {
      return fail(who, "the edge's cost differs from that of another edge of the same source");
    }
    output.readers.push_back(ends[1]);
    edges_.emplace_back(ends[0], ends[1]);
    return {};
  }

  void order_classes() {
    std::vector<bool> has_forward(classes_.size(), false);
    for (size_t i = 0; i < backward_.size(); ++i) {
      if (!backward_[i]) has_forward[input_.source.group[i]] = true;
    }
    auto forward = [&](uint32_t node) { return has_forward[input_.source.group[node]]; };
    for (const auto& [from, to] : edges_) {
      if (!backward_[from] && !backward_[to]) {
        input_.source.order.emplace_back(from, to);
      } else if (backward_[from] && backward_[to] && (!forward(from) || !forward(to))) {
        input_.source.order.emplace_back(to, from);
      }
    }
  }

  const std::string& file_;
  PlacementInput input_;
  std::map<std::string, uint32_t> ids_, classes_;
  std::vector<bool> backward_;
  std::vector<uint32_t> value_of_;
  std::vector<std::pair<uint32_t, uint32_t>> edges_;
};

}  // namespace

Result<PlacementInput> read_placement(std::string_view text, const std::string& file) {
  const Json root = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (root.is_discarded()) return error(Location{file, 0, 0, {}}, "the file is not JSON");
  return PlacementReader(file).read(root);
}

}  // namespace rannc::partition
