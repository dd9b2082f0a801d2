// Reads and writes cluster files in TOML.
#include <fmt/format.h>

#define TOML_EXCEPTIONS 0
// The parser asserts, or lets the compiler assume, a condition that its next lines handle as an error: that `[` is not
// followed by `{`. A user's file may violate it.
#undef NDEBUG
#define TOML_ASSERT(expression) static_assert(true)
#include <toml++/toml.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>
#include <sstream>

#include "ir/base/number_range.h"
#include "ir/base/replacement.h"
#include "partition/cluster.h"

namespace rannc::partition {
namespace {

constexpr size_t kMaxDevices = 1 << 20;
constexpr NumberRange kBytes{1, 9e18}, kFlops{1, 1e24}, kBandwidth{1, 1e18}, kLatency{0, 1e12}, kElements{1, 1e18},
    kMultiprocessors{1, 1e6};

constexpr std::pair<std::string_view, double FlopRates::*> kRates[] = {{"f32", &FlopRates::f32},
                                                                       {"tf32", &FlopRates::tf32},
                                                                       {"bf16", &FlopRates::bf16},
                                                                       {"f16", &FlopRates::f16},
                                                                       {"f64", &FlopRates::f64}};
constexpr std::pair<std::string_view, std::optional<FlopRates> KernelRates::*> kFamilies[] = {
    {"convolution", &KernelRates::convolution},
    {"attention", &KernelRates::attention},
    {"flash_attention", &KernelRates::flash_attention}};

/// Walks one file; every failing member returns the first diagnostic.
class Reader {
 public:
  explicit Reader(std::string file) : file_(std::move(file)) {}

  Result<Cluster> read(const toml::table& root) {
    RANNC_TRY(only(root, {"name", "kind", "node", "between", "link"}, "the file"));
    if (root.contains("name")) {
      RANNC_ASSIGN(cluster_.name, text(root, "name"));
    }
    RANNC_TRY(read_kinds(root));
    const toml::array* nodes = root["node"].as_array();
    if (nodes == nullptr || nodes->empty()) return fail(root, "a cluster needs at least one [[node]]");
    if (const toml::node* between = root.get("between")) {
      RANNC_ASSIGN(cluster_.between, link(*between, "between"));
    }
    for (const toml::node& node : *nodes) RANNC_TRY(read_node(node));
    if (cluster_.nodes.size() > 1 && !root.contains("between")) {
      return fail(root, "a cluster of several nodes needs [between] with bandwidth and latency_ns");
    }
    if (const toml::node* links = root.get("link")) RANNC_TRY(read_links(*links));
    return std::move(cluster_);
  }

  Diagnostic fail(const toml::node& at, std::string message) const { return fail(at.source(), std::move(message)); }
  Diagnostic fail(const toml::source_region& at, std::string message) const {
    return error(Location{file_, at.begin.line, at.begin.column, {}}, std::move(message));
  }

 private:
  Result<void> only(const toml::table& table, const std::set<std::string_view>& allowed, std::string_view what) {
    for (const auto& [key, value] : table) {
      if (allowed.contains(key.str())) continue;
      std::string list;
      for (const std::string_view name : allowed) list += (list.empty() ? "" : ", ") + std::string(name);
      return fail(key.source(), fmt::format("unknown key '{}' in {}; allowed: {}", key.str(), what, list));
    }
    return {};
  }

  Result<const toml::table*> table(const toml::node& node, std::string_view what) {
    if (const toml::table* found = node.as_table()) return found;
    return fail(node, fmt::format("{} must be a table", what));
  }

  Result<std::string> text(const toml::table& table, std::string_view key) {
    const toml::node* node = table.get(key);
    if (node == nullptr) return fail(table, fmt::format("'{}' is missing", key));
    if (const auto value = node->value_exact<std::string>()) return *value;
    return fail(*node, fmt::format("'{}' must be a string", key));
  }

