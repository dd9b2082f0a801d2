/// Maps ATen operators to the functions that translate them.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "frontend/torchscript/internal/call.h"

namespace rannc::frontend::torchscript {

/// Entry of the table. `schema` is an operator without its namespace, for all overloads (`add`) or one overload
/// (`max.dim`). An overload's entry takes precedence.
struct Translator {
  std::string_view schema;
  void (*translate)(Call&);
};

std::span<const Translator> number_translators();
std::span<const Translator> elementwise_translators();
std::span<const Translator> shape_translators();
std::span<const Translator> create_translators();
std::span<const Translator> index_translators();
std::span<const Translator> reduce_translators();
std::span<const Translator> dense_translators();
std::span<const Translator> attention_translators();
std::span<const Translator> normalize_translators();
std::span<const Translator> loss_translators();
std::span<const Translator> margin_loss_translators();
std::span<const Translator> recurrent_translators();
std::span<const Translator> decomposed_translators();
std::span<const Translator> row_translators();
std::span<const Translator> class_translators();
/// Fourier transforms of real and complex numbers.
std::span<const Translator> fourier_translators();
/// Translators of calls that have a complex argument. They take precedence.
std::span<const Translator> complex_translators();
/// Translators of calls with real arguments that may have complex results.
std::span<const Translator> to_complex_translators();

/// Whether an operator writes to its first argument by its name: `aten::add_.Tensor`.
bool writes(std::string_view schema);

/// The arguments `out=` of an overload that writes its results into them: `aten::add.out`, `aten::max.dim_max`.
std::vector<Call::Argument> outputs_given(const std::string& schema, std::span<const Call::Argument> arguments);

/// Whether an operator has a translator, so that LibTorch need not have it.
bool has_translator(const std::string& schema);

/// Translates a call by its table entry, or else by inverting the lowering of a core operator to that single call. An
/// in-place operator (`add_`) is translated as the out-of-place one, whose result is written to its first argument.
/// Results of an overload with `out=` are written into these. Returns false if neither applies.
bool translate(Call& call);
/// Likewise. `outputs` are its `outputs_given`.
bool translate(Call& call, const std::vector<Call::Argument>& outputs);

}  // namespace rannc::frontend::torchscript
