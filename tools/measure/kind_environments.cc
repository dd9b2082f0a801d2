// Assigns the environments of a profile database to kinds of devices.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "partition/device_names.h"
#include "tools/measure/measure.h"

namespace rannc::tools {

namespace {

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::tolower(c); });
  return text;
}

/// Whether the parts of a kind's name are words of the model. A number may also be one of gigabytes. Boards with other
/// rates than the usual ones are named by that.
bool names(const std::string& kind, const std::string& model) {
  const std::vector<std::string> parts = partition::device_words(kind), of_model = partition::device_words(model);
  const auto holds = [](const std::vector<std::string>& words, const std::string& word) {
    return std::find(words.begin(), words.end(), word) != words.end();
  };
  const bool other_board = std::any_of(of_model.begin(), of_model.end(), [&](const std::string& word) {
    return partition::is_board_word(word) && !holds(parts, word);
  });
  return !other_board && !parts.empty() && std::all_of(parts.begin(), parts.end(), [&](const std::string& part) {
    return holds(of_model, part) || holds(of_model, part + "gb");
  });
}

/// Models of the database's devices that this program's library measured.
std::vector<std::string> models(const partition::ProfileDatabase& database) {
  const std::string library = environment_name(std::string());
  std::vector<std::string> found;
  for (const std::string& environment : database.environments()) {
    if (!environment.ends_with(library) || database.entries(environment) == 0) continue;
    found.push_back(environment.substr(0, environment.size() - library.size()));
  }
  return found;
}

/// Returns the model that a kind names; empty if there is none.
Result<std::string> model_of(const std::string& kind, const std::vector<std::string>& models) {
  std::string found;
  for (const std::string& model : models) {
    if (lower(model) == lower(kind)) return model;
  }
  for (const std::string& model : models) {
    if (!names(kind, model)) continue;
    if (!found.empty()) {
      return error(
          fmt::format("devices of kind '{}' may be '{}' or '{}', and both were measured; describe the cluster "
                      "in a file whose kind has the name of one",
                      kind, found, model));
    }
    found = model;
  }
  return found;
}

}  // namespace

Result<partition::KindEnvironments> kind_environments(const partition::ProfileDatabase& database,
                                                      const std::vector<std::string>& kinds,
                                                      const std::set<std::string>& processor_kinds) {
  const std::vector<std::string> measured = models(database);
  partition::KindEnvironments environments;
  for (const std::string& kind : kinds) {
    RANNC_ASSIGN(const std::string model, model_of(kind, measured));
    if (!model.empty()) {
      environments[kind] = environment_name(model);
    } else if (processor_kinds.contains(kind)) {
      environments[kind] = environment_name();
    }
  }
  return environments;
}

}  // namespace rannc::tools