  Result<double> number(const toml::table& table, std::string_view key, const NumberRange& range) {
    const toml::node* node = table.get(key);
    if (node == nullptr) return fail(table, fmt::format("'{}' is missing", key));
    const auto value = node->is_number() ? node->value<double>() : std::nullopt;
    if (!value) return fail(*node, fmt::format("'{}' must be a number", key));
    if (range.contains(*value)) return *value;
    return fail(*node, fmt::format("'{}' is {}, expected {}", key, *value, range.str()));
  }

  Result<Link> link(const toml::node& node, std::string_view what) {
    RANNC_ASSIGN(const toml::table* fields, table(node, what));
    RANNC_TRY(only(*fields, {"bandwidth", "latency_ns"}, what));
    return link_fields(*fields);
  }

  Result<Link> link_fields(const toml::table& fields) {
    Link result;
    RANNC_ASSIGN(result.bytes_per_second, number(fields, "bandwidth", kBandwidth));
    if (fields.contains("latency_ns")) {
      RANNC_ASSIGN(result.latency_ns, number(fields, "latency_ns", kLatency));
    }
    return result;
  }

  /// Reads one rate, or a table of rates by element type. A type without a rate has that of f32.
  Result<FlopRates> rates(const toml::table& fields, std::string_view key) {
    const toml::table* rates = fields[key].as_table();
    if (rates == nullptr) {
      RANNC_ASSIGN(const double rate, number(fields, key, kFlops));
      return FlopRates(rate);
    }
    RANNC_TRY(only(*rates, {"f32", "tf32", "bf16", "f16", "f64"}, key));
    RANNC_ASSIGN(const double f32, number(*rates, "f32", kFlops));
    FlopRates result(f32);
    for (const auto& [name, rate] : kRates) {
      if (!rates->contains(name)) continue;
      RANNC_ASSIGN(result.*rate, number(*rates, name, kFlops));
    }
    return result;
  }

  Result<KernelRates> kernel_rates(const toml::table& fields) {
    KernelRates found;
    for (const auto& [name, rate] : kFamilies) {
      if (!fields.contains(name)) continue;
      RANNC_ASSIGN(found.*rate, rates(fields, name));
    }
    if (const toml::node* given = fields.get("batch_norm")) {
      RANNC_ASSIGN(const toml::table* by_layout, table(*given, "batch_norm"));
      RANNC_TRY(only(*by_layout, {"channels_first", "channels_last"}, "batch_norm"));
      RANNC_ASSIGN(found.batch_norm, number(*by_layout, "channels_first", kElements));
      RANNC_ASSIGN(found.batch_norm_channels_last, number(*by_layout, "channels_last", kElements));
    }
    if (fields.contains("multiprocessors")) {
      RANNC_ASSIGN(const double count, number(fields, "multiprocessors", kMultiprocessors));
      found.multiprocessors = static_cast<uint32_t>(count);
    }
    return found;
  }

  Result<ir::DeviceType> device(const toml::table& fields) {
    RANNC_ASSIGN(const std::string name, text(fields, "device"));
    if (const auto type = ir::device_type(name)) return *type;
    return fail(*fields.get("device"), fmt::format("'device' is '{}', it must be cpu or cuda", name));
  }

  Result<ir::InstructionSet> instructions(const toml::table& fields) {
    RANNC_ASSIGN(const std::string name, text(fields, "instructions"));
    if (const auto set = ir::instruction_set(name)) return *set;
    return fail(*fields.get("instructions"),
                fmt::format("'instructions' is '{}', it must be sse41, avx, avx2 or avx512", name));
  }

