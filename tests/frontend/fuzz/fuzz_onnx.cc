/// Bytes of an ONNX model never crash the importer; what it accepts is a graph that verifies. Neither takes more memory
/// than twice the file and 64 MiB.
#include <string_view>

#include "frontend/onnx/import.h"
#include "ir/base/diagnostic.h"
#include "ir/verify.h"
#include "tests/fuzz/allocations.h"
#include "tests/fuzz/target.h"

namespace {

constexpr uint64_t kMostBeyondTwiceTheFile = uint64_t{64} << 20;

/// External files are the business of fuzz_external_data.
rannc::frontend::ImportOptions options(std::string_view bytes) {
  rannc::frontend::ImportOptions chosen;
  chosen.missing_weights = true;
  if (bytes.size() % 2 == 0) chosen.max_trips = 5;
  return chosen;
}

bool import(std::string_view bytes) {
  const auto graph = rannc::frontend::import_onnx_bytes(bytes, "fuzz.onnx", options(bytes));
  if (!graph.ok()) {
    RANNC_CHECK(!graph.diagnostic().message.empty()) << "a diagnostic says nothing";
    return false;
  }
  const auto wrong = rannc::ir::verify(*graph);
  RANNC_CHECK(wrong.empty()) << "an imported graph does not verify: " << wrong.front().str();
  return true;
}

}  // namespace

bool rannc::fuzz::feed(std::string_view bytes) {
  const PeakAllocation peak;
  const bool accepted = import(bytes);
  RANNC_CHECK(peak.bytes() <= 2 * bytes.size() + kMostBeyondTwiceTheFile)
      << "importing " << bytes.size() << " bytes took " << peak.bytes() << " bytes of memory";
  return accepted;
}
