#include "runtime/train/shared_tensors.h"

#include <fmt/format.h>

#include <algorithm>

#include "ir/state/name_source.h"
#include "runtime/train/checkpoint.h"

namespace rannc::runtime {

namespace {

constexpr std::string_view kKinds[] = {"parameter/", "buffer/"};

// Parameters and buffers by name, with their keys.
std::map<std::string, std::pair<std::string, ir::ValueType>> named(
    const std::map<std::string, CheckpointEntry>& tensors) {
  std::map<std::string, std::pair<std::string, ir::ValueType>> found;
  for (const auto& [key, entry] : tensors) {
    for (const std::string_view kind : kKinds) {
      if (key.starts_with(kind)) found.try_emplace(key.substr(kind.size()), key, entry.type);
    }
  }
  return found;
}

}  // namespace

Result<SharedTensors> match_shared(const Bundle& bundle, const std::string& checkpoint) {
  RANNC_ASSIGN(const auto tensors, checkpoint_tensors(checkpoint));
  auto theirs = named(tensors);
  SharedTensors shared;
  const auto fault = [&](const std::string& what) { return error({checkpoint, 0, 0, {}}, what); };
  const auto take = [&](const std::vector<Weight>& weights, std::string_view kind) -> Result<void> {
    for (const Weight& weight : weights) {
      const std::string key = std::string(kind) + weight.name;
      const auto found = ir::is_synthetic(weight.name) ? theirs.end() : theirs.find(weight.name);
      if (shared.keys.contains(key)) continue;  // in several stages
      if (found == theirs.end()) {
        shared.own.push_back(weight.name);
        continue;
      }
      const auto& [its_key, type] = found->second;
      if (type.dtype != weight.type.dtype || type.shape != weight.type.shape)
        return fault(fmt::format("tensor '{}' is {}{}, that of {} {}{}", weight.name, ir::str(type.dtype),
                                 ir::str(*type.shape), bundle.path, ir::str(weight.type.dtype),
                                 ir::str(*weight.type.shape)));
      shared.keys.emplace(key, its_key);
    }
    return {};
  };
  for (const Signature& stage : bundle.signatures) {
    RANNC_TRY(take(stage.parameters, kKinds[0]));
    RANNC_TRY(take(stage.buffers, kKinds[1]));
    for (const Weight& constant : stage.constants) {
      if (ir::is_synthetic(constant.name) || !theirs.contains(constant.name)) continue;
      return std::move(fault(fmt::format("tensor '{}' is a constant of {}, compiled into its programs", constant.name,
                                         bundle.path)))
          .note(fmt::format("compile it with --buffer '{}', so that it can change", constant.name));
    }
  }
  if (shared.keys.empty()) return fault(fmt::format("has no tensor of {}", bundle.path));
  for (const auto& [name, entry] : theirs) {
    const auto taken = [&](const auto& pair) { return pair.second == entry.first; };
    if (std::none_of(shared.keys.begin(), shared.keys.end(), taken)) shared.theirs.push_back(name);
  }
  std::sort(shared.own.begin(), shared.own.end());
  shared.own.erase(std::unique(shared.own.begin(), shared.own.end()), shared.own.end());
  return shared;
}

}  // namespace rannc::runtime