  Result<void> read_kinds(const toml::table& root) {
    const toml::table* kinds = root["kind"].as_table();
    if (kinds == nullptr || kinds->empty()) return fail(root, "a cluster needs at least one [kind.NAME]");
    for (const auto& [key, node] : *kinds) {
      RANNC_ASSIGN(const toml::table* fields, table(node, "kind"));
      RANNC_TRY(only(*fields,
                     {"memory_bytes", "flops", "bandwidth", "launch_ns", "device", "instructions", "convolution",
                      "attention", "flash_attention", "batch_norm", "multiprocessors", "workspace_bytes"},
                     "a kind"));
      DeviceKind kind;
      kind.name = key.str();
      RANNC_ASSIGN(const double memory, number(*fields, "memory_bytes", kBytes));
      kind.memory_bytes = static_cast<uint64_t>(memory);
      RANNC_ASSIGN(kind.flops_per_second, rates(*fields, "flops"));
      RANNC_ASSIGN(kind.bytes_per_second, number(*fields, "bandwidth", kBandwidth));
      if (fields->contains("launch_ns")) {
        RANNC_ASSIGN(kind.launch_ns, number(*fields, "launch_ns", kLatency));
      }
      if (fields->contains("device")) {
        RANNC_ASSIGN(kind.type, device(*fields));
      }
      if (fields->contains("instructions")) {
        RANNC_ASSIGN(kind.instructions, instructions(*fields));
      }
      RANNC_ASSIGN(kind.kernels, kernel_rates(*fields));
      if (fields->contains("workspace_bytes")) {
        RANNC_ASSIGN(const double workspace, number(*fields, "workspace_bytes", kBytes));
        kind.workspace_bytes = static_cast<uint64_t>(workspace);
      }
      if (!cluster_.kinds.empty() && cluster_.kinds.front().type != kind.type) {
        return fail(*fields,
                    fmt::format("[kind.{}] is of device type {} and [kind.{}] of {}: a plan has one type", kind.name,
                                ir::str(kind.type), cluster_.kinds.front().name, ir::str(cluster_.kinds.front().type)));
      }
      cluster_.kinds.push_back(std::move(kind));
    }
    return {};
  }

  Result<uint32_t> kind_named(const toml::table& at, const std::string& name) {
    for (uint32_t k = 0; k < cluster_.kinds.size(); ++k) {
      if (cluster_.kinds[k].name == name) return k;
    }
    return fail(*at.get("kind"), fmt::format("kind '{}' is not described by a [kind.{}]", name, name));
  }

  Result<uint32_t> count(const toml::table& table) {
    if (!table.contains("count")) return 1u;
    RANNC_ASSIGN(const double value, number(table, "count", {1, kMaxDevices}));
    if (value != std::floor(value)) return fail(*table.get("count"), "'count' must be a whole number");
    return static_cast<uint32_t>(value);
  }

  Result<void> read_node(const toml::node& item) {
    RANNC_ASSIGN(const toml::table* fields, table(item, "node"));
    RANNC_TRY(only(*fields, {"name", "count", "inside", "devices"}, "a node"));
    RANNC_ASSIGN(const uint32_t repeats, count(*fields));
    Link inside = cluster_.between;
    if (const toml::node* given = fields->get("inside")) {
      RANNC_ASSIGN(inside, link(*given, "inside"));
    }
    std::vector<uint32_t> kinds;
    RANNC_TRY(read_devices(*fields, kinds));
    if (kinds.size() > 1 && inside.bytes_per_second <= 0) {
      return fail(*fields, "a node of several devices needs 'inside' with bandwidth and latency_ns");
    }
    if (cluster_.devices.size() + kinds.size() * repeats > kMaxDevices) {
      return fail(*fields, fmt::format("more than {} devices", kMaxDevices));
    }
    std::string base = "node";
    if (fields->contains("name")) {
      RANNC_ASSIGN(base, text(*fields, "name"));
    }
    const bool number_it = repeats > 1 || !fields->contains("name");
    for (uint32_t i = 0; i < repeats; ++i) {
      const std::string name = number_it ? base + std::to_string(cluster_.nodes.size()) : base;
      add_node(name, inside, kinds);
    }
    return {};
  }

