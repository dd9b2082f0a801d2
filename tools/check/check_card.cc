#include "tools/check/check_card.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <filesystem>

#include "passes/loss/loss_spec.h"
#include "tools/check/card.h"

namespace rannc::tools {

namespace {

namespace fs = std::filesystem;

// Larger deviations come from parameters that the file merged, not from rounding.
constexpr double kMerged = 1e-2;

/// Returns a number, or several numbers in the syntax of a loss: `0.5/1/2`.
Result<std::string> joined_numbers(const CardField& field) {
  if (!field.is_list()) {
    RANNC_ASSIGN(const double number, field.number());
    return fmt::format("{}", number);
  }
  RANNC_ASSIGN(const std::vector<CardField> elements, field.elements());
  std::vector<double> numbers;
  for (const CardField& element : elements) {
    RANNC_ASSIGN(const double number, element.number());
    numbers.push_back(number);
  }
  return fmt::format("{}", fmt::join(numbers, "/"));
}

Result<std::string> text_of(const CardField& field) { return field.text(); }
Result<std::string> integer_of(const CardField& field) {
  RANNC_ASSIGN(const int64_t number, field.integer());
  return fmt::format("{}", number);
}

/// A field of a loss term, the loss option that it corresponds to, and its conversion to text.
struct LossOption {
  const char* field;
  const char* option;
  Result<std::string> (*spell)(const CardField&);
};
constexpr LossOption kLossOptions[] = {
    {"output", "output", text_of},
    {"labels", "labels", text_of},
    {"class_axis", "axis", integer_of},
    {"ignore_index", "ignore_index", integer_of},
    {"weight", "weight", joined_numbers},
    {"class_weights", "class_weights", joined_numbers},
    {"label_smoothing", "label_smoothing", joined_numbers},
    {"pos_weight", "pos_weight", joined_numbers},
    {"delta", "delta", joined_numbers},
    {"beta", "beta", joined_numbers},
    {"reduction", "reduction", text_of},
    {"count", "count", text_of},
};

Result<std::string> loss_term(const CardField& term, const std::string& kind) {
  if (const auto known = passes::parse_losses(kind); !known.ok()) {
    return term.fault(fmt::format("has kind '{}': {}", kind, known.diagnostic().message));
  }
  std::string list;
  for (const LossOption& each : kLossOptions) {
    RANNC_ASSIGN(const auto field, term.find(each.field));
    if (!field || (kind == "in_graph" && std::string_view(each.field) == "labels")) continue;
    RANNC_ASSIGN(const std::string value, each.spell(*field));
    list += fmt::format("{}{}={}", list.empty() ? "" : ",", each.option, value);
  }
  return list.empty() ? kind : kind + "(" + list + ")";
}

Result<void> read_loss(const CardField& card, CheckFolder& folder) {
  RANNC_ASSIGN(const auto loss, card.find("loss"));
  if (!loss) return {};
  RANNC_ASSIGN(const std::vector<CardField> terms, loss->elements());
  for (const CardField& term : terms) {
    RANNC_ASSIGN(const CardField kind_field, term.at("kind"));
    RANNC_ASSIGN(const std::string kind, kind_field.text());
    RANNC_ASSIGN(const std::string text, loss_term(term, kind));
    folder.loss += (folder.loss.empty() ? "" : "+") + text;
    if (kind != "in_graph") continue;
    RANNC_ASSIGN(const auto output, term.find("output"));
    if (!output) {
      folder.loss_outputs.insert("");
      continue;
    }
    RANNC_ASSIGN(const std::string name, output->text());
    folder.loss_outputs.insert(name);
  }
  return {};
}

Result<void> read_loss_graph(const CardField& card, CheckFolder& folder) {
  RANNC_ASSIGN(const auto inputs, card.find("loss_inputs"));
  if (inputs) {
    RANNC_ASSIGN(const auto all, inputs->members());
    for (const auto& [input, output] : all) {
      RANNC_ASSIGN(folder.loss_inputs[input], output.text());
    }
  }
  RANNC_ASSIGN(const auto weights, card.find("loss_weights"));
  if (!weights) return {};
  RANNC_ASSIGN(const auto all, weights->members());
  for (const auto& [output, weight] : all) {
    RANNC_ASSIGN(folder.loss_weights[output], weight.number());
  }
  return {};
}

/// Collects the names of an object's members or of a list. A string means that the names need not be listed.
Result<void> collect_names(const CardField& card, const char* name, std::set<std::string>& into) {
  RANNC_ASSIGN(const auto field, card.find(name));
  if (!field || field->is_text()) return {};
  if (field->is_list()) {
    RANNC_ASSIGN(const std::vector<std::string> names, field->texts());
    into.insert(names.begin(), names.end());
    return {};
  }
  RANNC_ASSIGN(const auto members, field->members());
  for (const auto& [member, value] : members) into.insert(member);
  return {};
}

/// Returns the transform that the card specifies for an initializer; `none` by default.
Result<std::string> transform_of(const CardField& card, const std::string& initializer) {
  RANNC_ASSIGN(const auto all, card.find("parameter_of_initializer"));
  if (!all || !all->is_object()) return std::string("none");
  RANNC_ASSIGN(const auto entry, all->find(initializer));
  if (!entry) return std::string("none");
  RANNC_ASSIGN(const auto transform, entry->find("transform"));
  return transform ? transform->text() : std::string("none");
}

/// Collects the copies of each tied parameter. An initializer without a listed transform has the parameter's layout.
Result<void> collect_tied(const CardField& card, std::vector<TiedCopies>& into) {
  RANNC_ASSIGN(const auto tied, card.find("tied"));
  if (!tied) return {};
  RANNC_ASSIGN(const auto members, tied->members());
  for (const auto& [parameter, list] : members) {
    RANNC_ASSIGN(const std::vector<std::string> names, list.texts());
    TiedCopies& copies = into.emplace_back();
    for (const std::string& name : names) {
      RANNC_ASSIGN(const std::string transform, transform_of(card, name));
      copies[name] = transform == "transpose";
    }
  }
  return {};
}

Result<void> read_distance(const CardField& card, CheckFolder& folder) {
  RANNC_ASSIGN(const auto off, card.find("file_vs_reference_f64"));
  if (!off) return {};
  for (const char* name : {"loss", "outputs_relative", "gradient_relative_worst"}) {
    RANNC_ASSIGN(const auto field, off->find(name));
    if (!field) continue;
    RANNC_ASSIGN(const double number, field->number());
    if (number < kMerged) folder.file_off = std::max(folder.file_off, number);
  }
  return {};
}

}  // namespace

Result<void> read_card(CheckFolder& folder) {
  RANNC_ASSIGN(const CardField card, read_card_file((fs::path(folder.path) / "card.json").string()));
  RANNC_TRY(read_loss(card, folder));
  RANNC_TRY(read_loss_graph(card, folder));
  RANNC_TRY(collect_names(card, "float_initializers_that_are_constants", folder.constants));
  RANNC_TRY(collect_names(card, "float_initializers_that_are_buffers", folder.constants));
  RANNC_TRY(collect_names(card, "parameter_of_initializer", folder.parameters));
  RANNC_TRY(collect_names(card, "parameters_without_initializer", folder.absent));
  RANNC_TRY(collect_tied(card, folder.tied));
  return read_distance(card, folder);
}

}  // namespace rannc::tools
