/// How the samples of a mini-batch are compiled.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "ir/base/diagnostic.h"

namespace rannc {

enum class BatchKind : uint8_t {
  kSymbolic,     ///< a symbol of the file counts samples, which are independent of each other
  kPolymorphic,  ///< likewise; the symbol replaces the static batch size of the file
  kWhole,        ///< samples interact: the inputs together are one mini-batch
  kFixed,        ///< the static batch size of the file is kept
};

/// Which attempt to compile a model this is, and why it was made.
struct Batching {
  BatchKind kind = BatchKind::kSymbolic;
  /// Why mini-batches cannot be divided, at the task that mixes samples. Absent if they can be, or if no input has a
  /// sample axis.
  std::optional<Diagnostic> reason = {};
  /// `kWhole`: number that replaces the symbol that would count samples, under all its names. Absent: each name stays a
  /// separate symbol that the data bind, like any other size.
  std::optional<uint32_t> samples = {};
  /// `kWhole` without `samples`: the symbol that would count samples; empty if there is none.
  std::string symbol = {};

  bool is_divisible() const { return kind == BatchKind::kSymbolic || kind == BatchKind::kPolymorphic; }
};

}  // namespace rannc