  Result<void> read_devices(const toml::table& fields, std::vector<uint32_t>& kinds) {
    const toml::array* groups = fields["devices"].as_array();
    if (groups == nullptr || groups->empty()) {
      return fail(fields, "a node needs devices = [{ kind = \"…\", count = … }, …]");
    }
    for (const toml::node& item : *groups) {
      RANNC_ASSIGN(const toml::table* group, table(item, "devices"));
      RANNC_TRY(only(*group, {"kind", "count"}, "devices"));
      RANNC_ASSIGN(const std::string name, text(*group, "kind"));
      RANNC_ASSIGN(const uint32_t kind, kind_named(*group, name));
      RANNC_ASSIGN(const uint32_t repeats, count(*group));
      if (kinds.size() + repeats > kMaxDevices) {
        return fail(*group, fmt::format("more than {} devices", kMaxDevices));
      }
      kinds.insert(kinds.end(), repeats, kind);
    }
    return {};
  }

  void add_node(const std::string& name, const Link& inside, const std::vector<uint32_t>& kinds) {
    ClusterNode node{name, inside, {}};
    for (size_t d = 0; d < kinds.size(); ++d) {
      node.devices.push_back(DeviceId::from(cluster_.devices.size()));
      const std::string device = fmt::format("{}/{}:{}", name, cluster_.kinds[kinds[d]].name, d);
      cluster_.devices.push_back({device, kinds[d], NodeId::from(cluster_.nodes.size())});
    }
    cluster_.nodes.push_back(std::move(node));
  }

  Result<std::pair<uint32_t, uint32_t>> ends(const toml::table& fields, std::string_view key, size_t limit) {
    const toml::array* pair = fields[key].as_array();
    if (pair == nullptr || pair->size() != 2)
      return fail(fields, fmt::format("'{}' must contain two ids, such as [0, 1]", key));
    const WholeRange ids{0, limit - 1};
    uint32_t found[2];
    for (size_t i = 0; i < 2; ++i) {
      const auto value = (*pair)[i].value_exact<int64_t>();
      if (!value || *value < 0 || !ids.contains(static_cast<uint64_t>(*value)))
        return fail((*pair)[i], fmt::format("'{}' must contain ids, expected {}", key, ids.str()));
      found[i] = static_cast<uint32_t>(*value);
    }
    if (found[0] == found[1]) return fail(*pair, fmt::format("'{}' contains the same id twice", key));
    return std::pair{std::min(found[0], found[1]), std::max(found[0], found[1])};
  }

  Result<void> read_links(const toml::node& node) {
    const toml::array* links = node.as_array();
    if (links == nullptr) return fail(node, "links are written as [[link]]");
    for (const toml::node& item : *links) {
      RANNC_ASSIGN(const toml::table* fields, table(item, "link"));
      RANNC_TRY(only(*fields, {"nodes", "devices", "bandwidth", "latency_ns"}, "a link"));
      RANNC_ASSIGN(const Link value, link_fields(*fields));
      const bool by_node = fields->contains("nodes");
      if (by_node == fields->contains("devices")) return fail(*fields, "a link joins either 'nodes' or 'devices'");
      const size_t limit = by_node ? cluster_.nodes.size() : cluster_.devices.size();
      RANNC_ASSIGN(const auto pair, ends(*fields, by_node ? "nodes" : "devices", limit));
      (by_node ? cluster_.node_links : cluster_.device_links)[pair] = value;
    }
    return {};
  }

