#include "frontend/onnx/internal/translate/translators.h"

#include <map>
#include <vector>

namespace rannc::frontend {

namespace {

using Table = std::map<std::string_view, std::vector<const Translator*>>;

Table all_translators() {
  Table table;
  const std::vector<std::span<const Translator>> families = {
      arithmetic_translators(), attention_translators(),   constant_translators(),  convolution_translators(),
      einsum_translators(),     elementwise_translators(), index_translators(),     linear_translators(),
      loss_translators(),       normalize_translators(),   order_translators(),     pad_translators(),
      pooling_translators(),    quantize_translators(),    random_translators(),    recurrent_translators(),
      reduce_translators(),     resize_translators(),      roi_align_translators(), sampling_translators(),
      scatter_translators(),    sequence_translators(),    shape_translators(),     signal_translators(),
  };
  for (const auto family : families) {
    for (const Translator& entry : family) table[entry.op].push_back(&entry);
  }
  return table;
}

}  // namespace

Translate find_translator(std::string_view op, int opset) {
  static const Table table = all_translators();
  const auto found = table.find(op);
  if (found == table.end()) return nullptr;
  for (const Translator* const entry : found->second) {
    if (opset >= entry->since && opset <= entry->until) return entry->translate;
  }
  return nullptr;
}

}  // namespace rannc::frontend
