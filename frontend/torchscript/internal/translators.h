/// The table of operators of ATen.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "frontend/torchscript/internal/call.h"

namespace rannc::frontend::torchscript {

/// `schema` is an operator without its namespace, for all overloads (`add`), or one overload (`max.dim`), which comes
/// before it.
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
std::span<const Translator> recurrent_translators();
std::span<const Translator> decomposed_translators();

/// Whether an operator writes into its first argument, as its name says: `aten::add_.Tensor`.
bool writes(std::string_view schema);

/// Translates a call: by its row of the table; else, where a core operator is lowered to that one call, by that
/// lowering read backwards; an operator that writes in place (`add_`) as the one that does not, whose result its first
/// argument then is. False where none of these knows it.
bool translate(Call& call);

}  // namespace rannc::frontend::torchscript
