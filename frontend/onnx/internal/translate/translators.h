/// Maps ONNX operators to the functions that translate them.
#pragma once

#include <span>
#include <string_view>

namespace rannc::frontend {

class Node;

/// Emits the core operators for one node and binds its outputs. Failures latch in the node.
using Translate = void (*)(Node& node);

/// One ONNX operator of the default domain over a range of opsets. Versions that do not differ for us share an entry.
/// The function handles small differences by `node.opset()`.
struct Translator {
  std::string_view op;
  int since = 7, until = 27;  ///< both inclusive
  Translate translate;
};

/// One table per family, `ops/<family>.cc`.
std::span<const Translator> arithmetic_translators();
std::span<const Translator> attention_translators();
std::span<const Translator> constant_translators();
std::span<const Translator> convolution_translators();
std::span<const Translator> einsum_translators();
std::span<const Translator> elementwise_translators();
std::span<const Translator> index_translators();
std::span<const Translator> linear_translators();
std::span<const Translator> loss_translators();
std::span<const Translator> normalize_translators();
std::span<const Translator> order_translators();
std::span<const Translator> pad_translators();
std::span<const Translator> pooling_translators();
std::span<const Translator> quantize_translators();
std::span<const Translator> random_translators();
std::span<const Translator> recurrent_translators();
std::span<const Translator> reduce_translators();
std::span<const Translator> scatter_translators();
std::span<const Translator> sequence_translators();
std::span<const Translator> resize_translators();
std::span<const Translator> roi_align_translators();
std::span<const Translator> sampling_translators();
std::span<const Translator> shape_translators();
std::span<const Translator> signal_translators();

/// Whether operands of an operator of the default domain may be sequences or optionals.
bool takes_lists(std::string_view op);

/// The translator of an operator of the default domain, or null.
Translate find_translator(std::string_view op, int opset);

}  // namespace rannc::frontend