  std::string file_;
  Cluster cluster_;
};

// Quotes a string on one line, as keys require.
std::string quoted(const std::string& text) {
  std::ostringstream stream;
  const toml::value<std::string> value(text);
  stream << toml::toml_formatter(value,
                                 toml::toml_formatter::default_flags & ~toml::format_flags::allow_multi_line_strings);
  return stream.str();
}

std::string rates_text(const FlopRates& rates) {
  if (rates.uniform()) return fmt::format("{}", rates.f32);
  std::string text = "{";
  for (const auto& [name, rate] : kRates) text += fmt::format("{} {} = {}", text == "{" ? "" : ",", name, rates.*rate);
  return text + " }";
}

/// Lines for what is not the default.
std::string kernels_text(const KernelRates& kernels) {
  std::string text;
  for (const auto& [name, rates] : kFamilies) {
    if (kernels.*rates) text += fmt::format("{} = {}\n", name, rates_text(*(kernels.*rates)));
  }
  if (kernels.batch_norm > 0) {
    text += fmt::format("batch_norm = {{ channels_first = {}, channels_last = {} }}\n", kernels.batch_norm,
                        kernels.batch_norm_channels_last);
  }
  if (kernels.multiprocessors > 0) text += fmt::format("multiprocessors = {}\n", kernels.multiprocessors);
  return text;
}

std::string link_text(const Link& link) {
  return fmt::format("bandwidth = {}, latency_ns = {}", link.bytes_per_second, link.latency_ns);
}

}  // namespace

Result<Cluster> parse_cluster(std::string_view text, const std::string& file) {
  const toml::parse_result parsed = toml::parse(text, file);
  Reader reader(file);
  if (!parsed) return reader.fail(parsed.error().source(), std::string(parsed.error().description()));
  return reader.read(parsed.table());
}

Result<Cluster> read_cluster(const std::string& path) {
  RANNC_ASSIGN(const std::string text, read_file(path));
  return parse_cluster(text, path);
}

std::string print_cluster(const Cluster& cluster) {
  std::string out = fmt::format("name = {}\n", quoted(cluster.name));
  for (const DeviceKind& kind : cluster.kinds) {
    out +=
        fmt::format("\n[kind.{}]\nmemory_bytes = {}\nflops = {}\nbandwidth = {}\nlaunch_ns = {}\n", quoted(kind.name),
                    kind.memory_bytes, rates_text(kind.flops_per_second), kind.bytes_per_second, kind.launch_ns);
    // Digests of clusters without GPUs are older than this key, as those of processors with AVX-512 than the next.
    if (kind.type != DeviceKind().type) out += fmt::format("device = {}\n", quoted(std::string(ir::str(kind.type))));
    if (kind.instructions != DeviceKind().instructions) {
      out += fmt::format("instructions = {}\n", quoted(std::string(ir::str(kind.instructions))));
    }
    out += kernels_text(kind.kernels);
    if (kind.workspace_bytes > 0) out += fmt::format("workspace_bytes = {}\n", kind.workspace_bytes);
  }
  if (cluster.between.bytes_per_second > 0) {
    out += fmt::format("\n[between]\nbandwidth = {}\nlatency_ns = {}\n", cluster.between.bytes_per_second,
                       cluster.between.latency_ns);
  }
  for (const ClusterNode& node : cluster.nodes) {
    out += fmt::format("\n[[node]]\nname = {}\n", quoted(node.name));
    if (node.inside.bytes_per_second > 0) out += fmt::format("inside = {{ {} }}\n", link_text(node.inside));
    out += "devices = [";
    for (size_t i = 0; i < node.devices.size();) {
      const uint32_t kind = cluster.devices[node.devices[i].index()].kind;
      size_t end = i;
      while (end < node.devices.size() && cluster.devices[node.devices[end].index()].kind == kind) ++end;
      out +=
          fmt::format("{}{{ kind = {}, count = {} }}", i == 0 ? "" : ", ", quoted(cluster.kinds[kind].name), end - i);
      i = end;
    }
    out += "]\n";
  }
  const auto links = [&](const char* key, const auto& map) {
    for (const auto& [ends, link] : map) {
      out += fmt::format("\n[[link]]\n{} = [{}, {}]\nbandwidth = {}\nlatency_ns = {}\n", key, ends.first, ends.second,
                         link.bytes_per_second, link.latency_ns);
    }
  };
  links("nodes", cluster.node_links);
  links("devices", cluster.device_links);
  return out;
}

}  // namespace rannc::partition
