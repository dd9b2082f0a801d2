/// Follows the instructions of a pickle without creating what they describe.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "frontend/torchscript/internal/archive/check_pickle.h"

namespace rannc::frontend::torchscript {

enum class PickleKind : uint8_t {
  kOther,  ///< None, booleans, floats
  kInteger,
  kText,
  kTuple,
  kList,
  kDictionary,
  kStorageType,  ///< number: bytes of an element
  kStorage,      ///< number: elements
  kTensor,
  kObject,    ///< result of a call; text: of what
  kFunction,  ///< text: its name
};

using PickleId = uint32_t;  ///< place in a table

/// What an instruction makes, with the objects in it.
struct Pickled {
  PickleKind kind = PickleKind::kOther;
  int64_t number = 0;
  std::string_view text;
  std::vector<PickleId> parts;
};

struct PickledTable {
  std::vector<Pickled> objects;
  PickleId root = 0;
};

/// Runs a pickle. Errors are those of `check_pickle` about single instructions.
Result<PickledTable> run_pickle(std::string_view bytes, const PickleRecord& record, const PickleLimits& limits);

}  // namespace rannc::frontend::torchscript
