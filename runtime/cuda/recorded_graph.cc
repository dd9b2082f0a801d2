// Records work by stream capture.
//
// LibTorch's own `at::cuda::CUDAGraph` registers every recording with the device's default generator, without a lock:
// two threads cannot record at the same time. Programs of stages draw from `DevicePlugin::fill` alone.
#include "runtime/cuda/recorded_graph.h"

#include <ATen/Context.h>
#include <ATen/cuda/CUDAGraph.h>
#include <ATen/record_function.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda_runtime_api.h>

#include <atomic>

namespace rannc::cuda {

namespace allocator = c10::cuda::CUDACachingAllocator;

class PoolReference {
 public:
  explicit PoolReference(c10::DeviceIndex device) : device_(device), id_(at::cuda::graph_pool_handle()) {
    allocator::createOrIncrefPool(device_, id_);
  }
  PoolReference(const PoolReference&) = delete;
  PoolReference& operator=(const PoolReference&) = delete;
  ~PoolReference() { allocator::releasePool(device_, id_); }

  c10::MempoolId_t id() const { return id_; }

 private:
  c10::DeviceIndex device_;
  c10::MempoolId_t id_;
};

namespace {

/// Redirects allocations for a capture to a pool.
///
/// The redirection begins before the capture and ends after it: an allocator that does not know of a capture may record
/// events, which the capture forbids.
class Redirection {
 public:
  Redirection(c10::DeviceIndex device, c10::MempoolId_t pool) : device_(device), pool_(pool) {
    allocator::beginAllocateToPool(device_, pool_, [this](cudaStream_t stream) { return captures(stream); });
  }
  Redirection(const Redirection&) = delete;
  Redirection& operator=(const Redirection&) = delete;
  ~Redirection() {
    allocator::endAllocateToPool(device_, pool_);
    allocator::releasePool(device_, pool_);  // beginning took a reference
  }

  void set_capture(unsigned long long id) { capture_ = id; }

 private:
  /// Called by all threads that allocate memory of the device.
  bool captures(cudaStream_t stream) const {
    cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    unsigned long long id = 0;
    const cudaError_t error = cudaStreamGetCaptureInfo(stream, &status, &id);
    return error == cudaSuccess && status == cudaStreamCaptureStatusActive && id == capture_;
  }

  c10::DeviceIndex device_;
  c10::MempoolId_t pool_;
  std::atomic<unsigned long long> capture_ = 0;  ///< ids of captures begin with 1
};

/// Captures a stream until the end of its scope.
class Capture {
 public:
  explicit Capture(cudaStream_t stream) : stream_(stream) {
    C10_CUDA_CHECK(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal));
  }
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;
  ~Capture() {
    if (ended_) return;
    cudaGraph_t graph = nullptr;
    C10_CUDA_IGNORE_ERROR(cudaStreamEndCapture(stream_, &graph));
    if (graph != nullptr) C10_CUDA_IGNORE_ERROR(cudaGraphDestroy(graph));
  }

  unsigned long long id() const {
    cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    unsigned long long id = 0;
    C10_CUDA_CHECK(cudaStreamGetCaptureInfo(stream_, &status, &id));
    return id;
  }

  cudaGraph_t end() {
    ended_ = true;
    cudaGraph_t graph = nullptr;
    C10_CUDA_CHECK(cudaStreamEndCapture(stream_, &graph));
    return graph;
  }

 private:
  cudaStream_t stream_;
  bool ended_ = false;
};

bool is_valid(cudaStream_t stream) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  return cudaStreamIsCapturing(stream, &status) == cudaSuccess && status == cudaStreamCaptureStatusActive;
}

/// Finds the first operator of this thread after which a capture is invalid. The calls of CUDA themselves may report
/// nothing.
class CaptureWatch {
 public:
  explicit CaptureWatch(cudaStream_t stream)
      : outer_(watched_),
        handle_(at::addThreadLocalCallback(
            at::RecordFunctionCallback(nullptr, &ended).scopes({at::RecordScope::FUNCTION}))) {
    watched_ = this;
    stream_ = stream;
  }
  CaptureWatch(const CaptureWatch&) = delete;
  CaptureWatch& operator=(const CaptureWatch&) = delete;
  ~CaptureWatch() {
    at::removeCallback(handle_);
    watched_ = outer_;
  }

  const std::string& culprit() const { return culprit_; }

 private:
  static void ended(const at::RecordFunction& function, at::ObserverContext*) {
    if (watched_ == nullptr || !watched_->culprit_.empty() || is_valid(watched_->stream_)) return;
    watched_->culprit_ = function.name();
  }

  static inline thread_local CaptureWatch* watched_ = nullptr;
  CaptureWatch* const outer_;
  const at::CallbackHandle handle_;
  cudaStream_t stream_ = nullptr;
  std::string culprit_;
};

class RecordedGraph final : public runtime::RecordedWork {
 public:
  /// Owns `graph`, of `device`.
  RecordedGraph(cudaGraph_t graph, c10::DeviceIndex device, std::shared_ptr<PoolReference> pool)
      : device_(device), pool_(std::move(pool)) {
    const cudaError_t error = cudaGraphInstantiate(&executable_, graph, 0);
    C10_CUDA_IGNORE_ERROR(cudaGraphDestroy(graph));
    C10_CUDA_CHECK(error);
  }
  RecordedGraph(const RecordedGraph&) = delete;
  RecordedGraph& operator=(const RecordedGraph&) = delete;
  /// CUDA frees the graph when its last replay has ended.
  ~RecordedGraph() override { C10_CUDA_IGNORE_ERROR(cudaGraphExecDestroy(executable_)); }

  void replay() override {
    const c10::cuda::CUDAGuard guard(device_);
    C10_CUDA_CHECK(cudaGraphLaunch(executable_, c10::cuda::getCurrentCUDAStream(device_)));
  }

 private:
  c10::DeviceIndex device_;
  std::shared_ptr<PoolReference> pool_;
  cudaGraphExec_t executable_ = nullptr;
};

}  // namespace

MemoryPool& MemoryPools::at(c10::DeviceIndex device, uint64_t number) {
  const std::scoped_lock lock(mutex_);
  return pools_[{device, number}];
}

std::unique_ptr<runtime::RecordedWork> record_graph(const std::function<void()>& work, MemoryPools& pools,
                                                    uint64_t number) {
  at::globalContext().lazyInitDevice(c10::DeviceType::CUDA);  // the allocator has no pools before
  const c10::cuda::CUDAStream stream = c10::cuda::getCurrentCUDAStream();
  const c10::DeviceIndex device = stream.device_index();
  TORCH_CHECK(stream != c10::cuda::getDefaultCUDAStream(device), "the default stream of a GPU cannot be recorded");

  MemoryPool& pool = pools.at(device, number);
  const std::scoped_lock lock(pool.recording);
  std::shared_ptr<PoolReference> reference = pool.current.lock();
  if (reference == nullptr) pool.current = reference = std::make_shared<PoolReference>(device);
  Redirection redirection(device, reference->id());
  Capture capture(stream);
  redirection.set_capture(capture.id());
  {
    const CaptureWatch watch(stream);
    work();
    TORCH_CHECK(watch.culprit().empty(), watch.culprit(),
                " cannot be recorded: it invalidates the capture of its stream");
    TORCH_CHECK(is_valid(stream), "the capture of the stream has become invalid outside of operators");
  }
  return std::make_unique<RecordedGraph>(capture.end(), device, std::move(reference));
}

}  // namespace rannc::cuda
