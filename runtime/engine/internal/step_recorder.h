/// Records the calls of a stage's program in one step and replays them in later ones.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "ir/plan/functions.h"
#include "runtime/device/device.h"
#include "runtime/execute/program.h"

namespace rannc::runtime {

/// Which call of a step.
struct RecordedCall {
  ir::FunctionKind function = ir::FunctionKind::kForward;
  uint32_t micro_batch = 0;
  uint64_t samples = 0;
  uint32_t segment = 0;  ///< of a call that runs in several
  auto operator<=>(const RecordedCall&) const = default;
};

/// A step whose host calls take longer than the device's work is enqueued by replaying recordings, one per call. The
/// first step with some sizes runs normally, the second is recorded call by call, later ones are replayed. Recordings
/// of one step share a memory pool, in the order of the step, so that they need no more memory than the step itself.
/// Their results lie at the same addresses in every step; work that reads them must have been awaited by the compute
/// stream before the next step.
///
/// If a call cannot be recorded, because a kernel waits for the device, it and all later steps run normally.
///
/// Between two `forget`s, recorded and replayed steps must make the same calls in the same order, and release results
/// at the same points of the step: the memory of a released result is used again by later calls.
///
/// Arguments that lie at the same address in every step are read in place. Others are copied to buffers first.
class StepRecorder {
 public:
  using Tensors = std::vector<at::Tensor>;
  /// Computes the results of a call. `keys`: device memory with key and first sample of each random input; null: not
  /// recorded.
  using Call = std::function<Result<Tensors>(Tensors arguments, const at::Tensor* keys)>;

  /// Stages whose calls take turns on the thread of `device` share pools, if they see the same sizes in the same steps.
  explicit StepRecorder(Device& device) : device_(device) {}

  /// Forgets all recordings. Their pools are not used again.
  void forget() {
    begin_step(false);
    first_pool_ += recordings_.size();
    recordings_.clear();
  }
  /// Why steps are not recorded any more; empty if they may be.
  const std::string& why_not() const { return why_not_; }
  /// Whether calls of this step may be recorded or replayed.
  bool records() const { return records_; }
  /// Begins a step, of which nothing is recorded or replayed unless `records`.
  void begin_step(bool records);

  /// Runs, records or replays a call. `places`: tensors that the call may replace. `keys`: rows of key and first sample
  /// of this step's random inputs.
  Result<Tensors> run(const RecordedCall& name, const ir::Bindings& symbols, Tensors arguments,
                      std::span<at::Tensor* const> places, std::span<const std::array<int64_t, 2>> keys,
                      const Call& call);

 private:
  /// A tensor that does not own its memory; undefined where the call gave none.
  using Alias = at::Tensor;
  struct Record {
    std::unique_ptr<RecordedWork> work;  ///< null: the call is not recorded
    std::vector<at::Tensor> buffers;     ///< by argument; undefined: read in place
    std::vector<const void*> addresses;  ///< of arguments read in place
    at::Tensor keys;
    std::vector<Alias> results;
    std::vector<std::pair<size_t, Alias>> replaced;  ///< places that the call replaces
  };
  /// The recordings of steps with the same sizes.
  struct Recording {
    enum class State : uint8_t { kSeen, kRecording, kComplete };
    ir::Bindings symbols;
    State state = State::kSeen;
    std::map<RecordedCall, Record> records;
    std::set<const void*> fixed;  ///< addresses of results, the same in every step
  };

  Recording* select(const ir::Bindings& symbols);
  Result<Tensors> record(Recording& recording, const RecordedCall& name, Tensors arguments,
                         std::span<at::Tensor* const> places, std::span<const std::array<int64_t, 2>> keys,
                         const Call& call);
  /// Runs a call that cannot be recorded, and never records again.
  Result<Tensors> give_up(Tensors arguments, const Call& call);
  Tensors replay(Record& record, const Tensors& arguments, std::span<at::Tensor* const> places,
                 std::span<const std::array<int64_t, 2>> keys);

  Device& device_;
  std::vector<std::unique_ptr<Recording>> recordings_;
  uint64_t first_pool_ = 0;       ///< of the first recording
  std::string why_not_;           ///< what cannot be recorded; empty if nothing was found
  bool records_ = false;          ///< in this step
  Recording* current_ = nullptr;  ///< of this step, once it is selected
  bool selected_ = false;
};

}  // namespace rannc::runtime
