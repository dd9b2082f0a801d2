/// Bytes of an ONNX model never crash the importer; what it accepts is a graph that verifies.
#include <string_view>

#include "frontend/onnx/import.h"
#include "ir/diagnostic.h"
#include "ir/verify.h"
#include "tests/fuzz/target.h"

bool rannc::fuzz::feed(std::string_view bytes) {
  const auto graph = rannc::frontend::import_onnx_bytes(bytes, "fuzz.onnx");
  if (!graph.ok()) return false;
  RANNC_CHECK(rannc::ir::verify(*graph).empty()) << "an imported graph does not verify";
  return true;
}
