#include "frontend/onnx/internal/model/scan.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <set>
#include <vector>

#include "frontend/onnx/internal/translate/translators.h"
#include "onnx/defs/schema.h"

namespace rannc::frontend {

using ONNX_NAMESPACE::FunctionProto;
using ONNX_NAMESPACE::ModelProto;
using ONNX_NAMESPACE::NodeProto;

namespace {

constexpr int kOldestTranslated = 7, kNewest = 27;
constexpr int kDeepest = 100;

std::string identity(const std::string& domain, const std::string& name, const std::string& overload) {
  return domain_of(domain) + "::" + name + (overload.empty() ? "" : ":" + overload);
}

/// Whether ONNX defines the operator by other operators.
bool is_schema_function(const NodeProto& node, int opset) {
  const auto* const schema = ONNX_NAMESPACE::OpSchemaRegistry::Schema(node.op_type(), opset, domain_of(node.domain()));
  return schema && (schema->HasFunction() || schema->HasContextDependentFunction());
}

class Scan {
 public:
  Scan(const Functions& functions, uint64_t max_nodes, const std::string& file)
      : functions_(functions), max_nodes_(max_nodes), file_(file) {}

  /// Adds the number of nodes that `node` becomes by inlining, and collects unknown operators.
  Result<void> count(const NodeProto& node, const Opsets& opsets, const std::string& prefix, uint64_t& nodes) {
    uint64_t made = 1;
    if (const FunctionProto* const function = functions_.find(node)) {
      RANNC_ASSIGN(made, count_function(*function, node, prefix));
    } else {
      note_unknown(node, opsets, prefix);
      RANNC_TRY(count_subgraphs(node, opsets, prefix, made));
    }
    nodes += made;
    if (nodes <= max_nodes_) return {};
    return error(Location{file_}, fmt::format("the model has more than {} nodes after inlining", max_nodes_));
  }

  Result<void> unknown_operators() const {
    if (unknown_.empty()) return {};
    std::vector<std::string> names;
    for (const auto& [name, users] : unknown_) names.push_back(name);
    Diagnostic all = error(Location{file_}, fmt::format("no translation for {} operator{}: {}", names.size(),
                                                        names.size() == 1 ? "" : "s", fmt::join(names, ", ")));
    for (const auto& [name, users] : unknown_) {
      constexpr size_t kShown = 8;
      for (size_t i = 0; i < std::min(users.size(), kShown); ++i) {
        all.notes.push_back({Location{file_, 0, 0, users[i]}, "uses " + name});
      }
      if (users.size() > kShown) {
        all.notes.push_back({Location{file_}, fmt::format("{} more nodes use {}", users.size() - kShown, name)});
      }
    }
    return all;
  }

 private:
  Result<uint64_t> count_function(const FunctionProto& function, const NodeProto& caller, const std::string& prefix) {
    const auto known = sizes_.find(&function);
    if (known != sizes_.end()) return known->second;
    const std::string name = prefix + node_name(caller);
    if (!open_.insert(&function).second) {
      return error(Location{file_, 0, 0, name}, fmt::format("function '{}' calls itself", function.name()));
    }
    RANNC_ASSIGN(const Opsets opsets, read_opsets(function, Location{file_, 0, 0, name}));
    uint64_t nodes = 1;  // a call of an empty function takes time too
    for (const NodeProto& node : function.node()) RANNC_TRY(count(node, opsets, name + "/", nodes));
    open_.erase(&function);
    sizes_.emplace(&function, nodes);
    return nodes;
  }

  Result<void> count_subgraphs(const NodeProto& node, const Opsets& opsets, const std::string& prefix,
                               uint64_t& nodes) {
    if (++depth_ > kDeepest)
      return error(Location{file_, 0, 0, prefix + node_name(node)}, "subgraphs are nested too deep");
    for (const auto& attribute : node.attribute()) {
      if (!attribute.has_g()) continue;
      for (const NodeProto& part : attribute.g().node()) {
        RANNC_TRY(count(part, opsets, prefix + node_name(node) + "/", nodes));
      }
    }
    --depth_;
    return {};
  }

