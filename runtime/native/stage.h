/// The interface between the runtime and the compiled functions of a stage.
///
/// Generated sources include this header beside LibTorch's. It includes no other header of rannc.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace rannc::native {

/// Version of this interface. A compiled stage of another version is rejected.
inline constexpr uint32_t kInterfaceVersion = 3;

/// What the numbers of a random input are made from. Element i of sample s is a function of `key`, s and i.
struct Numbers {
  uint64_t key = 0, first_sample = 0;
  bool ones = false;  ///< nothing is dropped: all numbers are 1
};

/// One run of a function, provided by the runtime. All pointers are valid during the run.
struct Run {
  const at::Tensor* fixed = nullptr;  ///< weights and results of P, by value of the stage's joint graph
  at::Tensor* const* sums = nullptr;  ///< sums of gradients, by number
  const int64_t* sizes = nullptr;     ///< evaluated sizes, by number
  bool training = true;               ///< false: evaluation
  uint32_t* task = nullptr;           ///< set to the task of the joint graph that runs, to locate failures
  void* context = nullptr;            ///< first argument of the functions below, which throw on failure
  at::Tensor (*random_input)(void* context, uint32_t instruction) = nullptr;  ///< random numbers
  Numbers (*numbers)(void* context, uint32_t value) = nullptr;                ///< for loops that make them
  /// Runs an instruction that has no C++ form: a foreign operator, a branch, a loop, a sum over replicas. Moves from
  /// `operands`.
  void (*other)(void* context, uint32_t instruction, at::Tensor* operands, at::Tensor* results) = nullptr;
  /// The gradients of a bucket are final. Their sums may be taken away.
  void (*mark)(void* context, uint32_t bucket) = nullptr;
  void (*add)(at::Tensor& sum, at::Tensor term) = nullptr;
  void (*add_product)(at::Tensor& sum, const at::Tensor& a, const at::Tensor& b) = nullptr;
};

/// Runs a function. Moves from `arguments`, assigns `results`. Throws LibTorch's exceptions. LibTorch's dispatch is
/// below autograd.
using Function = void (*)(const Run& run, at::Tensor* arguments, at::Tensor* results);

/// A compiled function, with the fingerprint of the instructions that it was generated from.
struct NamedFunction {
  const char* name;         ///< as in the source, for example `F`
  const char* fingerprint;  ///< 32 hexadecimal digits
  Function function;
};

/// The content of a compiled stage. `rannc_stage`, an exported function with C linkage, returns it.
struct Stage {
  uint32_t interface_version;
  const char* torch_version;    ///< `TORCH_VERSION` of the headers
  const char* compiler;         ///< name and version
  bool loops;                   ///< tasks that have a loop rule are computed by loops
  const char* instruction_set;  ///< of the loops that run on this machine; empty: there are none
  uint32_t function_count;
  const NamedFunction* functions;
};
using StageEntry = const Stage* (*)();
inline constexpr const char* kStageEntry = "rannc_stage";

}  // namespace rannc::native
