// Declares the part of Gloo's context that c10d's public header uses. The definitions are in libtorch_cpu.
#pragma once

#include <chrono>

namespace gloo {
namespace transport {
class Device;
class UnboundBuffer;
}  // namespace transport

/// One group's connections. Created, owned and destroyed by LibTorch only.
class Context {
 public:
  void setTimeout(std::chrono::milliseconds timeout);
};

}  // namespace gloo