  void note_unknown(const NodeProto& node, const Opsets& opsets, const std::string& prefix) {
    const std::string domain = domain_of(node.domain());
    if (domain.empty() && has_subgraphs(node.op_type())) return;
    const auto opset = opsets.find(domain);
    if (opset != opsets.end()) {
      const int version = version_of(node, opset->second);
      const bool translated = domain.empty() && find_translator(node.op_type(), version);
      if (translated || is_schema_function(node, version)) return;
    }
    unknown_[domain.empty() ? node.op_type() : domain + "::" + node.op_type()].push_back(prefix + node_name(node));
  }

  const Functions& functions_;
  uint64_t max_nodes_;
  const std::string& file_;
  std::map<std::string, std::vector<std::string>> unknown_;
  std::map<const FunctionProto*, uint64_t> sizes_;
  std::set<const FunctionProto*> open_;
  int depth_ = 0;
};

}  // namespace

template <class Proto>
Result<Opsets> read_opsets(const Proto& proto, const Location& where) {
  Opsets opsets;
  for (const auto& entry : proto.opset_import()) {
    const std::string domain = domain_of(entry.domain());
    if (domain.empty() && (entry.version() < kOldestTranslated || entry.version() > kNewest)) {
      return error(where, fmt::format("the model uses operator set {}, supported are {} to {}", entry.version(),
                                      kOldestTranslated, kNewest));
    }
    const int version = entry.version() > INT32_MAX || entry.version() < 0 ? 0 : static_cast<int>(entry.version());
    opsets[domain] = version;
  }
  return opsets;
}
template Result<Opsets> read_opsets(const ModelProto&, const Location&);
template Result<Opsets> read_opsets(const FunctionProto&, const Location&);

Result<Functions> Functions::read(const ModelProto& model, const std::string& file) {
  Functions result;
  for (const FunctionProto& function : model.functions()) {
    const std::string key = identity(function.domain(), function.name(), function.overload());
    if (!result.functions_.emplace(key, &function).second) {
      return error(Location{file}, fmt::format("function '{}' is defined twice", key));
    }
  }
  return result;
}

const FunctionProto* Functions::find(const NodeProto& node) const {
  if (functions_.empty()) return nullptr;
  const auto found = functions_.find(identity(node.domain(), node.op_type(), node.overload()));
  return found == functions_.end() ? nullptr : found->second;
}

Result<void> check_operators(const ModelFile& model, const Functions& functions, const Opsets& opsets,
                             const ScanLimits& limits, const std::string& file) {
  Scan scan(functions, limits.max_nodes, file);
  uint64_t nodes = 0;
  size_t next = 0;
  RANNC_TRY(model.each_node([&](const NodeProto& node) -> Result<void> {
    const bool is_needed = limits.needed == nullptr || limits.needed->nodes[next];
    ++next;
    return is_needed ? scan.count(node, opsets, "", nodes) : Result<void>();
  }));
  return scan.unknown_operators();
}

int version_of(const NodeProto& node, int opset) {
  if (!domain_of(node.domain()).empty()) return opset;
  for (int version = opset; version <= kNewest; ++version) {
    if (ONNX_NAMESPACE::OpSchemaRegistry::Schema(node.op_type(), version, "") != nullptr) return version;
  }
  return opset;
}

bool has_subgraphs(std::string_view op) { return op == "If" || op == "Loop" || op == "Scan"; }

std::string node_name(const NodeProto& node) {
  if (!node.name().empty()) return node.name();
  for (const std::string& output : node.output()) {
    if (!output.empty()) return node.op_type() + " " + output;
  }
  return node.op_type();
}

}  // namespace rannc::frontend
